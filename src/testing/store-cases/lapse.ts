/** Lapsed claims: whose worker went silent comes back, and what keeps killing its workers ends. */
import assert from 'node:assert/strict';
import { type Bench, claim, ending, leaseMs, storeCase } from './bench.js';

/** Claims and lets lapse, as often as asked, waiting out what parts the job from its neighbours. */
async function stall({ advance, claimIds, lapse }: Bench, times: number, maxStalls: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    advance(30_000);
    assert.equal((await claimIds({ maxStalls })).length, 1);
    await lapse();
  }
}

export const lapseCases = [
  storeCase('sweep: a claim lapses when its lease ends and not a millisecond before', async (bench) => {
    const id = await bench.add();
    await bench.take();
    bench.advance(leaseMs - 1);
    assert.equal((await bench.tend()).lapsed, 0);
    assert.equal((await bench.job(id)).state, 'processing');
    bench.advance(1);
    assert.equal((await bench.tend()).lapsed, 1);
    assert.equal((await bench.job(id)).state, 'pending');
  }),
  storeCase('claim: takes over what lapsed, without a sweep', async ({ add, take, advance }) => {
    const id = await add();
    const first = await take();
    advance(leaseMs);
    const second = await take({ owner: 'worker-2' });
    assert.equal(second.id, id);
    assert.ok(second.epoch > first.epoch);
  }),
  storeCase('sweep: a lapse uses no attempt and counts a stall', async (bench) => {
    const id = await bench.add({ maxAttempts: 1 });
    await stall(bench, 1, 3);
    const { attempts, stalls, state } = await bench.job(id);
    assert.deepEqual({ attempts, stalls, state }, { attempts: 0, stalls: 1, state: 'pending' });
  }),
  storeCase('sweep: at the limit of stalls the job fails as STALLED', async (bench) => {
    const id = await bench.add();
    await stall(bench, 3, 3);
    const { state, stalls, completedAt } = await bench.job(id);
    assert.deepEqual({ state, stalls, completedAt }, { state: 'failed', stalls: 3, completedAt: bench.now() });
    assert.equal((await bench.error(id))?.code, 'STALLED');
  }),
  storeCase('sweep: one below the limit of stalls the job still runs', async (bench) => {
    const id = await bench.add();
    await stall(bench, 2, 3);
    assert.equal((await bench.job(id)).state, 'pending');
  }),
  storeCase('sweep: with maxStalls 1 the first lapse fails the job', async (bench) => {
    const id = await bench.add();
    await stall(bench, 1, 1);
    assert.equal((await bench.error(id))?.code, 'STALLED');
  }),
  storeCase('sweep: the first stall comes back in its old place', async ({ add, take, lapse, job }) => {
    const id = await add();
    const { scheduledFor } = await job(id);
    await take();
    await lapse();
    assert.equal((await job(id)).scheduledFor, scheduledFor);
  }),
  storeCase('sweep: from the second stall on the job comes back after up to 30 seconds', async (bench) => {
    await bench.insert(...Array.from({ length: 20 }, () => ({})));
    await bench.claimIds();
    await bench.lapse();
    await bench.claimIds();
    await bench.lapse();
    const jobs = await Promise.all((await bench.find()).map(bench.job));
    const delays = jobs.map(({ dueAt }) => dueAt! - bench.now());
    assert.ok(delays.every((delay) => delay >= 0 && delay <= 30_000));
    assert.ok(new Set(delays).size > 10, 'neighbours part');
  }),
  storeCase('sweep: all jobs of a lapsed claim come back', async (bench) => {
    await bench.insert({}, {}, {});
    await bench.claimIds();
    const { lapsed } = await bench.lapse();
    assert.equal(lapsed, 1);
    assert.equal((await bench.tally()).pending, 3);
  }),
  storeCase('sweep: what was settled before the lapse stays settled', async (bench) => {
    await bench.insert({ id: 'a' }, { id: 'b' });
    const { epoch } = await claim(bench.store);
    await bench.settle({ id: 'a', epoch, owner: 'worker-1' }, ending.complete());
    await bench.lapse();
    assert.equal((await bench.job('a')).state, 'completed');
    assert.equal((await bench.job('b')).state, 'pending');
  }),
  storeCase('sweep: a claim whose jobs are all settled does not lapse', async ({ add, take, settle, lapse }) => {
    await add();
    await settle(await take(), ending.complete());
    assert.equal((await lapse()).lapsed, 0);
  }),
  storeCase('sweep: many lapsed claims come back over several passes', async (bench) => {
    const count = 50;
    await bench.insert(...Array.from({ length: count }, () => ({})));
    for (let i = 0; i < count; i++) await bench.claimIds({ slots: 1 });
    let lapsed = (await bench.lapse()).lapsed;
    for (let more = true; more; ) {
      const swept = await bench.tend();
      lapsed += swept.lapsed;
      more = swept.more;
    }
    assert.equal(lapsed, count);
    assert.equal((await bench.tally()).pending, count);
  }),
  storeCase('extend: an extended claim does not lapse', async ({ store, add, take, advance, tend, job, now }) => {
    const id = await add();
    const { epoch, owner } = await take();
    advance(leaseMs - 1);
    const extended = await store.extend({ owner, leaseMs, claims: [{ epoch, ids: [id], started: [] }], card: null });
    assert.deepEqual(extended, { lost: [], cancelled: [] });
    assert.equal((await job(id)).dueAt, now() + leaseMs);
    advance(leaseMs - 1);
    assert.equal((await tend()).lapsed, 0);
  }),
  storeCase('extend: brings cancel requests with their reason', async ({ store, insert, claimIds, job, cancel }) => {
    await insert({ id: 'a' }, { id: 'b' });
    await claimIds();
    await cancel('b', { reason: 'trip deleted' });
    const { epoch } = await job('a');
    const claims = [{ epoch, ids: ['a', 'b'], started: [] }];
    assert.deepEqual(await store.extend({ owner: 'worker-1', leaseMs, claims, card: null }), {
      lost: [],
      cancelled: [{ id: 'b', reason: 'trip deleted' }],
    });
  }),
  storeCase('extend: several claims in one call are answered together', async ({ store, add, take, remove }) => {
    await add();
    const first = await take();
    await add();
    const second = await take();
    await remove(first.id, true);
    const claims = [first, second].map(({ id, epoch }) => ({ epoch, ids: [id], started: [] }));
    assert.deepEqual((await store.extend({ owner: 'worker-1', leaseMs, claims, card: null })).lost, [first.id]);
  }),
  storeCase(
    'extend: a settled job is lost to its claim, the others are not',
    async ({ store, insert, claimIds, job, settle }) => {
      await insert({ id: 'a' }, { id: 'b' });
      await claimIds();
      const { epoch } = await job('a');
      await settle({ id: 'a', epoch, owner: 'worker-1' }, ending.complete());
      const claims = [{ epoch, ids: ['a', 'b'], started: [] }];
      assert.deepEqual((await store.extend({ owner: 'worker-1', leaseMs, claims, card: null })).lost, ['a']);
    },
  ),
];
