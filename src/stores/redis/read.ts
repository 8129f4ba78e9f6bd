/** The logs, and what the store knows about its jobs: the arguments of each, and what its answer says. */
import { LastoutError } from '../../core/errors.js';
import type { State } from '../../core/job.js';
import { seqOf } from '../../core/refusal.js';
import type {
  AuditKind,
  AuditPage,
  Card,
  Inspection,
  PlanPage,
  PlanPart,
  RemovedWhy,
  RetentionRule,
  Why,
} from '../../core/store.js';
import { cleanupArgs, cursorOf, list, type Reach } from './args.js';
import { eventPage, type EventsReply, readFrom } from './events.js';
import { jobIn, shapesIn, type View } from './rows.js';

/** A script stops everybody while it runs: more rows are read by more calls. */
const rowsMax = 2_000;

type Reads = Omit<Inspection, 'find' | 'tally' | 'readIdentity' | 'readOverdue' | 'check'>;

export function readsOn(look: Reach): Reads {
  return {
    async readEvents({ after, limit }) {
      const from = readFrom(after);
      const reply = (await look('readEvents', [from.record, from.read + limit])) as EventsReply;
      return eventPage(reply, after, from, limit);
    },
    async readLines(id) {
      const lines = (await look('readLines', [id])) as [string, string, string | null][];
      return lines.map(([at, message, fields]) => ({ at: Number(at), message, fields }));
    },
    async readClaims(owner) {
      const claims = (await look('readClaims', [owner])) as [string, string[]][];
      return claims.map(([epoch, ids]) => ({ epoch: Number(epoch), ids })).sort((a, b) => a.epoch - b.epoch);
    },
    countDue: async ({ types, queues, limit }) =>
      (await look('readDue', [...list(types), ...list(queues), limit])) as number,
    async readLanes() {
      return ((await look('readLanes', [])) as [string, string][]).map(([lane, waitedMs]) => {
        const colon = lane.lastIndexOf(':'); // a queue has none in its name
        return { type: lane.slice(0, colon), queue: lane.slice(colon + 1), waitedMs: Number(waitedMs) };
      });
    },
    readWhy: async (id) => whyIn((await look('readWhy', [id])) as WhyReply),
    async readPlan({ cleanup, cursor, limit, staying = 0, id = '' }) {
      const place = cursor === null ? '' : placeIn(cursor);
      const args = [...cleanupArgs(cleanup), Math.min(limit, rowsMax), place, staying, id];
      return planIn((await look('readPlan', args)) as PlanReply);
    },
    async readLedger({ cursor, limit }) {
      const below = cursor === null ? 0 : seqOf(cursor);
      const [entries, next] = (await look('readLedger', [below, limit])) as [string[], string | null];
      return { entries, next: cursorOf(next) };
    },
    async readAudit({ cursor, limit }) {
      const below = cursor === null ? 0 : seqOf(cursor);
      return auditIn((await look('readAudit', [below, Math.min(limit, rowsMax)])) as AuditReply);
    },
    async readWorkers() {
      const cards = (await look('readCards', [])) as [string, string, string][];
      return cards.map(([owner, card, dueAt]) => ({ owner, card: JSON.parse(card) as Card, dueAt: Number(dueAt) }));
    },
  };
}

type WhyReply =
  | ['unknown']
  | ['gone', at: string, why: RemovedWhy, type: string, queue: string, state: State, reason: string | null]
  | [
      'here',
      view: View,
      shapes: string[],
      place: NonNullable<Why['place']>,
      turnOf: string | null,
      claim: [owner: string, dueAt: string] | null,
      owns: number,
      paused: number,
      blockedBy: Why['blockedBy'],
      blockedUntil: string | null,
      workers: number,
    ];

function whyIn(reply: WhyReply): Why | null {
  if (reply[0] === 'unknown') return null;
  if (reply[0] === 'gone') {
    const [, at, why, type, queue, state, reason] = reply;
    return { ...nowhere, gone: { at: Number(at), why, type, queue, state, reason } };
  }
  const [, view, shapes, place, turnOf, claim, owns, paused, blockedBy, blockedUntil, workers] = reply;
  return {
    job: jobIn(view, shapesIn(shapes)),
    gone: null,
    place,
    turnOf,
    claim: claim && { owner: claim[0], dueAt: Number(claim[1]) },
    owns,
    paused: paused === 1,
    blockedBy,
    blockedUntil: blockedUntil === null ? null : Number(blockedUntil),
    workers,
  };
}

const nowhere: Why = {
  job: null,
  gone: null,
  place: null,
  turnOf: null,
  claim: null,
  owns: 0,
  paused: false,
  blockedBy: null,
  blockedUntil: null,
  workers: 0,
};

type PartReply = [count: number, bytes: number, sample: string[]];
type PlanReply = [
  next: string | null,
  ...[age: PartReply, count: PartReply, cap: PartReply, held: PartReply],
  ...[owing: [id: string, rule: RetentionRule, bytes: number][], dueThings: string[], takenBy: RetentionRule | null],
];

/** The cursor is where the walk stands (lua/plan.ts), in a form that passes through URLs. */
function planIn([next, age, count, cap, held, owing, dueThings, takenBy]: PlanReply): PlanPage {
  return {
    age: partIn(age),
    count: partIn(count),
    cap: partIn(cap),
    held: partIn(held),
    owing: owing.map(([id, rule, bytes]) => ({ id, rule, bytes })),
    dueThings,
    takenBy,
    next: next === null ? null : Buffer.from(next).toString('base64url'),
  };
}

function partIn([count, bytes, sample]: PartReply): PlanPart {
  return { count, bytes, sample };
}

function placeIn(cursor: string): string {
  const text = Buffer.from(cursor, 'base64url').toString();
  if (!/^\{.*"phase":\d.*\}$/.test(text))
    throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that a page gave as "next".');
  return text;
}

type AuditReply = [
  next: string | null,
  kinds: [name: string, created: number, released: number, live: number, attention: string[]][],
  found: [queueAndState: string, n: number][],
];

function auditIn([next, list, counted]: AuditReply): AuditPage {
  const kinds: Record<string, AuditKind> = {};
  for (const [name, created, released, live, attention] of list) kinds[name] = { created, released, live, attention };
  const found = counted.map(([field, n]) => {
    const [queue, state] = field.split(':') as [string, State]; // neither has a colon in it
    return { queue, state, n };
  });
  return { kinds, found, next: cursorOf(next) };
}
