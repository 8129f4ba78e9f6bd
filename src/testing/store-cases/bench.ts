/** The words in which cases are written: jobs, claims and endings with everything filled in that a rule is not about. */
import { noFilter } from '../../core/store.js';
import assert from 'node:assert/strict';
import { plainJob } from '../../core/columns.js';
import type { Ending } from '../../core/ending.js';
import type { JobError } from '../../core/job.js';
import type { QueueLimits } from '../../core/limits.js';
import type { CleanupPolicy, StoredPolicy } from '../../core/policy.js';
import { printIn } from '../../core/print.js';
import type {
  Claimed,
  ClaimRequest,
  EventRecord,
  Inserted,
  JobFilter,
  Move,
  Moved,
  MoveOutcome,
  NewJob,
  QueueTally,
  SettleAnswer,
  Store,
  StoredJob,
  Swept,
  SweepRequest,
} from '../../core/store.js';
import type { StoreCase, StoreHarness } from './harness.js';

export const leaseMs = 30_000;

/** A job as a case describes it: what it leaves out is plain. `delay` is `when`, `given` an id that the caller chose. */
export type JobSketch = Partial<Omit<NewJob, 'policy' | 'idGiven'>> & {
  readonly delay?: number;
  readonly given?: boolean;
  readonly policy?: Partial<StoredPolicy>;
};

let made = 0;

export function newJob({ delay = 0, given = false, policy = {}, ...sketch }: JobSketch = {}): NewJob {
  made += 1;
  const job: NewJob = {
    ...plainJob,
    id: `job-${made}`,
    idGiven: given,
    type: 'mail',
    queue: 'default',
    when: { inMs: delay },
    maxAttempts: 3,
    policy: JSON.stringify({ backoff: null, timeoutMs: null, keep: {}, ...policy } satisfies StoredPolicy),
    input: '{"to":"ann"}',
    ...sketch,
  };
  return given ? { ...job, print: printIn(job) } : job;
}

export function claim(store: Store, request: Partial<ClaimRequest> = {}): Promise<Claimed> {
  return store.claim({
    owner: 'worker-1',
    types: ['mail'],
    queues: null,
    slots: 100,
    ahead: 0,
    leaseMs,
    maxStalls: 3,
    ...request,
  });
}

/** One call of a whole cleanup, without a term. */
export function sweepOnce(
  store: Store,
  { limit = 500, ...policy }: Partial<SweepRequest & CleanupPolicy> = {},
): Promise<Swept> {
  return store.sweep({ limit, cleanup: cleanupOf(policy) });
}

/** Inserts and completes one job after another, a millisecond apart; their ids, oldest first. */
export async function completed(
  { add, take, settle, advance }: Bench,
  n: number,
  sketch: JobSketch = {},
): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < n; i++) {
    ids.push(await add(sketch));
    await settle(await take({ types: [sketch.type ?? 'mail'] }), ending.complete());
    advance(1);
  }
  return ids;
}

export const ending = {
  complete: (result: unknown = 'done'): Ending => ({ kind: 'complete', result: JSON.stringify(result) }),
  retry: (inMs: number, error: JobError = { message: 'broken' }): Ending => ({
    kind: 'retry',
    inMs,
    error: JSON.stringify(error),
  }),
  exhaust: (error: JobError = { message: 'broken' }): Ending => ({ kind: 'exhaust', error: JSON.stringify(error) }),
  fail: (error: JobError = { message: 'hopeless' }): Ending => ({ kind: 'fail', error: JSON.stringify(error) }),
  snooze: (inMs: number): Ending => ({ kind: 'snooze', when: { inMs } }),
  cancel: (message = 'not needed'): Ending => ({
    kind: 'cancel',
    error: JSON.stringify({ message, code: 'CANCELLED' }),
  }),
  release: (): Ending => ({ kind: 'release' }),
};

export const filterOf = (fields: Partial<JobFilter>): JobFilter => ({ ...noFilter, ...fields });

export const cleanupOf = (fields: Partial<CleanupPolicy> = {}): CleanupPolicy => ({
  maxStoredJobs: Number.POSITIVE_INFINITY,
  jobRetentionMs: 86_400_000,
  cleanupIntervalMs: 3_600_000,
  useCompletedTime: true,
  ...fields,
});

/** A job in somebody's hands. */
export interface Hold {
  readonly id: string;
  readonly epoch: number;
  readonly owner: string;
}

