/** Owned jobs: inserted under a claim, in the way of their owner's removal, and due to be cleared away. */
import assert from 'node:assert/strict';
import { farAway, type Move, type MoveOutcome, type UnderJob } from '../../core/store.js';
import { type Bench, completed, ending, type Hold, type JobSketch, newJob, storeCase, sweepOnce } from './bench.js';

const thing: JobSketch = { type: 'lastout.artifact', queue: 'lastout', delay: 3_600_000 };

/** A job in somebody's hands, and what it needs to own something. */
async function owner(bench: Bench, sketch: JobSketch = {}): Promise<Hold & { readonly under: UnderJob }> {
  await bench.add(sketch);
  const hold = await bench.take();
  return { ...hold, under: { id: hold.id, epoch: hold.epoch, owner: hold.owner } };
}

/** A finished job that owns one thing: their ids. */
async function owing(bench: Bench, sketch: JobSketch = {}): Promise<[owner: string, owned: string]> {
  const [id] = await completed(bench, 1, sketch);
  return [id!, await bench.add({ ...thing, ownedBy: id! })];
}

async function confirm(bench: Bench, id: string, fields: Partial<Move & { kind: 'confirm' }> = {}, dryRun = false) {
  const move: Move = { kind: 'confirm', memo: '{"bytes":3}', when: null, under: null, ...fields };
  return (await bench.move([id], move, dryRun))[0]!.outcome;
}

const stale: { readonly [how: string]: (bench: Bench) => Promise<JobSketch> } = {
  async 'a claim that has lapsed'(bench) {
    const { id, under } = await owner(bench);
    await bench.lapse();
    return { ownedBy: id, under };
  },
  async 'a claim that has ended'(bench) {
    const hold = await owner(bench);
    await bench.settle(hold, ending.complete());
    return { ownedBy: hold.id, under: hold.under };
  },
  async "another worker's claim"(bench) {
    const { id, under } = await owner(bench);
    return { ownedBy: id, under: { ...under, owner: 'worker-2' } };
  },
  async 'a claim that never was'(bench) {
    const { id, under } = await owner(bench);
    return { ownedBy: id, under: { ...under, epoch: under.epoch + 1_000 } };
  },
  async 'a claim that holds another job'(bench) {
    const { under } = await owner(bench);
    const other = await bench.add();
    return { ownedBy: other, under: { ...under, id: other } };
  },
};

