/** Runs a soak in a process of its own, tells each sample as one line, and judges it. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Report, Sample } from './child.js';
import { longestLogs } from './size.js';

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
  tell('  second     ended   heap MiB      rows     files      logs');
  for await (const line of createInterface({ input: child.stdout })) {
    const told = JSON.parse(line) as Sample | Report;
    if (!('second' in told)) {
      report = told;
      continue;
    }
    seen.push(told);
    const { second, ended, heap, rows, files, logs } = told;
    const cells = [second, ended, (heap / mib).toFixed(2), rows, files, logs].map((cell) => String(cell));
    tell(cells.map((cell, column) => cell.padStart([8, 10, 11, 10, 10, 10][column]!)).join(''));
  }
  const code = await exited;
  if (code !== 0 || !report) throw new Error(`The soak ended with code ${code}`);
  return { samples: seen, report };
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

type Measure = 'heap' | 'rows' | 'files';

export interface Verdict {
  /** Median of the last third less that of the middle one: a single collection that came late does not count. */
  readonly growth: { readonly [measure in Measure]: number };
  /** Bytes per hour, by least squares over the last two thirds. */
  readonly slope: number;
  readonly mostRows: number;
  readonly mostFiles: number;
  /** What is not as it should be. */
  readonly faults: readonly string[];
}

/**
 * How much each may grow between two thirds of a run, and the heap of a run of hours also per hour. Rows and files come and
 * go with the work under way, which is more or less as the machine has time: half of what there is of them at full speed.
 */
export const limits = { growth: { heap: 2 * mib, rows: 1_000, files: 250 }, perHour: 0.5 * mib } as const;

export function judge({ samples, report }: Soaked): Verdict {
  const third = Math.floor(samples.length / 3);
  const late = samples.slice(third);
  const grown = (measure: Measure): number => {
    const values = samples.map((sample) => sample[measure]);
    return median(values.slice(2 * third)) - median(values.slice(third, 2 * third));
  };
  const growth = { heap: grown('heap'), rows: grown('rows'), files: grown('files') };
  const slope = slopeOf(late);
  const mostRows = Math.max(...late.map(({ rows }) => rows));
  const mostFiles = Math.max(...late.map(({ files }) => files));
  const hours = (samples.at(-1)!.second - samples[0]!.second) / 3_600;
  const faults: string[] = [];
  if (growth.heap > limits.growth.heap) faults.push(`The heap grew by ${(growth.heap / mib).toFixed(2)} MiB.`);
  for (const measure of ['rows', 'files'] as const)
    if (growth[measure] > limits.growth[measure]) faults.push(`There were ${growth[measure]} more ${measure}.`);
  if (hours >= 1 && slope > limits.perHour) faults.push(`The heap grows by ${(slope / mib).toFixed(2)} MiB per hour.`);
  if (report.rows > 0) faults.push(`${report.rows} jobs and records are left.`);
  if (report.files > 0) faults.push(`${report.files} files are left.`);
  if (!report.clean) faults.push('The audit is not clean.');
  // Counters of the queues and types that were in use may be new.
  for (const [table, n] of Object.entries(report.size?.last.rows ?? {}))
    if (n > (report.size!.first.rows[table] ?? 0) + 100) faults.push(`${n} rows are left in ${table}.`);
  for (const [log, n] of Object.entries(report.size?.last.logs ?? {}))
    if (n > longestLogs[log]!) faults.push(`${n} entries are in ${log}.`);
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
  const grown = `from the middle third to the last: heap ${(growth.heap / mib).toFixed(2)} MiB, ${growth.rows} rows, ${growth.files} files; heap slope ${(slope / mib).toFixed(2)} MiB/h`;
  const most = `at most ${mostRows} rows and ${mostFiles} files`;
  const left = `${report.rows} jobs and records and ${report.files} files left`;
  return `${grown}; ${most}; ${left}. ${faults.length === 0 ? 'Flat.' : faults.join(' ')}`;
}