export interface Bench extends Pick<StoreHarness, 'store' | 'advance' | 'now' | 'begin'> {
  /** Opens the jobs once more with limits; those left out are none. */
  limit(queues: { readonly [queue: string]: Partial<QueueLimits> }): Promise<Store>;
  /** Inserts one job that nothing stands in the way of. */
  add(sketch?: JobSketch): Promise<string>;
  insert(...sketches: JobSketch[]): Promise<readonly Inserted[]>;
  /** Ids of a claim, in its order. */
  claimIds(request?: Partial<ClaimRequest>): Promise<string[]>;
  /** Claims exactly one job. */
  take(request?: Partial<ClaimRequest>): Promise<Hold>;
  settle(hold: Hold, how: Ending): Promise<SettleAnswer>;
  note(hold: Hold, note: { progress?: string; lines?: string[] }): Promise<SettleAnswer>;
  /** Lets the claims of now lapse, and tends. */
  lapse(): Promise<Swept>;
  tend(): Promise<Swept>;
  /** Cleans up to the end, and sums up. */
  cleanUp(policy?: Partial<CleanupPolicy>): Promise<Swept['removedBy']>;
  job(id: string): Promise<StoredJob>;
  error(id: string): Promise<JobError | null>;
  exists(id: string): Promise<boolean>;
  /** Ids of all pages, in their order. */
  find(filter?: Partial<JobFilter>, pageSize?: number): Promise<string[]>;
  move(ids: readonly string[], move: Move, dryRun?: boolean): Promise<Moved['items']>;
  cancel(id: string, how?: { force?: boolean; reason?: string }): Promise<MoveOutcome>;
  remove(id: string, force?: boolean): Promise<MoveOutcome>;
  /** Until an instant, or for ever. */
  hold(id: string, until?: number, reason?: string): Promise<MoveOutcome>;
  unhold(id: string): Promise<MoveOutcome>;
  reschedule(id: string, delay: number | null, priority?: number): Promise<MoveOutcome>;
  tally(queue?: string): Promise<QueueTally>;
  /** What happens from here on, read step by step through the cursor. */
  watch(): Promise<() => Promise<EventRecord[]>>;
  /** Runs and completes everything that can run now and while the clock moves on; the ids in order. */
  drain(): Promise<string[]>;
}

export function storeCase(name: string, run: (bench: Bench) => Promise<void>): StoreCase {
  return { name, run: (harness) => run(benchOn(harness)) };
}

function benchOn({ store, advance, now, begin, open }: StoreHarness): Bench {
  const bench: Bench = {
    store,
    advance,
    now,
    limit(queues) {
      const none: QueueLimits = { maxPending: null, concurrency: null, rate: null };
      return open(new Map(Object.entries(queues).map(([queue, limits]) => [queue, { ...none, ...limits }])));
    },
    ...(begin && { begin }),
    ...inserting(store),
    ...claiming(store, advance),
    ...reading(store),
    ...moving(store),
    async drain() {
      const ran: string[] = [];
      for (let idle = 0; idle < 3; ) {
        const { jobs, epoch } = await claim(store, { types: ['mail', 'sms'] });
        for (const { id } of jobs) await bench.settle({ id, epoch, owner: 'worker-1' }, ending.complete());
        ran.push(...jobs.map(({ id }) => id));
        assert.ok(ran.length < 1_000, 'work comes to an end');
        idle = jobs.length === 0 ? idle + 1 : 0;
        if (idle > 0) advance(60_000);
      }
      return ran;
    },
  };
  return bench;
}

function inserting(store: Store): Pick<Bench, 'add' | 'insert'> {
  return {
    async add(sketch) {
      const [inserted] = await store.insert([newJob(sketch)], { atomic: false });
      assert.equal(inserted?.outcome, 'created');
      return inserted.id;
    },
    insert: (...sketches) => store.insert(sketches.map(newJob), { atomic: false }),
  };
}