const insert = [
  storeCase('insert: an owned job needs an owner that is stored', async (bench) => {
    const [answer] = await bench.insert({ ...thing, id: 'owned', ownedBy: 'nobody' });
    assert.deepEqual([answer?.outcome, (answer as { code?: string }).code], ['refused', 'JOB_NOT_FOUND']);
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('insert: under the claim of its owner, an owned job is stored and names its owner', async (bench) => {
    const { id, under } = await owner(bench);
    const owned = await bench.add({ ...thing, ownedBy: id, under });
    assert.deepEqual([(await bench.job(owned)).ownedBy, (await bench.job(id)).ownedBy], [id, null]);
  }),
  storeCase('insert: a pending and a finished job may own too', async (bench) => {
    const [done] = await completed(bench, 1);
    const waiting = await bench.add();
    for (const id of [done!, waiting]) await bench.add({ ...thing, ownedBy: id });
    assert.equal((await bench.find({ queues: ['lastout'] })).length, 2);
  }),
  ...Object.entries(stale).map(([how, prepare]) =>
    storeCase(`insert: under ${how}, an owned job is refused`, async (bench) => {
      const sketch = await prepare(bench);
      const [answer] = await bench.insert({ ...thing, id: 'owned', ...sketch });
      assert.deepEqual([answer?.outcome, (answer as { code?: string }).code], ['refused', 'STALE_CLAIM']);
      assert.equal(await bench.exists('owned'), false);
    }),
  ),
  ...Object.entries(stale).map(([how, prepare]) =>
    storeCase(`insert: under ${how}, a job that nobody owns is refused and replaces nothing`, async (bench) => {
      const waiting = await bench.add({ deduplication: 'replace', key: 'k', delay: 100_000 });
      const { under } = await prepare(bench);
      const ways: JobSketch[] = [{}, { given: true }, { deduplication: 'replace', key: 'k' }, { exclusiveKey: 'x' }];
      const answers = await bench.insert(...ways.map((way, n) => ({ ...way, id: `late-${n}`, under: under! })));
      const codes = answers.map((answer) => (answer as { code?: string }).code);
      assert.deepEqual([codes, await bench.exists('late-0')], [ways.map(() => 'STALE_CLAIM'), false]);
      assert.equal((await bench.job(waiting)).state, 'pending');
    }),
  ),
  storeCase('insert: under a living claim, a job that nobody owns is added like any other', async (bench) => {
    const { id, under } = await owner(bench);
    const added = await bench.add({ under });
    assert.deepEqual([(await bench.job(added)).ownedBy, (await bench.job(added)).state], [null, 'pending']);
    await bench.settle({ id, epoch: under.epoch, owner: under.owner }, ending.complete());
    assert.equal((await bench.move([id], { kind: 'remove', force: false }))[0]!.outcome, 'removed');
    assert.equal((await bench.job(added)).state, 'pending');
  }),
  storeCase('insert: an owned job that is known answers existing, whatever became of the claim', async (bench) => {
    const hold = await owner(bench);
    const job = { ...thing, id: 'owned', ownedBy: hold.id, under: hold.under };
    await bench.add(job);
    await bench.settle(hold, ending.complete());
    const [again] = await bench.insert(job);
    assert.deepEqual(again, { id: 'owned', outcome: 'existing' });
  }),
  storeCase('insert: a refused owner is one job’s alone', async (bench) => {
    const answers = await bench.insert({ id: 'a' }, { ...thing, id: 'b', ownedBy: 'nobody' }, { id: 'c' });
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      ['created', 'refused', 'created'],
    );
  }),
  storeCase('insert: all or none, a refused owner refuses the batch', async (bench) => {
    const jobs = [{ id: 'a' }, { ...thing, id: 'b', ownedBy: 'nobody' }].map(newJob);
    await assert.rejects(bench.store.insert(jobs, { atomic: true }), { code: 'JOB_NOT_FOUND' });
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('insert: an owner of the same call is not stored yet', async (bench) => {
    const answers = await bench.insert({ id: 'a' }, { ...thing, id: 'b', ownedBy: 'a' });
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      ['created', 'refused'],
    );
  }),
  storeCase('settle: a job that comes with it and has no owner is left out', async (bench) => {
    const hold = await owner(bench);
    const then = [newJob({ ...thing, id: 'a', ownedBy: 'nobody' }), newJob({ ...thing, id: 'b', ownedBy: hold.id })];
    const settlement = { id: hold.id, epoch: hold.epoch, ending: ending.complete(), then };
    await bench.store.settle({ owner: hold.owner, settlements: [settlement], started: [], next: null });
    assert.deepEqual(await bench.find({ queues: ['lastout'] }), ['b']);
  }),
  storeCase('move: a retried job is owned by nobody and owns nothing', async (bench) => {
    const [id] = await owing(bench);
    const owned = await bench.add({ ownedBy: id });
    await bench.cancel(owned);
    const items = await bench.move([id, owned], { kind: 'retry', newIds: ['new-1', 'new-2'] });
    for (const { newId } of items) assert.equal((await bench.job(newId!)).ownedBy, null);
    assert.equal((await bench.find({ ownedBy: 'new-1' })).length + (await bench.find({ ownedBy: 'new-2' })).length, 0);
  }),
];

const find = [
  storeCase('find: by owner, newest first, whatever the state', async (bench) => {
    const { id, under } = await owner(bench);
    const other = await bench.add();
    const ids: string[] = [];
    for (let i = 0; i < 5; i++) ids.push(await bench.add({ ...thing, ownedBy: id, under, key: `name-${i % 2}` }));
    await bench.add({ ...thing, ownedBy: other });
    await bench.cancel(ids[2]!);
    const newest = ids.toReversed();
    assert.deepEqual(await bench.find({ ownedBy: id }, 2), newest);
    assert.deepEqual(await bench.find({ ownedBy: id, states: ['pending'] }, 2), [ids[4], ids[3], ids[1], ids[0]]);
    assert.deepEqual(await bench.find({ ownedBy: id, states: ['cancelled'] }), [ids[2]]);
    assert.deepEqual(await bench.find({ ownedBy: id, key: 'name-1' }), [ids[3], ids[1]]);
    assert.deepEqual(await bench.find({ ownedBy: id, ids: [ids[0]!, other] }), [ids[0]]);
    assert.deepEqual(await bench.find({ ownedBy: id, types: ['mail'] }), []);
    assert.deepEqual(await bench.find({ ownedBy: 'nobody' }), []);
  }),
];

const remove = [
  storeCase('move: a job that owns live jobs is not removed, also by force', async (bench) => {
    const [id, owned] = await owing(bench);
    assert.deepEqual([await bench.remove(id), await bench.remove(id, true)], ['owing', 'owing']);
    assert.equal((await bench.move([id], { kind: 'remove', force: true }, true))[0]?.outcome, 'owing');
    assert.deepEqual([await bench.remove(owned), await bench.remove(id)], ['removed', 'removed']);
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('move: a running job that owns live jobs goes on, also when it is removed by force', async (bench) => {
    const { id, under, ...hold } = await owner(bench);
    await bench.add({ ...thing, ownedBy: id, under });
    assert.equal(await bench.remove(id, true), 'owing');
    assert.equal(await bench.settle({ id, ...hold }, ending.complete()), 'ok');
  }),
  storeCase(
    'move: a pending job that owns live jobs is cancelled when it is removed, so that nobody takes it',
    async (bench) => {
      const [plain, told, delayed] = [await bench.add(), await bench.add(), await bench.add({ delay: 60_000 })];
      for (const id of [plain, told, delayed]) await bench.add({ ...thing, ownedBy: id });
      assert.equal((await bench.move([plain], { kind: 'remove', force: false }, true))[0]?.outcome, 'owing');
      assert.equal((await bench.job(plain)).state, 'pending');
      assert.deepEqual([await bench.remove(plain), await bench.remove(delayed, true)], ['owing', 'owing']);
      const [item] = await bench.move([told], { kind: 'remove', force: false, reason: 'no longer wanted' });
      assert.equal(item?.outcome, 'owing');
      assert.deepEqual(await bench.claimIds(), []);
      const errors: unknown[] = [];
      for (const id of [plain, told, delayed]) {
        const { state, error } = await bench.job(id);
        assert.equal(state, 'cancelled');
        errors.push(JSON.parse(error!));
      }
      const removed = { code: 'CANCELLED', message: 'Removed' };
      assert.deepEqual(errors, [removed, { code: 'CANCELLED', message: 'no longer wanted' }, removed]);
    },
  ),
  storeCase('move: an owned job that has ended is in nobody’s way', async (bench) => {
    const [id, owned] = await owing(bench);
    await bench.cancel(owned);
    assert.equal(await bench.remove(id), 'removed');
    assert.equal(await bench.remove(owned), 'removed');
  }),
  storeCase('move: an owned job leaves no tombstone', async (bench) => {
    const [, owned] = await owing(bench);
    const plain = await bench.add();
    await bench.remove(owned);
    await bench.remove(plain);
    assert.equal(await bench.store.readWhy(owned), null);
    assert.notEqual(await bench.store.readWhy(plain), null);
  }),
];

const confirming = [
  storeCase('move: a confirmed job has its memo and its new deadline', async (bench) => {
    const { id, under } = await owner(bench);
    const owned = await bench.add({ ...thing, ownedBy: id, under });
    assert.equal(await confirm(bench, owned, { when: { inMs: 5_000 }, under }), 'confirmed');
    const { memo, dueAt, state } = await bench.job(owned);
    assert.deepEqual({ memo, dueAt, state }, { memo: '{"bytes":3}', dueAt: bench.now() + 5_000, state: 'pending' });
    assert.equal(await confirm(bench, owned), 'confirmed');
    assert.equal((await bench.job(owned)).dueAt, farAway);
  }),
  ...Object.entries(stale).map(([how, prepare]) =>
    storeCase(`move: under ${how}, nothing is confirmed`, async (bench) => {
      const { ownedBy, under } = await prepare(bench);
      const owned = await bench.add({ ...thing, ownedBy: ownedBy! });
      const before = await bench.job(owned);
      assert.equal(await confirm(bench, owned, { under: under! }), 'stale');
      assert.deepEqual(await bench.job(owned), before);
    }),
  ),
  storeCase('move: what is due already is not confirmed', async (bench) => {
    const { id } = await owner(bench);
    const owned = await bench.add({ ...thing, ownedBy: id });
    bench.advance(3_600_000);
    assert.equal(await confirm(bench, owned), 'stale');
    await bench.tend();
    assert.equal(await confirm(bench, owned), 'stale');
    assert.equal((await bench.job(owned)).memo, null);
  }),
  storeCase('move: only a pending job of the library is confirmed', async (bench) => {
    const { id } = await owner(bench);
    const ended = await bench.add({ ...thing, ownedBy: id });
    await bench.cancel(ended);
    const owned = await bench.add({ delay: 5_000, ownedBy: id });
    const outcomes: MoveOutcome[] = [];
    for (const one of [ended, owned, id]) outcomes.push(await confirm(bench, one));
    assert.deepEqual(outcomes, ['not_pending', 'not_pending', 'not_pending']);
  }),
  storeCase('move: what nobody owns is confirmed without a claim, and under none', async (bench) => {
    const { under } = await owner(bench);
    const free = await bench.add(thing);
    assert.equal(await confirm(bench, free, { under }), 'stale');
    assert.equal(await confirm(bench, free, { when: { inMs: 5_000 } }), 'confirmed');
    assert.equal((await bench.job(free)).dueAt, bench.now() + 5_000);
  }),
  storeCase('move: a confirmation without a memo leaves the one that is there', async (bench) => {
    const free = await bench.add(thing);
    await confirm(bench, free);
    assert.equal(await confirm(bench, free, { memo: null, when: { inMs: 5_000 } }), 'confirmed');
    const { memo, dueAt } = await bench.job(free);
    assert.deepEqual({ memo, dueAt }, { memo: '{"bytes":3}', dueAt: bench.now() + 5_000 });
  }),
  storeCase(
    'move: what was claimed once is not confirmed any more, though it is pending and not due',
    async (bench) => {
      await bench.add({ ...thing, delay: 0 });
      const hold = await bench.take({ types: [thing.type!] });
      await bench.settle(hold, { kind: 'retry', inMs: 5_000, error: '{"message":"not yet"}' });
      const before = await bench.job(hold.id);
      assert.equal(before.state, 'pending');
      assert.equal(await confirm(bench, hold.id), 'stale');
      assert.deepEqual(await bench.job(hold.id), before);
    },
  ),
  storeCase('move: a dry run confirms nothing', async (bench) => {
    const { id } = await owner(bench);
    const owned = await bench.add({ ...thing, ownedBy: id });
    const before = await bench.job(owned);
    assert.equal(await confirm(bench, owned, {}, true), 'confirmed');
    assert.deepEqual(await bench.job(owned), before);
  }),
];

const sweeping = [
  storeCase('sweep: what the age rule removes stays while it owns something, and is named', async (bench) => {
    const [id, owned] = await owing(bench);
    const [free] = await completed(bench, 1);
    bench.advance(1_000);
    const swept = await sweepOnce(bench.store, { jobRetentionMs: 10 });
    assert.deepEqual([swept.owing, swept.removedBy.age, swept.examined], [[id], 1, 2]);
    assert.deepEqual([await bench.exists(id), await bench.exists(free!)], [true, false]);
    await bench.remove(owned);
    const then = await sweepOnce(bench.store, { jobRetentionMs: 10 });
    assert.deepEqual([then.owing, then.removedBy.age, await bench.find()], [[], 1, []]);
  }),
  storeCase('sweep: what the count rule removes stays while it owns something', async (bench) => {
    const policy = { keep: { completed: { count: 1 } } };
    const [id, owned] = await owing(bench, { policy });
    const [newer] = await completed(bench, 1, { policy });
    const swept = await sweepOnce(bench.store);
    assert.deepEqual([swept.owing, swept.removedBy.count], [[id], 0]);
    await bench.remove(owned);
    assert.equal((await sweepOnce(bench.store)).removedBy.count, 1);
    assert.deepEqual(await bench.find(), [newer]);
  }),
  storeCase('sweep: by count, no newer one goes before one that owns something: its rank stays', async (bench) => {
    const [oldest] = await completed(bench, 1, { policy: { keep: { completed: { count: 0 } } } });
    const [id, owned] = await owing(bench, { policy: { keep: { completed: { count: 1 } } } });
    await completed(bench, 1, { policy: { keep: { completed: { count: 0 } } } });
    const swept = await sweepOnce(bench.store);
    assert.deepEqual([swept.owing, swept.removedBy.count, await bench.exists(oldest!)], [[id], 1, false]);
    await bench.remove(owned);
    assert.deepEqual(await bench.cleanUp(), { age: 0, count: 2, cap: 0 });
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase(
    'sweep: what the cap removes stays while it owns something, and no other goes in its place',
    async (bench) => {
      const [id, owned] = await owing(bench);
      const newer = await completed(bench, 2);
      const swept = await sweepOnce(bench.store, { maxStoredJobs: 2 });
      assert.deepEqual([swept.owing, swept.removedBy.cap], [[id], 0]);
      await bench.remove(owned);
      assert.equal((await sweepOnce(bench.store, { maxStoredJobs: 2 })).removedBy.cap, 1);
      assert.deepEqual(await bench.find(), newer.toReversed());
    },
  ),
  storeCase('sweep: the later rules wait until what the age rule removes is gone', async (bench) => {
    const own = { keep: { completed: { ageMs: 1, count: 2 } } };
    const older = await completed(bench, 2, { policy: { keep: { completed: { count: 2 } } } });
    const [, owned] = await owing(bench, { policy: own });
    bench.advance(10);
    const swept = await sweepOnce(bench.store, { maxStoredJobs: 2 });
    assert.deepEqual([swept.owing.length, swept.removedBy], [1, { age: 0, count: 0, cap: 0 }]);
    await bench.remove(owned);
    assert.deepEqual(await bench.cleanUp({ maxStoredJobs: 2 }), { age: 1, count: 0, cap: 0 });
    assert.deepEqual(await bench.find(), older.toReversed());
  }),
  storeCase('sweep: what is owned does not count for the cap while it lives', async (bench) => {
    const [id] = await owing(bench);
    for (let i = 0; i < 3; i++) await bench.add({ ...thing, ownedBy: id });
    const swept = await sweepOnce(bench.store, { maxStoredJobs: 1 });
    assert.deepEqual([swept.owing, swept.removedBy.cap], [[], 0]);
  }),
  storeCase('sweep: an owned job that has ended is removed by the rules, and counts for the cap', async (bench) => {
    const [id, owned] = await owing(bench);
    await bench.cancel(owned);
    assert.deepEqual(await bench.cleanUp({ maxStoredJobs: 1 }), { age: 0, count: 0, cap: 1 });
    assert.deepEqual([await bench.exists(id), await bench.exists(owned)], [false, true]);
    bench.advance(1_000);
    assert.deepEqual(await bench.cleanUp({ jobRetentionMs: 10 }), { age: 1, count: 0, cap: 0 });
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('sweep: an owing job counts for the limit of its part', async (bench) => {
    for (let i = 0; i < 3; i++) await owing(bench);
    bench.advance(1_000);
    const swept = await sweepOnce(bench.store, { jobRetentionMs: 10, limit: 2 });
    assert.deepEqual([swept.owing.length, swept.more], [2, true]);
  }),
  storeCase('sweep: owned jobs of queue lastout that are due are named, oldest first', async (bench) => {
    const { id, under } = await owner(bench);
    const ids: string[] = [];
    for (const delay of [300, 100, 200, 400]) ids.push(await bench.add({ ...thing, ownedBy: id, under, delay }));
    await bench.add({ ownedBy: id, delay: 50 });
    await bench.add({ ...thing, delay: 50 });
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, []);
    bench.advance(300);
    const due = [ids[1], ids[2], ids[0]];
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, due);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, due);
    const first = await sweepOnce(bench.store, { limit: 2 });
    assert.deepEqual([first.dueThings, first.more], [due.slice(0, 2), true]);
    assert.deepEqual((await bench.tend()).dueThings, []);
    await bench.remove(ids[1]!);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, due.slice(1));
  }),
  storeCase('sweep: what is held, confirmed for later, or running is not named as due', async (bench) => {
    const { id } = await owner(bench);
    const ids: string[] = [];
    for (const delay of [100, 100, 50, 100]) ids.push(await bench.add({ ...thing, ownedBy: id, delay }));
    await bench.hold(ids[0]!);
    await confirm(bench, ids[1]!, { when: { inMs: 5_000 } });
    bench.advance(100);
    assert.equal((await bench.take({ types: ['lastout.artifact'], slots: 1 })).id, ids[2]);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, [ids[3]]);
    await bench.unhold(ids[0]!);
    assert.deepEqual((await sweepOnce(bench.store)).dueThings, [ids[0], ids[3]]);
    bench.advance(5_000);
    assert.ok((await sweepOnce(bench.store)).dueThings.includes(ids[1]!));
  }),
];

export const ownCases = [...insert, ...find, ...remove, ...confirming, ...sweeping];
