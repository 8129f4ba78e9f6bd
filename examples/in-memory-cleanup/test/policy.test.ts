import { defineJob } from 'lastout';
import { expect, test } from 'vitest';
import { defaultConfig, InMemoryJobQueue } from '../src/in-memory-job-queue.js';
import { formatTable, policyTable } from '../src/policy-table.js';
import { day, ended, hour, note, runAll, stage, stored } from './support.js';

test('000-33 the configuration has exactly four names, with the given defaults, and each can be set', async () => {
  expect(defaultConfig).toEqual({
    maxStoredJobs: 1000,
    jobRetentionMs: 24 * 60 * 60 * 1000,
    cleanupIntervalMs: 60 * 60 * 1000,
    useCompletedTime: true,
  });
  const own = { maxStoredJobs: 5, jobRetentionMs: 1_000, cleanupIntervalMs: 500, useCompletedTime: false };
  for (const [name, value] of Object.entries(own)) {
    const { jobs } = await stage({ [name]: value });
    expect(jobs.config).toEqual({ ...defaultConfig, [name]: value });
    // The queue below works by the same four.
    expect((await jobs.queue.plan()).policy).toEqual(jobs.config);
  }
  await expect(InMemoryJobQueue.open({ jobRetentionMs: -1 })).rejects.toMatchObject({ code: 'INVALID_RETENTION' });
  await expect(InMemoryJobQueue.open({ retention: 1 } as object)).rejects.toMatchObject({ code: 'UNKNOWN_OPTION' });
});

test('000-34 the operator sees the policies as a table', async () => {
  const { jobs } = await stage();
  expect(policyTable(jobs.config)).toEqual([
    ['Retention Period', '24 hours', 'Keep jobs for debugging/history'],
    ['Max Stored Jobs', '1000 jobs', 'Prevent memory bloat'],
    ['Cleanup Frequency', '60 minutes', 'Balance efficiency vs. memory'],
    ['Reference Time', 'completedAt', 'Accurate retention calculation'],
  ]);
  const own = { maxStoredJobs: 7, jobRetentionMs: 90_000, cleanupIntervalMs: 250, useCompletedTime: false };
  expect(formatTable(policyTable(own)).split('\n')).toEqual([
    'Retention Period   90 seconds  Keep jobs for debugging/history',
    'Max Stored Jobs    7 jobs      Prevent memory bloat',
    'Cleanup Frequency  250 ms      Balance efficiency vs. memory',
    'Reference Time     createdAt   Accurate retention calculation',
  ]);
});

test('000-07 a job stays for exactly 24 h after its end, and not longer', async () => {
  const at = await stage();
  await at.jobs.stopPeriodicCleanup();
  const [id = ''] = await ended(at, 1);
  const { completedAt } = (await at.jobs.get(id))!;
  await at.clock.advance(day - (Number(at.clock.now()) - Number(completedAt)));

  expect(Number(at.clock.now()) - Number(completedAt)).toBe(86_400_000);
  expect(await at.jobs.cleanup()).toEqual({ removed: 0 });
  await at.clock.advance(1);
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
});

/** Runs until it is told not to. */
const endless = defineJob('endless', {
  run: ({ signal }) =>
    new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true })),
});

test('000-08 completed and failed jobs go, queued and running ones stay, however old', async () => {
  const at = await stage();
  const { jobs, clock } = at;
  const completed = await ended(at, 2, 'complete');
  const failed = await ended(at, 3, 'fail');
  expect((await jobs.get(failed[0]!))?.completedAt).toBeInstanceOf(Date);
  const { id: queued } = await jobs.add(note, { end: 'complete' });
  const { id: running } = await jobs.add(endless, null);
  await jobs.queue.work([endless], { poll: '1h', lease: '6h', heartbeat: '2h' });
  await clock.settle();

  await clock.advance(2 * day);
  await jobs.cleanup();

  expect(await stored(jobs, [...completed, ...failed])).toEqual([false, false, false, false, false]);
  expect((await jobs.get(queued))?.state).toBe('pending');
  expect((await jobs.get(running))?.state).toBe('processing');
});

test('000-09 retention counts from completedAt, not from createdAt', async () => {
  const at = await stage();
  const { jobs, clock } = at;
  await jobs.stopPeriodicCleanup();
  const { id: late } = await jobs.queue.enqueue(note, { end: 'complete' }, { delay: 47 * hour });
  await clock.advance(23 * hour);
  const [early = ''] = await ended({ jobs: onlyDue(jobs), clock }, 1);
  await clock.advance(24 * hour);
  await runAll({ jobs, clock });
  await clock.advance(hour);

  // Created 48 h ago and completed 1 h ago: kept. Created and completed 25 h ago: removed.
  expect(await jobs.cleanup()).toEqual({ removed: 1 });
  expect(await stored(jobs, [late, early])).toEqual([true, false]);
});

