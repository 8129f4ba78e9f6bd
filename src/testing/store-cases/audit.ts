/** Audit: what was made and what went, beside what is there. */
import assert from 'node:assert/strict';
import type { AuditKind, AuditPage, Store } from '../../core/store.js';
import { claim, completed, ending, newJob, storeCase } from './bench.js';
import { inside } from './transaction.js';

type Books = { [kind: string]: AuditKind };

/** By queue and state, counted from the rows of all pages. */
async function found(store: Store, limit: number): Promise<{ [name: string]: number }> {
  const sums: { [name: string]: number } = {};
  let cursor: string | null = null;
  do {
    const page: AuditPage = await store.readAudit({ cursor, limit });
    for (const { queue, state, n } of page.found) sums[`${queue} ${state}`] = (sums[`${queue} ${state}`] ?? 0) + n;
    cursor = page.next;
  } while (cursor !== null);
  return sums;
}

async function audit(store: Store, limit = 100): Promise<Books> {
  const books: Books = {};
  let cursor: string | null = null;
  do {
    const page: AuditPage = await store.readAudit({ cursor, limit });
    for (const [kind, { created, released, live, attention }] of Object.entries(page.kinds)) {
      if (cursor !== null) assert.deepEqual([created, released], [0, 0], 'the totals come once');
      const sum = books[kind] ?? { created: 0, released: 0, live: 0, attention: [] };
      books[kind] = {
        created: sum.created + created,
        released: sum.released + released,
        live: sum.live + live,
        attention: [...sum.attention, ...attention],
      };
    }
    cursor = page.next;
  } while (cursor !== null);
  return books;
}

const clean = (created: number, released: number): AuditKind => ({
  created,
  released,
  live: created - released,
  attention: [],
});

export const auditCases = [
  storeCase('readAudit: the books of an empty store are empty', async ({ store }) => {
    assert.deepEqual(await audit(store), {});
  }),
  storeCase(
    'readAudit: the books count every job that was made, went and is there, whatever its state',
    async (bench) => {
      await completed(bench, 3);
      const [cancelled, removed] = [await bench.add(), await bench.add({ delay: 5 })];
      await bench.cancel(cancelled);
      await bench.remove(removed);
      await bench.add();
      await bench.take();
      await bench.add({ exclusiveKey: 'k' });
      await bench.add({ exclusiveKey: 'k' });
      await bench.move([cancelled], { kind: 'retry', newIds: ['again'] });
      for (const limit of [1, 2, 100]) assert.deepEqual(await audit(bench.store, limit), { job: clean(9, 1) });
    },
  ),
  storeCase('readAudit: the rows are counted by queue and state, as they are found', async (bench) => {
    await completed(bench, 3);
    await bench.cancel(await bench.add({ queue: 'mail' }));
    await bench.insert({ type: 'once', key: 'k' }, { type: 'once', key: 'k', deduplication: 'replace' });
    await bench.add({ type: 'running' });
    await bench.add({ type: 'running', exclusiveKey: 'k' });
    await claim(bench.store, { types: ['running'], slots: 2 });
    await bench.add({ type: 'running', exclusiveKey: 'k' });
    await bench.add({ type: 'later', delay: 60_000 });
    await bench.add({ type: 'later', ttlMs: 5 });
    await bench.add({ queue: 'lastout', type: 'lastout.thing' });
    bench.advance(10);
    for (const limit of [1, 2, 100])
      assert.deepEqual(await found(bench.store, limit), {
        ...{ 'default completed': 3, 'default processing': 2, 'default pending': 3, 'default expired': 1 },
        ...{ 'default failed': 1, 'default replaced': 1, 'mail cancelled': 1, 'lastout pending': 1 },
      });
  }),
  storeCase('readAudit: what a sweep removes is booked as released', async (bench) => {
    await completed(bench, 4);
    bench.advance(1_000);
    await bench.cleanUp({ jobRetentionMs: 1 });
    await bench.add();
    assert.deepEqual(await audit(bench.store), { job: clean(5, 4) });
  }),
  storeCase('readAudit: jobs of queue lastout are booked by their type', async (bench) => {
    const [id] = await completed(bench, 1);
    const owned = await bench.add({ type: 'lastout.artifact', queue: 'lastout', ownedBy: id! });
    await bench.add({ type: 'lastout.temp', queue: 'lastout', ownedBy: id! });
    await bench.remove(owned);
    assert.deepEqual(await audit(bench.store), {
      job: clean(1, 0),
      'lastout.artifact': clean(1, 1),
      'lastout.temp': clean(1, 0),
    });
  }),
  storeCase('readAudit: what was refused, skipped or existed before is not booked', async (bench) => {
    const job = { id: 'given', given: true, deduplication: 'skip' as const };
    await bench.insert(job, job, { deduplication: 'skip' }, { ownedBy: 'nobody' });
    assert.deepEqual(await audit(bench.store), { job: clean(1, 0) });
  }),
  storeCase('readAudit: what came with a settlement is booked', async (bench) => {
    const id = await bench.add();
    const { epoch, owner } = await bench.take();
    const settlement = { id, epoch, ending: ending.complete(), then: [newJob(), newJob()] };
    for (let i = 0; i < 2; i++) await bench.store.settle({ owner, settlements: [settlement], started: [], next: null });
    assert.deepEqual(await audit(bench.store), { job: clean(3, 0) });
  }),
  inside('readAudit: what a caller’s transaction takes back was never booked', async ({ store }, begin) => {
    for (const how of ['rollback', 'commit'] as const) {
      const transaction = await begin();
      await store.insert([newJob()], { atomic: true, tx: transaction.tx });
      await transaction[how]();
    }
    assert.deepEqual(await audit(store), { job: clean(1, 0) });
  }),
];
