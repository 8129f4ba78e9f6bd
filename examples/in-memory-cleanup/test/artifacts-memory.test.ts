// The artifact store of the plan: in memory, as the jobs are. What holds for files (artifacts.test.ts) holds here too.
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { defineJob } from 'lastout';
import { expect, onTestFinished, test } from 'vitest';
import { InMemoryJobQueue } from '../src/in-memory-job-queue.js';
import { filesIn, hour, kindsOf, type Stage, stage, stored, temporaryFolder, textOf, write } from './support.js';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

async function memoryStage(config: Parameters<typeof stage>[0] = {}): Promise<Stage> {
  const at = await stage({ jobRetentionMs: hour, ...config }, { artifacts: 'memory' });
  await at.jobs.stopPeriodicCleanup();
  return at;
}

test('000-16 000-17 section artifacts and cached results in memory go with their job', async () => {
  const at = await memoryStage();
  const [id = '', failed = ''] = await write(at, { title: 'A bakery' }, { pitch: '' });
  expect(await kindsOf(at.jobs, id)).toEqual([
    'section summary.md',
    'section market.md',
    'section risks.md',
    'cache dossier.md',
  ]);
  expect(await textOf(at.jobs, id, 'market.md')).toBe('## market\n\nBread.\n');
  expect(await textOf(at.jobs, id, 'dossier.md')).toMatch(/^# A bakery\n## summary\n/);
  expect(await kindsOf(at.jobs, failed)).toHaveLength(3);
  const artifacts = await at.jobs.queue.artifacts.list(id);

  await at.clock.advance(hour + 1);
  expect(await at.jobs.cleanup()).toEqual({ removed: 2 });
  for (const one of [id, failed]) expect(await at.jobs.queue.artifacts.list(one)).toEqual([]);
  for (const artifact of artifacts)
    await expect(at.jobs.queue.artifacts.read(artifact.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
  expect((await at.jobs.queue.audit()).clean).toBe(true);
});

test('000-20 000-21 artifacts in memory of jobs that stay are untouched', async () => {
  const at = await memoryStage();
  const [old = ''] = await write(at, { title: 'Old' });
  await at.clock.advance(hour);
  const [young = ''] = await write(at, { title: 'Young' });
  await at.clock.advance(hour / 2);
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect(await stored(at.jobs, [old, young])).toEqual([false, true]);
  expect(await kindsOf(at.jobs, young)).toHaveLength(4);
  expect(await textOf(at.jobs, young, 'dossier.md')).toMatch(/^# Young\n/);
});

test('000-26 above the limit the artifacts in memory of the oldest go, and those of the others stay', async () => {
  const at = await memoryStage({ maxStoredJobs: 2 });
  const ids = await write(at, {}, {}, {}, {}, {});
  expect(await at.jobs.cleanup()).toEqual({ removed: 3 });
  expect(await Promise.all(ids.map(async (id) => (await kindsOf(at.jobs, id)).length))).toEqual([0, 0, 0, 4, 4]);
});

test('000-18 with artifacts in memory, temporary files are on the disk, and gone from it when the job ends', async () => {
  const at = await memoryStage();
  const seen: string[] = [];
  const scratch = defineJob('scratch', {
    async run({ tempDir }) {
      seen.push(await tempDir());
      return existsSync(seen[0]!);
    },
  });
  const worker = await at.jobs.work([scratch], 1);
  const { id } = await at.jobs.add(scratch, null);
  while ((await at.jobs.get(id))?.completedAt == null) await at.clock.advance(1);
  await worker.stop();
  expect((await at.jobs.get(id))?.result).toBe(true);
  expect(existsSync(seen[0]!)).toBe(false);
  await at.jobs.queue.close({ grace: 0 });
  // The folder of the process, in which it was, goes when the queue is closed.
  expect(existsSync(dirname(seen[0]!))).toBe(false);
});

test('000-17 a queue that is not told where has its artifacts in memory, and writes no file for them', async () => {
  const folder = await temporaryFolder();
  const before = process.env['TMPDIR'];
  process.env['TMPDIR'] = folder;
  onTestFinished(() => {
    if (before === undefined) delete process.env['TMPDIR'];
    else process.env['TMPDIR'] = before;
  });
  const at = await stage();
  const [id = ''] = await write(at, {});
  expect(await kindsOf(at.jobs, id)).toHaveLength(4);
  expect((await filesIn(folder)).size).toBe(0);
});

const mebibyte = 1024 * 1024;

/** Leaves a mebibyte that is only in the artifact. */
const heavy = defineJob<{ n: number }>('heavy', {
  async run({ input, artifact }) {
    await artifact.put('film', Buffer.alloc(mebibyte, input.n), { kind: 'cache' });
    return null;
  },
});

function bytesHeld(): number {
  collectGarbage();
  return process.memoryUsage().arrayBuffers;
}

test('000-35 the bytes of artifacts in memory are given back, and stay on a plateau', async () => {
  const jobs = await InMemoryJobQueue.open({ maxStoredJobs: 10 });
  onTestFinished(async () => void (await jobs.queue.close({ grace: 0 })));
  await jobs.work([heavy], 5);
  const start = bytesHeld();
  for (let round = 0; round < 5; round++) {
    const added = await Promise.all(Array.from({ length: 20 }, (_, n) => jobs.add(heavy, { n })));
    for (const { id } of added) await jobs.queue.wait(id).catch(() => null); // it may have gone already
    await jobs.cleanup();
    expect((await jobs.stats()).total).toBe(10);
    // A mebibyte of each of them. The collector gives back at its own time what nobody holds.
    await expect.poll(() => Math.round((bytesHeld() - start) / mebibyte), { timeout: 10_000 }).toBe(10);
  }
});
