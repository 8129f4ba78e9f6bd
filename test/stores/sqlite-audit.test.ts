// What no verb can bring about: rows that stand nowhere, and rows whose owner is gone. The books name them.
import { expect, onTestFinished, test } from 'vitest';
import type { AuditPage, Store } from '../../src/core/store.js';
import { prepare, type SqliteDatabase } from '../../src/stores/sqlite/driver.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { harnessOn } from './harness.js';
import { faultsIn } from './sqlite-audit.js';
import { connect, newJob } from './sqlite-support.js';

async function furnished(n: number): Promise<{ store: Store; db: SqliteDatabase }> {
  const db = await connect(':memory:');
  const { store, dispose } = await harnessOn(sqliteStore({ db }));
  onTestFinished(dispose);
  const jobs = Array.from({ length: n }, (_, i) => newJob({ id: `job-${i}` }));
  await store.insert(jobs, { atomic: true });
  return { store, db };
}

async function pages(store: Store, limit: number): Promise<AuditPage[]> {
  const list: AuditPage[] = [];
  for (let cursor: string | null = null, more = true; more; more = cursor !== null) {
    const page: AuditPage = await store.readAudit({ cursor, limit });
    list.push(page);
    cursor = page.next;
  }
  return list;
}

test('a job that stands nowhere needs attention, and is not counted as live', async () => {
  const { store, db } = await furnished(3);
  prepare(db, 'update "lastout_pending" set last = 2 where last = 3').run();
  const [page] = await pages(store, 100);
  expect(page?.kinds).toEqual({ job: { created: 3, released: 0, live: 2, attention: ['job-2'] } });
  expect(faultsIn(db)).toContain('a job is not in exactly one place: job-2');
});

test('a job whose claim is not there any more needs attention', async () => {
  const { store, db } = await furnished(2);
  await store.claim({ owner: 'w', types: ['mail'], queues: null, slots: 1, ahead: 0, leaseMs: 1_000, maxStalls: 3 });
  const attention = async () => (await pages(store, 100))[0]?.kinds['job']?.attention;
  expect([await attention(), faultsIn(db)]).toEqual([[], []]);
  prepare(db, 'delete from "lastout_claims"').run();
  expect(await attention()).toEqual(['job-0']);
  expect(faultsIn(db)).toContain('a job is not in exactly one place: job-0');
});

test('an owned job whose owner is gone needs attention', async () => {
  const { store, db } = await furnished(1);
  const thing = { type: 'lastout.artifact', queue: 'lastout', ownedBy: 'job-0' };
  await store.insert([newJob({ ...thing, id: 'thing' })], { atomic: true });
  prepare(db, `delete from "lastout_pending" where type = 'mail'`).run();
  prepare(db, `delete from "lastout_jobs" where id = 'job-0'`).run();
  const [page] = await pages(store, 100);
  expect(page?.kinds['lastout.artifact']).toEqual({ created: 1, released: 0, live: 0, attention: ['thing'] });
  expect(page?.kinds['job']).toEqual({ created: 1, released: 0, live: 0, attention: [] });
});

test('a page names at most a hundred, and the next one goes on behind them', async () => {
  const { store, db } = await furnished(250);
  prepare(db, 'delete from "lastout_pending"').run();
  const found = (await pages(store, 1_000)).map(({ kinds }) => kinds['job']?.attention ?? []);
  expect(found.map(({ length }) => length)).toEqual([100, 100, 50]);
  expect(new Set(found.flat()).size).toBe(250);
});
