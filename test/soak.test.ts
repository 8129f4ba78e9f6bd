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
  type Series = (n: number) => number;
  const soaked = (heapAt: Series, left: Partial<Soaked['report']> = {}, rowsAt = work, filesAt = work): Soaked => ({
    samples: Array.from({ length: 18 }, (_, n) => ({
      second: n * 3,
      ended: n,
      heap: heapAt(n),
      rows: rowsAt(n),
      files: filesAt(n),
      logs: 0,
    })),
    report: { rows: 0, files: 0, clean: true, size: null, ...left },
  });
  /** As much as is under way: now more, now less. */
  const work: Series = (n) => 300 + ((n * 7) % 5) * 200;
  const noise = (n: number): number => 30e6 + (n % 3) * 200_000;

  it('calls noise, and growth before the middle third, flat', () => {
    expect(judge(soaked(noise)).faults).toEqual([]);
    expect(judge(soaked((n) => noise(n) + Math.min(n, 6) * 1e6)).faults).toEqual([]);
  });

  it('sees a leak, and whatever is left', () => {
    const leaking = judge(soaked((n) => noise(n) + (n * limits.growth.heap) / 4));
    expect(leaking.faults).toEqual([expect.stringMatching(/^The heap grew by 3\.\d\d MiB/)]);
    expect(leaking.slope).toBeGreaterThan(100 * limits.perHour);
    expect(judge(soaked(noise, { rows: 1, files: 2, clean: false })).faults).toHaveLength(3);
  });

  it('sees rows and files that become more all the time, and calls those that come and go flat', () => {
    const leaks: Series = (n) => work(n) + n * 250; // one of some eighty jobs a second
    expect(judge(soaked(noise)).faults).toEqual([]);
    expect(judge(soaked(noise, {}, leaks)).faults).toEqual([expect.stringMatching(/^There were 1\d{3} more rows/)]);
    expect(judge(soaked(noise, {}, work, leaks)).faults).toEqual([expect.stringMatching(/more files\.$/)]);
    expect(judge(soaked(noise, {}, (n) => work(n) + Math.min(n, 6) * 250)).faults).toEqual([]);
  });

  it('sees a log that is longer than it may get', () => {
    const size = (tombs: number) => ({ first: { rows: {}, logs: {} }, last: { rows: {}, logs: { tombs } } });
    expect(judge(soaked(noise, { size: size(10_000) })).faults).toEqual([]);
    expect(judge(soaked(noise, { size: size(12_000) })).faults).toEqual(['12000 entries are in tombs.']);
  });
});
