/** Sweep: ttl, and retention by age, by count and by the cap. */
import assert from 'node:assert/strict';
import type { FinishedState } from '../../core/job.js';
import { type Bench, cleanupOf, completed, ending, type JobSketch, storeCase, sweepOnce } from './bench.js';

const finish: { readonly [S in FinishedState]: (bench: Bench) => Promise<string> } = {
  completed: async (bench) => (await completed(bench, 1))[0]!,
  async failed({ add, take, settle }) {
    const id = await add();
    await settle(await take(), ending.fail());
    return id;
  },
  async cancelled({ add, cancel }) {
    const id = await add();
    await cancel(id);
    return id;
  },
  async expired({ add, advance, tend }) {
    const id = await add({ ttlMs: 1 });
    advance(1);
    await tend();
    return id;
  },
};

const ttl = [
  storeCase(
    'sweep: a pending job past its ttl reads as expired at once',
    async ({ add, advance, job, error, find }) => {
      const id = await add({ ttlMs: 1_000 });
      advance(1_000);
      const { state, completedAt, expiresAt, dueAt } = await job(id);
      assert.deepEqual({ state, completedAt, dueAt }, { state: 'expired', completedAt: expiresAt, dueAt: null });
      assert.equal((await error(id))?.code, 'EXPIRED');
      assert.deepEqual([await find({ states: ['expired'] }), await find({ states: ['pending'] })], [[id], []]);
    },
  ),
  storeCase('sweep: swept late, an expired job reads as it did before', async ({ add, advance, job, tend }) => {
    const id = await add({ ttlMs: 1_000, delay: 500 });
    advance(60_000);
    const before = await job(id);
    assert.equal((await tend()).expired, 1);
    assert.deepEqual(await job(id), before);
    assert.equal((await tend()).expired, 0);
  }),
  storeCase('sweep: one millisecond before its ttl a job stays', async ({ add, advance, tend, job }) => {
    const id = await add({ ttlMs: 1_000 });
    advance(999);
    assert.equal((await tend()).expired, 0);
    assert.equal((await job(id)).state, 'pending');
  }),
  storeCase('sweep: tending alone removes nothing', async (bench) => {
    const [id] = await completed(bench, 1);
    bench.advance(365 * 86_400_000);
    const swept = await bench.tend();
    assert.deepEqual(swept.removedBy, { age: 0, count: 0, cap: 0 });
    assert.ok(await bench.exists(id!));
  }),
  storeCase('sweep: makes due what became due, so that a tally need not wait for a claim', async (bench) => {
    await bench.add({ delay: 1_000 });
    bench.advance(1_000);
    await bench.tend();
    const { pending, delayed } = await bench.tally();
    assert.deepEqual({ pending, delayed }, { pending: 1, delayed: 0 });
  }),
];

const age = [
  ...Object.entries(finish).map(([state, make]) =>
    storeCase(`sweep: a ${state} job goes when it is older than the retention, and not before`, async (bench) => {
      const id = await make(bench);
      const { completedAt } = await bench.job(id);
      bench.advance(completedAt! + 5_000 - bench.now());
      assert.equal((await bench.cleanUp({ jobRetentionMs: 5_000 })).age, 0);
      assert.ok(await bench.exists(id), 'at exactly the age it stays');
      bench.advance(1);
      assert.equal((await bench.cleanUp({ jobRetentionMs: 5_000 })).age, 1);
      assert.equal(await bench.exists(id), false);
    }),
  ),
  storeCase(
    'sweep: age counts from the end of a job, not from its start',
    async ({ add, take, settle, advance, cleanUp, exists }) => {
      const id = await add();
      const hold = await take({ leaseMs: 100_000 });
      advance(50_000);
      await settle(hold, ending.complete());
      await cleanUp({ jobRetentionMs: 5_000 });
      assert.ok(await exists(id));
    },
  ),
  storeCase('sweep: without useCompletedTime age counts from the insertion', async (bench) => {
    const id = await bench.add();
    const hold = await bench.take({ leaseMs: 100_000 });
    bench.advance(5_000);
    await bench.settle(hold, ending.complete());
    const policy = { jobRetentionMs: 5_000, useCompletedTime: false };
    assert.equal((await bench.cleanUp(policy)).age, 0);
    bench.advance(1);
    assert.equal((await bench.cleanUp(policy)).age, 1);
    assert.equal(await bench.exists(id), false);
  }),
  storeCase('sweep: an own age replaces the retention', async (bench) => {
    const [short] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 1_000 } } } });
    const [long] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 60_000 } } } });
    bench.advance(10_000);
    await bench.cleanUp({ jobRetentionMs: 5_000 });
    assert.deepEqual([await bench.exists(short!), await bench.exists(long!)], [false, true]);
  }),
  storeCase('sweep: an own age is strict too, and counts from the end', async (bench) => {
    const [id] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 1_000 } } } });
    bench.advance(999);
    await bench.cleanUp({ useCompletedTime: false });
    assert.ok(await bench.exists(id!));
    bench.advance(1);
    await bench.cleanUp({ useCompletedTime: false });
    assert.equal(await bench.exists(id!), false);
  }),
  storeCase('sweep: an own age holds for its state only', async ({ add, take, settle, advance, cleanUp, exists }) => {
    const id = await add({ policy: { keep: { completed: { ageMs: 60_000 } } } });
    await settle(await take(), ending.fail());
    advance(10_000);
    await cleanUp({ jobRetentionMs: 5_000 });
    assert.equal(await exists(id), false);
  }),
  storeCase('sweep: an own age of 0 goes at the first sweep after the end', async (bench) => {
    const [id] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 0 } } } });
    assert.equal((await bench.cleanUp()).age, 1);
    assert.equal(await bench.exists(id!), false);
  }),
  storeCase('sweep: what is kept for ever is not removed by age', async (bench) => {
    const [id] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: null } } } });
    bench.advance(3_650 * 86_400_000);
    assert.equal((await bench.cleanUp({ jobRetentionMs: 0 })).age, 0);
    assert.ok(await bench.exists(id!));
  }),
];

