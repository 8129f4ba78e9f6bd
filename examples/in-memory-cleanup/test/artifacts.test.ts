import { existsSync } from 'node:fs';
import { mkdir, rm, utimes, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { type Artifact, defineJob } from 'lastout';
import { expect, test } from 'vitest';
import {
  fileBlobs,
  filesIn,
  hour,
  kindsOf,
  type Stage,
  stage,
  stored,
  temporaryFolder,
  textOf,
  write,
} from './support.js';

interface FileStage extends Stage {
  readonly dir: string;
}

/** An hour of retention is enough here; that it is a day by default is shown by the tests of the policy. */
const retention = { jobRetentionMs: hour };

async function fileStage(config: Parameters<typeof stage>[0] = {}): Promise<FileStage> {
  const dir = await temporaryFolder();
  const at = await stage({ ...retention, ...config }, { artifacts: { dir } });
  await at.jobs.stopPeriodicCleanup();
  return { ...at, dir };
}

async function fileOf(dir: string, artifact: Artifact): Promise<string> {
  const paths = [...(await filesIn(dir)).keys()].filter((path) => basename(path) === artifact.id);
  expect(paths).toHaveLength(1);
  return paths[0]!;
}

test('000-16 000-17 section artifacts and cached results are files, and go with their job', async () => {
  const at = await fileStage();
  const [id = ''] = await write(at, { title: 'A bakery' });
  expect(await kindsOf(at.jobs, id)).toEqual([
    'section summary.md',
    'section market.md',
    'section risks.md',
    'cache dossier.md',
  ]);
  expect([...(await filesIn(at.dir)).values()].sort()).toEqual([
    '# A bakery\n## summary\n\nBread.\n## market\n\nBread.\n## risks\n\nBread.\n',
    '## market\n\nBread.\n',
    '## risks\n\nBread.\n',
    '## summary\n\nBread.\n',
  ]);

  await at.clock.advance(hour + 1);
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect([...(await filesIn(at.dir)).keys()]).toEqual([]);
});

test('000-16 what a failed job had written goes with it too', async () => {
  const at = await fileStage();
  const [id = ''] = await write(at, { pitch: '' });
  expect((await at.jobs.get(id))?.state).toBe('failed');
  expect((await filesIn(at.dir)).size).toBe(3);
  await at.clock.advance(hour + 1);
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect((await filesIn(at.dir)).size).toBe(0);
});

test('000-18 temporary files are gone from the disk: when the job ends, and those that it kept when it is pruned', async () => {
  const at = await fileStage();
  const seen: string[] = [];
  const upload = defineJob('upload', {
    attempts: 1,
    async run({ tempDir, artifact }) {
      const scratch = join(await tempDir(), 'part-1.tmp');
      await writeFile(scratch, 'scratch');
      seen.push(scratch, String(existsSync(scratch)));
      await artifact.put('upload.tmp', 'kept for a second look', { kind: 'temporary' });
      return null;
    },
  });
  const worker = await at.jobs.work([upload], 1);
  const { id } = await at.jobs.add(upload, null);
  while ((await at.jobs.get(id))?.completedAt == null) await at.clock.advance(1);
  await worker.stop();

  const [scratch = '', existed] = seen;
  expect(existed).toBe('true');
  expect(existsSync(dirname(scratch))).toBe(false);
  const [kept] = await at.jobs.queue.artifacts.list(id);
  const path = await fileOf(at.dir, kept!);
  expect(existsSync(path)).toBe(true);
  await at.clock.advance(hour + 1);
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect(existsSync(path)).toBe(false);
  expect((await filesIn(at.dir)).size).toBe(0);
});

test('000-18 files of a process that died go too, when they are old enough to be nobody’s', async () => {
  const at = await fileStage();
  const [id = ''] = await write(at, {});
  const [mine] = await at.jobs.queue.artifacts.list(id);
  const folder = dirname(await fileOf(at.dir, mine!));
  const age = async (path: string, ms: number): Promise<void> => {
    const then = (Number(at.clock.now()) - ms) / 1_000;
    await utimes(path, then, then);
  };
  // An artifact without a record, and a temporary folder without one: what a crash leaves of a queue in memory.
  const orphan = join(folder, `${mine!.id.slice(0, 10)}0000000000`.slice(0, 18) + mine!.id.slice(18));
  const scratch = join(folder, '..', '..', '..', 'temp', '00000000000000000000');
  await writeFile(orphan, 'lost');
  await mkdir(scratch, { recursive: true });
  await writeFile(join(scratch, 'part'), 'lost');
  await age(orphan, hour / 2);
  await age(scratch, hour / 2);
  await at.jobs.cleanup();
  expect([existsSync(orphan), existsSync(scratch)]).toEqual([true, true]);

  await age(orphan, 2 * hour);
  await age(scratch, 2 * hour);
  await at.jobs.cleanup();
  expect([existsSync(orphan), existsSync(scratch)]).toEqual([false, false]);
  // The living job's own are untouched.
  expect(await kindsOf(at.jobs, id)).toHaveLength(4);
  expect((await filesIn(at.dir)).size).toBe(4);
});

test('000-15 000-19 first the list is made, then the artifacts go, then the job', async () => {
  const told: string[] = [];
  const ids: string[] = [];
  const names = async (): Promise<string> => (await stored(at.jobs, ids)).map((there, n) => (there ? n : '-')).join('');
  const ownerOf = new Map<string, number>();
  const dir = await temporaryFolder();
  const blobs = fileBlobs(dir, async (id) => {
    // Were the job removed first, it would not be there now.
    told.push(`bytes of ${ownerOf.get(id)} go while ${await names()} are stored`);
  });
  const at = await stage(retention, { artifacts: { blobs } });
  await at.jobs.stopPeriodicCleanup();
  ids.push(...(await write(at, {}, {})));
  await at.clock.advance(hour);
  ids.push(...(await write(at, {})));
  for (const [n, id] of ids.entries())
    for (const artifact of await at.jobs.queue.artifacts.list(id)) ownerOf.set(artifact.id, n);
  at.jobs.queue.on('removed', ({ id }) => void told.push(`job ${ids.indexOf(id ?? '')} is gone`));
  expect((await at.jobs.queue.plan()).removes['age']).toMatchObject({ count: 2, sample: ids.slice(0, 2) });

  expect(await at.jobs.cleanup()).toEqual({ removed: 2 });
  await at.clock.settle();
  const [bytes, jobs] = [told.slice(0, 8), told.slice(8)];
  // The list of two was complete before anything was deleted, and both were there until all of it was.
  expect(bytes.sort()).toEqual([0, 0, 0, 0, 1, 1, 1, 1].map((n) => `bytes of ${n} go while 012 are stored`));
  expect(jobs.sort()).toEqual(['job 0 is gone', 'job 1 is gone']);
  expect(await names()).toBe('--2');
  expect((await filesIn(dir)).size).toBe(4);
});

test('000-19 a job stays as long as one of its files cannot be deleted, and goes after it', async () => {
  const at = await fileStage();
  const ids = await write(at, {}, {});
  const [stuck] = await at.jobs.queue.artifacts.list(ids[1]!);
  // The file is a folder now, with something in it.
  const path = await fileOf(at.dir, stuck!);
  await rm(path);
  await mkdir(path);
  await writeFile(join(path, 'in-the-way'), '');
  await at.clock.advance(hour);
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect(await stored(at.jobs, ids)).toEqual([false, true]);
  expect((await at.jobs.queue.ledger()).items[0]?.failures).toBe(1);
  expect((await at.jobs.queue.explain(ids[1]!)).because).toContain('could not be deleted');

  await rm(path, { recursive: true });
  await at.clock.advance('2m');
  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect(await stored(at.jobs, ids)).toEqual([false, false]);
  expect((await filesIn(at.dir)).size).toBe(0);
});

test('000-20 artifacts of jobs that stay are untouched', async () => {
  const at = await fileStage();
  await write(at, { title: 'Old' });
  await at.clock.advance(hour);
  const [young = ''] = await write(at, { title: 'Young' });
  await at.clock.advance(hour / 2);

  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect(await textOf(at.jobs, young, 'dossier.md')).toMatch(/^# Young\n/);
  expect((await filesIn(at.dir)).size).toBe(4);
});

test('000-21 a removed job is not found any more, and neither are its artifacts', async () => {
  const at = await fileStage();
  const [id = ''] = await write(at, {});
  const [artifact] = await at.jobs.queue.artifacts.list(id);
  await at.clock.advance(hour + 1);
  await at.jobs.cleanup();

  expect(await at.jobs.get(id)).toBeUndefined();
  expect(await at.jobs.queue.artifacts.list(id)).toEqual([]);
  await expect(at.jobs.queue.artifacts.read(artifact!.id)).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
  expect(await at.jobs.stats()).toMatchObject({ total: 0 });
  const explained = await at.jobs.queue.explain(id);
  expect(explained.state).toBe('removed');
});

test('000-26 recent jobs above the limit: the oldest are marked, their files deleted, they are removed, and it is logged', async () => {
  const at = await fileStage({ maxStoredJobs: 3 });
  const ids = await write(at, {}, {}, {}, {}, {});
  expect((await filesIn(at.dir)).size).toBe(20);
  at.said();

  expect(await at.jobs.cleanup()).toEqual({ removed: 2 });
  expect(await stored(at.jobs, ids)).toEqual([false, false, true, true, true]);
  expect((await filesIn(at.dir)).size).toBe(12);
  expect(at.said()).toEqual(['Removed 2 old jobs from memory']);
});

test('000-29 a file that is missing already is no error: the job goes', async () => {
  const at = await fileStage();
  const [id = ''] = await write(at, {});
  const [artifact] = await at.jobs.queue.artifacts.list(id);
  await rm(await fileOf(at.dir, artifact!));
  await at.clock.advance(hour + 1);

  expect(await at.jobs.cleanup()).toEqual({ removed: 1 });
  expect((await at.jobs.queue.ledger()).items[0]?.failures).toBe(0);
  expect(at.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
  expect((await filesIn(at.dir)).size).toBe(0);
});
