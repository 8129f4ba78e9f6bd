import assert from 'node:assert/strict';
import { claim, ending, leaseMs, storeCase } from './bench.js';

const ids = (jobs: readonly { readonly id: string }[]): string[] => jobs.map(({ id }) => id);

const order = [
  storeCase('claim: the lower priority first', async ({ insert, claimIds }) => {
    await insert({ id: 'c', priority: 5 }, { id: 'b', priority: 0 }, { id: 'a', priority: -1_000 });
    assert.deepEqual(await claimIds(), ['a', 'b', 'c']);
  }),
  storeCase('claim: of one priority the earlier due first', async ({ insert, advance, claimIds }) => {
    await insert({ id: 'b', delay: 20 }, { id: 'a', delay: 10 });
    advance(30);
    assert.deepEqual(await claimIds(), ['a', 'b']);
  }),
  storeCase('claim: of one due time in the order of insertion', async ({ insert, claimIds }) => {
    await insert({ id: 'z' }, { id: 'a' });
    await insert({ id: 'm' });
    assert.deepEqual(await claimIds(), ['z', 'a', 'm']);
  }),
  storeCase('claim: lanes are merged strictly', async ({ insert, advance, claimIds }) => {
    await insert(
      { id: 'd', type: 'sms', queue: 'slow', priority: 1 },
      { id: 'b', type: 'mail', queue: 'slow', delay: 1 },
      { id: 'a', type: 'sms', queue: 'fast' },
      { id: 'c', type: 'mail', queue: 'fast', delay: 1 },
      { id: 'e', type: 'mail', queue: 'fast', priority: 2 },
    );
    advance(1);
    assert.deepEqual(await claimIds({ types: ['mail', 'sms'] }), ['a', 'b', 'c', 'd', 'e']);
  }),
  storeCase('claim: lanes stay merged over several claims', async ({ insert, claimIds }) => {
    const names = Array.from({ length: 12 }, (_, i) => `job-${String.fromCharCode(97 + i)}`);
    await insert(...names.map((id, i) => ({ id, type: i % 3 === 0 ? 'sms' : 'mail', queue: i % 2 === 0 ? 'x' : 'y' })));
    const claimed: string[] = [];
    for (let i = 0; i < 4; i++) claimed.push(...(await claimIds({ types: ['mail', 'sms'], slots: 3 })));
    assert.deepEqual(claimed, names);
  }),
];

const lanes = [
  storeCase('claim: only the asked types', async ({ insert, claimIds }) => {
    await insert({ id: 'a' }, { id: 'b', type: 'sms' });
    assert.deepEqual(await claimIds({ types: ['sms'] }), ['b']);
  }),
  storeCase('claim: only the asked queues', async ({ insert, claimIds }) => {
    await insert({ id: 'a', queue: 'fast' }, { id: 'b', queue: 'slow' });
    assert.deepEqual(await claimIds({ queues: ['slow'] }), ['b']);
    assert.deepEqual(await claimIds({ queues: ['none'] }), []);
  }),
  storeCase('claim: a lane that is asked for twice gives each job once', async ({ insert, claimIds }) => {
    await insert({ id: 'a' }, { id: 'b' });
    assert.deepEqual(await claimIds({ types: ['mail', 'mail'], queues: ['default', 'default'] }), ['a', 'b']);
  }),
];

