/** Jobs claimed beyond the free slots: a promise to start soon that costs the job nothing when it is not kept. */
import assert from 'node:assert/strict';
import { type Bench, claim, ending, leaseMs, storeCase } from './bench.js';

/** Claims one job to start and one ahead; the one ahead. */
async function claimAhead({ store, insert }: Bench): Promise<{ id: string; epoch: number; owner: string }> {
  await insert({ id: 'now' }, { id: 'soon' });
  const { jobs, epoch } = await claim(store, { slots: 1, ahead: 5 });
  assert.deepEqual(
    jobs.map(({ id }) => id),
    ['now', 'soon'],
  );
  return { id: 'soon', epoch, owner: 'worker-1' };
}

const dear = {
  'with an exclusive key': { exclusiveKey: 'x' },
  'with a timeout above one second': { policy: { timeoutMs: 1_001 } },
};

export const aheadCases = [
  storeCase('claim: jobs ahead come after those that start at once', async (bench) => {
    await claimAhead(bench);
    const { state, attempts, startedAt } = await bench.job('soon');
    assert.deepEqual({ state, attempts, startedAt }, { state: 'processing', attempts: 0, startedAt: null });
    assert.equal((await bench.job('now')).attempts, 1);
  }),
  storeCase('claim: slots and ahead together bound a claim', async ({ store, insert }) => {
    await insert({}, {}, {}, {});
    const { jobs, more } = await claim(store, { slots: 1, ahead: 2 });
    assert.deepEqual([jobs.length, more], [3, true]);
  }),
  storeCase('claim: a lapse does not charge a job ahead', async (bench) => {
    await claimAhead(bench);
    await bench.lapse();
    const { state, attempts, stalls } = await bench.job('soon');
    assert.deepEqual({ state, attempts, stalls }, { state: 'pending', attempts: 0, stalls: 0 });
    assert.equal((await bench.job('now')).stalls, 1);
  }),
  storeCase('claim: a lapsed job ahead goes back to its old place', async (bench) => {
    await claimAhead(bench);
    const { scheduledFor } = await bench.job('soon');
    await bench.lapse();
    assert.equal((await bench.job('soon')).scheduledFor, scheduledFor);
  }),
  storeCase('claim: a lapsed job ahead is never claimed ahead again', async (bench) => {
    await claimAhead(bench);
    await bench.settle({ id: 'now', epoch: (await bench.job('now')).epoch, owner: 'worker-1' }, ending.complete());
    await bench.lapse();
    assert.deepEqual(await bench.claimIds({ slots: 0, ahead: 5 }), []);
    assert.deepEqual(await bench.claimIds({ slots: 1 }), ['soon']);
  }),
  storeCase('claim: a stalled job is never claimed ahead', async ({ add, take, lapse, claimIds }) => {
    const id = await add();
    await take();
    await lapse();
    assert.deepEqual(await claimIds({ slots: 0, ahead: 5 }), []);
    assert.deepEqual(await claimIds({ slots: 1 }), [id]);
  }),
  ...Object.entries(dear).map(([which, sketch]) =>
    storeCase(`claim: a job ${which} is never claimed ahead`, async ({ store, insert, claimIds }) => {
      await insert({ id: 'a' }, { id: 'b', ...sketch });
      const { jobs, more } = await claim(store, { slots: 1, ahead: 5 });
      assert.deepEqual(
        jobs.map(({ id }) => id),
        ['a'],
      );
      assert.equal(more, true);
      assert.deepEqual(await claimIds({ slots: 1 }), ['b']);
    }),
  ),
  storeCase('claim: a job with a timeout of one second may be claimed ahead', async ({ add, claimIds }) => {
    const id = await add({ policy: { timeoutMs: 1_000 } });
    assert.deepEqual(await claimIds({ slots: 0, ahead: 1 }), [id]);
  }),
  storeCase('claim: no cheap job overtakes a dear one to be ahead', async ({ insert, claimIds }) => {
    await insert({ id: 'a' }, { id: 'b', exclusiveKey: 'x' }, { id: 'c' });
    assert.deepEqual(await claimIds({ slots: 1, ahead: 5 }), ['a']);
  }),
  storeCase('extend: a job ahead that is told to have begun is charged when it lapses', async (bench) => {
    const { id, epoch, owner } = await claimAhead(bench);
    await bench.store.extend({ owner, leaseMs, claims: [{ epoch, ids: ['now', id], started: [id] }], card: null });
    assert.equal((await bench.job(id)).attempts, 1);
    await bench.lapse();
    assert.equal((await bench.job(id)).stalls, 1);
  }),
  storeCase('settle: a job ahead that is told to have begun is charged when it lapses', async (bench) => {
    const { id, epoch, owner } = await claimAhead(bench);
    const settlements = [{ id: 'now', epoch, ending: ending.complete() }];
    await bench.store.settle({ owner, settlements, started: [{ id, epoch }], next: null });
    await bench.lapse();
    assert.equal((await bench.job(id)).stalls, 1);
  }),
  storeCase('settle: what a stranger tells to have begun is not charged', async (bench) => {
    const { id, epoch } = await claimAhead(bench);
    await bench.store.settle({ owner: 'stranger', settlements: [], started: [{ id, epoch }], next: null });
    await bench.lapse();
    assert.equal((await bench.job(id)).stalls, 0);
  }),
  storeCase('settle: a job ahead may complete like any other', async (bench) => {
    const hold = await claimAhead(bench);
    assert.equal(await bench.settle(hold, ending.complete()), 'ok');
    const { state, attempts, startedAt } = await bench.job(hold.id);
    assert.deepEqual({ state, attempts, startedAt }, { state: 'completed', attempts: 1, startedAt: bench.now() });
  }),
  storeCase('settle: a job ahead that is handed back keeps no trace of it', async (bench) => {
    const hold = await claimAhead(bench);
    await bench.settle(hold, ending.release());
    const { state, attempts, startedAt, stalls } = await bench.job(hold.id);
    assert.deepEqual(
      { state, attempts, startedAt, stalls },
      { state: 'pending', attempts: 0, startedAt: null, stalls: 0 },
    );
    assert.deepEqual(await bench.claimIds({ slots: 0, ahead: 1 }), [hold.id]);
  }),
];
