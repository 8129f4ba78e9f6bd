/** What an ending becomes: the table of ARCHITECTURE.md, cell by cell. */
import assert from 'node:assert/strict';
import type { Ending } from '../../core/ending.js';
import { type Bench, ending, type Hold, storeCase } from './bench.js';

type Column = 'normally' | 'after a cancel request' | 'when marked to run again';

const broken = { message: 'broken', code: 'E_BROKEN' };
const hopeless = { message: 'hopeless' };

const endings: { readonly [row: string]: Ending } = {
  'a returned value': ending.complete({ ok: true }),
  'a throw with attempts left': ending.retry(2_000, broken),
  'a throw at the last attempt': ending.exhaust(broken),
  'a returned fail()': ending.fail(hopeless),
  'a returned snooze()': ending.snooze(2_000),
  'a returned cancel()': ending.cancel('not needed'),
  'a hand-back': ending.release(),
};

/** What a job must look like afterwards; `in` is when it is due again, `own` stands for the time it was due before. */
interface Expected {
  readonly state: string;
  readonly attempts?: number;
  readonly in?: number | 'own';
  readonly stalls?: number;
  readonly error?: object | null;
  readonly result?: unknown;
}

const cancelled = (attempts: number): Expected => ({
  state: 'cancelled',
  attempts,
  error: { code: 'CANCELLED', message: 'stop' },
});
const again: Expected = { state: 'pending', attempts: 0, in: 0, error: null };

/** The job has used one attempt before. */
const table: { readonly [row: string]: { readonly [column in Column]: Expected } } = {
  'a returned value': {
    normally: { state: 'completed', attempts: 2, result: { ok: true }, error: null },
    'after a cancel request': { state: 'completed', attempts: 2, result: { ok: true }, error: null },
    'when marked to run again': again,
  },
  'a throw with attempts left': {
    normally: { state: 'pending', attempts: 2, in: 2_000, error: broken },
    'after a cancel request': cancelled(2),
    'when marked to run again': again,
  },
  'a throw at the last attempt': {
    normally: { state: 'failed', attempts: 2, error: broken },
    'after a cancel request': cancelled(2),
    'when marked to run again': again,
  },
  'a returned fail()': {
    normally: { state: 'failed', attempts: 2, error: hopeless },
    'after a cancel request': { state: 'failed', attempts: 2, error: hopeless },
    'when marked to run again': again,
  },
  'a returned snooze()': {
    normally: { state: 'pending', attempts: 1, in: 2_000 },
    'after a cancel request': { state: 'cancelled', error: { code: 'CANCELLED', message: 'stop' } },
    'when marked to run again': { state: 'pending', attempts: 0, in: 0 },
  },
  'a returned cancel()': {
    normally: { state: 'cancelled', attempts: 2, error: { code: 'CANCELLED', message: 'not needed' } },
    'after a cancel request': cancelled(2),
    'when marked to run again': {
      state: 'cancelled',
      attempts: 2,
      error: { code: 'CANCELLED', message: 'not needed' },
    },
  },
  'a hand-back': {
    normally: { state: 'pending', attempts: 1, in: 'own' },
    'after a cancel request': cancelled(1),
    'when marked to run again': { state: 'pending', attempts: 1, in: 'own' },
  },
  'a lapse': {
    normally: { state: 'pending', attempts: 1, in: 'own', stalls: 1 },
    'after a cancel request': cancelled(1),
    'when marked to run again': { state: 'pending', attempts: 1, in: 'own', stalls: 1 },
  },
};

async function check(bench: Bench, id: string, expected: Expected, ownDueAt: number): Promise<void> {
  const job = await bench.job(id);
  assert.equal(job.state, expected.state);
  if (expected.attempts !== undefined) assert.equal(job.attempts, expected.attempts);
  assert.equal(job.stalls, expected.stalls ?? 0);
  assert.equal(job.completedAt, expected.state === 'pending' ? null : bench.now());
  if (expected.in !== undefined) assert.equal(job.dueAt, expected.in === 'own' ? ownDueAt : bench.now() + expected.in);
  if (expected.error !== undefined) assert.deepEqual(await bench.error(id), expected.error);
  assert.deepEqual(job.result === null ? undefined : JSON.parse(job.result), expected.result);
}

async function run(bench: Bench, row: string, column: Column): Promise<void> {
  const { add, take, settle, insert, cancel, advance, lapse, job } = bench;
  const id = await add({ key: 'k', deduplication: 'coalesce', maxAttempts: 2 });
  await settle(await take(), ending.retry(0));
  advance(10);
  const { scheduledFor } = await job(id);
  const hold = await take();
  advance(10);
  if (column === 'after a cancel request') assert.equal(await cancel(id), 'requested');
  if (column === 'when marked to run again') await insert({ key: 'k', deduplication: 'coalesce' });
  const how = endings[row];
  if (how) assert.equal(await settle(hold, how), 'ok');
  else await lapse();
  await check(bench, id, table[row]![column], scheduledFor);
}

const cells = Object.entries(table).flatMap(([row, columns]) =>
  Object.entries(columns).map(([column, { state }]) =>
    storeCase(`settle: ${row} ${column} makes it ${state}`, (bench) => run(bench, row, column as Column)),
  ),
);

