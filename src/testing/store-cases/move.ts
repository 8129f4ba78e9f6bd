/** Move: changing jobs by hand, each answered for by itself. */
import assert from 'node:assert/strict';
import type { FinishedState } from '../../core/job.js';
import type { Move } from '../../core/store.js';
import { type Bench, ending, filterOf, storeCase } from './bench.js';

/** One job in each state; a pending one and one that runs come from `live`. */
async function finished({
  add,
  take,
  settle,
  cancel,
  advance,
  tend,
}: Bench): Promise<{ [S in FinishedState]: string }> {
  const completed = await add();
  await settle(await take(), ending.complete());
  const failed = await add();
  await settle(await take(), ending.fail());
  const cancelled = await add();
  await cancel(cancelled, { reason: 'early' });
  const expired = await add({ ttlMs: 1 });
  advance(1);
  await tend();
  return { completed, failed, cancelled, expired };
}

async function live({ add, take }: Bench): Promise<{ pending: string; processing: string }> {
  const processing = await add();
  await take();
  return { pending: await add(), processing };
}

const states = async ({ job }: Bench, ids: readonly string[]): Promise<string[]> =>
  Promise.all(ids.map(async (id) => (await job(id)).state));

const cancel = [
  storeCase('move: cancel ends a pending job at once', async ({ add, cancel, job, error, claimIds, now }) => {
    const id = await add();
    assert.equal(await cancel(id, { reason: 'trip deleted' }), 'cancelled');
    const { state, completedAt, attempts } = await job(id);
    assert.deepEqual({ state, completedAt, attempts }, { state: 'cancelled', completedAt: now(), attempts: 0 });
    assert.deepEqual(await error(id), { code: 'CANCELLED', message: 'trip deleted' });
    assert.deepEqual(await claimIds(), []);
  }),
  storeCase('move: cancel ends a delayed job at once', async ({ add, cancel, advance, claimIds }) => {
    const id = await add({ delay: 1_000 });
    assert.equal(await cancel(id), 'cancelled');
    advance(1_000);
    assert.deepEqual(await claimIds(), []);
  }),
  storeCase('move: cancel of a running job is a request', async ({ add, take, cancel, job, now }) => {
    const id = await add();
    await take();
    assert.equal(await cancel(id, { reason: 'first' }), 'requested');
    const { state, cancelAt, cancelReason } = await job(id);
    assert.deepEqual(
      { state, cancelAt, cancelReason },
      { state: 'processing', cancelAt: now(), cancelReason: 'first' },
    );
  }),
  storeCase(
    'move: the first reason of a cancel request stands',
    async ({ add, take, cancel, advance, job, settle, error }) => {
      const id = await add();
      const hold = await take();
      await cancel(id, { reason: 'first' });
      const { cancelAt } = await job(id);
      advance(10);
      assert.equal(await cancel(id, { reason: 'second' }), 'requested');
      assert.equal((await job(id)).cancelAt, cancelAt);
      await settle(hold, ending.retry(0));
      assert.equal((await error(id))?.message, 'first');
    },
  ),
  storeCase('move: cancel of a finished job says how it ended', async (bench) => {
    for (const [state, id] of Object.entries(await finished(bench))) {
      const before = await bench.job(id);
      assert.equal(await bench.cancel(id), `already:${state}`);
      assert.deepEqual(await bench.job(id), before);
    }
  }),
  storeCase('move: cancel of a job past its ttl says already:expired', async ({ add, advance, cancel }) => {
    const id = await add({ ttlMs: 10 });
    advance(10);
    assert.equal(await cancel(id), 'already:expired');
  }),
  storeCase('move: a forced cancel ends a running job at once', async ({ add, take, cancel, job, error, now }) => {
    const id = await add();
    const { epoch } = await take();
    assert.equal(await cancel(id, { force: true, reason: 'now' }), 'cancelled');
    const { state, completedAt, epoch: last } = await job(id);
    assert.deepEqual({ state, completedAt, last }, { state: 'cancelled', completedAt: now(), last: epoch });
    assert.deepEqual(await error(id), { code: 'CANCELLED', message: 'now' });
  }),
  storeCase('move: a forced cancel goes beyond a request', async ({ add, take, cancel, job }) => {
    const id = await add();
    await take();
    assert.equal(await cancel(id), 'requested');
    assert.equal(await cancel(id, { force: true }), 'cancelled');
    assert.equal((await job(id)).state, 'cancelled');
  }),
  storeCase(
    'move: a cancel request survives a hand-back of a job ahead',
    async ({ store, add, cancel, settle, job }) => {
      const id = await add();
      const request = {
        owner: 'worker-1',
        types: ['mail'],
        queues: null,
        slots: 0,
        ahead: 1,
        leaseMs: 1_000,
        maxStalls: 3,
      };
      const { epoch } = await store.claim(request);
      await cancel(id);
      await settle({ id, epoch, owner: 'worker-1' }, ending.release());
      assert.equal((await job(id)).state, 'cancelled');
    },
  ),
];

