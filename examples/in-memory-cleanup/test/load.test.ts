import { setTimeout } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test } from 'vitest';
import { dossier } from '../src/dossier.js';
import { InMemoryJobQueue } from '../src/in-memory-job-queue.js';
import { ended, filesIn, note, stage, stored, temporaryFolder } from './support.js';

test('000-31 above the limit a pass is made at once, oldest first, and it is seen', async () => {
  const at = await stage({ maxStoredJobs: 10 });
  const ids: string[] = [];
  for (let n = 0; n < 12; n++) {
    ids.push(...(await ended(at, 1)));
    await at.clock.advance(10);
  }
  at.said();
  // No hour has passed; less than a second has.
  await at.clock.advance(500);
  expect((await at.jobs.stats()).total).toBe(10);
  expect(await stored(at.jobs, ids)).toEqual([false, false, ...Array.from({ length: 10 }, () => true)]);
  const removed = at.lines.filter(({ message }) => /^Removed \d+ old jobs from memory$/.test(message));
  expect(removed.length).toBeGreaterThan(0);
  expect((await at.jobs.queue.ledger()).items.some(({ removedBy }) => (removedBy['cap'] ?? 0) > 0)).toBe(true);
});

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Least squares: how much y grows per x. */
function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, meanY] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const covariance = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return covariance / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

async function idle(jobs: InMemoryJobQueue): Promise<void> {
  for (let busy = true; busy; ) {
    const { queued, running } = await jobs.stats();
    busy = queued + running > 0;
    if (busy) await setTimeout(5);
  }
}

const jobsPerRound = 2_500;
/** While code is compiled and the bounded logs fill (the last events, the last 10,000 removed jobs), the heap grows. */
const warmUpRounds = 13;
const measuredRounds = 8;
/** A job that stays in memory is more than a thousand. */
const tolerableBytesPerJob = 100;

test('000-35 over 50,000 jobs their number and the heap stay on a plateau', async () => {
  const jobs = await InMemoryJobQueue.open();
  onTestFinished(async () => void (await jobs.queue.close({ grace: 0 })));
  await jobs.work([note], 100);
  const measure = async (rounds: number, kept?: object[]): Promise<[number, number][]> => {
    const heap: [number, number][] = [];
    for (let round = 1; round <= rounds; round++) {
      await Promise.all(
        Array.from({ length: jobsPerRound }, (_, n) => jobs.add(note, { end: n % 5 ? 'complete' : 'fail', n })),
      );
      await idle(jobs);
      await jobs.cleanup();
      expect((await jobs.stats()).total).toBe(1_000);
      for (let n = 0; kept && n < jobsPerRound; n++)
        kept.push({ id: `job ${round} ${n}`, input: { n }, at: new Date() });
      heap.push([round * jobsPerRound, heapUsed()]);
    }
    return heap;
  };

  await measure(warmUpRounds);
  expect(slope(await measure(measuredRounds))).toBeLessThan(tolerableBytesPerJob);
  // And it would have told: something small kept for each job.
  expect(slope(await measure(2, []))).toBeGreaterThan(tolerableBytesPerJob);
}, 120_000);

test('000-35 the files stay on a plateau too', async () => {
  const dir = await temporaryFolder();
  const jobs = await InMemoryJobQueue.open({ maxStoredJobs: 10 }, { artifacts: { dir } });
  onTestFinished(async () => void (await jobs.queue.close({ grace: 0 })));
  await jobs.work([dossier], 10);
  const files: number[] = [];
  for (let round = 0; round < 6; round++) {
    for (let n = 0; n < 20; n++) await jobs.add(dossier, { title: `Number ${n}`, pitch: 'Bread.' });
    await idle(jobs);
    await jobs.cleanup();
    files.push((await filesIn(dir)).size);
  }
  expect(files).toEqual([40, 40, 40, 40, 40, 40]);
  expect((await jobs.queue.audit()).clean).toBe(true);
}, 120_000);
