// What the tests of the lifecycle share: a clock set by hand, jobs that put artifacts, and blobs in view.
import { memoryBlobs } from '../src/artifacts/memory.js';
import type { BlobStore, TempFolders } from '../src/core/blobs.js';
import { noFilter, type Store, type StoreContext, type StoredJob, type StoreFactory } from '../src/core/store.js';
import { type Context, defineJob, open, type OpenOptions, type Queue } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { closedAfterwards, type OnStore } from './support.js';

export const t0 = Date.parse('2030-01-01T00:00:00Z');
export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;

export interface HandClock {
  at: number;
  now(): Date;
}

export function handClock(): HandClock {
  const clock: HandClock = { at: t0, now: () => new Date(clock.at) };
  return clock;
}

/** A queue whose clock is set by hand; timers run by the real one, so only what a test starts is swept. */
export async function byHand(on: OnStore, options: OpenOptions = {}, where?: string | StoreFactory) {
  const clock = handClock();
  const queue = closedAfterwards(await open(where ?? (await on.url()), { artifacts: 'memory', ...options, clock }));
  await queue.stopPeriodicCleanup();
  return { queue, clock };
}

type Run = (context: Context<any>) => unknown;

/** Runs one job to its end; its id. */
export async function runJob(
  queue: Queue,
  run: Run,
  options: { input?: unknown; name?: string } = {},
): Promise<string> {
  const type = defineJob<any, any>(options.name ?? 'job', { attempts: 1, run: (context) => run(context) as any });
  const worker = await queue.work([type]);
  const { id } = await queue.enqueue(type, options.input ?? null);
  await queue.wait(id);
  await worker.stop();
  return id;
}

/** Runs one job that should complete. */
export async function completes(queue: Queue, run: Run): Promise<string> {
  const id = await runJob(queue, run);
  const job = await queue.get(id);
  if (job?.state !== 'completed') throw new Error(`The job did not complete: ${job?.error?.stack ?? job?.state}`);
  return id;
}

/** The records of things, newest first. */
export async function things(queue: Queue): Promise<readonly string[]> {
  const { items } = await queue.find({ type: ['lastout.artifact', 'lastout.temp'], limit: 200 });
  return items.map(({ id }) => id);
}

export async function textOf(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const chunk of chunks) parts.push(chunk);
  return Buffer.concat(parts).toString('utf8');
}

export async function readText(queue: Queue, id: string): Promise<string> {
  return textOf(await queue.artifacts.read(id));
}

export async function idsIn(blobs: Pick<BlobStore | TempFolders, 'list'>): Promise<string[]> {
  const ids: string[] = [];
  for await (const { id } of blobs.list(Number.NEGATIVE_INFINITY)) ids.push(id);
  return ids.sort();
}

type BlobVerb = 'put' | 'read' | 'delete' | 'list' | 'used';

/** Blobs in memory whose calls are seen, and may fail. */
export function watchedBlobs(clock: HandClock) {
  const inner = memoryBlobs({ now: () => clock.at });
  const calls: { verb: BlobVerb; id: string | null }[] = [];
  const seen = { calls, inner, before: async (_verb: BlobVerb, _id: string | null): Promise<void> => undefined };
  const note = async (verb: BlobVerb, id: string | null): Promise<void> => {
    calls.push({ verb, id });
    await seen.before(verb, id);
  };
  const blobs: BlobStore = {
    async put(id, chunks, options) {
      await note('put', id);
      return inner.put(id, chunks, options);
    },
    async *read(id) {
      await note('read', id);
      yield* inner.read(id);
    },
    async delete(id) {
      await note('delete', id);
      await inner.delete(id);
    },
    async *list(olderThanMs) {
      await note('list', null);
      yield* inner.list(olderThanMs);
    },
    async used() {
      await note('used', null);
      return inner.used();
    },
  };
  return { ...seen, blobs, fail: (before: typeof seen.before) => void (seen.before = before) };
}

export function contextFor(clock: HandClock): StoreContext {
  return { system: createSystem(clock), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
}

/** Every row, the library's own too. */
export async function allRows(store: Store): Promise<readonly StoredJob[]> {
  return (await store.find({ filter: noFilter, cursor: null, limit: 1_000 })).jobs;
}