const counted = (count: number): JobSketch => ({ policy: { keep: { completed: { count } } } });

const count = [
  storeCase('sweep: an own count keeps the newest of its type and state', async (bench) => {
    const ids = await completed(bench, 5, counted(2));
    const others = await completed(bench, 3, { type: 'sms' });
    assert.equal((await bench.cleanUp()).count, 3);
    assert.deepEqual((await bench.find({ types: ['mail'] })).toReversed(), ids.slice(3));
    assert.equal((await bench.find({ types: ['sms'] })).length, others.length);
  }),
  storeCase('sweep: exactly the count stays', async (bench) => {
    await completed(bench, 2, counted(2));
    assert.equal((await bench.cleanUp()).count, 0);
  }),
  storeCase('sweep: a count of 0 keeps none', async (bench) => {
    await completed(bench, 2, counted(0));
    assert.equal((await bench.cleanUp()).count, 2);
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('sweep: a count leaves other states alone', async (bench) => {
    await completed(bench, 1, counted(0));
    const failed = await finish.failed(bench);
    await bench.cleanUp();
    assert.deepEqual(await bench.find(), [failed]);
  }),
];

const cap = [
  storeCase('sweep: the cap removes exactly the excess, oldest end first', async (bench) => {
    const ids = await completed(bench, 6);
    assert.equal((await bench.cleanUp({ maxStoredJobs: 4 })).cap, 2);
    assert.deepEqual((await bench.find()).toReversed(), ids.slice(2));
  }),
  storeCase(
    'sweep: the cap goes by the end, not by the insertion',
    async ({ insert, advance, take, settle, cleanUp, find }) => {
      await insert({ id: 'a', priority: 1 }, { id: 'b' });
      for (let i = 0; i < 2; i++) {
        await settle(await take({ slots: 1 }), ending.complete());
        advance(1);
      }
      await cleanUp({ maxStoredJobs: 1 });
      assert.deepEqual(await find(), ['a']);
    },
  ),
  storeCase('sweep: exactly the cap stays', async (bench) => {
    await completed(bench, 4);
    assert.equal((await bench.cleanUp({ maxStoredJobs: 4 })).cap, 0);
  }),
  storeCase('sweep: the cap counts live jobs and removes finished ones only', async (bench) => {
    await completed(bench, 3);
    await bench.insert({ id: 'p' }, { id: 'q' });
    await bench.take({ slots: 1 });
    assert.equal((await bench.cleanUp({ maxStoredJobs: 3 })).cap, 2);
    assert.equal((await bench.find()).length, 3);
    assert.equal((await bench.cleanUp({ maxStoredJobs: 0 })).cap, 1);
    assert.deepEqual(await bench.find(), ['q', 'p']);
  }),
  storeCase('sweep: the cap takes only what is left after the age rule', async (bench) => {
    await completed(bench, 3);
    bench.advance(10_000);
    await completed(bench, 3);
    assert.deepEqual(await bench.cleanUp({ jobRetentionMs: 5_000, maxStoredJobs: 2 }), { age: 3, count: 0, cap: 1 });
  }),
  storeCase('sweep: the cap also takes what is kept for ever or by an own age', async (bench) => {
    const [first] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: null } } } });
    const [second] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 99_000 } } } });
    const [third] = await completed(bench, 1);
    await bench.cleanUp({ maxStoredJobs: 1 });
    assert.deepEqual(
      [await bench.exists(first!), await bench.exists(second!), await bench.exists(third!)],
      [false, false, true],
    );
  }),
];

