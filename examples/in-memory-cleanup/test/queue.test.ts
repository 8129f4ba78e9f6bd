import { defineJob } from 'lastout';
import { expect, test } from 'vitest';
import { dossier } from '../src/dossier.js';
import { InMemoryJobQueue } from '../src/in-memory-job-queue.js';
import { ended, fileBlobs, hour, note, stage, temporaryFolder, write } from './support.js';

/** Runs until it is told not to, and counts how many do so at once. */
function endless(): { job: ReturnType<typeof defineJob<null, never>>; running(): number } {
  let running = 0;
  const job = defineJob<null, never>('endless', {
    run: ({ signal }) =>
      new Promise<never>((_, reject) => {
        running++;
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
      }),
  });
  return { job, running: () => running };
}

test('000-27 the statistics have each job once, in the words of the plan', async () => {
  const at = await stage({ maxStoredJobs: 10 });
  const { jobs, clock } = at;
  await ended(at, 3, 'complete');
  await ended(at, 2, 'fail');
  await jobs.queue.cancel((await jobs.add(note, { end: 'complete' })).id);
  await jobs.queue.enqueue(note, { end: 'complete' }, { ttl: 1_000 });
  await clock.advance(2_000);
  await jobs.queue.sweep();
  await jobs.add(note, { end: 'complete' });
  const { job } = endless();
  await jobs.add(job, null);
  await jobs.work([job]);
  await clock.settle();

  const stats = await jobs.stats();
  // Failed, cancelled and expired ones count as failed.
  expect(stats).toEqual({
    queued: 1,
    running: 1,
    completed: 3,
    failed: 4,
    total: 9,
    overLimit: 0,
    memoryUsageMB: expect.any(Number),
  });
  const heapMB = process.memoryUsage().heapUsed / 1024 / 1024;
  expect(Number.isInteger(stats.memoryUsageMB)).toBe(true);
  expect(Math.abs(stats.memoryUsageMB - heapMB)).toBeLessThan(heapMB / 2);
});

test('two jobs run at once, unless another number is given', async () => {
  const { jobs, clock } = await stage();
  const { job, running } = endless();
  for (let n = 0; n < 5; n++) await jobs.add(job, null);
  await jobs.work([job]);
  await clock.settle();
  await clock.advance(1_000);
  expect(running()).toBe(2);
});

test('000-32 leaving its block closes the queue', async () => {
  const left = await (async () => {
    await using jobs = await InMemoryJobQueue.open();
    return jobs;
  })();
  const refused: unknown = await left.add(note, { end: 'complete' }).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: 'CLOSED' });
});

test('000-30 stopping waits for the cleanup that is under way', async () => {
  const order: string[] = [];
  let go!: () => void;
  let begin!: () => void;
  const door = new Promise<void>((resolve) => (go = resolve));
  const begun = new Promise<void>((resolve) => (begin = resolve));
  const blobs = fileBlobs(await temporaryFolder(), async () => {
    order.push('deleting');
    begin();
    await door;
  });
  const at = await stage({ jobRetentionMs: hour }, { artifacts: { blobs } });
  await write(at, {});
  const moved = at.clock.advance(2 * hour);
  await begun;

  const stopped = at.jobs.stopPeriodicCleanup().then(() => void order.push('stopped'));
  await at.clock.settle();
  expect(order).not.toContain('stopped');
  go();
  await Promise.all([stopped, moved]);
  expect(order.at(-1)).toBe('stopped');
  expect((await at.jobs.stats()).total).toBe(0);
});

test('a dossier is tried once, and stops at the next section when it is cancelled', async () => {
  let puts = 0;
  const folder = await temporaryFolder();
  const blobs = fileBlobs(folder, async () => {});
  const at = await stage(
    {},
    {
      artifacts: {
        blobs: {
          ...blobs,
          async put(id, chunks, options) {
            puts++;
            if (cancelled !== '') await at.jobs.queue.cancel(cancelled);
            return blobs.put(id, chunks, options);
          },
        },
      },
    },
  );
  let cancelled = '';
  const [failed = ''] = await write(at, { pitch: '' });
  expect(await at.jobs.get(failed)).toMatchObject({ state: 'failed', attempts: 1 });

  puts = 0;
  cancelled = (await at.jobs.add(dossier, { title: 'A bakery', pitch: 'Bread.' })).id;
  await at.jobs.work([dossier], 1);
  while ((await at.jobs.get(cancelled))?.completedAt == null) await at.clock.advance(1);
  expect((await at.jobs.get(cancelled))?.state).toBe('cancelled');
  expect(puts).toBe(1);
});
