// A process that works for ever must not grow: the heap after many jobs, and what is held after many queues were closed.
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import type { Report, Sample } from './flat/child.js';
import { compilePrograms } from './programs.js';
import { temporaryFolder } from './support.js';

const run = promisify(execFile);

/** The child ends by itself: nothing that it opened keeps it alive. */
async function inChild(mode: 'jobs' | 'cycles', url: string, count: number): Promise<Report> {
  const args = ['--expose-gc', compilePrograms().flat, mode, url, String(count)];
  return JSON.parse((await run(process.execPath, args)).stdout) as Report;
}

/** Bytes of heap per job (or cycle), by least squares over the second half: the first fills caches and bounded logs. */
function slope(samples: readonly Sample[]): number {
  const late = samples.slice(samples.length / 2);
  const mean = (of: (sample: Sample) => number): number => late.reduce((sum, one) => sum + of(one), 0) / late.length;
  const x = mean(({ done }) => done);
  const y = mean(({ heap }) => heap);
  const above = late.reduce((sum, { done, heap }) => sum + (done - x) * (heap - y), 0);
  return above / late.reduce((sum, { done }) => sum + (done - x) ** 2, 0);
}

function tell(what: string, { samples }: Report, per: string): number {
  const bytes = slope(samples);
  const mib = (sample: Sample | undefined): string => ((sample?.heap ?? 0) / 2 ** 20).toFixed(1);
  console.log(
    `flat memory: ${what}: heap ${mib(samples[0])} MiB at first, ${mib(samples.at(-1))} MiB at last, slope ${bytes.toFixed(2)} bytes per ${per}`,
  );
  return bytes;
}

const sqliteUrl = (): string => `sqlite:${join(temporaryFolder(), 'jobs.db')}?synchronous=normal`;

describe('heap', () => {
  // A leak of one small object per job would be 50 bytes and more.
  const perJobMax = 4;

  it('stays flat over a million jobs on memory', { timeout: 300_000 }, async () => {
    const report = await inChild('jobs', 'memory:', 1_000_000);
    expect(tell('1,000,000 jobs on memory', report, 'job')).toBeLessThan(perJobMax);
  });

  it('stays flat over many jobs on SQLite', { timeout: 300_000 }, async () => {
    const report = await inChild('jobs', sqliteUrl(), 200_000);
    expect(tell('200,000 jobs on SQLite', report, 'job')).toBeLessThan(perJobMax * 5);
  });

  it('of a leak would be seen', () => {
    const leaking = Array.from({ length: 20 }, (_, i) => ({ done: i * 1_000, heap: 5e6 + i * 50_000 }));
    expect(slope(leaking)).toBeCloseTo(50);
  });
});

describe('a thousand queues opened and closed', () => {
  // The engine goes on compiling for a while (about 1 KB per queue at first); a queue that is not let go is 20 KB and more.
  const perQueueMax = 4_000;

  it.each([
    ['memory', () => 'memory:'],
    ['SQLite', sqliteUrl],
  ])(
    'on %s leave no handle, timer, listener or file, and the process ends',
    { timeout: 300_000 },
    async (name, url) => {
      const report = await inChild('cycles', url(), 1_000);
      expect(report.held).toEqual({ resources: [], listeners: 0, files: 0 });
      expect(tell(`1,000 queues on ${name}`, report, 'queue')).toBeLessThan(perQueueMax);
    },
  );
});
