/** A process with a store of a given size, that measures an act when it is told to. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { Claimed, Store, StoreFactory } from '../src/core/store.js';
import { memoryStore, open, type Queue } from '../src/index.js';
import { postgresStore } from '../src/stores/postgres/index.js';
import { redisStore } from '../src/stores/redis/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { createSystem } from '../src/system.js';
import { type JobSketch, newJob } from '../src/testing/store-cases/bench.js';

export interface Order {
  readonly act: string;
}
export interface Answer {
  readonly microseconds: readonly number[];
}

const perTurn = 40;
const pageSize = 100;
const hour = 3_600_000;
/** What is stored, in shares of the size: half is finished, and most of the rest may not be claimed. */
const shares = { finished: 0.5, later: 0.3, behind: 0.1, ready: 0.1 } as const;

const [engine = '', text = '', at = ''] = process.argv.slice(2);
const size = Number(text);
const system = createSystem();
const folder = mkdtempSync(join(tmpdir(), 'lastout-bench-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));
process.on('SIGTERM', () => process.exit());
process.on('disconnect', () => process.exit());

const factory = factoryOf(engine);
const maxStoredJobs = Number.POSITIVE_INFINITY;
const store: Store = await factory.open({ system, namespace: 'lastout', maxStoredJobs });
await fill();
const queue: Queue = await open(factory, { cleanup: { maxStoredJobs } });
const acts = new Map<string, () => Promise<number>>([
  ['claim 1', () => claimed(1)],
  ['claim 10', () => claimed(10)],
  ['claim 100', () => claimed(100)],
  ['get', await getting()],
  ['find, page 1', () => timed(() => queue.find({ limit: pageSize }))],
  ['find, page 1,000', await deepPage()],
  ['stats', () => timed(() => queue.stats())],
]);
process.on('message', (order: Order) => void answer(order));
process.send!('ready');

function factoryOf(name: string): StoreFactory {
  if (name === 'memory') return memoryStore();
  if (name === 'postgres') return postgresStore({ url: at });
  if (name === 'redis') return redisStore({ url: at });
  // Without an fsync per step: a disk's flush costs the same at every size, and would hide what grows.
  return sqliteStore({ file: join(folder, 'jobs.db') }, { synchronous: 'normal' });
}

async function answer({ act }: Order): Promise<void> {
  const microseconds: number[] = [];
  for (let i = 0; i < perTurn; i++) microseconds.push(await acts.get(act)!());
  process.send!({ microseconds } satisfies Answer);
}

async function timed(act: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await act();
  return (performance.now() - startedAt) * 1_000;
}

/** The claim alone; what it took is completed, and as much comes in again. */
async function claimed(slots: number): Promise<number> {
  let taken: Claimed | undefined;
  const took = await timed(async () => {
    taken = await claim(slots);
  });
  if (taken?.jobs.length !== slots) throw new Error(`Claimed ${taken?.jobs.length} instead of ${slots} jobs`);
  await complete(taken);
  await insert(slots, () => ({}));
  return took;
}

async function getting(): Promise<() => Promise<number>> {
  const ids: string[] = [];
  for await (const page of pages(20)) ids.push(...page.items.map(({ id }) => id));
  let at = 0;
  return () => timed(() => queue.get(ids[(at += 7) % ids.length]!));
}

/** With 100 jobs a page; where there are not as many, the last one. */
async function deepPage(): Promise<() => Promise<number>> {
  let cursor: string | null = null;
  for await (const page of pages(999)) cursor = page.next ?? cursor;
  return () => timed(() => queue.find({ limit: pageSize, ...(cursor !== null && { cursor }) }));
}

async function* pages(n: number) {
  let cursor: string | null = null;
  for (let i = 0; i < n; i++) {
    const page: Awaited<ReturnType<Queue['find']>> = await queue.find({
      limit: pageSize,
      ...(cursor !== null && { cursor }),
    });
    if (page.items.length < pageSize) return;
    yield page;
    if (page.next === null) return;
    ({ next: cursor } = page);
  }
}

function claim(slots: number): Promise<Claimed> {
  const lasting = { owner: 'bench', leaseMs: 24 * hour, maxStalls: 3 };
  return store.claim({ ...lasting, types: ['mail'], queues: null, slots, ahead: 0 });
}

async function complete({ jobs, epoch }: Claimed): Promise<void> {
  const settlements = jobs.map(({ id }) => ({ id, epoch, ending: { kind: 'complete', result: '"sent"' } as const }));
  await store.settle({ owner: 'bench', settlements, started: [], next: null });
}

async function insert(n: number, vary: (i: number) => JobSketch): Promise<void> {
  for (let from = 0; from < n; from += 1_000) {
    const jobs = Array.from({ length: Math.min(1_000, n - from) }, (_, i) =>
      newJob({ id: system.id(), subject: `trip:${(from + i) % 100_000}`, ...vary(from + i) }),
    );
    await store.insert(jobs, { atomic: false });
  }
}

async function fill(): Promise<void> {
  const finished = Math.round(size * shares.finished);
  for (let from = 0; from < finished; from += 1_000) {
    await insert(Math.min(1_000, finished - from), () => ({}));
    await complete(await claim(1_000));
  }
  await insert(size * shares.later, (i) => ({ priority: (i % 2_001) - 1_000, when: { inMs: hour + i } }));
  await insert(size * shares.behind, () => ({ exclusiveKey: 'trip-42', priority: -1_000 }));
  await claim(1); // holds the key for good
  await insert(size * shares.ready, () => ({}));
}
