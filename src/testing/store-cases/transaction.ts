/** Insert inside a transaction of the caller. An engine without transactions must refuse each of them. */
import assert from 'node:assert/strict';
import type { Store } from '../../core/store.js';
import { type Bench, newJob, storeCase } from './bench.js';
import type { CallerTransaction, StoreCase } from './harness.js';

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;

async function refuses(store: Store): Promise<void> {
  const inserting = store.insert([newJob()], { atomic: true, tx: {} });
  await assert.rejects(inserting, (error) => codeOf(error) === 'INVALID_TRANSACTION');
}

/** A rule about what happens inside; the transaction is the case's to begin and to end. */
export function inside(
  name: string,
  run: (bench: Bench, begin: () => Promise<CallerTransaction>) => Promise<void>,
): StoreCase {
  return storeCase(name, async (bench) => {
    if (bench.begin) await run(bench, bench.begin);
    else await refuses(bench.store);
  });
}

export const transactionCases = [
  storeCase('insert: a tx that is no open transaction on this store is refused, with no effect', async (bench) => {
    await refuses(bench.store);
    assert.deepEqual(await bench.find(), []);
  }),
  inside(
    "insert: in a caller's transaction, nothing is seen before the commit and all of it after",
    async (bench, begin) => {
      const { store } = bench;
      const at = await begin();
      const jobs = [newJob(), newJob({ delay: 5_000 }), newJob({ key: 'k', deduplication: 'skip' })];
      const answers = await store.insert(jobs, { atomic: true, tx: at.tx });
      assert.deepEqual(
        answers.map(({ outcome }) => outcome),
        ['created', 'created', 'created'],
      );
      assert.deepEqual(await bench.find(), []);
      await at.commit();
      assert.deepEqual((await bench.find()).sort(), jobs.map(({ id }) => id).sort());
      const { pending, delayed } = await bench.tally();
      assert.deepEqual({ pending, delayed }, { pending: 3, delayed: 1 });
      assert.equal((await bench.drain()).length, 3);
    },
  ),
  inside("insert: a caller's rollback leaves no job, count, slot, turn, event or used id", async (bench, begin) => {
    const { store } = bench;
    const read = await bench.watch();
    const at = await begin();
    const job = newJob({ given: true, key: 'k', deduplication: 'skip', exclusiveKey: 'x', policy: { timeoutMs: 77 } });
    await store.insert([job, newJob({ policy: { timeoutMs: 78 } })], { atomic: true, tx: at.tx });
    await at.rollback();
    assert.deepEqual(await bench.find(), []);
    assert.deepEqual(await read(), []);
    assert.deepEqual((await store.tally(cleanup)).queues, []);
    const other = { ...job, input: '"another"', policy: newJob({ policy: { timeoutMs: 79 } }).policy };
    const [again] = await store.insert([other], { atomic: true });
    assert.deepEqual(again, { id: job.id, outcome: 'created' });
    assert.equal((await bench.job(job.id)).policy, other.policy);
    assert.deepEqual(await bench.drain(), [job.id]);
  }),
  inside(
    'insert: a job that a transaction skipped or pulled is claimed only after the commit',
    async (bench, begin) => {
      const { store } = bench;
      const first = await bench.add({ key: 'a', deduplication: 'skip' });
      const second = await bench.add({ key: 'b', deduplication: 'coalesce', delay: 60_000 });
      const at = await begin();
      const twins = [newJob({ key: 'a', deduplication: 'skip' }), newJob({ key: 'b', deduplication: 'coalesce' })];
      assert.deepEqual(await store.insert(twins, { atomic: true, tx: at.tx }), [
        { id: first, outcome: 'skipped' },
        { id: second, outcome: 'coalesced' },
      ]);
      // A store may answer at once without these jobs, or wait for the commit; it may not hand them out before.
      const claiming = bench.claimIds();
      for (let looks = 0; looks < 3; looks += 1) {
        for (const id of [first, second]) assert.equal((await bench.job(id)).state, 'pending');
      }
      await at.commit();
      assert.deepEqual([...(await claiming), ...(await bench.claimIds())].sort(), [first, second].sort());
    },
  ),
  inside("insert: a refusal leaves nothing of the batch and the caller's transaction alive", async (bench, begin) => {
    const { store } = bench;
    const taken = newJob({ given: true });
    await store.insert([taken], { atomic: true });
    const at = await begin();
    const batch = [newJob(), newJob({ id: taken.id, given: true, input: '"another"' })];
    const refused = store.insert(batch, { atomic: true, tx: at.tx });
    await assert.rejects(refused, (error) => codeOf(error) === 'IDEMPOTENCY_CONFLICT');
    const late = newJob();
    await store.insert([late], { atomic: true, tx: at.tx });
    await at.commit();
    assert.deepEqual((await bench.find()).sort(), [taken.id, late.id].sort());
  }),
  inside('insert: in one transaction, later calls see what earlier ones did', async (bench, begin) => {
    const { store } = bench;
    const at = await begin();
    const sketch = { key: 'k', deduplication: 'skip' } as const;
    const [first] = await store.insert([newJob(sketch)], { atomic: true, tx: at.tx });
    const [second] = await store.insert([newJob(sketch)], { atomic: true, tx: at.tx });
    assert.deepEqual(second, { id: first!.id, outcome: 'skipped' });
    await at.commit();
    assert.deepEqual(await bench.find(), [first!.id]);
  }),
];

const cleanup = { maxStoredJobs: 9, jobRetentionMs: 5_000, cleanupIntervalMs: 100, useCompletedTime: true };
