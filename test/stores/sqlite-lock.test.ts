// Another connection holds the lock: calls wait without stopping the process, in their order, and give up cleanly.
import { noFilter } from '../../src/core/store.js';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { ClaimRequest } from '../../src/core/store.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { expectCode, temporaryFolder } from '../support.js';
import { connect, inChild, newJob, openStore, valueOf } from './sqlite-support.js';

test('a call waits for the lock, and the process goes on meanwhile', async () => {
  const { store, other } = await lockedStore();
  let ticks = 0;
  const ticking = setInterval(() => (ticks += 1), 10);
  setTimeout(() => other.exec('commit'), 300);
  const startedAt = performance.now();
  await store.insert([newJob()], { atomic: true });
  clearInterval(ticking);
  expect(performance.now() - startedAt).toBeGreaterThan(250);
  expect(ticks).toBeGreaterThan(5);
  expect(valueOf(other, 'select count(*) from lastout_jobs')).toBe(1);
  await store.close();
  other.close();
});

test('past the deadline the call fails, nothing is written, and the next one works', async () => {
  const { store, other } = await lockedStore(150);
  const refusal = await expectCode('STORE_UNAVAILABLE', () => store.insert([newJob()], { atomic: true }));
  expect(refusal.message).toMatch(/was locked by another transaction for 150 ms\. Nothing was written/);
  expect(refusal.message).toContain('the call needs { tx }');
  other.exec('commit');
  expect(valueOf(other, 'select count(*) from lastout_jobs')).toBe(0);
  expect(valueOf(other, 'select count(*) from lastout_events')).toBe(0);
  await store.insert([newJob()], { atomic: true });
  expect(valueOf(other, 'select count(*) from lastout_jobs')).toBe(1);
  await store.close();
  other.close();
});

test('calls that wait are served in their order', async () => {
  const { store, other } = await lockedStore();
  const ids = Array.from({ length: 20 }, (_, i) => `job${i}`);
  const inserts = ids.map((id) => store.insert([newJob({ id })], { atomic: true }));
  setTimeout(() => other.exec('commit'), 50);
  await Promise.all(inserts);
  const { jobs } = await store.claim({ ...request, slots: 20 });
  expect(jobs.map(({ id }) => id)).toEqual(ids);
  await store.close();
  other.close();
});

test('an idle worker and a reader need no lock', async () => {
  const { store, other } = await lockedStore(100);
  expect(await store.claim(request)).toMatchObject({ jobs: [], nextDueInMs: null });
  expect(await store.find({ filter: noFilter, cursor: null, limit: 10 })).toEqual({ jobs: [], next: null });
  expect((await store.tally(cleanup)).queues).toEqual([]);
  expect((await store.readEvents({ after: null, limit: 1 })).reset).toBe(false);
  await store.close();
  other.close();
});

test('readers are not held up by a write that waits', async () => {
  const { store, other } = await lockedStore();
  const answered: string[] = [];
  const inserting = store.insert([newJob()], { atomic: true }).then(() => answered.push('insert'));
  for (let n = 0; n < 3; n++) {
    await store.find({ filter: noFilter, cursor: null, limit: 10 }).then(() => answered.push('find'));
  }
  other.exec('commit');
  await inserting;
  expect(answered).toEqual(['find', 'find', 'find', 'insert']);
  await store.close();
  other.close();
});

test('a claim that has something to do waits for the lock', async () => {
  const file = join(temporaryFolder(), 'jobs.db');
  const store = await openStore(sqliteStore({ file }, { lockWaitMs: 50 }));
  const other = await connect(file);
  const whileLocked = async (): Promise<void> => {
    other.exec('begin immediate');
    await expectCode('STORE_UNAVAILABLE', () => store.claim(request));
    other.exec('commit');
  };
  await store.insert([newJob()], { atomic: true });
  await whileLocked();
  const { jobs } = await store.claim({ ...request, leaseMs: 0 });
  expect(jobs).toHaveLength(1);
  await whileLocked(); // its claim has lapsed
  await store.close();
  other.close();
});

test('a paused queue does not keep the lock busy', async () => {
  const { store, other } = await lockedStore(50);
  other.exec('commit');
  await store.insert([newJob(), newJob({ queue: 'open' })], { atomic: true });
  await store.pause('default', true);
  expect((await store.claim({ ...request, slots: 5 })).jobs).toHaveLength(1);
  other.exec('begin immediate');
  expect((await store.claim(request)).jobs).toEqual([]);
  expect((await store.claim({ ...request, queues: ['default'] })).jobs).toEqual([]);
  await store.close();
  other.close();
});

test("the caller's own transaction on a given connection is waited for", async () => {
  const db = await connect(join(temporaryFolder(), 'jobs.db'));
  const store = await openStore(sqliteStore({ db }));
  db.exec('create table mine (n); begin; insert into mine values (1)');
  setTimeout(() => db.exec('commit'), 60);
  await store.insert([newJob()], { atomic: true });
  expect(valueOf(db, 'select count(*) from mine')).toBe(1);
  expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(1);
  await store.close();
  db.close();
});

test('a process that has nothing else to do still waits', async () => {
  const file = join(temporaryFolder(), 'jobs.db');
  await (await openStore(file)).close();
  const other = await connect(file);
  other.exec('begin immediate');
  setTimeout(() => other.exec('commit'), 2_500);
  const answer = inChild(`
    const store = await openStore(${JSON.stringify(file)});
    const [inserted] = await store.insert([newJob()], { atomic: true });
    return inserted.outcome;
  `);
  expect(await answer).toBe('created');
  other.close();
}, 30_000);

test('a step that throws leaves nothing, and the next one starts afresh', async () => {
  const file = join(temporaryFolder(), 'jobs.db');
  const store = await openStore(file);
  const given = (input: string) => newJob({ id: 'given', idGiven: true, input });
  await store.insert([given('1')], { atomic: true });
  await expectCode('IDEMPOTENCY_CONFLICT', () => store.insert([newJob(), given('2')], { atomic: true }));
  await store.insert([newJob({ policy: '{"keep":{},"timeoutMs":7,"backoff":null}' })], { atomic: true });
  const other = await connect(file);
  expect(valueOf(other, 'select group_concat(seq order by seq) from lastout_jobs')).toBe('1,2');
  expect(valueOf(other, 'select count(*) from lastout_policies')).toBe(2);
  await store.close();
  other.close();
});

/** A new store, and another connection that holds its lock until it commits. */
async function lockedStore(lockWaitMs = 10_000) {
  const file = join(temporaryFolder(), 'jobs.db');
  const store = await openStore(sqliteStore({ file }, { lockWaitMs }));
  const other = await connect(file);
  other.exec('begin immediate');
  return { store, other };
}

const request: ClaimRequest = {
  owner: 'o',
  types: ['mail', 'report'],
  queues: null,
  slots: 1,
  ahead: 0,
  leaseMs: 30_000,
  maxStalls: 3,
};
const cleanup = { maxStoredJobs: 9, jobRetentionMs: 5_000, cleanupIntervalMs: 100, useCompletedTime: true };
