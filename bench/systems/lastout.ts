/** lastout as its users get it: retention at its default, every feature on. */
import type { StoreFactory } from '../../src/core/store.js';
import { defineJob, memoryStore, open, type Queue } from '../../src/index.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import type { Cleaner, Contender, Finished, Where, Working } from '../contender.js';

const bare = defineJob('mail', {});
const aside = defineJob('aside', {});
const day = 86_400_000;
const batch = 1_000;

export async function openContender({ store, at, setup, payload }: Where): Promise<Contender> {
  const queue = await open(urlOf(store, at, setup));
  return {
    add: () => queue.enqueue(bare, payload),
    addMany: (count) => queue.enqueueMany(Array.from({ length: count }, () => ({ type: bare, input: payload }))),
    work: (concurrency, onJob) => work(queue, concurrency, onJob),
    close: () => queue.close(),
  };
}

async function work(queue: Queue, concurrency: number, onJob: () => void): Promise<Working> {
  const mail = defineJob('mail', {
    async run() {
      onJob();
    },
  });
  const worker = await queue.work([mail], { concurrency });
  // It stops when the ending of each job that it ran is acknowledged by the store.
  return { settled: () => worker.stop(), stop: () => worker.stop() };
}

function urlOf(store: Where['store'], at: string, setup: string): string {
  if (store === 'memory') return 'memory:';
  return store === 'sqlite' ? `sqlite:${at}?synchronous=${setup}` : at;
}

/** By its clock the jobs ended a day ago; they are due when their retention, a little longer than that, is over. */
export async function openCleaner(where: Where, { count, afterMs }: Finished): Promise<Cleaner> {
  const factory = factoryOf(where);
  await loadFinished(factory, where, count);
  const dueAt = Date.now() + afterMs;
  const cleanup = { jobRetentionMs: day + afterMs, maxStoredJobs: Number.POSITIVE_INFINITY };
  const queue = await open(factory, { cleanup });
  return {
    add: () => queue.enqueue(bare, where.payload),
    addAside: () => queue.enqueue(aside, where.payload),
    work: (concurrency, onJob) => work(queue, concurrency, onJob),
    async due() {
      while (Date.now() <= dueAt) await new Promise((resolve) => setTimeout(resolve, dueAt + 1 - Date.now()));
    },
    /** A pass by the rhythm may have been at it before. */
    async clean() {
      await queue.sweep();
      const { items } = await queue.ledger({ limit: 100 });
      return items.reduce((sum, { removed }) => sum + removed, 0);
    },
    close: () => queue.close(),
  };
}

function factoryOf({ store, at, setup }: Where): StoreFactory {
  switch (store) {
    case 'memory':
      return memoryStore();
    case 'sqlite':
      return sqliteStore({ file: at }, { synchronous: setup === 'normal' ? 'normal' : 'full' });
    case 'postgres':
      return postgresStore({ url: at });
    case 'redis':
      return redisStore({ url: at });
  }
}

/** They are added and run as usual, by a clock that shows yesterday. */
async function loadFinished(factory: StoreFactory, { payload }: Where, count: number): Promise<void> {
  const cleanup = { jobRetentionMs: 7 * day, maxStoredJobs: Number.POSITIVE_INFINITY };
  const queue = await open(factory, { cleanup, clock: { now: () => new Date(Date.now() - day) } });
  let left = count;
  let ranAll: () => void = () => undefined;
  const allRan = new Promise<void>((resolve) => (ranAll = resolve));
  const working = await work(queue, 100, () => {
    left -= 1;
    if (left === 0) ranAll();
  });
  for (let from = 0; from < count; from += batch) {
    const length = Math.min(batch, count - from);
    await queue.enqueueMany(Array.from({ length }, () => ({ type: bare, input: payload })));
    // Some thousands wait at most, as in a queue that is well served.
    while (left - (count - from - length) > 10 * batch) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await allRan;
  await working.stop();
  await queue.close();
}
