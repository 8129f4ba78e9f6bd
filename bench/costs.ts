/**
 * What a claim and a read cost with 1 k, 100 k and 1 M stored jobs.
 *
 * Each size has a process of its own, so that one is not disturbed by another's heap. They take turns, many times, and
 * the median over all turns counts: what else the machine does meets all of them alike.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { type Store, storesNamed } from './contender.js';
import { type Server, serverFor, type ServerOptions } from './servers.js';
import type { Answer, Order } from './stored.js';

interface Cost {
  readonly acts: readonly string[];
  /** Most that the largest size may cost, as a multiple of the smallest. */
  readonly limit: number;
}

interface CostOptions {
  /** Stores; none means all. */
  readonly words: readonly string[];
  readonly sizes: readonly number[];
  readonly rounds: number;
}

const costs = {
  claim: { acts: ['claim 1', 'claim 10', 'claim 100'], limit: 1.5 },
  read: { acts: ['get', 'find, page 1', 'find, page 1,000', 'stats'], limit: 3 },
} as const satisfies Readonly<Record<string, Cost>>;
export type CostName = keyof typeof costs;

/** Whether every cost stayed within its limit. */
export async function compareCosts(name: CostName, options: CostOptions, settings: ServerOptions): Promise<boolean> {
  const { limit } = costs[name];
  let within = true;
  for (const store of storesNamed(options.words)) within = (await compareOn(store, name, options, settings)) && within;
  console.log(within ? `\nEvery cost is within ${limit} × of the smallest size.` : '\nSome costs grow too much.');
  return within;
}

async function compareOn(
  store: Store,
  name: CostName,
  options: CostOptions,
  settings: ServerOptions,
): Promise<boolean> {
  const { acts, limit } = costs[name];
  const { sizes, rounds } = options;
  const servers: Server[] = [];
  const processes: ChildProcess[] = [];
  let within = true;
  try {
    // A server each: what one stores is not in the other's memory.
    for (const size of sizes) {
      servers.push(await serverFor(store, settings));
      processes.push(await start(store, size, await servers.at(-1)!.empty()));
    }
    console.log(`\n${store}, microseconds (median)`);
    console.log(row('', [...sizes.map((size) => size.toLocaleString('en')), 'largest / smallest', '']));
    for (const act of acts) {
      const medians = await measure(processes, act, rounds);
      const ratio = medians.at(-1)! / medians[0]!;
      const ok = ratio <= limit;
      within &&= ok;
      const numbers = medians.map((each) => each.toFixed(1));
      console.log(row(act, [...numbers, `${ratio.toFixed(2)} ×`, ok ? '' : `more than ${limit} ×`]));
    }
  } finally {
    for (const each of processes) each.kill();
    for (const server of servers) await server.stop();
  }
  return within;
}

/** The processes take turns, in changing order; the median of all their samples. */
async function measure(processes: readonly ChildProcess[], act: string, rounds: number): Promise<number[]> {
  const samples = processes.map((): number[] => []);
  for (let round = -2; round < rounds; round++) {
    const order = processes.map((_, index) => (index + Math.abs(round)) % processes.length);
    for (const index of order) {
      const taken = await ask(processes[index]!, { act });
      // The first turns warm up.
      if (round >= 0) samples[index]!.push(...taken.microseconds);
    }
  }
  return samples.map(median);
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[sorted.length >> 1]!;
}

async function start(store: Store, size: number, at: string): Promise<ChildProcess> {
  const child = fork(new URL('./stored.js', import.meta.url), [store, String(size), at], {
    execArgv: ['--max-old-space-size=6000'],
  });
  await new Promise<void>((resolve, reject) => {
    child.once('message', () => resolve());
    child.once('exit', (code) => reject(new Error(`The process for ${size} jobs on ${store} ended (${code}).`)));
  });
  child.removeAllListeners('exit');
  return child;
}

function ask(child: ChildProcess, order: Order): Promise<Answer> {
  return new Promise((resolve) => {
    child.once('message', (answer) => resolve(answer as Answer));
    child.send(order);
  });
}

function row(head: string, cells: readonly string[]): string {
  return `  ${head.padEnd(18)}${cells.map((cell) => cell.padStart(20)).join('')}`;
}
