import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import type { BlobStore } from 'lastout';
import { fakeClock } from 'lastout/testing';
import { expect, onTestFinished, test } from 'vitest';
import { dossier } from '../src/dossier.js';
import { InMemoryJobQueue } from '../src/in-memory-job-queue.js';
import { day, ended, fileBlobs, hour, stage, stored, temporaryFolder } from './support.js';

/** Messages that end a pass. */
const passes = (messages: readonly string[]): number =>
  messages.filter((message) => /^(?:Removed \d+ old jobs from memory|No cleanup needed)$/.test(message)).length;

test('000-01 old jobs go by themselves: nobody asks, and nothing else happens', async () => {
  const at = await stage();
  const ids = await ended(at, 3);
  await at.clock.advance(day + hour);
  expect(await stored(at.jobs, ids)).toEqual([false, false, false]);
});

test('000-02 the periodic cleanup is started when the queue is opened', async () => {
  const at = await stage();
  // The first pass is made at once, the next after an hour; nothing but open was called.
  expect(passes(at.said())).toBe(1);
  await at.clock.advance(hour);
  expect(passes(at.said())).toBe(1);
});

test('000-03 starting it again and again makes no second timer: one pass a period', async () => {
  const at = await stage();
  const timers = at.clock.pendingTimers;
  for (let n = 0; n < 3; n++) at.jobs.startPeriodicCleanup();
  expect(at.clock.pendingTimers).toBe(timers);
  at.said();
  for (let n = 1; n <= 5; n++) {
    await at.clock.advance(hour);
    expect(passes(at.said())).toBe(1);
  }
});

test('000-05 000-06 every 60 minutes there is one cleanup, and none in between', async () => {
  const at = await stage();
  expect(at.jobs.config.cleanupIntervalMs).toBe(3_600_000);
  at.said();
  await at.clock.advance(hour - 1);
  expect(passes(at.said())).toBe(0);
  await at.clock.advance(1);
  expect(passes(at.said())).toBe(1);
  await at.clock.advance(24 * hour);
  expect(passes(at.said())).toBe(24);
});

test('000-04 000-32 a process that has nothing else to do ends, though the cleanup is running', async () => {
  const require = createRequire(import.meta.url);
  const tsx = pathToFileURL(require.resolve('tsx')).href;
  const source = new URL('../src/in-memory-job-queue.ts', import.meta.url).href;
  const program = `
    const { InMemoryJobQueue } = await import(${JSON.stringify(source)});
    let passed;
    const pass = new Promise((resolve) => { passed = resolve; });
    const quiet = () => {};
    const logger = { debug: quiet, info: passed, warn: quiet, error: quiet };
    const jobs = await InMemoryJobQueue.open({ cleanupIntervalMs: 1_000_000 }, { logger });
    jobs.startPeriodicCleanup();
    await jobs.queue.enqueue('note', {});
    // The first cleanup is done, the next one is due in a while.
    await pass;
    console.log('ready');
  `;
  const run = promisify(execFile)(process.execPath, ['--import', tsx, '--input-type=module', '--eval', program], {
    timeout: 30_000,
  });
  // Were it held, the time limit would kill it, and this would reject.
  expect((await run).stdout).toBe('ready\n');
});

test('000-30 ticks do not overlap, and after stop and start there is one timer again', async () => {
  const at = await stage();
  const { jobs, clock } = at;
  await ended(at, 3);
  await clock.advance(day + 1);
  at.said();
  // Three asked for at the same time are one.
  const answers = await Promise.all([jobs.cleanup(), jobs.cleanup(), jobs.cleanup()]);
  expect(passes(at.said())).toBe(1);
  expect(answers).toEqual([{ removed: 3 }, { removed: 3 }, { removed: 3 }]);

  await jobs.stopPeriodicCleanup();
  await clock.advance(3 * hour);
  expect(passes(at.said())).toBe(0);
  await jobs.stopPeriodicCleanup();
  jobs.startPeriodicCleanup();
  jobs.startPeriodicCleanup();
  await clock.settle();
  at.said();
  await clock.advance(hour);
  expect(passes(at.said())).toBe(1);
});

test('000-30 a cleanup that outlasts its period is not joined by a second one', async () => {
  const dir = await temporaryFolder();
  let deletions = 0;
  let letGo = (): void => {};
  const stuck = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const blobs = fileBlobs(dir, async () => {
    deletions += 1;
    await stuck;
  });
  const at = await stage({ jobRetentionMs: hour / 2 }, { artifacts: { blobs } });
  const { jobs, clock } = at;
  const worker = await jobs.work([dossier], 1);
  const { id } = await jobs.add(dossier, { title: 'A bakery', pitch: 'Bread.' });
  while ((await jobs.get(id))?.completedAt == null) await clock.advance(1);
  await worker.stop();
  at.said();

  // The tick after one hour finds four files, and is at them when the next three hours strike.
  await clock.advance(4 * hour);
  expect([deletions, passes(at.said()), await stored(jobs, [id])]).toEqual([4, 0, [true]]);
  letGo();
  const told: string[] = [];
  while (told.length === 0) {
    await clock.settle();
    told.push(...at.said());
  }
  expect([deletions, told, await stored(jobs, [id])]).toEqual([4, ['Removed 1 old jobs from memory'], [false]]);
  await clock.advance(hour);
  expect(passes(at.said())).toBe(1);
});

test('000-32 after closing, no timer is left', async () => {
  const clock = fakeClock();
  const jobs = await InMemoryJobQueue.open({}, { clock });
  await clock.settle();
  expect(clock.pendingTimers).toBeGreaterThan(0);
  await jobs.queue.close();
  expect(clock.pendingTimers).toBe(0);
});

test('000-28 a failure inside the cleanup is logged, and the next tick cleans up', async () => {
  let broken = false;
  const blobs: BlobStore = {
    ...fileBlobs(await temporaryFolder(), async () => {}),
    async *list() {
      if (broken) throw new Error('The disk is gone');
    },
  };
  const at = await stage({}, { artifacts: { blobs } });
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));

  broken = true;
  await at.clock.advance(hour);
  const failures = at.lines.filter(({ level }) => level === 'error');
  expect(failures.map(({ message }) => message)).toEqual(['Cleanup failed; it is tried again']);
  expect((await at.jobs.queue.ledger()).items[0]?.failures).toBe(1);
  broken = false;
  at.said();
  await at.clock.advance(hour);
  expect(at.said()).toEqual(['No cleanup needed', 'Removed: 0 jobs', 'Nothing to clean']);
  expect((await at.jobs.queue.ledger()).items[0]?.failures).toBe(0);
  expect(unhandled).toEqual([]);
});
