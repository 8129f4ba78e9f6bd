// Jobs that come one by one within a millisecond join a run that was left open, and write nothing but their rows. Nobody can
// tell: whoever reads, by whatever connection, finds what memory has, and whoever writes counts and tells them first.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type Claimed, type Hint, type NewJob, noFilter, type Store, type StoreContext } from '../../src/core/store.js';
import { memoryStore } from '../../src/stores/memory/store.js';
import { prepare, type SqliteDatabase } from '../../src/stores/sqlite/driver.js';
import { createSystem } from '../../src/system.js';
import { claim, cleanupOf } from '../../src/testing/store-cases/bench.js';
import { seeded } from '../crash/seeded.js';
import { temporaryFolder } from '../support.js';
import { faultsIn } from './sqlite-audit.js';
import { connect, newJob, openStore, valueOf } from './sqlite-support.js';

async function oneFile(context: Partial<StoreContext> = {}) {
  const clock = { now: Date.parse('2030-01-01T00:00:00Z') };
  const system = createSystem({ now: () => new Date(clock.now) });
  const file = join(temporaryFolder(), 'jobs.db');
  const open = async (more: Partial<StoreContext> = {}): Promise<Store> => {
    const store = await openStore(file, { system, ...context, ...more });
    onTestFinished(() => store.close());
    return store;
  };
  const store = await open();
  const db = await connect(file);
  onTestFinished(() => void db.close());
  return { clock, system, file, open, store, db };
}

let made = 0;
const next = (fields: Partial<NewJob> = {}): NewJob =>
  newJob({ id: `job-${String(++made).padStart(6, '0')}`, ...fields });
const add = (store: Store, job: NewJob = next()) => store.insert([job], { atomic: false });
async function addMany(store: Store, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    const answers = await add(store).catch((error: unknown) => [error]);
    expect(answers).toMatchObject([{ outcome: 'created' }]);
  }
}
/** How many have joined the open run; null: none is open. */
const joined = (db: SqliteDatabase): unknown =>
  valueOf(
    db,
    `select (select max(seq) from lastout_jobs) - s.n from lastout_counts s cross join lastout_counts o
     on s.name = 'seq' and o.name = 'open'`,
  ) ?? null;
const runs = (db: SqliteDatabase): unknown =>
  valueOf(db, `select group_concat(seq || '-' || last) from lastout_pending`);

test('a run that its newest job has left in the same step is not left open', async () => {
  const { store, db } = await oneFile();
  await addMany(store, 2);
  const [plain, event] = [next(), next({ deduplication: 'coalesce' })];
  const answers = await store.insert([plain, event], { atomic: false });
  expect(answers.map(({ outcome }) => outcome)).toEqual(['created', 'coalesced']);
  expect([runs(db), joined(db)]).toEqual(['1-2,3-3', null]);
  await addMany(store, 2);
  expect(faultsIn(db)).toEqual([]);
  expect((await claim(store, { slots: 10 })).jobs.map(({ seq }) => seq)).toEqual([1, 2, 3, 4, 5]);
});

test('a run whose first jobs are claimed in the same step is not left open', async () => {
  const { store, db } = await oneFile();
  const owner = 'w';
  await addMany(store, 1);
  const { epoch, jobs } = await claim(store, { owner });
  await addMany(store, 2);
  const settlement = { id: jobs[0]!.id, epoch, ending: { kind: 'complete', result: '1' }, then: [next()] } as const;
  const request = { owner, types: ['mail'], queues: null, slots: 1, ahead: 0, leaseMs: 60_000, maxStalls: 3 };
  const settled = await store.settle({ owner, settlements: [settlement], started: [], next: request });
  expect(settled.claimed?.jobs.map(({ seq }) => seq)).toEqual([2]);
  await addMany(store, 2);
  expect(faultsIn(db)).toEqual([]);
  expect((await claim(store, { slots: 10 })).jobs.map(({ seq }) => seq)).toEqual([3, 4, 5, 6]);
});

