/** Move: retry by hand. A finished job is repeated once, by however many, unless somebody says again. */
import assert from 'node:assert/strict';
import { noFilter } from '../../core/store.js';
import { type Bench, ending, type JobSketch, storeCase } from './bench.js';

const retryAs = (id: string) => ({ kind: 'retry', newIds: [id] }) as const;
const page = { cursor: null, limit: 100 } as const;

async function completed({ add, take, settle }: Bench): Promise<string> {
  const id = await add();
  await settle(await take(), ending.complete());
  return id;
}

async function failed({ add, take, settle }: Bench): Promise<string> {
  const id = await add();
  await settle(await take(), ending.fail());
  return id;
}

const endings: { readonly [state: string]: (bench: Bench) => Promise<string> } = {
  completed,
  failed,
  async cancelled({ add, cancel }) {
    const id = await add();
    await cancel(id);
    return id;
  },
  async 'lately expired'({ add, advance }) {
    const id = await add({ ttlMs: 1 });
    advance(1);
    return id;
  },
};

export const retryCases = [
  storeCase('move: retry makes a new job and leaves the old one as it ended', async (bench) => {
    const sketch: JobSketch = {
      queue: 'fast',
      priority: 3,
      subject: 'trip:1',
      source: 'api',
      metadata: '{"m":1}',
      input: '{"i":1}',
    };
    const id = await bench.add({ ...sketch, maxAttempts: 1, ttlMs: 90_000, exclusiveKey: 'x', key: 'k' });
    await bench.settle(await bench.take(), ending.exhaust());
    bench.advance(1_000);
    const old = await bench.job(id);
    assert.deepEqual(await bench.move([id], { kind: 'retry', newIds: ['again'] }), [
      { id, outcome: 'retried', newId: 'again' },
    ]);
    assert.deepEqual(await bench.job(id), old);
    const now = bench.now();
    assert.deepEqual(await bench.job('again'), {
      ...old,
      id: 'again',
      seq: (await bench.job('again')).seq,
      retryOf: id,
      state: 'pending',
      error: null,
      attempts: 0,
      epoch: 0,
      createdAt: now,
      scheduledFor: now,
      dueAt: now,
      expiresAt: now + 90_000,
      startedAt: null,
      completedAt: null,
    });
  }),
  storeCase('move: retry of a live job is refused', async (bench) => {
    const processing = await bench.add();
    await bench.take();
    const pending = await bench.add();
    const items = await bench.move([pending, processing], { kind: 'retry', newIds: ['n1', 'n2'] });
    assert.ok(items.every(({ outcome }) => outcome === 'not_finished'));
    assert.equal((await bench.find()).length, 2);
  }),
  storeCase('move: retry of a job past its ttl starts its ttl anew', async ({ add, advance, move, job, now }) => {
    const id = await add({ ttlMs: 1_000 });
    advance(5_000);
    assert.deepEqual(await move([id], { kind: 'retry', newIds: ['again'] }), [
      { id, outcome: 'retried', newId: 'again' },
    ]);
    assert.equal((await job(id)).state, 'expired');
    assert.equal((await job('again')).expiresAt, now() + 1_000);
  }),
  storeCase('move: retry is skipped when a pending job has the slot', async ({ add, take, settle, move, find }) => {
    const id = await add({ key: 'k', deduplication: 'skip' });
    await settle(await take(), ending.fail());
    const other = await add({ key: 'k', deduplication: 'skip' });
    assert.deepEqual(await move([id], { kind: 'retry', newIds: ['again'] }), [
      { id, outcome: 'skipped', newId: other },
    ]);
    assert.deepEqual(await find({ states: ['pending'] }), [other]);
  }),
  storeCase(
    'move: retry is not skipped for a pending job past its ttl',
    async ({ add, take, settle, move, advance, job }) => {
      const id = await add({ key: 'k', deduplication: 'skip' });
      await settle(await take(), ending.fail());
      const other = await add({ key: 'k', deduplication: 'skip', ttlMs: 1_000 });
      advance(1_000);
      assert.deepEqual(await move([id], { kind: 'retry', newIds: ['again'] }), [
        { id, outcome: 'retried', newId: 'again' },
      ]);
      assert.deepEqual([(await job(other)).state, (await job('again')).state], ['expired', 'pending']);
    },
  ),
  storeCase('move: retrying two jobs of one slot makes one', async ({ add, take, settle, move, find }) => {
    const sketch: JobSketch = { key: 'k', deduplication: 'skip' };
    const first = await add(sketch);
    await settle(await take(), ending.fail());
    const second = await add(sketch);
    await settle(await take(), ending.fail());
    const items = await move([first, second], { kind: 'retry', newIds: ['n1', 'n2'] });
    assert.deepEqual(items.map(({ outcome }) => outcome).toSorted(), ['retried', 'skipped']);
    assert.deepEqual(await find({ states: ['pending'] }), ['n1']);
  }),
  storeCase('move: a retried job runs', async ({ add, take, settle, move, drain }) => {
    const id = await add();
    await settle(await take(), ending.fail());
    await move([id], { kind: 'retry', newIds: ['again'] });
    assert.deepEqual(await drain(), ['again']);
  }),
  ...Object.entries(endings).map(([state, end]) =>
    storeCase(`move: a ${state} job that was retried answers already_retried with the new one`, async (bench) => {
      const id = await end(bench);
      assert.deepEqual(await bench.move([id], retryAs('first')), [{ id, outcome: 'retried', newId: 'first' }]);
      const already = [{ id, outcome: 'already_retried', newId: 'first' }];
      assert.deepEqual(await bench.move([id], retryAs('second')), already);
      assert.deepEqual(await bench.move([id], retryAs('second'), true), already);
      assert.deepEqual((await bench.find()).toSorted(), [id, 'first'].toSorted());
    }),
  ),
  storeCase('move: what was retried stays so when the new job is gone', async (bench) => {
    const id = await failed(bench);
    await bench.move([id], retryAs('first'));
    await bench.remove('first');
    assert.deepEqual(await bench.move([id], retryAs('second')), [{ id, outcome: 'already_retried', newId: 'first' }]);
    assert.deepEqual(await bench.find(), [id]);
  }),
  storeCase('move: retry again makes another job, and names that one from then on', async (bench) => {
    const id = await failed(bench);
    await bench.move([id], retryAs('first'));
    const again = { ...retryAs('second'), again: true } as const;
    assert.deepEqual(await bench.move([id], again, true), [{ id, outcome: 'retried' }]);
    const items = [{ id, outcome: 'retried', newId: 'second' }];
    assert.deepEqual(await bench.move([id], again), items);
    assert.deepEqual(await bench.move([id], again), items, 'the same call, sent again');
    assert.deepEqual(await bench.move([id], again, true), items, 'and looked at');
    assert.deepEqual(await bench.move([id], retryAs('third')), [{ id, outcome: 'already_retried', newId: 'second' }]);
    assert.equal((await bench.find()).length, 3);
  }),
  storeCase('move: a retry that arrives after another one has retried again makes nothing', async (bench) => {
    const id = await failed(bench);
    const late = { ...retryAs('first'), again: true } as const;
    await bench.move([id], late);
    await bench.move([id], { ...retryAs('second'), again: true });
    assert.deepEqual(await bench.move([id], late), [{ id, outcome: 'already_retried', newId: 'second' }]);
    assert.equal((await bench.find()).length, 3);
  }),
  storeCase(
    'move: a retry of many that arrives twice gives what has ended meanwhile an id of its own',
    async (bench) => {
      const first = await failed(bench);
      const retry = { kind: 'retry', newIds: ['n1', 'n2'] } as const;
      await bench.store.move({ filter: { ...noFilter, states: ['failed'] }, move: retry, dryRun: false, ...page });
      await bench.cancel('n1');
      const second = await failed(bench);
      const { items } = await bench.store.move({
        ...{ filter: { ...noFilter, states: ['failed'] as const }, move: retry, dryRun: false, ...page },
      });
      assert.deepEqual(items, [
        { id: second, outcome: 'retried', newId: 'n2' },
        { id: first, outcome: 'retried', newId: 'n1' },
      ]);
    },
  ),
  storeCase('move: a retry can be retried, once', async (bench) => {
    const id = await failed(bench);
    await bench.move([id], retryAs('first'));
    await bench.settle(await bench.take(), ending.fail());
    assert.deepEqual(await bench.move(['first'], retryAs('second')), [
      { id: 'first', outcome: 'retried', newId: 'second' },
    ]);
    assert.deepEqual(await bench.move([id], retryAs('third')), [{ id, outcome: 'already_retried', newId: 'first' }]);
    assert.equal((await bench.job('second')).retryOf, 'first');
  }),
  storeCase('move: of several who retry at once, one makes a job', async (bench) => {
    for (const end of Object.values(endings)) {
      const id = await end(bench);
      const tries = [0, 1, 2, 3].map((n) => bench.move([id], retryAs(`${id}-${n}`)));
      const outcomes = (await Promise.all(tries)).map(([item]) => item!);
      const made = outcomes.filter(({ outcome }) => outcome === 'retried');
      assert.equal(made.length, 1);
      for (const { newId } of outcomes) assert.equal(newId, made[0]!.newId);
      await bench.remove(made[0]!.newId!);
    }
  }),
  storeCase('move: what was retried keeps its hold and its retention', async (bench) => {
    const ids = [await completed(bench), await failed(bench)];
    for (const id of ids) {
      await bench.hold(id);
      await bench.move([id], retryAs(`${id}-new`));
      assert.notEqual((await bench.job(id)).heldUntil, null);
      await bench.move([id], { kind: 'unhold' });
      assert.equal((await bench.move([id], retryAs('other')))[0]!.outcome, 'already_retried');
      await bench.remove(`${id}-new`);
    }
    bench.advance(60_000);
    assert.deepEqual(await bench.cleanUp({ jobRetentionMs: 1_000 }), { age: 2, count: 0, cap: 0 });
  }),
  storeCase('move: a retry of failures passes over what was replaced', async (bench) => {
    const sketch: JobSketch = { key: 'k', deduplication: 'replace' };
    const [replaced, newest] = (await bench.insert(sketch, sketch)).map(({ id }) => id) as [string, string];
    await bench.settle(await bench.take(), ending.fail({ message: 'Replaced by newer job', code: 'REPLACED' }));
    const filter = { ...noFilter, states: ['failed'] as const };
    const move = { kind: 'retry', newIds: ['n1', 'n2'], failuresOnly: true } as const;
    const items = [{ id: newest, outcome: 'retried' }];
    assert.deepEqual((await bench.store.move({ filter, move, dryRun: true, ...page })).items, items);
    const answer = await bench.store.move({ filter, move, dryRun: false, ...page });
    assert.deepEqual(answer.items, [{ ...items[0], newId: 'n1' }]);
    await bench.cancel('n1');
    assert.deepEqual(await bench.move([replaced], retryAs('n3')), [{ id: replaced, outcome: 'retried', newId: 'n3' }]);
  }),
];