const limits = [
  storeCase('claim: at most the free slots, and more says that there is more', async ({ store, insert }) => {
    await insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    const first = await claim(store, { slots: 2 });
    assert.deepEqual([ids(first.jobs), first.more], [['a', 'b'], true]);
    const second = await claim(store, { slots: 2 });
    assert.deepEqual([ids(second.jobs), second.more], [['c'], false]);
  }),
  storeCase('claim: more is false when exactly all were taken', async ({ store, insert }) => {
    await insert({}, {});
    assert.equal((await claim(store, { slots: 2 })).more, false);
  }),
  storeCase('claim: no slots claim nothing', async ({ store, add, job }) => {
    const id = await add();
    assert.deepEqual((await claim(store, { slots: 0 })).jobs, []);
    assert.equal((await job(id)).state, 'pending');
  }),
  storeCase('claim: no job is given twice', async ({ add, claimIds }) => {
    const id = await add();
    assert.deepEqual(await claimIds({ owner: 'worker-1' }), [id]);
    assert.deepEqual(await claimIds({ owner: 'worker-2' }), []);
  }),
  storeCase('claim: concurrent claims share the jobs out', async ({ store, insert }) => {
    await insert(...Array.from({ length: 20 }, () => ({})));
    const claims = await Promise.all(
      Array.from({ length: 10 }, (_, i) => claim(store, { owner: `worker-${i}`, slots: 3 })),
    );
    const claimed = claims.flatMap(({ jobs }) => ids(jobs));
    assert.equal(claimed.length, 20);
    assert.equal(new Set(claimed).size, 20);
  }),
];

const shown = [
  storeCase('claim: a claimed job is processing until its lease ends', async ({ store, add, job, now }) => {
    const id = await add();
    const { jobs, epoch } = await claim(store);
    const expected = { state: 'processing', dueAt: now() + leaseMs, attempts: 1, startedAt: now(), epoch };
    for (const { state, dueAt, attempts, startedAt, epoch: at } of [jobs[0]!, await job(id)])
      assert.deepEqual({ state, dueAt, attempts, startedAt, epoch: at }, expected);
  }),
  storeCase('claim: a claimed job comes with all that its handler needs', async ({ store, insert, job }) => {
    await insert({ id: 'a', subject: 'trip:1', metadata: '{"m":1}', input: '{"deep":[{}]}', policy: { timeoutMs: 9 } });
    const { jobs } = await claim(store);
    assert.deepEqual(jobs, [await job('a')]);
  }),
  storeCase('claim: epochs only grow', async ({ store, add, take, settle }) => {
    await add();
    let last = 0;
    for (let i = 0; i < 5; i++) {
      const hold = await take();
      assert.ok(hold.epoch > last);
      last = hold.epoch;
      await settle(hold, ending.snooze(0));
    }
    await add();
    assert.ok((await claim(store, { slots: 1 })).epoch > last);
  }),
  storeCase('claim: two claims never have the same epoch', async ({ store, insert }) => {
    await insert({}, {});
    const [a, b] = [await claim(store, { slots: 1 }), await claim(store, { slots: 1, owner: 'worker-2' })];
    assert.notEqual(a.epoch, b.epoch);
  }),
  storeCase('claim: startedAt stays that of the first attempt', async ({ add, take, settle, advance, job, now }) => {
    const id = await add();
    const first = now();
    await settle(await take(), ending.retry(0));
    advance(5_000);
    await settle(await take(), ending.complete());
    assert.equal((await job(id)).startedAt, first);
  }),
];

const delayed = [
  storeCase('claim: a delayed job is claimed when it is due and not a millisecond before', async (bench) => {
    const id = await bench.add({ delay: 1_000 });
    bench.advance(999);
    assert.deepEqual(await bench.claimIds(), []);
    bench.advance(1);
    assert.deepEqual(await bench.claimIds(), [id]);
  }),
  storeCase('claim: a promoted job keeps its place by due time', async ({ insert, advance, claimIds }) => {
    await insert({ id: 'b', delay: 1_000 });
    advance(2_000);
    await insert({ id: 'c' });
    assert.deepEqual(await claimIds(), ['b', 'c']);
  }),
  storeCase('claim: nextDueInMs tells when the next delayed job is due', async ({ store, insert, advance }) => {
    await insert({ delay: 5_000 }, { delay: 3_000 });
    assert.equal((await claim(store)).nextDueInMs, 3_000);
    advance(1_000);
    assert.equal((await claim(store)).nextDueInMs, 2_000);
    advance(2_000);
    assert.equal((await claim(store)).nextDueInMs, 2_000);
  }),
  storeCase('claim: nextDueInMs is null when nothing waits', async ({ store, add }) => {
    assert.equal((await claim(store)).nextDueInMs, null);
    await add();
    assert.equal((await claim(store)).nextDueInMs, null);
  }),
  storeCase('claim: a snoozed job is promoted like any other', async ({ add, take, settle, advance, claimIds }) => {
    const id = await add();
    await settle(await take(), ending.snooze(2_000));
    assert.deepEqual(await claimIds(), []);
    advance(2_000);
    assert.deepEqual(await claimIds(), [id]);
  }),
];

