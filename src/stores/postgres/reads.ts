/** The logs, and what a store knows about itself: what the functions tell put into words. */
import { LastoutError } from '../../core/errors.js';
import type { State } from '../../core/job.js';
import { seqOf } from '../../core/refusal.js';
import type {
  AuditKind,
  AuditPage,
  Gone,
  Inspection,
  LedgerPage,
  PageRequest,
  PlannedOwner,
  PlanPage,
  PlanPart,
  PlanRequest,
  RemovedWhy,
  RetentionRule,
  Why,
  WorkerCard,
} from '../../core/store.js';
import type { Call } from './call.js';
import { eventPage, fromOf } from './events.js';
import { jobIn } from './rows.js';

type Reads = Omit<Inspection, 'find' | 'tally' | 'readOverdue' | 'check'>;

export function readsOn(call: Call, now: () => number | null): Reads {
  return {
    async readEvents({ after, limit }) {
      const from = fromOf(after);
      return eventPage(await call('read_events_v2', [from?.row ?? null, limit]), after, from, limit);
    },
    async readLines(id) {
      const rows = (await call('read_lines_v1', [id])) as [number, string, string | null][];
      return rows.map(([at, message, fields]) => ({ at, message, fields }));
    },
    async readClaims(owner) {
      const rows = (await call('read_claims_v1', [owner])) as [number, string | null][];
      return rows.map(([epoch, ids]) => ({ epoch, ids: idsIn(ids) }));
    },
    async countDue({ types, queues, limit }) {
      const args = [now(), types.join(), queues?.join() ?? null, limit];
      return ((await call('read_due_v1', args)) as [[number]])[0][0];
    },
    async readLanes() {
      const rows = (await call('read_lanes_v1', [now()])) as [string, string, number][];
      return rows.map(([type, queue, waitedMs]) => ({ type, queue, waitedMs }));
    },
    readWhy: (id) => readWhy(call, now(), id),
    readPlan: (request) => readPlan(call, now(), request),
    readLedger: (request) => readLedger(call, request),
    readAudit: (request) => readAudit(call, now(), request),
    readWorkers: () => readWorkers(call, now()),
    readIdentity: async () => ((await call('read_identity_v1', [])) as [[string]])[0][0],
  };
}

/** Ids have no commas. */
export function idsIn(text: string | null): readonly string[] {
  return text === null ? [] : text.split(',');
}

type WhyRow = readonly [
  job: string | null,
  goneAt: number | null,
  goneWhy: RemovedWhy,
  goneType: string,
  goneQueue: string,
  goneState: State,
  goneReason: string | null,
  place: number | null,
  turnOf: string | null,
  claimOwner: string | null,
  claimDue: number | null,
  owns: number,
  paused: boolean,
  slots: number | null,
  opensAt: number | null,
  workers: number,
];

const places = ['ready', 'later', 'behind', 'claimed', 'finished'] as const;

async function readWhy(call: Call, now: number | null, id: string): Promise<Why | null> {
  const [row] = (await call('read_why_v1', [now, id])) as unknown as readonly WhyRow[];
  if (!row) return null;
  const [job, , , , , , , place, turnOf, claimOwner, claimDue, owns, paused, slots, opensAt, workers] = row;
  const blockedBy = slots !== null && slots <= 0 ? 'concurrency' : opensAt === null ? null : 'rate';
  return {
    job: job === null ? null : jobIn(job),
    gone: goneIn(row),
    place: place === null ? null : places[place]!,
    turnOf,
    claim: claimOwner === null ? null : { owner: claimOwner, dueAt: claimDue! },
    owns,
    paused,
    blockedBy,
    blockedUntil: blockedBy === 'rate' ? opensAt : null,
    workers,
  };
}

function goneIn([, at, why, type, queue, state, reason]: WhyRow): Gone | null {
  return at === null ? null : { at, why, type, queue, state, reason };
}

