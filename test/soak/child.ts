/**
 * Work of every kind on one store, for so long, in a process of its own with `--expose-gc`:
 * `child.ts URL FOLDER SECONDS SAMPLES`. Each sample is one line of JSON; the last line is the report.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineJob, open, type Queue } from '../../src/index.js';
import { type Size, sizeOf, totalOf } from './size.js';

export interface Sample {
  readonly second: number;
  /** Jobs ended since the start. */
  readonly ended: number;
  /** After a collection, with no work under way. */
  readonly heap: number;
  /** While work is under way: rows of the engine (of memory: jobs and records), and files and folders. */
  readonly rows: number;
  readonly files: number;
  /** Entries of the bounded logs of the engine; in memory they are part of the heap, and 0. */
  readonly logs: number;
}

export interface Report {
  /** When all has ended and was swept. */
  readonly rows: number;
  readonly files: number;
  readonly clean: boolean;
  /** Of the engine: before the first job, and at the end; null: it lives in this process. */
  readonly size: { readonly first: Size; readonly last: Size } | null;
}

const [url = '', dir = '', seconds = '60', samples = '20'] = process.argv.slice(2);
const cleanup = { jobRetentionMs: 1_000, cleanupIntervalMs: 500, maxStoredJobs: 500, useCompletedTime: true };
const isInside = url === 'memory:';
const quick = { type: 'fixed', base: 10, jitter: 0 } as const;

/** Sections, a cached result that is written twice, a scratch file. */
const renders = defineJob<number, string>('renders', {
  async run({ input, artifact, tempDir, log, progress }) {
    writeFileSync(join(await tempDir(), 'scratch'), 'x'.repeat(1_000));
    await artifact.put('section', 'one'.repeat(100), { kind: 'section', shortLink: true });
    progress(50);
    await artifact.put('cache', `${input}`, { kind: 'cache', ttl: 500 });
    await artifact.put('cache', `${input} again`, { kind: 'cache', ttl: 500 });
    log('rendered', { input });
    return 'done';
  },
});
const flaky = defineJob<number, null>('flaky', {
  attempts: 2,
  backoff: quick,
  keep: { count: 20 },
  async run({ job, artifact }) {
    await artifact.put(`try-${job.attempts}`, 'bytes');
    if (job.attempts === 1) throw new Error('once more');
    return null;
  },
});
const fails = defineJob<number, null>('fails', {
  attempts: 2,
  backoff: quick,
  run() {
    throw new Error('never');
  },
});
/** Until it is cancelled. */
const endless = defineJob<number, null>('endless', {
  run: ({ signal }) =>
    new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error))),
});
const keyed = defineJob<number, number>('keyed', {
  deduplication: 'replace',
  exclusiveKey: (input: number) => `key-${input % 3}`,
  run: ({ input }) => input,
});
const tick = defineJob<null, null>('tick', { run: () => null });
const types = [renders, flaky, fails, endless, keyed, tick];

let ended = 0;
let isOver = false;
let resting: Promise<void> | null = null;

