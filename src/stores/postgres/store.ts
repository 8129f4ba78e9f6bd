/** The verbs: each is one call of a function, which is one step. What goes in and comes out is put into words here. */
import { hintsIn } from '../../core/hints.js';
import type { LastoutError } from '../../core/errors.js';
import { refusedAsFull, refusedAsOther, refusedBatch, seqOf } from '../../core/refusal.js';
import type {
  ClaimRequest,
  EventPage,
  HeldClaim,
  Hint,
  Inserted,
  JobFilter,
  LogLine,
  Move,
  Moved,
  NewJob,
  ReadRequest,
  SettleAnswer,
  Store,
  StoreContext,
  When,
} from '../../core/store.js';
import type { SqlClient } from '../../core/job.js';
import type { Call, Rows } from './call.js';
import { answersIn, begunIn, claimArgs, claimedIn, createSpots, endingsIn, noClaim, stepLine } from './claims-in.js';
import { isDuplicate } from './errors.js';
import { eventPage, fromOf } from './events.js';
import { createHolds } from './holds.js';
import { jobsIn, mixedArgs } from './jobs-in.js';
import { jobIn } from './rows.js';
import { tallyIn } from './tally.js';

export interface VerbParts {
  readonly call: Call;
  readonly context: StoreContext;
  /** Marks what is sent from this process. */
  readonly sender: string;
  give(hints: readonly Hint[]): void;
}

export type Verbs = Omit<Store, 'engine' | 'durability' | 'subscribe' | 'check' | 'close'>;

export async function postgresVerbs(parts: VerbParts): Promise<Verbs> {
  await keepLimits(parts);
  return verbsOn(parts);
}

