/** Dismissing: a thing that is about to end, against whoever holds it or its owner. Exactly one of them wins. */
import assert from 'node:assert/strict';
import { farAway, type MoveOutcome } from '../../core/store.js';
import { type Bench, completed, storeCase, sweepOnce } from './bench.js';

const thing = { type: 'lastout.artifact', queue: 'lastout', delay: 3_600_000 };

/** A finished job that owns two things. */
async function owning(bench: Bench): Promise<[owner: string, first: string, second: string]> {
  const [owner] = await completed(bench, 1);
  const [first, second] = [
    await bench.add({ ...thing, ownedBy: owner! }),
    await bench.add({ ...thing, ownedBy: owner! }),
  ];
  return [owner!, first, second];
}

async function dismiss(bench: Bench, id: string, dryRun = false): Promise<MoveOutcome> {
  return (await bench.move([id], { kind: 'dismiss' }, dryRun))[0]!.outcome;
}

export const dismissCases = [
  storeCase('move: what is dismissed is due, and says since when it goes', async (bench) => {
    const [, first, second] = await owning(bench);
    await bench.move([first], { kind: 'confirm', memo: '{"bytes":3}', when: null, under: null });
    bench.advance(1_000);
    const [before, other] = [await bench.job(first), await bench.job(second)];
    assert.equal(await dismiss(bench, first), 'going');
    const now = bench.now();
    assert.deepEqual(await bench.job(first), { ...before, cancelAt: now, dueAt: now, scheduledFor: now });
    assert.deepEqual(await bench.job(second), other);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, [first]);
    bench.advance(1_000);
    assert.equal(await dismiss(bench, first), 'going');
    assert.deepEqual([(await bench.job(first)).cancelAt, (await bench.job(first)).dueAt], [now, now]);
  }),
  storeCase('move: what is dismissed keeps the last reason for which it is still there', async (bench) => {
    const [, first] = await owning(bench);
    await dismiss(bench, first);
    const before = await bench.job(first);
    for (const reason of ['disk is busy', 'disk is full'])
      assert.equal((await bench.move([first], { kind: 'dismiss', reason }))[0]?.outcome, 'going');
    await dismiss(bench, first);
    assert.deepEqual(await bench.job(first), { ...before, cancelReason: 'disk is full' });
  }),
  storeCase('move: what was due before it was dismissed stays due since then', async (bench) => {
    const [, first] = await owning(bench);
    const { dueAt } = await bench.job(first);
    bench.advance(3_700_000);
    await bench.tend();
    assert.equal(await dismiss(bench, first), 'going');
    assert.deepEqual([(await bench.job(first)).dueAt, (await bench.job(first)).cancelAt], [dueAt, bench.now()]);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings[0], first);
  }),
  storeCase('move: what is held, or whose owner is, is not dismissed', async (bench) => {
    const [owner, first, second] = await owning(bench);
    await bench.hold(first, bench.now() + 1_000);
    const held = await bench.job(first);
    assert.deepEqual([await dismiss(bench, first), await dismiss(bench, first, true)], ['held', 'held']);
    assert.deepEqual(await bench.job(first), held);
    await bench.hold(owner, bench.now() + 1_000);
    const free = await bench.job(second);
    assert.equal(await dismiss(bench, second), 'held');
    assert.deepEqual(await bench.job(second), free);
    bench.advance(1_000);
    assert.deepEqual([await dismiss(bench, first), await dismiss(bench, second)], ['going', 'going']);
  }),
  storeCase('move: setting aside keeps nothing from being dismissed', async (bench) => {
    const [owner, first] = await owning(bench);
    for (const id of [owner, first]) await bench.move([id], { kind: 'defer', forMs: 60_000 });
    assert.equal(await dismiss(bench, first), 'going');
  }),
  storeCase('move: what is dismissed is not held any more, nor its owner; what else it owns is', async (bench) => {
    const [owner, first, second] = await owning(bench);
    await dismiss(bench, first);
    assert.deepEqual([await bench.hold(first), await bench.hold(owner)], ['going', 'going']);
    assert.equal((await bench.move([owner], { kind: 'hold', reason: 'no', until: null }, true))[0]?.outcome, 'going');
    assert.deepEqual([(await bench.job(first)).heldUntil, (await bench.job(owner)).heldUntil], [null, null]);
    assert.equal(await bench.hold(second), 'held');
    assert.equal(await bench.remove(first), 'removed');
    assert.equal(await bench.hold(owner), 'held');
    assert.equal((await bench.job(owner)).heldUntil, farAway);
  }),
  storeCase('move: a hold and a dismissal that come together: one of them wins', async (bench) => {
    for (let round = 0; round < 10; round++) {
      const [owner, first, second] = await owning(bench);
      const [held, items] = await Promise.all([bench.hold(owner), bench.move([first, second], { kind: 'dismiss' })]);
      const going = items.map(({ outcome }) => outcome);
      assert.deepEqual(going, held === 'held' ? ['held', 'held'] : ['going', 'going']);
      assert.equal((await bench.job(owner)).heldUntil, held === 'held' ? farAway : null);
    }
  }),
  storeCase('move: only a pending job of the library that is owned is dismissed', async (bench) => {
    const [owner, ended] = await owning(bench);
    await bench.cancel(ended);
    const [free, ordinary] = [await bench.add(thing), await bench.add({ ownedBy: owner })];
    for (const id of [owner, ended, free, ordinary]) assert.equal(await dismiss(bench, id), 'not_pending');
  }),
  storeCase('move: a dry run dismisses nothing, and what is dismissed cannot be confirmed', async (bench) => {
    const [, first] = await owning(bench);
    const before = await bench.job(first);
    assert.equal(await dismiss(bench, first, true), 'going');
    assert.deepEqual(await bench.job(first), before);
    await dismiss(bench, first);
    const [item] = await bench.move([first], { kind: 'confirm', memo: '1', when: null, under: null });
    assert.equal(item?.outcome, 'stale');
  }),
];
