import { expect, test } from 'vitest';
import { day, ended, hour, note, stage, stored } from './support.js';

test('000-22 000-27 what was removed is logged and returned, with the real number', async () => {
  const at = await stage();
  await at.jobs.stopPeriodicCleanup();
  await ended(at, 7);
  await at.clock.advance(day + 1);
  await ended(at, 2);
  at.said();

  expect(await at.jobs.cleanup()).toEqual({ removed: 7 });
  expect(at.said()).toEqual(['Removed 7 old jobs from memory']);
  expect((await at.jobs.queue.ledger()).items[0]).toMatchObject({ removed: 7, removedBy: { age: 7 }, failures: 0 });
});

test('000-23 000-25 with recent jobs up to the limit, "No cleanup needed" and "Removed: 0 jobs" are logged', async () => {
  const at = await stage({ maxStoredJobs: 5 });
  const ids = await ended(at, 5);
  at.said();

  expect(await at.jobs.cleanup()).toEqual({ removed: 0 });
  expect(at.said()).toEqual(['No cleanup needed', 'Removed: 0 jobs']);
  expect((await stored(at.jobs, ids)).every(Boolean)).toBe(true);
});

test('000-24 with no job at all, "Nothing to clean" is logged', async () => {
  const at = await stage();
  expect(at.said()).toEqual(['No cleanup needed', 'Removed: 0 jobs', 'Nothing to clean']);
  await at.clock.advance(hour);
  expect(at.said()).toEqual(['No cleanup needed', 'Removed: 0 jobs', 'Nothing to clean']);

  await at.jobs.add(note, { end: 'complete' });
  await at.jobs.cleanup();
  expect(at.said()).not.toContain('Nothing to clean');
});
