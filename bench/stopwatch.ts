/** Wall clock, CPU of this process and CPU of a server, summed over the stretches in which it runs. */
import { readdirSync, readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

/** Linux counts the CPU time of processes in hundredths of a second. */
const microsecondsPerTick = 10_000;

export class Stopwatch {
  ms = 0;
  jobs = 0;
  clientMicroseconds = 0;
  serverMicroseconds = 0;
  #from = { at: 0, client: process.cpuUsage(), server: 0 };

  constructor(private readonly serverPid: number | null) {}

  start(): void {
    const server = this.serverPid === null ? 0 : cpuOfTree(this.serverPid);
    this.#from = { at: performance.now(), client: process.cpuUsage(), server };
  }

  stop(jobs: number): void {
    this.ms += performance.now() - this.#from.at;
    const { user, system } = process.cpuUsage(this.#from.client);
    this.clientMicroseconds += user + system;
    if (this.serverPid !== null) this.serverMicroseconds += cpuOfTree(this.serverPid) - this.#from.server;
    this.jobs += jobs;
  }
}

/**
 * Of a process and all that it started. Those that ended are in the sum of the one that waited for them, so the sum of
 * a tree only grows.
 */
export function cpuOfTree(root: number): number {
  const parents = new Map<number, number>();
  const ticks = new Map<number, number>();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const fields = statOf(Number(name));
    if (!fields) continue; // ended meanwhile
    parents.set(Number(name), Number(fields[1]));
    ticks.set(
      Number(name),
      fields.slice(11, 15).reduce((sum, each) => sum + Number(each), 0),
    );
  }
  let sum = 0;
  for (const [pid, own] of ticks) {
    let at: number | undefined = pid;
    while (at !== undefined && at > 1 && at !== root) at = parents.get(at);
    if (at === root) sum += own;
  }
  return sum * microsecondsPerTick;
}

/** The fields after the name, which may itself hold spaces: state, ppid, … utime, stime, cutime, cstime from the 11th. */
function statOf(pid: number): string[] | null {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return null;
  }
}

export function nameOf(pid: number): string | null {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'utf8').trim();
  } catch {
    return null;
  }
}

export function parentOf(pid: number): number | null {
  const fields = statOf(pid);
  return fields ? Number(fields[1]) : null;
}