type PlanRow = readonly [part: string, n: number, bytes: number, text: string | null];

async function readPlan(
  call: Call,
  now: number | null,
  { cleanup, cursor, limit, staying = 0, id }: PlanRequest,
): Promise<PlanPage> {
  const { jobRetentionMs, useCompletedTime, maxStoredJobs } = cleanup;
  const most = maxStoredJobs === Number.POSITIVE_INFINITY ? null : maxStoredJobs;
  const args = [now, jobRetentionMs, useCompletedTime, most, planSpot(cursor), limit, staying, id ?? null];
  const rows = (await call('read_plan_v1', args)) as unknown as readonly PlanRow[];
  const partOf = (name: string): PlanPart => {
    const [, count, bytes, sample] = rows.find(([part]) => part === name)!;
    return { count, bytes, sample: idsIn(sample) };
  };
  const textOf = (name: string): string | null => rows.find(([part]) => part === name)?.[3] ?? null;
  return {
    age: partOf('age'),
    count: partOf('count'),
    cap: partOf('cap'),
    held: partOf('held'),
    owing: rows.filter(([part]) => part === 'owing').map(ownerIn),
    dueThings: idsIn(textOf('due')),
    takenBy: textOf('taken') as RetentionRule | null,
    next: textOf('next'),
  };
}

function ownerIn([, , bytes, text]: PlanRow): PlannedOwner {
  const [rule, id] = text!.split(' ') as [RetentionRule, string];
  return { id, rule, bytes };
}

/** Where a page before said to go on: JSON of a row of \`planned\`, see sql/plan.ts. */
function planSpot(cursor: string | null): string | null {
  if (cursor !== null && !/^\{"phase":[0-5],"now":\d+,[^{}[\]]+\}$/.test(cursor)) throw badCursor();
  return cursor;
}

function badCursor(): LastoutError {
  return new LastoutError('INVALID_CURSOR', 'The cursor is not one that a page gave as "next".');
}

async function readLedger(call: Call, { cursor, limit }: PageRequest): Promise<LedgerPage> {
  const below = cursor === null ? Number.MAX_SAFE_INTEGER : seqOf(cursor);
  // One more tells whether there is a next page.
  const rows = (await call('read_ledger_v1', [below, limit + 1])) as [number, string][];
  const page = rows.slice(0, limit);
  return {
    entries: page.map(([, entry]) => entry),
    next: rows.length > limit ? page.at(-1)![0].toString(36) : null,
  };
}

type AuditRow = readonly [
  kind: string | null,
  created: number,
  released: number,
  live: number,
  attention: string | null,
  next: number | null,
  queue: string | null,
  state: State,
];

async function readAudit(call: Call, now: number | null, { cursor, limit }: PageRequest): Promise<AuditPage> {
  const args = [now, cursor === null ? null : seqOf(cursor), limit];
  const rows = (await call('read_audit_v2', args)) as unknown as readonly AuditRow[];
  const kinds: { [kind: string]: AuditKind } = {};
  const found: { queue: string; state: State; n: number }[] = [];
  let next: string | null = null;
  for (const [kind, created, released, live, attention, after, queue, state] of rows) {
    if (kind !== null) kinds[kind] = { created, released, live, attention: idsIn(attention) };
    else if (queue !== null) found.push({ queue, state, n: live });
    else next = after!.toString(36);
  }
  return { kinds, found, next };
}

async function readWorkers(call: Call, now: number | null): Promise<readonly WorkerCard[]> {
  const rows = (await call('read_workers_v1', [now])) as [string, number, number, string, string, string | null][];
  return rows.map(([owner, dueAt, concurrency, name, types, queues]) => ({
    owner,
    card: {
      name,
      types: JSON.parse(types) as string[],
      queues: queues === null ? null : (JSON.parse(queues) as string[]),
      concurrency,
    },
    dueAt,
  }));
}
