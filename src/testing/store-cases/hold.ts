/** Holds: what is held is not removed, by whatever path. */
import assert from 'node:assert/strict';
import { farAway, type MoveOutcome } from '../../core/store.js';
import { type Bench, cleanupOf, completed, ending, storeCase, sweepOnce } from './bench.js';

/** A job in each of the states in which it can be held. */
const inState: { readonly [state: string]: (bench: Bench) => Promise<string> } = {
  pending: (bench) => bench.add(),
  'pending and delayed': (bench) => bench.add({ delay: 60_000 }),
  processing: async (bench) => {
    await bench.add();
    return (await bench.take()).id;
  },
  finished: async (bench) => (await completed(bench, 1))[0]!,
};

const holding = [
  ...Object.entries(inState).map(([state, make]) =>
    storeCase(`move: a job that is ${state} is held, shown as held, and released`, async (bench) => {
      const id = await make(bench);
      const before = await bench.job(id);
      assert.equal(await bench.hold(id, bench.now() + 5_000, 'for the auditor'), 'held');
      const held = { heldUntil: bench.now() + 5_000, heldReason: 'for the auditor' };
      assert.deepEqual(await bench.job(id), { ...before, ...held });
      assert.deepEqual([await bench.remove(id), await bench.remove(id, true)], ['held', 'held']);
      assert.equal(await bench.unhold(id), 'released');
      assert.deepEqual(await bench.job(id), before);
      assert.equal(await bench.unhold(id), 'not_held');
      assert.equal(await bench.remove(id, true), 'removed');
    }),
  ),
  storeCase('move: a hold without an end is for ever', async (bench) => {
    const id = await bench.add();
    await bench.hold(id);
    assert.equal((await bench.job(id)).heldUntil, farAway);
  }),
  storeCase('move: a second hold replaces the first', async (bench) => {
    const [id] = await completed(bench, 1);
    await bench.hold(id!);
    await bench.hold(id!, bench.now() + 10, 'shorter');
    const { heldUntil, heldReason } = await bench.job(id!);
    assert.deepEqual({ heldUntil, heldReason }, { heldUntil: bench.now() + 10, heldReason: 'shorter' });
    bench.advance(10);
    await bench.tend();
    assert.equal((await bench.job(id!)).heldUntil, null);
  }),
  storeCase('move: a dry run holds and releases nothing', async (bench) => {
    const [free, held] = [await bench.add(), await bench.add()];
    await bench.hold(held);
    const outcomes = [
      ...(await bench.move([free], { kind: 'hold', reason: 'no', until: null }, true)),
      ...(await bench.move([held], { kind: 'unhold' }, true)),
      ...(await bench.move([free], { kind: 'unhold' }, true)),
      ...(await bench.move([held], { kind: 'remove', force: true }, true)),
    ].map(({ outcome }) => outcome);
    assert.deepEqual(outcomes, ['held', 'released', 'not_held', 'held']);
    assert.deepEqual([(await bench.job(free)).heldUntil, (await bench.job(held)).heldUntil], [null, farAway]);
  }),
  storeCase('move: a held job runs, ends, is cancelled and retried like any other', async (bench) => {
    const [ran, stopped] = [await bench.add(), await bench.add({ delay: 60_000 })];
    for (const id of [ran, stopped]) await bench.hold(id);
    assert.equal(await bench.settle(await bench.take(), ending.complete()), 'ok');
    assert.equal(await bench.cancel(stopped), 'cancelled');
    const [retried] = await bench.move([ran], { kind: 'retry', newIds: ['again'] });
    assert.deepEqual([retried?.outcome, (await bench.job('again')).heldUntil], ['retried', null]);
    assert.deepEqual([(await bench.job(ran)).state, (await bench.job(ran)).heldUntil], ['completed', farAway]);
  }),
];