const bounded = [
  storeCase('sweep: live jobs are never removed', async (bench) => {
    await bench.insert({ id: 'a' }, { id: 'b', delay: 400 * 86_400_000 });
    await bench.take({ leaseMs: 900 * 86_400_000 });
    bench.advance(300 * 86_400_000);
    await bench.cleanUp({ jobRetentionMs: 0, maxStoredJobs: 0 });
    assert.deepEqual(await bench.find(), ['b', 'a']);
  }),
  storeCase('sweep: each call is bounded and says that there is more', async (bench) => {
    await completed(bench, 5);
    bench.advance(10_000);
    const request = { limit: 2, cleanup: cleanupOf({ jobRetentionMs: 1_000 }) };
    const first = await bench.store.sweep(request);
    assert.deepEqual([first.removedBy.age, first.more], [2, true]);
    assert.equal((await bench.find()).length, 3);
    let passes = 1;
    for (let more = first.more; more; passes++) ({ more } = await bench.store.sweep(request));
    assert.deepEqual([await bench.find(), passes <= 4], [[], true]);
  }),
  storeCase('sweep: the cap takes only the excess that the age rule left, whatever the limit', async (bench) => {
    // Two of one type are past their own age, and younger than the three that the cap would take first.
    const old = await completed(bench, 3);
    await completed(bench, 2, { type: 'sms', policy: { keep: { completed: { ageMs: 1 } } } });
    bench.advance(10);
    for (let more = true; more; ) {
      const swept = await sweepOnce(bench.store, { limit: 1, maxStoredJobs: 3 });
      assert.equal(swept.removedBy.cap, 0);
      more = swept.more;
    }
    assert.deepEqual(await bench.find(), old.toReversed());
  }),
  storeCase('sweep: the cap takes only the excess that the count rule left, whatever the limit', async (bench) => {
    const old = await completed(bench, 3);
    await completed(bench, 3, { type: 'sms', policy: { keep: { completed: { count: 1 } } } });
    for (let more = true; more; ) {
      const swept = await sweepOnce(bench.store, { limit: 1, maxStoredJobs: 4 });
      assert.equal(swept.removedBy.cap, 0);
      more = swept.more;
    }
    assert.deepEqual((await bench.find()).slice(1), old.toReversed());
  }),
  storeCase('sweep: count rules remove the same jobs, whatever the limit', async (bench) => {
    const ids: string[] = [];
    for (const count of [4, 1, 3, 6, 1]) {
      const policy = { keep: { completed: { count } } };
      ids.push(...(await completed(bench, 1, { policy })), ...(await completed(bench, 1)));
    }
    const sum = { count: 0 };
    for (let more = true; more; ) {
      const swept = await sweepOnce(bench.store, { limit: 1 });
      sum.count += swept.removedBy.count;
      more = swept.more;
    }
    // Ranks, from the newest: 9, 7, 5, 3 and 1 have the rules 4, 1, 3, 6 and 1.
    assert.deepEqual([sum.count, await bench.find()], [4, [9, 7, 6, 5, 3, 1].map((at) => ids[at])]);
  }),
  storeCase('sweep: a bounded cap ends with exactly the cap', async (bench) => {
    await completed(bench, 7);
    for (let more = true; more; )
      ({ more } = await bench.store.sweep({
        limit: 2,
        cleanup: cleanupOf({ maxStoredJobs: 3 }),
      }));
    assert.equal((await bench.find()).length, 3);
  }),
  storeCase(
    'sweep: a removed job takes its log lines along',
    async ({ store, add, take, note, settle, advance, cleanUp }) => {
      const id = await add();
      const hold = await take();
      await note(hold, { lines: ['hello'] });
      await settle(hold, ending.complete());
      assert.equal((await store.readLines(id)).length, 1);
      advance(10);
      await cleanUp({ jobRetentionMs: 1 });
      assert.deepEqual(await store.readLines(id), []);
    },
  ),
  storeCase('sweep: nothing to do is said so', async ({ store }) => {
    const swept = await store.sweep({ limit: 10, cleanup: cleanupOf() });
    assert.deepEqual(swept, {
      examined: 0,
      lapsed: 0,
      expired: 0,
      fenced: 0,
      removedBy: { age: 0, count: 0, cap: 0 },
      owing: [],
      dueThings: [],
      more: false,
    });
  }),
];

export const sweepCases = [...ttl, ...age, ...count, ...cap, ...bounded];