const byFilter = [
  storeCase('move: by subject reaches every job of it and no other', async (bench) => {
    await bench.insert(
      { id: 'a', subject: 'trip:1' },
      { id: 'b', subject: 'trip:2' },
      { id: 'c', subject: 'trip:1', type: 'sms' },
    );
    await bench.take({ types: ['sms'] });
    const { items, next } = await bench.store.move({
      filter: filterOf({ subject: 'trip:1' }),
      move: { kind: 'cancel', reason: 'gone', force: false },
      dryRun: false,
      cursor: null,
      limit: 10,
    });
    assert.deepEqual(items, [
      { id: 'c', outcome: 'requested' },
      { id: 'a', outcome: 'cancelled' },
    ]);
    assert.equal(next, null);
    assert.equal((await bench.job('b')).state, 'pending');
  }),
  storeCase('move: by filter goes on from its cursor until all are reached', async ({ store, insert, find }) => {
    await insert(...Array.from({ length: 5 }, () => ({ subject: 'trip:1' })));
    let cursor: string | null = null;
    let reached = 0;
    do {
      const page: { items: readonly unknown[]; next: string | null } = await store.move({
        filter: filterOf({ subject: 'trip:1', states: ['pending'] }),
        move: { kind: 'cancel', reason: 'gone', force: false },
        dryRun: false,
        cursor,
        limit: 2,
      });
      assert.ok(page.items.length <= 2);
      reached += page.items.length;
      cursor = page.next;
    } while (cursor !== null);
    assert.equal(reached, 5);
    assert.deepEqual(await find({ states: ['pending'] }), []);
  }),
  storeCase('move: an unknown id is not answered for', async ({ move }) => {
    assert.deepEqual(await move(['nobody'], { kind: 'remove', force: true }), []);
  }),
];

const dryRuns: { readonly [kind: string]: { readonly move: Move; readonly outcomes: string[] } } = {
  cancel: {
    move: { kind: 'cancel', reason: 'x', force: false },
    outcomes: ['cancelled', 'requested', 'already:completed', 'already:failed', 'already:cancelled', 'already:expired'],
  },
  'a forced cancel': {
    move: { kind: 'cancel', reason: 'x', force: true },
    outcomes: ['cancelled', 'cancelled', 'already:completed', 'already:failed', 'already:cancelled', 'already:expired'],
  },
  remove: {
    move: { kind: 'remove', force: false },
    outcomes: ['removed', 'not_finished', 'removed', 'removed', 'removed', 'removed'],
  },
  retry: {
    move: { kind: 'retry', newIds: ['n1', 'n2', 'n3', 'n4'] },
    outcomes: ['not_finished', 'not_finished', 'retried', 'retried', 'retried', 'retried'],
  },
  reschedule: {
    move: { kind: 'reschedule', when: { inMs: 5 }, priority: 3 },
    outcomes: ['moved', 'not_pending', 'not_pending', 'not_pending', 'not_pending', 'not_pending'],
  },
};

