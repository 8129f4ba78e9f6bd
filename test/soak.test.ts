// A minute of work of every kind, on files and in memory side by side: heap, rows and files stay flat, and in the end
// nothing is left. `npm run soak` does it for minutes or hours, on any store.
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { judge, limits, soak, type Soaked, tellVerdict } from './soak/run.js';
import { temporaryFolder } from './support.js';

const run = { seconds: 60, samples: 18 } as const;

async function flat(name: string, url: string): Promise<Soaked> {
  const lines: string[] = [];
  const soaked = await soak({ ...run, url, dir: temporaryFolder() }, (line) => void lines.push(line));
  const verdict = judge(soaked);
  console.log([`soak: ${run.seconds} s on ${name}`, ...lines, tellVerdict(verdict, soaked)].join('\n'));
  expect(verdict.faults, name).toEqual([]);
  return soaked;
}

it('heap, rows and files stay flat for a minute, and nothing is left in the end', { timeout: 240_000 }, async () => {
  const file = join(temporaryFolder(), 'jobs.db');
  const both = await Promise.allSettled([
    flat('SQLite, with files', `sqlite:${file}?synchronous=normal`),
    flat('memory', 'memory:'),
  ]);
  for (const one of both) {
    if (one.status === 'rejected') throw one.reason as Error;
    const { samples } = one.value;
    expect(samples).toHaveLength(run.samples);
    // There was work, and it was seen.
    expect(samples.at(-1)!.ended).toBeGreaterThan(500);
    expect(Math.max(...samples.map(({ rows }) => rows))).toBeGreaterThan(50);
  }
});

describe('the judge of a soak', () => {
  const soaked = (heapAt: (n: number) => number, left: Partial<Soaked['report']> = {}): Soaked => ({
    samples: Array.from({ length: 18 }, (_, n) => ({ second: n * 3, ended: n, heap: heapAt(n), rows: 100, files: 10 })),
    report: { rows: 0, files: 0, clean: true, size: null, ...left },
  });
  const noise = (n: number): number => 30e6 + (n % 3) * 200_000;

  it('calls noise, and growth before the middle third, flat', () => {
    expect(judge(soaked(noise)).faults).toEqual([]);
    expect(judge(soaked((n) => noise(n) + Math.min(n, 6) * 1e6)).faults).toEqual([]);
  });

  it('sees a leak, and whatever is left', () => {
    const leaking = judge(soaked((n) => noise(n) + (n * limits.growth) / 4));
    expect(leaking.faults).toEqual([expect.stringMatching(/^The heap grew by 3\.\d\d MiB/)]);
    expect(leaking.slope).toBeGreaterThan(100 * limits.perHour);
    expect(judge(soaked(noise, { rows: 1, files: 2, clean: false })).faults).toHaveLength(3);
  });
});