function claiming(
  store: Store,
  advance: (ms: number) => void,
): Pick<Bench, 'claimIds' | 'take' | 'settle' | 'note' | 'lapse' | 'tend' | 'cleanUp'> {
  const tend = (): Promise<Swept> => store.sweep({ limit: 500, cleanup: null });
  return {
    claimIds: async (request) => (await claim(store, request)).jobs.map(({ id }) => id),
    async take(request) {
      const { jobs, epoch } = await claim(store, request);
      assert.equal(jobs.length, 1, 'exactly one job can be claimed');
      return { id: jobs[0]!.id, epoch, owner: request?.owner ?? 'worker-1' };
    },
    async settle({ id, epoch, owner }, how) {
      const { answers } = await store.settle({
        owner,
        settlements: [{ id, epoch, ending: how }],
        started: [],
        next: null,
      });
      return answers[0]!;
    },
    async note({ id, epoch, owner }, { progress = null, lines = [] }: { progress?: string | null; lines?: string[] }) {
      const texts = lines.map((message) => ({ message, fields: null }));
      const answers = await store.note(owner, [{ id, epoch, progress, lines: texts }]);
      return answers[0]!;
    },
    lapse() {
      advance(leaseMs);
      return tend();
    },
    tend,
    async cleanUp(policy) {
      const sum = { age: 0, count: 0, cap: 0 };
      for (let more = true; more; ) {
        const swept = await store.sweep({ limit: 500, cleanup: cleanupOf(policy) });
        for (const kind of ['age', 'count', 'cap'] as const) sum[kind] += swept.removedBy[kind];
        more = swept.more;
      }
      return sum;
    },
  };
}

function reading(store: Store): Pick<Bench, 'job' | 'error' | 'exists' | 'find' | 'tally' | 'watch'> {
  const lookUp = async (id: string): Promise<StoredJob | undefined> =>
    (await store.find({ filter: filterOf({ ids: [id] }), cursor: null, limit: 2 })).jobs[0];
  async function job(id: string): Promise<StoredJob> {
    const found = await lookUp(id);
    assert.ok(found, `job ${id} is stored`);
    return found;
  }
  return {
    job,
    exists: async (id) => (await lookUp(id)) !== undefined,
    async error(id) {
      const { error } = await job(id);
      return error === null ? null : (JSON.parse(error) as JobError);
    },
    async find(filter = {}, pageSize = 100) {
      const ids: string[] = [];
      let cursor: string | null = null;
      do {
        const page = await store.find({ filter: filterOf(filter), cursor, limit: pageSize });
        assert.ok(page.jobs.length <= pageSize, 'a page is no longer than asked for');
        ids.push(...page.jobs.map(({ id }) => id));
        cursor = page.next;
      } while (cursor !== null);
      return ids;
    },
    async tally(queue = 'default') {
      const { queues } = await store.tally(cleanupOf());
      return queues.find((found) => found.queue === queue) ?? { ...noTally, queue };
    },
    async watch() {
      let { cursor } = await store.readEvents({ after: null, limit: 1 });
      return async () => {
        const events: EventRecord[] = [];
        for (let full = true; full; ) {
          const page = await store.readEvents({ after: cursor, limit: 3 });
          assert.equal(page.reset, false, 'nothing was missed');
          events.push(...page.events);
          cursor = page.cursor;
          full = page.events.length > 0;
        }
        return events;
      };
    },
  };
}

const noTally: Omit<QueueTally, 'queue'> = {
  pending: 0,
  delayed: 0,
  processing: 0,
  stalled: 0,
  completed: 0,
  failed: 0,
  replaced: 0,
  cancelled: 0,
  expired: 0,
  paused: false,
  oldestDueAgeMs: null,
  blockedBy: null,
  blockedUntil: null,
  full: false,
};

function moving(store: Store): Pick<Bench, 'move' | 'cancel' | 'remove' | 'hold' | 'unhold' | 'reschedule'> {
  const move: Bench['move'] = async (ids, how, dryRun = false) =>
    (await store.move({ filter: filterOf({ ids }), move: how, dryRun, cursor: null, limit: 100 })).items;
  async function one(id: string, how: Move): Promise<MoveOutcome> {
    const items = await move([id], how);
    assert.deepEqual(
      items.map((item) => item.id),
      [id],
    );
    return items[0]!.outcome;
  }
  return {
    move,
    cancel: (id, { force = false, reason = 'stop' } = {}) => one(id, { kind: 'cancel', reason, force }),
    remove: (id, force = false) => one(id, { kind: 'remove', force }),
    hold: (id, until, reason = 'wait') => one(id, { kind: 'hold', reason, until: until ?? null }),
    unhold: (id) => one(id, { kind: 'unhold' }),
    reschedule: (id, delay, priority) =>
      one(id, { kind: 'reschedule', when: delay === null ? null : { inMs: delay }, priority: priority ?? null }),
  };
}
