/**
 * Where the time of one cell goes in this process: µs of CPU per job, and the functions with the most of it.
 *
 *   npm run bench -- profile sqlite drain100
 */
import { mkdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Result } from './cell.js';
import { measureApart } from './child.js';
import type { Cell, Store } from './contender.js';
import { type Server, serverFor, type ServerOptions } from './servers.js';

interface Node {
  readonly id: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    readonly lineNumber: number;
  };
}

interface Profile {
  readonly nodes: readonly Node[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** Waiting, and the profiler itself. */
const leftOut = new Set(['(idle)', 'dispatch']);
const built = fileURLToPath(new URL('..', import.meta.url));

interface What {
  readonly module: string;
  readonly store: Store;
  readonly setup: string;
  readonly cell: Cell;
  readonly seconds: number;
}

export async function profile(what: What, options: ServerOptions, folder: string): Promise<void> {
  const { module, store, setup, cell, seconds } = what;
  const server = await serverFor(store, options);
  const limitMs = seconds * 10_000 + 60_000;
  const run = async (file: string | null): Promise<Result> => {
    const at = await server.empty();
    const order = { module, where: { store, at, setup }, cell, seconds, serverPid: server.pid, profile: file };
    return measureApart(order, limitMs);
  };
  try {
    const { jobs, ms, clientMicroseconds, serverMicroseconds } = await run(null);
    const each = (microseconds: number): string => (microseconds / jobs).toFixed(2);
    console.log(
      `${store} ${setup} ${cell}: ${Math.round((jobs / ms) * 1_000).toLocaleString('en')} jobs/s, µs of CPU per job: ` +
        `${each(clientMicroseconds)} client${server.pid === null ? '' : `, ${each(serverMicroseconds)} server`} ` +
        `(${jobs.toLocaleString('en')} jobs in ${(ms / 1_000).toFixed(1)} s)`,
    );
    printTimings(await server.timings());
    mkdirSync(folder, { recursive: true });
    const file = join(folder, `${store}-${cell}.cpuprofile`);
    await run(file);
    summarise(JSON.parse(readFileSync(file, 'utf8')) as Profile, clientMicroseconds / jobs);
    console.log(`\nThe whole profile, for the developer tools of a browser: ${relative(process.cwd(), file)}`);
  } finally {
    await server.stop();
  }
}

/** What the server counted from the empty store on: loading and warming up as well. */
function printTimings(timings: Awaited<ReturnType<Server['timings']>>): void {
  if (timings.size === 0) return;
  console.log("\nThe server's own count, with loading and warm-up: calls, µs per call, ms in all");
  for (const [name, { calls, microseconds }] of [...timings].toSorted(
    ([, a], [, b]) => b.microseconds - a.microseconds,
  )) {
    const cells = [calls.toLocaleString('en'), (microseconds / calls).toFixed(1), (microseconds / 1_000).toFixed(0)];
    console.log(`${cells.map((cell) => cell.padStart(12)).join('')}  ${name}`);
  }
}

/** Samples are taken by the clock, so they are shares: of the CPU time that was measured without the profiler. */
function summarise({ nodes, samples, timeDeltas }: Profile, perJob: number): void {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const byFunction = new Map<string, number>();
  const byFile = new Map<string, number>();
  samples.forEach((id, i) => {
    const { functionName, url, lineNumber } = byId.get(id)!.callFrame;
    if (url === '' && leftOut.has(functionName)) return;
    const took = timeDeltas[i] ?? 0;
    const file = url.startsWith('file:') ? relative(built, fileURLToPath(url)) : url;
    const name = `${functionName || '(anonymous)'}${file === '' ? '' : `  ${file}:${lineNumber + 1}`}`;
    byFunction.set(name, (byFunction.get(name) ?? 0) + took);
    const group = file === '' ? functionName : file;
    byFile.set(group, (byFile.get(group) ?? 0) + took);
  });
  print('µs of CPU per job by file', byFile, perJob, 25);
  print('µs of CPU per job by function, of itself', byFunction, perJob, 45);
  if (byFunction.has('backup'))
    console.log('(backup: how V8 names the native code of the SQLite driver, whatever it does)');
}

function print(title: string, sums: ReadonlyMap<string, number>, perJob: number, most: number): void {
  const total = [...sums.values()].reduce((sum, each) => sum + each, 0);
  console.log(`\n${title}:`);
  const sorted = [...sums].toSorted(([, a], [, b]) => b - a).slice(0, most);
  for (const [name, sum] of sorted) {
    const share = sum / total;
    console.log(`${(share * perJob).toFixed(3).padStart(9)} ${(share * 100).toFixed(1).padStart(5)} %  ${name}`);
  }
}