function verbsOn({ call, context, sender, give }: VerbParts): Verbs {
  const { system } = context;
  const cap = numberOrNull(context.maxStoredJobs);
  const spots = createSpots(system);
  const holds = createHolds();
  const now = (): number | null => system.givenNow();
  const tell = (line: unknown): void => {
    if (typeof line === 'string' && line !== '') give(hintsIn(line));
  };

  /** Where another process stores one of these ids at this moment, the second look finds it. */
  async function insertCall(
    jobs: readonly NewJob[],
    tx: SqlClient | undefined,
    first: readonly unknown[],
  ): Promise<Rows> {
    const { fn, args } = jobsIn(jobs);
    try {
      return await call(fn, [...first, ...args], tx);
    } catch (error) {
      if (!isDuplicate(error) || fn === 'insert_v1') throw error;
      return call('insert_v1', [...first, ...mixedArgs(jobs)], tx);
    }
  }

  async function claim(request: ClaimRequest) {
    const spot = spots.of(request);
    const since = system.monotonic();
    const rows = await call('claim_v1', [now(), sender, cap, request.owner, ...claimArgs(request, spot)]);
    const { hints, after, at } = stepLine(rows);
    spots.learn(request, spot, after, at, since);
    tell(hints);
    const claimed = claimedIn(rows, request.leaseMs);
    holds.learn(claimed, rows);
    return claimed;
  }

  function read(request: ReadRequest & { log: 'events' }): Promise<EventPage>;
  function read(request: ReadRequest & { log: 'job' }): Promise<readonly LogLine[]>;
  function read(request: ReadRequest & { log: 'claims' }): Promise<readonly HeldClaim[]>;
  function read(request: ReadRequest & { log: 'due' }): Promise<number>;
  function read(request: ReadRequest): Promise<LogAnswer> {
    return readLog(call, now(), request);
  }

  return {
    async insert(jobs, { atomic, tx }) {
      if (jobs.length === 0 && tx === undefined) return [];
      const first = [now(), tx === undefined ? sender : '-', cap, tx !== undefined, atomic];
      const [[answers, hints]] = (await insertCall(jobs, tx, first)) as InsertRows;
      // Whether and when the caller commits is not known here, so the hints may be too early.
      if (tx === undefined) tell(hints);
      else system.soon(() => tell(hints));
      return insertedIn(jobs, answers);
    },
    claim,
    async extend({ owner, leaseMs, claims }) {
      const lists = claims.map(({ epoch, ids, started }) => [
        epoch,
        ids.join(),
        started.map((id) => begunIn(epoch, id, holds)).join(),
      ]);
      const rows = (await call('extend_v1', [now(), owner, leaseMs, JSON.stringify(lists)])) as [
        string,
        string | null,
      ][];
      return {
        lost: rows.filter(([, reason]) => reason === null).map(([id]) => id),
        cancelled: rows.filter(([, reason]) => reason !== null).map(([id, reason]) => ({ id, reason: reason! })),
      };
    },
    async settle(request) {
      const { owner, settlements, next } = request;
      if (settlements.length + request.started.length === 0)
        return { answers: [], claimed: next && (await claim(next)) };
      const { args, plain } = endingsIn(request, holds);
      const spot = next && spots.of(next);
      const since = system.monotonic();
      const about = next ? claimArgs(next, spot) : noClaim;
      const rows = await call('settle_v1', [now(), sender, cap, owner, ...args, next?.owner ?? null, ...about]);
      const { hints, answers, after, at } = stepLine(rows);
      if (next) spots.learn(next, spot, after, at, since);
      tell(hints);
      const settled = {
        answers: answersIn(answers, plain, settlements.length),
        claimed: next && claimedIn(rows, next.leaseMs),
      };
      holds.forget(settlements, settled.answers);
      if (settled.claimed) holds.learn(settled.claimed, rows);
      return settled;
    },
    async sweep({ limit, cleanup }) {
      const [[lapsed, expired, age, count, byCap, more, hints]] = (await call('sweep_v1', [
        ...[now(), sender, cap, limit, cleanup?.jobRetentionMs ?? null, cleanup?.useCompletedTime ?? true],
        cleanup && numberOrNull(cleanup.maxStoredJobs),
      ])) as [[number, number, number, number, number, boolean, string]];
      tell(hints);
      const examined = lapsed + expired + age + count + byCap;
      return { examined, lapsed, expired, removedBy: { age, count, cap: byCap }, more };
    },
    async move({ filter, move, dryRun, cursor, limit }) {
      const args = [JSON.stringify(filterIn(filter)), belowOf(cursor), limit, JSON.stringify(moveIn(move)), dryRun];
      const rows = await call('move_v1', [now(), sender, cap, ...args]);
      const [, , , next, hints] = rows[rows.length - 1] as MovedRow;
      tell(hints);
      return { items: (rows.slice(0, -1) as MovedRow[]).map(movedIn), next: cursorOf(next) };
    },
    async pause(queue, paused) {
      const [[hints]] = (await call('pause_v1', [sender, queue, paused])) as [[string]];
      tell(hints);
    },
    async find({ filter, cursor, limit }) {
      const rows = await call('find_v1', [now(), JSON.stringify(filterIn(filter)), belowOf(cursor), limit]);
      const next = rows.find(([job]) => job === null)?.[1] as number | undefined;
      return {
        jobs: rows.filter(([job]) => job !== null).map(([job]) => jobIn(job as string)),
        next: cursorOf(next ?? null),
      };
    },
    async tally({ jobRetentionMs, cleanupIntervalMs, useCompletedTime }) {
      return tallyIn(await call('tally_v1', [now(), jobRetentionMs, cleanupIntervalMs, useCompletedTime]));
    },
    read,
    async note(owner, notes) {
      if (notes.length === 0) return [];
      const [[answers, hints]] = (await call('note_v1', [now(), sender, owner, JSON.stringify(notes)])) as [
        [string, string],
      ];
      tell(hints);
      return answers.split(',') as SettleAnswer[];
    },
  };
}

type InsertRows = [[string | null, string]];

type LogAnswer = EventPage | readonly LogLine[] | readonly HeldClaim[] | number;