/** Runs a job that was marked, and hands it back or lets it lapse: the mark must be gone. */
async function markIsCleared(bench: Bench, leave: (hold: Hold) => Promise<unknown>): Promise<void> {
  const id = await bench.add({ key: 'k', deduplication: 'coalesce' });
  const hold = await bench.take();
  await bench.insert({ key: 'k', deduplication: 'coalesce' });
  await leave(hold);
  await bench.settle(await bench.take(), ending.complete());
  assert.equal((await bench.job(id)).state, 'completed');
}

export const settleCases = [
  ...cells,
  storeCase('settle: a hand-back clears the mark to run again', (bench) =>
    markIsCleared(bench, (hold) => bench.settle(hold, ending.release())),
  ),
  storeCase('settle: a lapse clears the mark to run again', (bench) => markIsCleared(bench, () => bench.lapse())),
  storeCase('settle: another run clears the mark to run again', (bench) =>
    markIsCleared(bench, (hold) => bench.settle(hold, ending.complete())),
  ),
  storeCase(
    'settle: a snooze before the marked time is the earlier one',
    async ({ add, insert, take, settle, job, now }) => {
      const id = await add({ key: 'k', deduplication: 'coalesce' });
      const hold = await take();
      await insert({ key: 'k', deduplication: 'coalesce', delay: 9_000 });
      await settle(hold, ending.snooze(2_000));
      assert.equal((await job(id)).dueAt, now() + 2_000);
    },
  ),
  ...Object.entries(endings).map(([row, how]) =>
    storeCase(`settle: with ${row} a cancel request outranks the mark to run again`, async (bench) => {
      const id = await bench.add({ key: 'k', deduplication: 'coalesce' });
      const hold = await bench.take();
      await bench.insert({ key: 'k', deduplication: 'coalesce' });
      assert.equal(await bench.cancel(id), 'requested');
      await bench.settle(hold, how);
      assert.equal((await bench.job(id)).state, table[row]!['after a cancel request'].state);
    }),
  ),
  storeCase('settle: a hand-back goes before what was inserted later', async ({ insert, take, settle, claimIds }) => {
    await insert({ id: 'a' });
    const hold = await take();
    await insert({ id: 'b' });
    await settle(hold, ending.release());
    assert.deepEqual(await claimIds(), ['a', 'b']);
  }),
  storeCase('settle: a completed job has no error of an earlier attempt', async ({ add, take, settle, error }) => {
    const id = await add();
    await settle(await take(), ending.retry(0, broken));
    assert.deepEqual(await error(id), broken);
    await settle(await take(), ending.complete());
    assert.equal(await error(id), null);
  }),
  storeCase('settle: results and errors are kept to the letter', async ({ add, take, settle, job }) => {
    const texts = { result: '{"a":[],"b":{},"c":"\\u2028ä😀"}', error: '{"message":"ü\\n","stack":"at x"}' };
    const done = await add();
    await settle(await take(), { kind: 'complete', result: texts.result });
    const failed = await add();
    await settle(await take(), { kind: 'fail', error: texts.error });
    assert.deepEqual([(await job(done)).result, (await job(failed)).error], [texts.result, texts.error]);
  }),
  storeCase('settle: many endings of one call are answered in order', async ({ store, insert, claimIds, job }) => {
    await insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    await claimIds();
    const { epoch } = await job('a');
    const { answers } = await store.settle({
      owner: 'worker-1',
      settlements: [
        { id: 'c', epoch, ending: ending.fail() },
        { id: 'nobody', epoch, ending: ending.complete() },
        { id: 'a', epoch, ending: ending.complete() },
      ],
      started: [],
      next: null,
    });
    assert.deepEqual(answers, ['ok', 'STALE_CLAIM', 'ok']);
    const states = await Promise.all(['a', 'b', 'c'].map(async (id) => (await job(id)).state));
    assert.deepEqual(states, ['completed', 'processing', 'failed']);
  }),
  storeCase('settle: carries the next claim, which sees what the endings did', async ({ store, insert, take }) => {
    await insert({ id: 'a', exclusiveKey: 'x' }, { id: 'b', exclusiveKey: 'x' });
    const { id, epoch, owner } = await take();
    const next = { owner, types: ['mail'], queues: null, slots: 5, ahead: 0, leaseMs: 1_000, maxStalls: 3 };
    const { answers, claimed } = await store.settle({
      owner,
      settlements: [{ id, epoch, ending: ending.complete() }],
      started: [],
      next,
    });
    assert.deepEqual(answers, ['ok']);
    assert.deepEqual(
      claimed?.jobs.map((job) => job.id),
      ['b'],
    );
    assert.ok(claimed.epoch > epoch);
  }),
  storeCase('settle: without a next claim nothing is claimed', async ({ store, add, take, job }) => {
    await add();
    const { id, epoch, owner } = await take();
    const other = await add();
    const settlements = [{ id, epoch, ending: ending.complete() }];
    assert.equal((await store.settle({ owner, settlements, started: [], next: null })).claimed, null);
    assert.equal((await job(other)).state, 'pending');
  }),
];