/** `ended` waits for what is due only. */
function onlyDue(jobs: InMemoryJobQueue): InMemoryJobQueue {
  return Object.assign(Object.create(jobs) as InMemoryJobQueue, {
    stats: async () => ({ ...(await jobs.stats()), queued: (await jobs.stats()).queued - 1 }),
  });
}

test('000-10 with useCompletedTime: false retention counts from createdAt', async () => {
  const at = await stage({ useCompletedTime: false });
  const { jobs, clock } = at;
  await jobs.stopPeriodicCleanup();
  const { id: late } = await jobs.queue.enqueue(note, { end: 'complete' }, { delay: 23 * hour });
  await clock.advance(23 * hour);
  await runAll(at);
  const [young = ''] = await ended(at, 1);
  await clock.advance(hour + 1);

  expect(await jobs.cleanup()).toEqual({ removed: 1 });
  expect(await stored(jobs, [late, young])).toEqual([false, true]);
});

test('000-11 1000 jobs stay, of 1001 exactly one goes', async () => {
  const at = await stage();
  await at.jobs.stopPeriodicCleanup();
  await ended(at, 1000);
  expect(await at.jobs.cleanup()).toEqual({ removed: 0 });
  expect((await at.jobs.stats()).total).toBe(1000);

  await ended(at, 1);
  expect((await at.jobs.stats()).total).toBe(1001);
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect((await at.jobs.stats()).total).toBe(1000);
});

test('000-12 over the limit the one that completed first goes first, whichever was created first', async () => {
  const at = await stage({ maxStoredJobs: 2 });
  const { jobs, clock } = at;
  await jobs.stopPeriodicCleanup();
  const { id: createdFirst } = await jobs.queue.enqueue(note, { end: 'complete' }, { delay: 5_000 });
  await clock.advance(1_000);
  const [completedFirst = ''] = await ended({ jobs: onlyDue(jobs), clock }, 1);
  await clock.advance(1_000);
  const [second = ''] = await ended({ jobs: onlyDue(jobs), clock }, 1, 'fail');
  await clock.advance(5_000);
  await runAll(at);

  expect(await jobs.cleanup()).toEqual({ removed: 1 });
  expect(await stored(jobs, [createdFirst, completedFirst, second])).toEqual([true, false, true]);
  await ended(at, 1);
  expect(await jobs.cleanup()).toEqual({ removed: 1 });
  expect(await stored(jobs, [createdFirst, second])).toEqual([true, false]);
});

test('000-13 the limit takes exactly the excess that the age rule left', async () => {
  const at = await stage({ maxStoredJobs: 10 });
  await at.jobs.stopPeriodicCleanup();
  const old = await ended(at, 4);
  await at.clock.advance(day + 1);
  const young = await ended(at, 12);

  // 16 are stored. Were the excess of 6 counted first and the age rule added to it, more than these 4 + 2 would go.
  expect(await at.jobs.cleanup()).toEqual({ removed: 6 });
  expect(await stored(at.jobs, old)).toEqual([false, false, false, false]);
  expect((await stored(at.jobs, young)).filter(Boolean)).toHaveLength(10);
  expect((await at.jobs.queue.ledger()).items[0]?.removedBy).toMatchObject({ age: 4, cap: 2 });
});

test('000-14 over the limit with only active jobs nothing goes, and it is seen', async () => {
  const at = await stage({ maxStoredJobs: 3, cleanupIntervalMs: hour / 4 });
  for (let n = 0; n < 5; n++) await at.jobs.add(note, { end: 'complete' });
  at.said();

  expect(await at.jobs.cleanup()).toEqual({ removed: 0 });
  expect(await at.jobs.stats()).toMatchObject({ queued: 5, total: 5, overLimit: 2 });
  expect(at.said()).toContain('Only active jobs are left above maxStoredJobs');

  // Nobody has to ask: the passes of the timer tell it too, but not each of them.
  await at.clock.advance(hour);
  expect(at.said().filter((message) => message.startsWith('Only active jobs'))).toHaveLength(1);

  // When they have ended, the excess goes.
  await runAll(at);
  await at.clock.advance(1_000);
  expect(await at.jobs.stats()).toMatchObject({ total: 3, overLimit: 0 });
});