test('a job that joins writes two pages, and the next step closes the run', async () => {
  const { store, db, file } = await oneFile();
  await addMany(store, 2);
  expect([runs(db), joined(db)]).toEqual(['1-2', null]);
  await addMany(store, 1);
  expect([runs(db), joined(db)]).toEqual(['1-103', 0]);
  const before = statSync(`${file}-wal`).size;
  await addMany(store, 10);
  expect(statSync(`${file}-wal`).size - before).toBeLessThanOrEqual(10 * 2 * (4_096 + 24) + 4 * (4_096 + 24));
  expect([runs(db), joined(db)]).toEqual(['1-103', 10]);
  expect(faultsIn(db)).toEqual([]);
  await store.extend({ owner: 'worker-1', claims: [], leaseMs: 1_000, card: null });
  expect([runs(db), joined(db)]).toEqual(['1-13', null]);
  expect(faultsIn(db)).toEqual([]);
});

test('after as many as have numbers, and in the next millisecond, another run is left open', async () => {
  const { clock, store, db } = await oneFile();
  await addMany(store, 103);
  expect([runs(db), joined(db)]).toEqual(['1-103', 100]);
  await addMany(store, 2);
  expect([runs(db), joined(db)]).toEqual(['1-103,104-204', 1]);
  clock.now += 1;
  await addMany(store, 3);
  expect([runs(db), joined(db)]).toEqual(['1-103,104-105,106-206', 2]);
  clock.now += 2;
  await addMany(store, 1);
  expect([runs(db), joined(db)]).toEqual(['1-103,104-105,106-108,109-109', null]);
  expect((await claim(store, { slots: 200 })).jobs.map(({ seq }) => seq)).toEqual(
    Array.from({ length: 109 }, (_, index) => index + 1),
  );
  expect(faultsIn(db)).toEqual([]);
});

test.each<[string, Partial<NewJob>]>([
  ['of another type', { type: 'sms' }],
  ['in another queue', { queue: 'slow' }],
  ['with a priority', { priority: 1 }],
  ['with another policy', { policy: '{"backoff":null,"timeoutMs":1,"keep":{}}' }],
  ['with other attempts', { maxAttempts: 1 }],
  ['for later', { when: { inMs: 5 } }],
  ['with a ttl', { ttlMs: 50 }],
  ['about a subject', { subject: 'trip:1' }],
  ['with a key', { key: 'k' }],
  ['that is skipped', { deduplication: 'skip' }],
  ['with an exclusive key', { exclusiveKey: 'x' }],
  ['with a source', { source: 'web' }],
  ['with metadata', { metadata: '{"a":1}' }],
  ['of the library itself', { queue: 'lastout' }],
])('a job %s does not join', async (_, fields) => {
  const { system, store, db } = await oneFile();
  const memory = await openStore(memoryStore(), { system });
  for (let i = 0; i < 10; i++) {
    const job = next(i % 5 === 4 ? fields : {});
    expect(await add(store, job)).toEqual(await add(memory, job));
    if (i < 4) expect(joined(db)).toBe([null, null, 0, 1][i]);
    if (i % 5 === 4) expect(joined(db)).not.toBe(2);
    expect(faultsIn(db)).toEqual([]);
  }
  expect(await store.tally(cleanupOf())).toEqual(await memory.tally(cleanupOf()));
});

test('nobody joins where each job has to ask for room, or be counted against the cap', async () => {
  const limits = new Map([['default', { maxPending: 4, concurrency: null, rate: null }]]);
  const bounded = await oneFile({ limits });
  await addMany(bounded.store, 4);
  expect(joined(bounded.db)).toBe(null);
  await expect(add(bounded.store)).resolves.toMatchObject([{ outcome: 'refused', code: 'QUEUE_FULL' }]);

  const capped = await oneFile({ maxStoredJobs: 4 });
  const hints: Hint['kind'][] = [];
  capped.store.subscribe(({ kind }) => void hints.push(kind));
  await addMany(capped.store, 5);
  expect(hints.filter((kind) => kind === 'cap')).toHaveLength(1);
  expect(faultsIn(capped.db)).toEqual([]);
});

test('a limit that another process sets holds for the next job', async () => {
  const { store, open, db } = await oneFile();
  await addMany(store, 5);
  expect(joined(db)).toBe(2);
  await open({ limits: new Map([['default', { maxPending: 6, concurrency: null, rate: null }]]) });
  await addMany(store, 1);
  await expect(add(store)).resolves.toMatchObject([{ outcome: 'refused', details: { pending: 6 } }]);
});