const dry = Object.entries(dryRuns).map(([kind, { move, outcomes }]) =>
  storeCase(`move: a dry run of ${kind} tells what it would do and changes nothing`, async (bench) => {
    const ends = await finished(bench);
    const { pending, processing } = await live(bench);
    const ids = [pending, processing, ends.completed, ends.failed, ends.cancelled, ends.expired];
    const before = await Promise.all((await bench.find()).map(bench.job));
    const news = await bench.watch();
    const items = await bench.move(ids, move, true);
    assert.deepEqual(
      ids.map((id) => items.find((item) => item.id === id)?.outcome),
      outcomes,
    );
    assert.deepEqual(await Promise.all((await bench.find()).map(bench.job)), before);
    assert.deepEqual(await news(), []);
    const real = await bench.move(ids, move);
    assert.deepEqual(
      ids.map((id) => real.find((item) => item.id === id)?.outcome),
      outcomes,
    );
  }),
);

const remove = [
  storeCase('move: remove takes finished and pending jobs away for good', async (bench) => {
    const ids = [...Object.values(await finished(bench)), await bench.add(), await bench.add({ delay: 1_000 })];
    for (const id of ids) assert.equal(await bench.remove(id), 'removed');
    assert.deepEqual(await bench.find(), []);
    bench.advance(1_000);
    assert.deepEqual(await bench.claimIds(), []);
  }),
  storeCase('move: remove leaves a running job alone', async (bench) => {
    const { processing } = await live(bench);
    assert.equal(await bench.remove(processing), 'not_finished');
    assert.deepEqual(await states(bench, [processing]), ['processing']);
  }),
  storeCase(
    'move: a forced removal takes a running job away, and its claim with it',
    async ({ add, take, remove, find, lapse }) => {
      const id = await add();
      await take();
      assert.equal(await remove(id, true), 'removed');
      assert.deepEqual(await find(), []);
      assert.equal((await lapse()).lapsed, 0);
      assert.deepEqual(await find(), []);
    },
  ),
  storeCase('move: remove takes the log lines along', async ({ store, add, take, note, remove }) => {
    const id = await add();
    await note(await take(), { lines: ['hello'] });
    await remove(id, true);
    assert.deepEqual(await store.readLines(id), []);
  }),
];

const reschedule = [
  storeCase('move: reschedule moves a due job to later', async ({ add, reschedule, claimIds, advance, job, now }) => {
    const id = await add();
    assert.equal(await reschedule(id, 1_000), 'moved');
    const { scheduledFor, dueAt } = await job(id);
    assert.deepEqual([scheduledFor, dueAt], [now() + 1_000, now() + 1_000]);
    assert.deepEqual(await claimIds(), []);
    advance(1_000);
    assert.deepEqual(await claimIds(), [id]);
  }),
  storeCase('move: reschedule to now runs a delayed job', async ({ add, reschedule, claimIds }) => {
    const id = await add({ delay: 3_600_000 });
    await reschedule(id, 0);
    assert.deepEqual(await claimIds(), [id]);
  }),
  storeCase('move: reschedule to an instant in the past is now', async ({ add, move, job, now }) => {
    const id = await add({ delay: 1_000 });
    await move([id], { kind: 'reschedule', when: { at: now() - 99 }, priority: null });
    assert.equal((await job(id)).scheduledFor, now());
  }),
  storeCase('move: reschedule changes the priority alone', async ({ insert, reschedule, claimIds, job }) => {
    await insert({ id: 'a' }, { id: 'b' });
    const { scheduledFor } = await job('b');
    assert.equal(await reschedule('b', null, -1), 'moved');
    const moved = await job('b');
    assert.deepEqual([moved.priority, moved.scheduledFor], [-1, scheduledFor]);
    assert.deepEqual(await claimIds(), ['b', 'a']);
  }),
  storeCase('move: reschedule of a running or finished job is refused', async (bench) => {
    const ends = await finished(bench);
    const { processing } = await live(bench);
    for (const id of [processing, ...Object.values(ends)]) {
      const before = await bench.job(id);
      assert.equal(await bench.reschedule(id, 5), 'not_pending');
      assert.deepEqual(await bench.job(id), before);
    }
  }),
  storeCase('move: reschedule leaves the ttl as it is', async ({ add, reschedule, job }) => {
    const id = await add({ ttlMs: 9_000 });
    const { expiresAt } = await job(id);
    await reschedule(id, 1_000);
    assert.equal((await job(id)).expiresAt, expiresAt);
  }),
];

export const moveCases = [...cancel, ...byFilter, ...dry, ...remove, ...reschedule];