const ttl = [
  storeCase('claim: a job past its ttl is never given out', async ({ add, advance, claimIds, job }) => {
    const id = await add({ ttlMs: 1_000 });
    advance(1_000);
    assert.deepEqual(await claimIds(), []);
    assert.equal((await job(id)).state, 'expired');
  }),
  storeCase('claim: one millisecond before its ttl a job is given out', async ({ add, advance, claimIds }) => {
    const id = await add({ ttlMs: 1_000 });
    advance(999);
    assert.deepEqual(await claimIds(), [id]);
  }),
  storeCase('claim: jobs past their ttl do not use up slots', async ({ insert, advance, claimIds }) => {
    await insert(...Array.from({ length: 10 }, () => ({ ttlMs: 1_000 })));
    advance(1_000);
    await insert({ id: 'a' }, { id: 'b' });
    assert.deepEqual(await claimIds({ slots: 2 }), ['a', 'b']);
  }),
  storeCase('claim: a running job does not expire', async ({ add, take, settle, advance, tend, job }) => {
    const id = await add({ ttlMs: 1_000 });
    const hold = await take();
    advance(10_000);
    await tend();
    assert.equal((await job(id)).state, 'processing');
    assert.equal(await settle(hold, ending.complete()), 'ok');
  }),
  ...Object.entries({ 'a retry': ending.retry(5_000), 'a snooze': ending.snooze(5_000) }).map(([what, how]) =>
    storeCase(`claim: the ttl goes on while a job waits after ${what}`, async (bench) => {
      const id = await bench.add({ ttlMs: 3_000 });
      await bench.settle(await bench.take(), how);
      assert.equal((await bench.job(id)).state, 'pending');
      bench.advance(3_000);
      const { state, completedAt, expiresAt } = await bench.job(id);
      assert.deepEqual({ state, completedAt }, { state: 'expired', completedAt: expiresAt });
      bench.advance(3_000);
      assert.deepEqual(await bench.claimIds(), []);
    }),
  ),
  ...Object.entries({
    retry: ending.retry(0),
    snooze: ending.snooze(0),
    release: ending.release(),
  }).map(([what, how]) =>
    storeCase(
      `settle: ${what} past the ttl ends the job as expired`,
      async ({ add, take, settle, advance, job, error }) => {
        const id = await add({ ttlMs: 1_000 });
        const hold = await take();
        advance(1_000);
        await settle(hold, how);
        assert.equal((await job(id)).state, 'expired');
        assert.equal((await error(id))?.code, 'EXPIRED');
      },
    ),
  ),
  storeCase(
    'settle: past the ttl the job ends in this step, and at the end of its run',
    async ({ add, take, settle, advance, job, now, watch }) => {
      const id = await add({ ttlMs: 1_000 });
      const hold = await take();
      advance(1_500);
      const news = await watch();
      await settle(hold, ending.snooze(0));
      assert.equal((await job(id)).completedAt, now());
      assert.deepEqual((await news()).map(({ name }) => name).at(-1), 'expired');
    },
  ),
  storeCase('settle: another run starts the ttl anew', async ({ add, insert, take, settle, advance, job, now }) => {
    const id = await add({ ttlMs: 1_000, key: 'k', deduplication: 'coalesce' });
    const hold = await take();
    await insert({ key: 'k', deduplication: 'coalesce' });
    advance(5_000);
    await settle(hold, ending.complete());
    const { state, expiresAt } = await job(id);
    assert.deepEqual({ state, expiresAt }, { state: 'pending', expiresAt: now() + 1_000 });
  }),
];

export const claimCases = [...order, ...lanes, ...limits, ...shown, ...delayed, ...ttl];