test('where another process has closed the run, and left one of its own open, nobody joins the old one', async () => {
  const { store, open, db } = await oneFile();
  const other = await open();
  for (let i = 0; i < 3; i++) {
    await addMany(store, 4);
    await addMany(other, 4);
    expect([joined(db), faultsIn(db)]).toEqual([1, []]);
  }
  expect((await claim(store, { slots: 50 })).jobs).toHaveLength(24);
});

test('who joins tells workers and readers of the process, and an id that comes again is known', async () => {
  const { store, db } = await oneFile();
  await addMany(store, 4);
  const hints: Hint[] = [];
  store.subscribe((hint) => void hints.push(hint));
  const job = next();
  await add(store, job);
  expect(joined(db)).toBe(2);
  expect(hints).toEqual([{ kind: 'ready', types: new Set(['mail']) }, { kind: 'events' }]);
  expect(await add(store, job)).toEqual([{ id: job.id, outcome: 'existing' }]);
  expect(await add(store, { ...job, idGiven: true })).toEqual([{ id: job.id, outcome: 'existing' }]);
});

test('who has read all that was trimmed misses nothing, and whoever has not is told', async () => {
  const { clock, store } = await oneFile();
  const { cursor: start } = await store.readEvents({ after: null, limit: 1 });
  await addMany(store, 6);
  const { events } = await store.readEvents({ after: start, limit: 100 });
  const [before, last] = events.slice(-2);
  clock.now += 600_001;
  for (let i = 0; i < 64; i++) await store.insert([next(), next()], { atomic: false });
  const after = await store.readEvents({ after: last!.cursor, limit: 1_000 });
  expect([after.reset, after.events.length]).toEqual([false, 128]);
  expect((await store.readEvents({ after: before!.cursor, limit: 1_000 })).reset).toBe(true);
  expect((await store.readEvents({ after: start, limit: 1_000 })).reset).toBe(true);
});

test('each event is told once, in order, to who reads while the run is open and when it is closed', async () => {
  const { clock, store, open, db } = await oneFile();
  const reader = await open();
  let cursor = (await reader.readEvents({ after: null, limit: 1 })).cursor;
  const first = made + 1;
  const seen: string[] = [];
  const look = async (by: Store, limit: number): Promise<void> => {
    const answer = await by.readEvents({ after: cursor, limit });
    expect(answer.reset).toBe(false);
    expect(answer.events.every(({ name, at }) => name === 'created' && at === clock.now)).toBe(true);
    seen.push(...answer.events.map(({ id }) => id!));
    cursor = answer.cursor;
  };
  await addMany(store, 5);
  expect(joined(db)).toBe(2);
  await look(reader, 3);
  await look(store, 1);
  await look(reader, 100);
  expect(seen).toHaveLength(5);
  // From here on.
  const { cursor: here } = await reader.readEvents({ after: null, limit: 1 });
  await addMany(store, 2);
  await look(reader, 1);
  await reader.pause('aside', true);
  await look(store, 100);
  await addMany(store, 3);
  await look(reader, 100);
  const ids = Array.from({ length: 10 }, (_, index) => `job-${String(first + index).padStart(6, '0')}`);
  expect(seen).toEqual(ids);
  const { events } = await reader.readEvents({ after: here, limit: 100 });
  expect(events.map(({ id }) => id)).toEqual(ids.slice(5));
});

test('a transaction of the caller closes the run, and leaves it open where it is rolled back', async () => {
  const { store, db, file } = await oneFile();
  await addMany(store, 5);
  const tx = await connect(file);
  onTestFinished(() => void tx.close());
  tx.exec('begin immediate');
  await store.insert([next()], { atomic: false, tx });
  tx.exec('rollback');
  expect(joined(db)).toBe(2);
  await addMany(store, 1);
  expect(joined(db)).toBe(3);
  tx.exec('begin immediate');
  await store.insert([next()], { atomic: false, tx });
  tx.exec('commit');
  expect(joined(db)).toBe(null);
  await addMany(store, 3);
  expect(faultsIn(db)).toEqual([]);
  expect((await store.tally(cleanupOf())).queues).toMatchObject([{ pending: 10 }]);
});

