import assert from 'node:assert/strict';
import { cleanupOf, ending, storeCase } from './bench.js';

export const pauseCases = [
  storeCase('pause: a paused queue gives no jobs, others do', async ({ store, insert, claimIds }) => {
    await insert({ id: 'a', queue: 'fast' }, { id: 'b', queue: 'slow' });
    await store.pause('fast', true);
    assert.deepEqual(await claimIds(), ['b']);
    assert.deepEqual(await claimIds({ queues: ['fast'] }), []);
  }),
  storeCase('pause: a resumed queue gives its jobs in their order', async ({ store, insert, claimIds }) => {
    await store.pause('default', true);
    await insert({ id: 'a' }, { id: 'b' });
    assert.deepEqual(await claimIds(), []);
    await store.pause('default', false);
    assert.deepEqual(await claimIds(), ['a', 'b']);
  }),
  storeCase('pause: all queues at once', async ({ store, insert, claimIds }) => {
    await insert({ queue: 'fast' }, { queue: 'slow' });
    await store.pause(null, true);
    assert.deepEqual(await claimIds(), []);
  }),
  storeCase('pause: resuming all lifts single pauses too', async ({ store, insert, claimIds }) => {
    await insert({ id: 'a', queue: 'fast' }, { id: 'b', queue: 'slow' });
    await store.pause('fast', true);
    await store.pause(null, true);
    await store.pause(null, false);
    assert.deepEqual(await claimIds(), ['a', 'b']);
  }),
  storeCase('pause: a queue that is resumed by its name runs while all others are paused', async (bench) => {
    const { store, insert, claimIds, tally } = bench;
    await insert({ id: 'a', queue: 'fast' }, { id: 'b', queue: 'slow' }, { id: 'c', queue: 'fast' });
    await store.pause('fast', true);
    await store.pause(null, true);
    await store.pause('fast', false);
    assert.deepEqual(await claimIds({ queues: ['slow'] }), []);
    assert.deepEqual(await claimIds({ queues: ['slow', 'fast'], slots: 1 }), ['a']);
    assert.deepEqual(await claimIds(), ['c']);
    assert.deepEqual([(await tally('fast')).paused, (await tally('slow')).paused], [false, true]);
    assert.equal((await store.tally(cleanupOf())).paused, false);
    const why = async (id: string) => (await store.readWhy(id))?.paused;
    assert.deepEqual([await why('a'), await why('b')], [false, true]);
  }),
  storeCase('pause: a queue that runs alone is told of, also without jobs', async ({ store }) => {
    await store.pause(null, true);
    assert.equal((await store.tally(cleanupOf())).paused, true);
    await store.pause('empty', false);
    const { queues, paused } = await store.tally(cleanupOf());
    assert.deepEqual([queues.map(({ queue, paused }) => [queue, paused]), paused], [[['empty', false]], false]);
  }),
  storeCase('pause: a queue that runs alone stops by its name, and with all', async ({ store, insert, claimIds }) => {
    await insert({ id: 'a', queue: 'fast' }, { id: 'b', queue: 'slow' });
    await store.pause(null, true);
    await store.pause('fast', false);
    await store.pause('fast', true);
    assert.deepEqual(await claimIds(), []);
    await store.pause('fast', false);
    await store.pause(null, true);
    assert.deepEqual(await claimIds(), []);
    await store.pause(null, false);
    assert.deepEqual(await claimIds(), ['a', 'b']);
  }),
  storeCase(
    'pause: a queue that was resumed while none was paused is paused with all',
    async ({ store, add, claimIds }) => {
      await add();
      await store.pause('default', false);
      await store.pause(null, true);
      assert.deepEqual(await claimIds(), []);
    },
  ),
  storeCase('pause: a job of the library goes on while all queues are paused', async ({ store, insert, claimIds }) => {
    await insert({ id: 'a', queue: 'lastout' }, { id: 'b' });
    await store.pause(null, true);
    assert.deepEqual(await claimIds(), ['a']);
    await insert({ id: 'c', queue: 'lastout' });
    await store.pause('lastout', true);
    await store.pause('default', false);
    assert.deepEqual(await claimIds(), ['b']);
    await store.pause('lastout', false);
    assert.deepEqual(await claimIds(), ['c']);
  }),
  storeCase('pause: twice is once', async ({ store, add, claimIds }) => {
    const id = await add();
    await store.pause('default', true);
    await store.pause('default', true);
    await store.pause('default', false);
    assert.deepEqual(await claimIds(), [id]);
  }),
  storeCase('pause: stops neither inserts nor what runs', async ({ store, add, take, settle, insert, job }) => {
    const id = await add();
    const hold = await take();
    await store.pause('default', true);
    assert.equal((await insert({}))[0]?.outcome, 'created');
    assert.equal(await settle(hold, ending.complete()), 'ok');
    assert.equal((await job(id)).state, 'completed');
  }),
  storeCase('pause: a settle carries no claim out of a paused queue', async ({ store, add, take }) => {
    await add();
    const { id, epoch, owner } = await take();
    await add();
    await store.pause('default', true);
    const next = { owner, types: ['mail'], queues: null, slots: 5, ahead: 5, leaseMs: 1_000, maxStalls: 3 };
    const { claimed } = await store.settle({
      owner,
      settlements: [{ id, epoch, ending: ending.complete() }],
      started: [],
      next,
    });
    assert.deepEqual(claimed?.jobs, []);
  }),
  storeCase('pause: jobs of a paused queue still expire and lapsed claims still come back', async (bench) => {
    const running = await bench.add();
    await bench.take();
    const waiting = await bench.add({ ttlMs: 1_000 });
    await bench.store.pause('default', true);
    await bench.lapse();
    assert.deepEqual([(await bench.job(running)).state, (await bench.job(waiting)).state], ['pending', 'expired']);
  }),
  storeCase('pause: the tally shows it, also for a queue without jobs', async ({ store, add, tally }) => {
    await add();
    await store.pause('empty', true);
    assert.deepEqual([(await tally('empty')).paused, (await tally()).paused], [true, false]);
    await store.pause(null, true);
    assert.equal((await tally()).paused, true);
    await store.pause(null, false);
    assert.deepEqual([(await tally('empty')).paused, (await tally()).paused], [false, false]);
  }),
];
