/** Runs a soak in a process of its own, tells each sample as one line, and judges it. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Report, Sample } from './child.js';

export interface Soak {
  readonly url: string;
  /** For artifacts and temporary folders; empty. */
  readonly dir: string;
  readonly seconds: number;
  readonly samples: number;
}

export interface Soaked {
  readonly samples: readonly Sample[];
  readonly report: Report;
}

const program = fileURLToPath(new URL('./child.ts', import.meta.url));
const mib = 2 ** 20;

export async function soak({ url, dir, seconds, samples }: Soak, tell: (line: string) => void): Promise<Soaked> {
  const args = ['--expose-gc', '--import', 'tsx', program, url, dir, String(seconds), String(samples)];
  // Also what the system's place for temporary files gets is looked at.
  const env = { ...process.env, TMPDIR: dir };
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'], env });
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const seen: Sample[] = [];
  let report: Report | null = null;
  tell('  second     ended   heap MiB      rows     files');
  for await (const line of createInterface({ input: child.stdout })) {
    const told = JSON.parse(line) as Sample | Report;
    if (!('second' in told)) {
      report = told;
      continue;
    }
    seen.push(told);
    const { second, ended, heap, rows, files } = told;
    const cells = [second, ended, (heap / mib).toFixed(2), rows, files].map((cell) => String(cell));
    tell(cells.map((cell, column) => cell.padStart([8, 10, 11, 10, 10][column]!)).join(''));
  }
  const code = await exited;
  if (code !== 0 || !report) throw new Error(`The soak ended with code ${code}`);
  return { samples: seen, report };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

export interface Verdict {
  /** Median of the last third less that of the middle one: a single collection that came late does not count. */
  readonly growth: number;
  /** Bytes per hour, by least squares over the last two thirds. */
  readonly slope: number;
  readonly mostRows: number;
  readonly mostFiles: number;
  /** What is not as it should be. */
  readonly faults: readonly string[];
}

/** In all, how much the heap may grow between two thirds of a run; of a run of hours, also per hour. */
export const limits = { growth: 2 * mib, perHour: 0.5 * mib, rows: 10_000, files: 3_000 } as const;

export function judge({ samples, report }: Soaked): Verdict {
  const third = Math.floor(samples.length / 3);
  const late = samples.slice(third);
  const heaps = (from: number, to?: number): number[] => samples.slice(from, to).map(({ heap }) => heap);
  const growth = median(heaps(2 * third)) - median(heaps(third, 2 * third));
  const slope = slopeOf(late);
  const mostRows = Math.max(...late.map(({ rows }) => rows));
  const mostFiles = Math.max(...late.map(({ files }) => files));
  const hours = (samples.at(-1)!.second - samples[0]!.second) / 3_600;
  const faults: string[] = [];
  if (growth > limits.growth) faults.push(`The heap grew by ${(growth / mib).toFixed(2)} MiB.`);
  if (hours >= 1 && slope > limits.perHour) faults.push(`The heap grows by ${(slope / mib).toFixed(2)} MiB per hour.`);
  if (mostRows > limits.rows) faults.push(`There were ${mostRows} rows.`);
  if (mostFiles > limits.files) faults.push(`There were ${mostFiles} files.`);
  if (report.rows > 0) faults.push(`${report.rows} jobs and records are left.`);
  if (report.files > 0) faults.push(`${report.files} files are left.`);
  if (!report.clean) faults.push('The audit is not clean.');
  // Counters of the queues and types that were in use may be new.
  for (const [table, n] of Object.entries(report.size?.last.rows ?? {}))
    if (n > (report.size!.first.rows[table] ?? 0) + 100) faults.push(`${n} rows are left in ${table}.`);
  return { growth, slope, mostRows, mostFiles, faults };
}

function slopeOf(samples: readonly Sample[]): number {
  const mean = (of: (sample: Sample) => number): number =>
    samples.reduce((sum, one) => sum + of(one), 0) / samples.length;
  const [x, y] = [mean(({ second }) => second), mean(({ heap }) => heap)];
  const above = samples.reduce((sum, { second, heap }) => sum + (second - x) * (heap - y), 0);
  return (3_600 * above) / samples.reduce((sum, { second }) => sum + (second - x) ** 2, 0);
}

export function tellVerdict({ growth, slope, mostRows, mostFiles, faults }: Verdict, { report }: Soaked): string {
  const heap = `heap ${(growth / mib).toFixed(2)} MiB from the middle third to the last, slope ${(slope / mib).toFixed(2)} MiB/h`;
  const most = `at most ${mostRows} rows and ${mostFiles} files`;
  const left = `${report.rows} jobs and records and ${report.files} files left`;
  return `${heap}; ${most}; ${left}. ${faults.length === 0 ? 'Flat.' : faults.join(' ')}`;
}