test('a job that finds the file locked waits for its turn, and those before it stay before it', async () => {
  const { store, db, file } = await oneFile();
  await addMany(store, 4);
  const other = await connect(file);
  onTestFinished(() => void other.close());
  other.exec('begin immediate');
  const paused = store.pause('default', true);
  const adding = [add(store), add(store)];
  // A reader does not wait, and knows what has joined.
  expect((await store.tally(cleanupOf())).queues).toMatchObject([{ pending: 4, paused: false }]);
  other.exec('commit');
  await Promise.all([paused, ...adding]);
  expect((await store.tally(cleanupOf())).queues).toMatchObject([{ pending: 6, paused: true }]);
  expect(faultsIn(db)).toEqual([]);
});

interface Side {
  readonly stores: readonly Store[];
  claims: Claimed[];
}

test.each([1, 2, 3, 4])('whatever is done, by whichever of three connections: seed %i', async (seed) => {
  const { clock, system, open, store, db } = await oneFile();
  const memory = await openStore(memoryStore(), { system });
  const sides: readonly Side[] = [
    { stores: [store, await open(), await open()], claims: [] },
    { stores: [memory, memory, memory], claims: [] },
  ];
  const { below } = seeded(seed);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
  const ids: string[] = [];
  const seen = { joined: 0, events: 0 };

  type Call = (store: Store, side: Side) => Promise<unknown>;
  const calls: (() => Call)[] = [
    () => {
      const jobs = Array.from({ length: pick([1, 1, 2, 6]) }, () =>
        next({
          queue: pick(['default', 'slow']),
          deduplication: pick(['none', 'none', 'coalesce', 'skip', 'replace']),
        }),
      );
      ids.push(...jobs.map(({ id }) => id));
      return (store) => store.insert(jobs, { atomic: false });
    },
    () => {
      const pair = [next(), next({ deduplication: pick(['coalesce', 'skip', 'replace']) })];
      return (store) => store.insert(pair, { atomic: false });
    },
    () => {
      const [slots, queues] = [1 + below(6), pick([null, ['default']])];
      return async (store, side) => {
        const claimed = await claim(store, { slots, queues });
        side.claims.push(claimed);
        return claimed.jobs;
      };
    },
    () => {
      const following = pick([[], [next()]]);
      return async (store, side) => {
        const first = side.claims.shift();
        if (!first) return null;
        const ending = { kind: 'complete', result: '1' } as const;
        const settlements = first.jobs.map(({ id }, n) => ({
          ...{ id, epoch: first.epoch, ending },
          ...(n === 0 && { then: following }),
        }));
        return (await store.settle({ owner: 'worker-1', settlements, started: [], next: null })).answers;
      };
    },
    () => {
      const filter = { ...noFilter, ids: [pick(ids)] };
      const how = pick([
        { kind: 'cancel', reason: 'stop', force: false } as const,
        { kind: 'remove', force: true } as const,
      ]);
      return (store) => store.move({ filter, move: how, dryRun: false, cursor: null, limit: 10 });
    },
    () => (store) => store.tally(cleanupOf()),
    () => (store) => store.countDue({ types: ['mail'], queues: null, limit: 1_000 }),
    () => (store) => store.readAudit({ cursor: null, limit: 1_000 }),
    () => async (store) =>
      (await store.find({ filter: { ...noFilter, states: ['pending'] }, cursor: null, limit: 9 })).jobs,
  ];
  async function both(by: number, call: Call): Promise<void> {
    const [ours, expected] = [await call(sides[0]!.stores[by]!, sides[0]!), await call(memory, sides[1]!)];
    expect(ours).toEqual(expected);
    expect(faultsIn(db)).toEqual([]);
  }

  for (let i = 0; i < 80; i++) {
    clock.now += below(2);
    const by = below(3);
    for (let n = below(10); n > 0; n--) {
      const job = next(n > 7 ? { policy: '{"backoff":null,"timeoutMs":1,"keep":{}}' } : {});
      ids.push(job.id);
      await both(by, (store) => add(store, job));
      if (Number(joined(db)) > 0) seen.joined += 1;
    }
    await both(below(3), pick(calls)());
  }
  expect(seen.joined).toBeGreaterThan(50);
  await both(below(3), async (store) => {
    let [told, cursor]: [unknown[], string] = [[], '1.0'];
    for (;;) {
      const answer = await store.readEvents({ after: cursor, limit: 1 + below(1) });
      if (answer.events.length === 0) return told;
      told = [...told, ...answer.events.map(({ cursor: _, ...event }) => event)];
      cursor = answer.cursor;
    }
  });
  expect(prepare(db, 'pragma integrity_check').get()).toEqual(['ok']);
});