const sweeping = [
  storeCase('sweep: a held job is not removed by age', async (bench) => {
    const [plain, own] = [
      ...(await completed(bench, 1)),
      ...(await completed(bench, 1, { policy: { keep: { completed: { ageMs: 5 } } } })),
    ];
    for (const id of [plain!, own!]) await bench.hold(id);
    bench.advance(1_000);
    for (const useCompletedTime of [true, false])
      assert.deepEqual(await bench.cleanUp({ jobRetentionMs: 10, useCompletedTime }), { age: 0, count: 0, cap: 0 });
    for (const id of [plain!, own!]) await bench.unhold(id);
    assert.deepEqual(await bench.cleanUp({ jobRetentionMs: 10 }), { age: 2, count: 0, cap: 0 });
  }),
  storeCase('sweep: a held job is not removed by count, and takes no rank', async (bench) => {
    const policy = { keep: { completed: { count: 1 } } };
    const [older, middle, newer] = await completed(bench, 3, { policy });
    await bench.hold(older!);
    await bench.hold(newer!);
    assert.deepEqual(await bench.cleanUp(), { age: 0, count: 0, cap: 0 });
    await bench.unhold(newer!);
    assert.deepEqual(await bench.cleanUp(), { age: 0, count: 1, cap: 0 });
    assert.deepEqual(await bench.find(), [newer, older]);
    await bench.unhold(older!);
    assert.deepEqual(await bench.cleanUp(), { age: 0, count: 1, cap: 0 });
    assert.deepEqual([await bench.find(), await bench.exists(middle!)], [[newer], false]);
  }),
  storeCase('sweep: a held job is not removed by the cap, which counts it', async (bench) => {
    const own = { policy: { keep: { completed: { ageMs: null } } } };
    const [a, b, c, d] = [...(await completed(bench, 2)), ...(await completed(bench, 2, own))];
    await bench.hold(a!);
    await bench.hold(c!);
    assert.deepEqual(await bench.cleanUp({ maxStoredJobs: 2 }), { age: 0, count: 0, cap: 2 });
    assert.deepEqual(await bench.find(), [c, a]);
    assert.deepEqual(await bench.cleanUp({ maxStoredJobs: 0 }), { age: 0, count: 0, cap: 0 });
    assert.deepEqual([await bench.exists(b!), await bench.exists(d!)], [false, false]);
  }),
  storeCase('sweep: a job that was held before it ended is held after', async (bench) => {
    const [first, second] = [await bench.add(), await bench.add()];
    await bench.hold(first);
    const { jobs, epoch } = await bench.store.claim({
      owner: 'worker-1',
      types: ['mail'],
      queues: null,
      slots: 2,
      ahead: 0,
      leaseMs: 30_000,
      maxStalls: 3,
    });
    await bench.hold(second);
    for (const { id } of jobs) await bench.settle({ id, epoch, owner: 'worker-1' }, ending.complete());
    bench.advance(1_000);
    assert.deepEqual(await bench.cleanUp({ jobRetentionMs: 10, maxStoredJobs: 0 }), { age: 0, count: 0, cap: 0 });
    for (const id of [first, second]) assert.equal(await bench.remove(id, true), 'held');
  }),
  storeCase('sweep: tending lifts a hold that is over, and retention goes on', async (bench) => {
    const [id] = await completed(bench, 1);
    const pending = await bench.add({ delay: 90_000 });
    for (const one of [id!, pending]) await bench.hold(one, bench.now() + 1_000);
    bench.advance(999);
    await bench.tend();
    assert.equal((await bench.job(id!)).heldReason, 'wait');
    bench.advance(1);
    await bench.tend();
    for (const one of [id!, pending]) {
      const { heldUntil, heldReason } = await bench.job(one);
      assert.deepEqual({ heldUntil, heldReason }, { heldUntil: null, heldReason: null });
    }
    assert.deepEqual(await bench.cleanUp({ jobRetentionMs: 10 }), { age: 1, count: 0, cap: 0 });
  }),
  storeCase('sweep: a cleanup lifts what is over before it looks', async (bench) => {
    const [id] = await completed(bench, 1);
    await bench.hold(id!, bench.now() + 1_000);
    bench.advance(1_000);
    assert.equal((await sweepOnce(bench.store, { jobRetentionMs: 10 })).removedBy.age, 1);
  }),
  storeCase('move: a hold that is over is in nobody’s way, lifted or not', async (bench) => {
    const id = await bench.add();
    await bench.hold(id, bench.now() + 1_000);
    bench.advance(1_000);
    assert.equal(await bench.remove(id), 'removed');
    await bench.tend();
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('tally: a held job is not overdue', async (bench) => {
    const [id] = await completed(bench, 1);
    const overdue = async () =>
      (await bench.store.tally(cleanupOf({ jobRetentionMs: 10, cleanupIntervalMs: 10 }))).overdue;
    bench.advance(1_000);
    assert.equal(await overdue(), 1);
    await bench.hold(id!);
    assert.equal(await overdue(), 0);
    await bench.unhold(id!);
    assert.equal(await overdue(), 1);
  }),
];

const deferring = [
  ...Object.entries(inState).map(([state, make]) =>
    storeCase(`move: a job that is ${state} is set aside and brought back`, async (bench) => {
      const id = await make(bench);
      const before = await bench.job(id);
      assert.equal(await defer(bench, id, 5_000), 'moved');
      assert.deepEqual(await bench.job(id), { ...before, heldUntil: bench.now() + 5_000, heldReason: null });
      assert.equal(await bench.unhold(id), 'not_held');
      assert.equal(await defer(bench, id, null), 'released');
      assert.deepEqual(await bench.job(id), before);
      assert.equal(await defer(bench, id, null), 'not_held');
    }),
  ),
  storeCase('sweep: what is set aside is in nobody’s way, for as long as it was said', async (bench) => {
    const [aside, other] = await completed(bench, 2);
    await bench.add({ type: 'lastout.artifact', queue: 'lastout', delay: 3_600_000, ownedBy: aside! });
    bench.advance(1_000);
    await defer(bench, aside!, 5_000);
    const { owing, removedBy } = await sweepOnce(bench.store, { jobRetentionMs: 10 });
    assert.deepEqual([owing, removedBy.age, await bench.exists(other!)], [[], 1, false]);
    bench.advance(5_000);
    assert.deepEqual((await sweepOnce(bench.store, { jobRetentionMs: 10 })).owing, [aside]);
    assert.equal((await bench.job(aside!)).heldUntil, null);
  }),
  storeCase('sweep: a due thing that is set aside is not named', async (bench) => {
    const [owner] = await completed(bench, 1);
    const owned = await bench.add({ type: 'lastout.artifact', queue: 'lastout', delay: 10, ownedBy: owner! });
    bench.advance(10);
    await defer(bench, owned, 5_000);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, []);
    await defer(bench, owned, null);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, [owned]);
  }),
  storeCase('move: what is only set aside is removed like any other', async (bench) => {
    for (const make of Object.values(inState)) {
      const id = await make(bench);
      await defer(bench, id, 60_000);
      assert.equal(await bench.remove(id, true), 'removed');
    }
    bench.advance(60_000);
    await bench.tend();
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('move: a hold takes the place of setting aside, never the other way round', async (bench) => {
    const [id] = await completed(bench, 1);
    await defer(bench, id!, 5_000);
    assert.equal(await bench.hold(id!, bench.now() + 90_000, 'evidence'), 'held');
    const held = await bench.job(id!);
    assert.deepEqual([await defer(bench, id!, 1_000), await defer(bench, id!, null)], ['held', 'held']);
    assert.deepEqual(await bench.job(id!), held);
    assert.equal(await bench.remove(id!, true), 'held');
    bench.advance(90_000);
    assert.equal(await defer(bench, id!, 1_000), 'moved');
    assert.equal((await bench.job(id!)).heldReason, null);
  }),
  storeCase('move: a dry run sets nothing aside', async (bench) => {
    const id = await bench.add();
    const [item] = await bench.move([id], { kind: 'defer', forMs: 5_000 }, true);
    assert.deepEqual([item?.outcome, (await bench.job(id)).heldUntil], ['moved', null]);
  }),
];

async function defer(bench: Bench, id: string, forMs: number | null): Promise<MoveOutcome> {
  return (await bench.move([id], { kind: 'defer', forMs }))[0]!.outcome;
}

export const holdCases = [...holding, ...sweeping, ...deferring];