async function readLog(call: Call, now: number | null, request: ReadRequest): Promise<LogAnswer> {
  switch (request.log) {
    case 'events': {
      const from = fromOf(request.after);
      const rows = await call('read_events_v1', [from?.row ?? null, request.limit]);
      return eventPage(rows, request.after, from, request.limit);
    }
    case 'job': {
      const rows = (await call('read_lines_v1', [request.id])) as [number, string, string | null][];
      return rows.map(([at, message, fields]) => ({ at, message, fields }));
    }
    case 'claims': {
      const rows = (await call('read_claims_v1', [request.owner])) as [number, string | null][];
      return rows.map(([epoch, ids]) => ({ epoch, ids: ids === null ? [] : ids.split(',') }));
    }
    case 'due': {
      const { types, queues, limit } = request;
      return ((await call('read_due_v1', [now, types.join(), queues?.join() ?? null, limit])) as [[number]])[0][0];
    }
  }
}

/** `answers`: of those that were not simply created; see insert_v1. */
function insertedIn(jobs: readonly NewJob[], answers: string | null): readonly Inserted[] {
  const inserted = jobs.map(({ id }): Inserted => ({ id, outcome: 'created' }));
  if (answers === null) return inserted;
  const list = JSON.parse(answers) as readonly AnswerIn[] | RefusalIn;
  if (!Array.isArray(list)) throw refusalIn(jobs, list as RefusalIn);
  for (const [index, outcome, id, other, most, pending] of list as readonly AnswerIn[]) {
    if (outcome === 'conflict') inserted[index] = refusedAsOther(id);
    else if (outcome === 'full') inserted[index] = refusedAsFull(id, other!, most!, pending!);
    else if (outcome === 'replaced') inserted[index] = { id, outcome, replaced: other! };
    else inserted[index] = { id, outcome };
  }
  return inserted;
}

type AnswerIn = readonly [
  index: number,
  outcome: 'existing' | 'skipped' | 'coalesced' | 'replaced' | 'conflict' | 'full',
  id: string,
  other: string | null,
  most?: number,
  pending?: number,
];

interface RefusalIn {
  readonly code: 'QUEUE_FULL' | 'IDEMPOTENCY_CONFLICT';
  readonly index: number;
  readonly most: number;
  readonly pending: number;
}

function refusalIn(jobs: readonly NewJob[], { code, index, most, pending }: RefusalIn): LastoutError {
  const { id, queue } = jobs[index]!;
  return refusedBatch(code === 'QUEUE_FULL' ? refusedAsFull(id, queue, most, pending) : refusedAsOther(id), index);
}

function filterIn({ ids, states, types, queues, subject, key, source, before, after, system }: JobFilter): object {
  return { ids, states, types, queues, subject, key, source, before, after, system };
}

function moveIn(move: Move): object {
  switch (move.kind) {
    case 'cancel':
    case 'remove':
      return move;
    case 'retry':
      return { kind: move.kind, new_ids: move.newIds };
    case 'reschedule':
      return { kind: move.kind, ...(move.when && whenIn(move.when)), priority: move.priority };
  }
}

function whenIn(when: When): object {
  return 'inMs' in when ? { in_ms: when.inMs } : { at: when.at };
}

type MovedRow = [
  id: string,
  outcome: Moved['items'][number]['outcome'],
  newId: string | null,
  next: number | null,
  hints: string | null,
];

function movedIn([id, outcome, newId]: MovedRow): Moved['items'][number] {
  return { id, outcome, ...(newId !== null && { newId }) };
}

function belowOf(cursor: string | null): number {
  return cursor === null ? Number.MAX_SAFE_INTEGER : seqOf(cursor);
}

function cursorOf(next: number | null): string | null {
  return next === null ? null : next.toString(36);
}

function numberOrNull(value: number): number | null {
  return value === Number.POSITIVE_INFINITY ? null : value;
}

/** Limits hold for every process from the moment one of them is opened with them. Who changes nothing writes nothing. */
async function keepLimits({ call, context, sender, give }: VerbParts): Promise<void> {
  if (!context.limits || context.limits.size === 0) return;
  const limits = [...context.limits].map(([queue, { maxPending, concurrency, rate }]) => ({
    queue,
    max_pending: maxPending,
    concurrency,
    rate_max: rate?.max ?? null,
    rate_per_ms: rate?.perMs ?? null,
  }));
  const rows = await call('limits_v1', [sender, JSON.stringify(limits)]);
  if (rows[0]?.[0] === true) give([{ kind: 'ready', types: new Set(['*']) }]);
}
