/** Runs in a process of its own with `--expose-gc`, so that the heap is its own: `child.js jobs|cycles URL COUNT`. */
import { readdirSync } from 'node:fs';
import { defineJob, open } from '../../src/index.js';

const [mode = '', url = '', count = '0'] = process.argv.slice(2);
const total = Number(count);
const noop = defineJob<number, null>('noop', { run: () => null });

export interface Sample {
  readonly done: number;
  readonly heap: number;
}
export interface Report {
  readonly samples: readonly Sample[];
  /** What the process still holds when all is closed. */
  readonly held: { readonly resources: readonly string[]; readonly listeners: number; readonly files: number };
}

/** Twice, with a turn between: what a finalizer frees counts too. */
async function collect(): Promise<void> {
  for (let i = 0; i < 2; i++) {
    globalThis.gc!();
    await new Promise(setImmediate);
  }
}

const samples: Sample[] = [];
async function sample(done: number): Promise<void> {
  await collect();
  samples.push({ done, heap: process.memoryUsage().heapUsed });
}

function held(): Report['held'] {
  const listeners = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
  const files = process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0;
  return { resources: process.getActiveResourcesInfo(), listeners, files };
}

async function runJobs(): Promise<void> {
  const batch = Array.from({ length: 1_000 }, (_, input) => ({ type: noop, input }));
  await using queue = await open(url, { cleanup: { maxStoredJobs: 1_000 } });
  await queue.work([noop], { concurrency: 100 });
  const every = total / 20;
  for (let done = 0; done < total; done += batch.length) {
    const enqueued = await queue.enqueueMany(batch);
    await queue.wait(enqueued.at(-1)!.id).catch((error: { code?: string }) => {
      // Finished and swept before the question came.
      if (error.code !== 'JOB_NOT_FOUND' && error.code !== 'JOB_REMOVED') throw error;
    });
    if ((done + batch.length) % every !== 0) continue;
    await queue.sweep(); // the same number of stored jobs at each sample
    await sample(done + batch.length);
  }
}

async function runCycles(): Promise<void> {
  for (let cycle = 1; cycle <= total; cycle++) {
    const queue = await open(url);
    const stopListening = queue.on('completed', () => undefined);
    const worker = await queue.work([noop]);
    const { id } = await queue.enqueue(noop, cycle);
    await queue.wait(id);
    if (cycle % 2 === 0) stopListening();
    if (cycle % 3 === 0) await worker.stop();
    await queue.close();
    if (cycle % (total / 20) === 0) await sample(cycle);
  }
}

const before = held();
await (mode === 'jobs' ? runJobs() : runCycles());
// The SQLite driver for Node 20 gives a closed file back when the statements on it are collected, at its leisure.
for (let rounds = 0; rounds < 100 && held().files > before.files; rounds++) {
  await collect();
  await new Promise((resolve) => setTimeout(resolve, 10));
}
const after = held();
const report = {
  samples,
  held: {
    resources: after.resources.filter((name) => !before.resources.includes(name)),
    listeners: after.listeners - before.listeners,
    files: after.files - before.files,
  },
} satisfies Report;
process.stdout.write(`${JSON.stringify(report)}\n`);
