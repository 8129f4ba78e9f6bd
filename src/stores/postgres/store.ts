/** The verbs: each is one call of a function, which is one step. What goes in and comes out is put into words here. */
import { hintsIn, stalledIn } from '../../core/hints.js';
import { seqOf } from '../../core/refusal.js';
import {
  type ClaimRequest,
  farAway,
  type Hint,
  type Inserted,
  type JobFilter,
  type Move,
  type Moved,
  type NewJob,
  noFilter,
  type OverduePage,
  type SettleAnswer,
  type Store,
  type StoreContext,
  type SweepRequest,
  type SweptInTerm,
  type Term,
  type Under,
  type When,
} from '../../core/store.js';
import type { SqlClient } from '../../core/job.js';
import type { StandingFence, SubjectFence } from '../../core/subject.js';
import type { Call, Rows } from './call.js';
import { answersIn, begunIn, claimArgs, claimedIn, createSpots, endingsIn, noClaim, stepLine } from './claims-in.js';
import { insertedIn } from './answers.js';
import { isDuplicate } from './errors.js';
import { createHolds } from './holds.js';
import { jobsIn, mixedArgs } from './jobs-in.js';
import { idsIn, readsOn } from './reads.js';
import { jobIn } from './rows.js';
import { snake } from './sql/columns.js';
import { tallyIn } from './tally.js';

export interface VerbParts {
  readonly call: Call;
  readonly context: StoreContext;
  /** Marks what is sent from this process. */
  readonly sender: string;
  give(hints: readonly Hint[]): void;
}

