/** Tally: the counts follow every transition. */
import assert from 'node:assert/strict';
import type { QueueTally } from '../../core/store.js';
import { type Bench, cleanupOf, ending, leaseMs, storeCase } from './bench.js';

async function expectTally({ tally }: Bench, expected: Partial<QueueTally>): Promise<void> {
  const ended = { cancelled: 0, expired: 0 };
  const none = { ...ended, pending: 0, delayed: 0, processing: 0, stalled: 0, completed: 0, failed: 0, replaced: 0 };
  const counts = Object.entries(await tally()).filter(([name]) => name in none);
  assert.deepEqual(Object.fromEntries(counts), { ...none, ...expected });
}

export const tallyCases = [
  storeCase('tally: follows a job from insertion to removal', async (bench) => {
    const id = await bench.add();
    await expectTally(bench, { pending: 1 });
    const hold = await bench.take();
    await expectTally(bench, { processing: 1 });
    await bench.settle(hold, ending.complete());
    await expectTally(bench, { completed: 1 });
    await bench.remove(id);
    await expectTally(bench, {});
  }),
  storeCase('tally: follows every ending', async (bench) => {
    await bench.add();
    await bench.settle(await bench.take(), ending.retry(0));
    await expectTally(bench, { pending: 1 });
    await bench.settle(await bench.take(), ending.release());
    await expectTally(bench, { pending: 1 });
    await bench.settle(await bench.take(), ending.snooze(0));
    await expectTally(bench, { pending: 1 });
    await bench.settle(await bench.take(), ending.exhaust());
    await expectTally(bench, { failed: 1 });
    await bench.add();
    await bench.settle(await bench.take(), ending.cancel());
    await expectTally(bench, { failed: 1, cancelled: 1 });
  }),
  storeCase('tally: a replaced job is a part of the failed ones, until it is removed', async (bench) => {
    await bench.insert({ id: 'a' }, { id: 'b', queue: 'other' });
    await bench.insert({ id: 'c', deduplication: 'replace' });
    await expectTally(bench, { pending: 1, failed: 1, replaced: 1 });
    assert.equal((await bench.tally('other')).replaced, 1);
    await bench.settle(await bench.take(), ending.fail({ message: 'Replaced by newer job', code: 'REPLACED' }));
    await expectTally(bench, { failed: 2, replaced: 1 });
    await bench.hold('a');
    await bench.unhold('a');
    await bench.remove('a');
    await expectTally(bench, { failed: 1 });
    bench.advance(10_000);
    await bench.cleanUp({ jobRetentionMs: 1_000 });
    await expectTally(bench, {});
    assert.equal((await bench.tally('other')).replaced, 0);
  }),
  storeCase('tally: a delayed job is a part of pending until it is due', async (bench) => {
    await bench.add({ delay: 1_000 });
    await expectTally(bench, { pending: 1, delayed: 1 });
    bench.advance(1_000);
    await expectTally(bench, { pending: 1 });
    await bench.take();
    await expectTally(bench, { processing: 1 });
  }),
  storeCase('tally: a delayed job that is cancelled, moved or removed leaves no count', async (bench) => {
    await bench.insert({ id: 'a', delay: 1_000 }, { id: 'b', delay: 1_000 }, { id: 'c', delay: 1_000 });
    await bench.cancel('a');
    await bench.remove('b');
    await bench.reschedule('c', 0);
    await expectTally(bench, { pending: 1, cancelled: 1 });
  }),
  storeCase('tally: a lapsed claim is stalled until it is brought back', async (bench) => {
    await bench.insert({}, {});
    await bench.take({ slots: 1 });
    bench.advance(leaseMs);
    await expectTally(bench, { pending: 1, processing: 1, stalled: 1 });
    await bench.tend();
    await expectTally(bench, { pending: 2 });
  }),
  storeCase('tally: a job past its ttl counts as expired, swept or not', async (bench) => {
    await bench.insert({ ttlMs: 1_000 }, { ttlMs: 5_000, delay: 2_000 }, { ttlMs: 900_000 });
    bench.advance(1_000);
    await expectTally(bench, { pending: 2, delayed: 1, expired: 1 });
    bench.advance(4_000);
    await expectTally(bench, { pending: 1, expired: 2 });
    await bench.tend();
    await expectTally(bench, { pending: 1, expired: 2 });
  }),
  storeCase('tally: follows replace, coalesce, supersession and forced moves', async (bench) => {
    await bench.insert({ id: 'a', key: 'k', deduplication: 'skip' });
    await bench.insert({ id: 'b', key: 'k', deduplication: 'replace', delay: 1_000 });
    await expectTally(bench, { pending: 1, delayed: 1, failed: 1, replaced: 1 });
    await bench.insert({ key: 'k', deduplication: 'coalesce' });
    await expectTally(bench, { pending: 1, failed: 1, replaced: 1 });
    const hold = await bench.take();
    await bench.insert({ id: 'c', key: 'k', deduplication: 'skip' });
    await bench.settle(hold, ending.retry(0));
    await expectTally(bench, { pending: 1, failed: 1, replaced: 1, cancelled: 1 });
    await bench.take();
    await bench.cancel('c', { force: true });
    await expectTally(bench, { failed: 1, replaced: 1, cancelled: 2 });
    await bench.add({ id: 'd' });
    await bench.take();
    await bench.remove('d', true);
    await expectTally(bench, { failed: 1, replaced: 1, cancelled: 2 });
  }),
  storeCase('tally: jobs behind an exclusive key are pending and not delayed', async (bench) => {
    await bench.insert({ exclusiveKey: 'x' }, { exclusiveKey: 'x' }, { exclusiveKey: 'x' });
    await bench.take();
    await expectTally(bench, { pending: 2, processing: 1 });
  }),
  storeCase('tally: queues are counted apart, and empty ones are not told', async ({ store, insert, remove }) => {
    await insert(
      { id: 'a', queue: 'fast' },
      { id: 'b', queue: 'slow' },
      { id: 'c', queue: 'slow' },
      { id: 'd', queue: 'gone' },
    );
    await remove('d');
    const { queues } = await store.tally(cleanupOf());
    const counts = queues.map(({ queue, pending }) => `${queue} ${pending}`).toSorted();
    assert.deepEqual(counts, ['fast 1', 'slow 2']);
  }),
  storeCase('tally: cleanup takes its jobs out of the counts', async (bench) => {
    await bench.add();
    await bench.settle(await bench.take(), ending.complete());
    bench.advance(10);
    await bench.cleanUp({ jobRetentionMs: 1 });
    await expectTally(bench, {});
  }),
  storeCase('tally: oldestDueAgeMs is the age of the oldest due job', async ({ insert, advance, tally, claimIds }) => {
    await insert({ priority: 5 });
    advance(1_000);
    await insert({}, { delay: 60_000 });
    advance(500);
    assert.equal((await tally()).oldestDueAgeMs, 1_500);
    await claimIds();
    assert.equal((await tally()).oldestDueAgeMs, null);
  }),
  storeCase('tally: oldestDueAgeMs counts a delayed job from its due time, promoted or not', async (bench) => {
    await bench.add({ delay: 1_000 });
    assert.equal((await bench.tally()).oldestDueAgeMs, null);
    bench.advance(3_000);
    assert.equal((await bench.tally()).oldestDueAgeMs, 2_000);
    await bench.tend();
    assert.equal((await bench.tally()).oldestDueAgeMs, 2_000);
  }),
  storeCase('tally: oldestDueAgeMs counts a job behind an exclusive key', async ({ insert, take, advance, tally }) => {
    await insert({ exclusiveKey: 'x' }, { exclusiveKey: 'x' });
    await take();
    advance(1_000);
    assert.equal((await tally()).oldestDueAgeMs, 1_000);
  }),
  storeCase('tally: oldestDueAgeMs leaves out what is past its ttl', async ({ insert, advance, tally }) => {
    await insert({ ttlMs: 1_000 });
    advance(500);
    await insert({});
    advance(500);
    assert.equal((await tally()).oldestDueAgeMs, 500);
  }),
  storeCase('tally: overdue counts what is past its retention by more than an interval', async (bench) => {
    await bench.add();
    await bench.settle(await bench.take(), ending.complete());
    await bench.add({ policy: { keep: { completed: { ageMs: null } } } });
    await bench.settle(await bench.take(), ending.complete());
    const policy = cleanupOf({ jobRetentionMs: 1_000, cleanupIntervalMs: 500 });
    bench.advance(1_500);
    assert.equal((await bench.store.tally(policy)).overdue, 0);
    bench.advance(1);
    assert.equal((await bench.store.tally(policy)).overdue, 1);
    await bench.cleanUp(policy);
    assert.equal((await bench.store.tally(policy)).overdue, 0);
  }),
];
