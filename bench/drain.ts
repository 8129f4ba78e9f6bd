/** How many jobs a second one process stores, and runs to their end, with handlers that do nothing. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { defineJob, open } from '../src/index.js';

const jobs = { memory: 100_000, sqlite: 50_000 } as const;
const rounds = 5;

export async function drain(engines: readonly string[]): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-bench-'));
  for (const engine of engines) {
    const n = engine === 'memory' ? jobs.memory : jobs.sqlite;
    const stored: number[] = [];
    const run: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const url = engine === 'memory' ? 'memory:' : `sqlite:${join(folder, `${round}.db`)}`;
      const rates = await once(url, n);
      stored.push(rates.stored);
      run.push(rates.run);
    }
    const tell = (rates: number[]): string => Math.round(Math.max(...rates)).toLocaleString('en');
    console.log(
      `${engine}: best of ${rounds}, ${n.toLocaleString('en')} jobs: ${tell(stored)} stored/s, ${tell(run)} run/s`,
    );
  }
  rmSync(folder, { recursive: true, force: true });
}

async function once(url: string, n: number): Promise<{ stored: number; run: number }> {
  let left = n;
  let finish: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const nothing = defineJob('nothing', {
    run() {
      left -= 1;
      if (left === 0) finish();
    },
  });
  const queue = await open(url, { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
  const startedAt = performance.now();
  for (let from = 0; from < n; from += 1_000) {
    await queue.enqueueMany(Array.from({ length: 1_000 }, (_, i) => ({ type: nothing, input: { number: from + i } })));
  }
  const storedAt = performance.now();
  await queue.work([nothing], { concurrency: 100 });
  await finished;
  await queue.close();
  const endedAt = performance.now();
  return { stored: (n / (storedAt - startedAt)) * 1_000, run: (n / (endedAt - storedAt)) * 1_000 };
}