export type Verbs = Omit<Store, 'engine' | 'traits' | 'durability' | 'subscribe' | 'check' | 'close'>;

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
    if (typeof line !== 'string' || line === '') return;
    give(hintsIn(line));
    const stalled = stalledIn(line);
    if (stalled.length > 0) context.stalled?.(stalled);
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

  async function insertStep(jobs: readonly NewJob[], atomic: boolean, tx: SqlClient | undefined) {
    const first = [now(), tx === undefined ? sender : '-', cap, tx !== undefined, atomic];
    const [[answers, hints]] = (await insertCall(jobs, tx, first)) as InsertRows;
    // Whether and when the caller commits is not known here, so the hints may be too early.
    if (tx === undefined) tell(hints);
    else system.soon(() => tell(hints));
    return insertedIn(jobs, answers);
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

  async function sweepAs(term: Term | null, { limit, cleanup }: SweepRequest): Promise<SweptInTerm> {
    const row = await sweepCall([
      ...[limit, cleanup?.jobRetentionMs ?? null, cleanup?.useCompletedTime ?? true],
      cleanup && numberOrNull(cleanup.maxStoredJobs),
      ...[term?.holder ?? null, term?.ttlMs ?? null, null],
    ]);
    tell(row[7]);
    return sweptIn(row);
  }
  async function sweepCall(args: readonly unknown[]): Promise<SweptRow> {
    return ((await call('sweep_v1', [now(), sender, cap, ...args])) as unknown as [SweptRow])[0];
  }

  async function fence(subject: string, how: SubjectFence | null): Promise<StandingFence | null> {
    const args = [now(), subject, how !== null, how?.reason ?? null, how?.forMs ?? null];
    const [standing] = (await call('pause_subject_v1', args)) as [[number, number]?];
    return standing ? { at: standing[0], until: standing[1] } : null;
  }

  return {
    async insert(jobs, { atomic, tx }) {
      if (jobs.length === 0 && tx === undefined) return [];
      const answers = await insertStep(jobs, atomic, tx);
      // So many jobs may be to be replaced that it takes several steps. Those who need not wait for them are in after the first.
      for (let left = placesOfNull(answers); left.length > 0; left = placesOfNull(answers)) {
        const more = await insertStep(
          left.map((place) => jobs[place]!),
          atomic,
          tx,
        );
        for (const [index, place] of left.entries()) answers[place] = more[index]!;
      }
      return answers as Inserted[];
    },
    claim,
    async extend({ owner, leaseMs, claims, card }) {
      const lists = claims.map(({ epoch, ids, started }) => [
        epoch,
        ids.join(),
        started.map((id) => begunIn(epoch, id, holds)).join(),
      ]);
      const args = [now(), owner, leaseMs, JSON.stringify(lists), card && JSON.stringify(card)];
      const rows = (await call('extend_v1', args)) as [string, string | null][];
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
    async sweep(request) {
      const { term: _, ...swept } = await sweepAs(null, request);
      return swept;
    },
    sweepInTerm: sweepAs,
    endTerm: async (holder, entry) => (await sweepCall([1, null, true, null, holder, null, entry]))[10],
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
    fence: async (subject, how) => (await fence(subject, how))!,
    unfence: (subject) => fence(subject, null),
    async find({ filter, cursor, limit }) {
      return foundIn(await call('find_v1', [now(), JSON.stringify(filterIn(filter)), belowOf(cursor), limit]));
    },
    async tally({ jobRetentionMs, cleanupIntervalMs, useCompletedTime }) {
      return tallyIn(await call('tally_v1', [now(), jobRetentionMs, cleanupIntervalMs, useCompletedTime]));
    },
    ...readsOn(call, now),
    async readOverdue({ types, ids, cursor, limit }) {
      const filter = filterIn({ ...noFilter, states: ['pending', 'processing'], types, ids });
      const [first, ...rows] = await call('read_overdue_v1', [now(), JSON.stringify(filter), belowOf(cursor), limit]);
      return { doubt: first![2] as string | null, ...foundIn(rows) };
    },
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

function foundIn(rows: Rows): Pick<OverduePage, 'jobs' | 'next'> {
  const next = rows.find(([job]) => job === null)?.[1] as number | undefined;
  return {
    jobs: rows.filter(([job]) => job !== null).map(([job]) => jobIn(job as string)),
    next: cursorOf(next ?? null),
  };
}

type SweptRow = readonly [
  ...[
    lapsed: number,
    expired: number,
    fenced: number,
    age: number,
    count: number,
    cap: number,
    more: boolean,
    hints: string,
  ],
  ...[owing: string | null, dueThings: string | null, term: number | null, busy: boolean],
];

function sweptIn([lapsed, expired, fenced, age, count, cap, more, , owing, dueThings, term]: SweptRow): SweptInTerm {
  return {
    examined: lapsed + expired + fenced + age + count + cap + idsIn(owing).length,
    lapsed,
    expired,
    fenced,
    removedBy: { age, count, cap },
    owing: idsIn(owing),
    dueThings: idsIn(dueThings),
    term,
    more,
  };
}

function placesOfNull(answers: readonly (Inserted | null)[]): number[] {
  if (!answers.includes(null)) return [];
  return [...answers.keys()].filter((place) => answers[place] === null);
}

type InsertRows = [[string | null, string]];

function filterIn(filter: JobFilter): object {
  return Object.fromEntries(Object.entries(filter).map(([name, value]) => [snake(name), value]));
}

function moveIn(move: Move): object {
  switch (move.kind) {
    case 'cancel':
    case 'condemn':
    case 'remove':
      return move;
    case 'retry':
      return {
        ...{ kind: move.kind, new_ids: move.newIds, again: move.again, failures_only: move.failuresOnly },
        ...(move.copies && { copies: copiesIn(move.copies) }),
      };
    case 'reschedule':
      return { kind: move.kind, ...(move.when && whenIn(move.when)), priority: move.priority };
    case 'hold':
      return { kind: move.kind, reason: move.reason, until: move.until ?? farAway };
    case 'unhold':
      return move;
    case 'defer':
      return { kind: move.kind, in_ms: move.forMs };
    case 'dismiss':
      return { ...move, in_ms: 0 };
    case 'confirm':
      return {
        ...{ kind: move.kind, memo: move.memo },
        ...whenIn(move.when ?? { at: farAway }),
        ...(move.under && underIn(move.under)),
      };
  }
}

function copiesIn(copies: NonNullable<(Move & { kind: 'retry' })['copies']>): object {
  return Object.fromEntries(Object.entries(copies).map(([id, { newId, input }]) => [id, [newId, input]]));
}

function whenIn(when: When): object {
  return 'inMs' in when ? { in_ms: when.inMs } : { at: when.at };
}

function underIn({ epoch, owner }: Under): object {
  return { under_epoch: epoch, under_owner: owner };
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
