import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BlobStore, defineJob, type Logger, type OpenOptions } from 'lastout';
import { type FakeClock, fakeClock } from 'lastout/testing';
import { onTestFinished } from 'vitest';
import { dossier, type Pitch } from '../src/dossier.js';
import { type CleanupConfig, InMemoryJobQueue } from '../src/in-memory-job-queue.js';

export const hour = 60 * 60 * 1000;
export const day = 24 * hour;

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
}

export interface Stage {
  readonly jobs: InMemoryJobQueue;
  readonly clock: FakeClock;
  readonly lines: LogLine[];
  /** Messages since the last call. */
  said(): readonly string[];
}

/** A queue whose clock is moved by hand, closed when the test ends. */
export async function stage(
  config: Partial<CleanupConfig> = {},
  options: Omit<OpenOptions, 'cleanup' | 'clock' | 'logger'> = {},
): Promise<Stage> {
  const clock = fakeClock();
  const { logger, lines } = recordingLogger();
  const jobs = await InMemoryJobQueue.open(config, { ...options, clock, logger });
  onTestFinished(() => close(jobs, clock));
  await clock.settle();
  let told = 0;
  return {
    jobs,
    clock,
    lines,
    said() {
      const fresh = lines.slice(told).map(({ message }) => message);
      told = lines.length;
      return fresh;
    },
  };
}

/** Closing waits by the clock, which nobody else moves any more. */
async function close(jobs: InMemoryJobQueue, clock: FakeClock): Promise<void> {
  let closed = false;
  const closing = jobs.queue.close({ grace: 0 }).finally(() => {
    closed = true;
  });
  while (!closed) await clock.advance(100);
  await closing;
}

function recordingLogger(): { logger: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  const at = (level: LogLine['level']) => (message: string) => void lines.push({ level, message });
  return { logger: { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }, lines };
}

/** Ends as its input says. */
export const note = defineJob<{ readonly end: 'complete' | 'fail'; readonly n?: number }>('note', {
  attempts: 1,
  run({ input }) {
    if (input.end === 'fail') throw new Error('as asked');
    return null;
  },
});

/** Adds `count` jobs, lets them end at this moment of the clock, and answers their ids in the order of their ends. */
export async function ended(
  { jobs, clock }: Pick<Stage, 'jobs' | 'clock'>,
  count: number,
  end: 'complete' | 'fail' = 'complete',
): Promise<readonly string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) ids.push((await jobs.add(note, { end, n })).id);
  await runAll({ jobs, clock });
  return ids;
}

export async function runAll({ jobs, clock }: Pick<Stage, 'jobs' | 'clock'>): Promise<void> {
  const worker = await jobs.work([note], 50);
  for (let busy = true; busy; ) {
    await clock.settle();
    const { queued, running } = await jobs.stats();
    busy = queued + running > 0;
    if (busy) await clock.advance(1);
  }
  await worker.stop();
}

export async function stored(jobs: InMemoryJobQueue, ids: readonly string[]): Promise<readonly boolean[]> {
  return Promise.all(ids.map(async (id) => (await jobs.get(id)) !== undefined));
}

/** Writes dossiers one after the other, a second apart, and answers their ids. */
export async function write({ jobs, clock }: Stage, ...pitches: readonly Partial<Pitch>[]): Promise<readonly string[]> {
  const worker = await jobs.work([dossier], 1);
  const ids: string[] = [];
  for (const pitch of pitches) {
    const { id } = await jobs.add(dossier, { title: 'A bakery', pitch: 'Bread.', ...pitch });
    while ((await jobs.get(id))?.completedAt == null) await clock.advance(1);
    await clock.advance(1_000);
    ids.push(id);
  }
  await worker.stop();
  return ids;
}

export async function kindsOf(jobs: InMemoryJobQueue, id: string): Promise<readonly string[]> {
  return (await jobs.queue.artifacts.list(id)).map(({ kind, name }) => `${kind} ${name}`);
}

export async function textOf(jobs: InMemoryJobQueue, id: string, name: string): Promise<string> {
  const artifact = await jobs.queue.artifacts.get(id, name);
  let text = '';
  for await (const chunk of await jobs.queue.artifacts.read(artifact!.id)) text += Buffer.from(chunk).toString();
  return text;
}

/** A folder that is gone when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lastout-in-memory-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

/** Every file below a folder, and what is in it; without the marker that says whose folder it is. */
export async function filesIn(folder: string): Promise<ReadonlyMap<string, string>> {
  const files = new Map<string, string>();
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || entry.name === 'store.json') continue;
    const path = join(entry.parentPath, entry.name);
    files.set(path, await readFile(path, 'utf8'));
  }
  return files;
}

/** Blobs as plain files of one folder, which tells of every deletion before it is made. */
export function fileBlobs(folder: string, onDelete: (id: string) => Promise<void>): BlobStore {
  return {
    async put(id, chunks) {
      const parts: Uint8Array[] = [];
      for await (const chunk of chunks) parts.push(chunk);
      const whole = Buffer.concat(parts);
      await writeFile(join(folder, id), whole);
      return { bytes: whole.length, digest: createHash('sha256').update(whole).digest('hex') };
    },
    read: (id) => createReadStream(join(folder, id)),
    async delete(id) {
      await onDelete(id);
      await rm(join(folder, id), { force: true });
    },
    async *list() {},
    used: async () => 0,
  };
}