async function produce(queue: Queue): Promise<void> {
  for (let n = 0; !isOver; n++) {
    await resting;
    await queue.enqueueMany([
      ...Array.from({ length: 4 }, () => ({ type: renders, input: n })),
      ...Array.from({ length: 4 }, () => ({ type: flaky, input: n })),
      ...Array.from({ length: 2 }, () => ({ type: fails, input: n })),
      ...Array.from({ length: 4 }, (_, i) => ({ type: keyed, input: i, options: { deduplicationKey: `k-${i}` } })),
    ]);
    const [running, waiting] = [await queue.enqueue(endless, n), await queue.enqueue(keyed, n, { delay: '1h' })];
    await queue.hold(waiting.id, 'looked at');
    await idle(queue, (live) => live < 20);
    await queue.release(waiting.id);
    for (const { id } of [running, waiting]) await queue.cancel(id);
    await queue.enqueue('nobody', null, { ttl: 100 }); // no worker takes it: it expires
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function idle(queue: Queue, isEnough: (live: number) => boolean): Promise<void> {
  for (;;) {
    const { total } = await queue.stats();
    if (isEnough(total.pending - total.delayed + total.processing)) return;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A temporary folder may go while its turn to be looked into comes: then all is counted anew. */
function filesNow(): number {
  for (;;) {
    try {
      return countFiles();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
}

function countFiles(): number {
  const tops = readdirSync(dir).filter((name) => !name.startsWith('tsx-')); // the cache of what runs this file
  const entries = tops.flatMap((top) => readdirSync(join(dir, top), { recursive: true, withFileTypes: true }));
  // The folders by which files are spread stay, and so does the marker.
  return entries.filter((entry) => (entry.isFile() && entry.name !== 'store.json') || /^[0-9a-z]{20}$/.test(entry.name))
    .length;
}

async function countsNow(queue: Queue): Promise<{ rows: number; logs: number }> {
  if (isInside) return { rows: await liveIn(queue), logs: 0 };
  const { rows, logs } = await sizeOf(url);
  return { rows: totalOf(rows), logs: totalOf(logs) };
}

async function liveIn(queue: Queue): Promise<number> {
  return Object.values((await queue.audit()).kinds).reduce((sum, { live }) => sum + live, 0);
}

/** At rest, so that the heap is what is kept and not what is under way. */
async function sample(queue: Queue, second: number): Promise<Sample> {
  const [counts, files] = [await countsNow(queue), filesNow()];
  let goOn: () => void = () => undefined;
  resting = new Promise((resolve) => (goOn = resolve));
  await idle(queue, (live) => live <= 1);
  await queue.sweep();
  for (let i = 0; i < 2; i++) {
    globalThis.gc!();
    await new Promise(setImmediate);
  }
  const { heapUsed } = process.memoryUsage();
  resting = null;
  goOn();
  return { second, ended, heap: heapUsed, ...counts, files };
}

/** The bounded logs are as long as they get before it begins: else they would be the growth that is seen. */
async function fillLogs(queue: Queue): Promise<void> {
  const gone = (n: number) => Array.from({ length: n }, () => ({ type: 'gone', input: null }));
  // In memory the event log is part of the heap, and it is bounded by steps: each has as many events as the work to come.
  const [rounds, steps] = isInside ? [110, 100] : [11, 1];
  for (let i = 0; i < rounds; i++) {
    for (let step = 0; step < steps; step++) await queue.enqueueMany(gone(1_000 / steps));
    await queue.remove({ type: 'gone' });
  }
}

const queue = await open(url, { cleanup, artifacts: isInside ? 'memory' : { dir } });
const first = isInside ? null : await sizeOf(url);
await fillLogs(queue);
for (const name of ['completed', 'failed', 'cancelled', 'expired', 'replaced'] as const)
  queue.on(name, () => void (ended += 1));
await queue.schedule('tick', tick, null, { every: '1s' });
await queue.work(types, { concurrency: 10, poll: 100 });
const began = performance.now();
const producing = produce(queue);
for (let n = 1; n <= Number(samples); n++) {
  const at = (n * Number(seconds)) / Number(samples);
  await new Promise((resolve) => setTimeout(resolve, Math.max(0, at * 1_000 - (performance.now() - began))));
  process.stdout.write(`${JSON.stringify(await sample(queue, Math.round(at)))}\n`);
}
isOver = true;
await producing;
await queue.unschedule('tick');
await idle(queue, (live) => live === 0);
await new Promise((resolve) => setTimeout(resolve, cleanup.jobRetentionMs + 100));
await queue.sweep();
const { clean } = await queue.audit();
const rows = await liveIn(queue);
await queue.close();
const last = isInside ? null : await sizeOf(url);
const report: Report = { rows, files: filesNow(), clean, size: first && last && { first, last } };
process.stdout.write(`${JSON.stringify(report)}\n`);
