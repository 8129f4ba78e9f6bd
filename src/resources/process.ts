/**
 * Child processes as a resource. Each carries the name of its lease in its environment, and so does all that it starts: by
 * that they are found in /proc, whoever started them, and never by a number that another process may have by now.
 */
import { spawn } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { defineResource, type Resource } from '../core/resource.js';
import { listOf, reading } from '../core/reading.js';
import { pause } from '../core/system.js';
import { ownOptions } from '../core/own-options.js';
import { createSystem } from '../system.js';

export interface ProcessSpec {
  command: string;
  args?: readonly string[];
  cwd?: string;
  /** Added to that of this process. */
  env?: { readonly [name: string]: string };
}

export interface ProcessOptions {
  /** Of the resource; unless it is said, `process`. */
  kind?: string;
  /** Between SIGTERM and SIGKILL: 5 s, at most 20 s. */
  grace?: Duration;
}

const marker = 'LASTOUT_LEASE';
const graceMaxMs = 20_000;
const lookAgainMs = 50;
const argsMax = 10_000;
/** Linux shows start times in hundredths of a second, whatever its own rate is. */
const ticksPerSecond = 100;

interface Marked {
  readonly pid: number;
  readonly name: string;
  readonly createdAt: Date;
}

/** On Linux. A process that was started outlives this one; at the end of its lease it goes, with all that it started. */
export function processResource(options: ProcessOptions = {}): Resource<ProcessSpec> {
  const { kind, grace } = ownOptions(options, ['kind', 'grace'], 'The options of processResource');
  const graceMs = toMs(grace ?? '5s', 'grace', 'INVALID_DURATION', { max: graceMaxMs });
  const system = createSystem();

  /** Until none is left; false: some were, when the time was over. */
  async function gone(name: string, ms: number, signal: AbortSignal): Promise<boolean> {
    for (const until = system.monotonic() + ms; ; ) {
      if ((await markedBy(name)).length === 0) return true;
      if (system.monotonic() >= until) return false;
      signal.throwIfAborted();
      await pause(system, lookAgainMs, signal, 'hold');
    }
  }

  return defineResource<ProcessSpec>(kind ?? 'process', {
    async create(spec, { name }) {
      const { command, args = [], cwd, env } = checkSpec(spec);
      await allMarked(); // what could not be found again is not started
      const child = spawn(command, args, {
        detached: true,
        stdio: 'ignore',
        env: { ...process.env, ...env, [marker]: name },
        ...(cwd !== undefined && { cwd }),
      });
      await new Promise<void>((resolve, reject) => {
        child.once('spawn', resolve);
        child.once('error', reject);
      });
      child.unref();
      return { pid: child.pid! };
    },
    async destroy({ name, signal }) {
      kill(await markedBy(name), 'SIGTERM');
      if (await gone(name, graceMs, signal)) return;
      // What it has started meanwhile is found by the next look.
      for (let left = await markedBy(name); left.length > 0; left = await markedBy(name)) {
        kill(left, 'SIGKILL');
        signal.throwIfAborted();
        await pause(system, lookAgainMs, signal, 'hold');
      }
    },
    async list() {
      const first = new Map<string, Marked>();
      for (const one of await allMarked()) {
        const before = first.get(one.name);
        if (!before || one.createdAt < before.createdAt) first.set(one.name, one);
      }
      return [...first.values()].map(({ name, createdAt }) => ({ name, createdAt }));
    },
  });
}

function checkSpec(spec: ProcessSpec): ProcessSpec {
  const own = ownOptions(spec ?? null, ['command', 'args', 'cwd', 'env'], 'The spec of a process');
  const { command, args: given = [], cwd, env } = own;
  if (typeof command !== 'string' || command === '')
    throw new LastoutError('INVALID_INPUT', `command is ${show(command)}; give the program to start.`);
  const args = listOf(given, argsMax, 'args', 'INVALID_INPUT');
  if (!args?.every((arg) => typeof arg === 'string'))
    throw new LastoutError('INVALID_INPUT', `args is ${show(given)}; give a list of texts.`);
  const added = env && reading('env', 'INVALID_INPUT', () => ({ ...env }));
  return { command, args, ...(cwd !== undefined && { cwd }), ...(added !== undefined && { env: added }) };
}

function kill(processes: readonly Marked[], signal: 'SIGTERM' | 'SIGKILL'): void {
  for (const { pid } of processes) {
    try {
      process.kill(pid, signal);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

async function markedBy(name: string): Promise<readonly Marked[]> {
  return (await allMarked()).filter((one) => one.name === name);
}

/** Those of other users cannot be read, and were not started by us. One that has ended and waits for its parent is gone. */
async function allMarked(): Promise<readonly Marked[]> {
  const bootedAt = await bootTime();
  const pids = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
  const marked: Marked[] = [];
  for (const pid of pids) {
    const name = await nameIn(pid);
    const ticks = name === null ? null : await startOf(pid);
    if (name !== null && ticks !== null)
      marked.push({ pid: Number(pid), name, createdAt: new Date(bootedAt + (ticks / ticksPerSecond) * 1_000) });
  }
  return marked;
}

async function bootTime(): Promise<number> {
  const stat = await readFile('/proc/stat', 'utf8').catch(() => '');
  const seconds = /^btime (\d+)$/m.exec(stat)?.[1];
  if (seconds !== undefined) return Number(seconds) * 1_000;
  throw new LastoutError('UNKNOWN_OPTION', 'lastout/process finds processes by /proc; it works on Linux alone.');
}

async function nameIn(pid: string): Promise<string | null> {
  const environment = await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '');
  const entry = environment.split('\0').find((text) => text.startsWith(`${marker}=`));
  return entry === undefined ? null : entry.slice(marker.length + 1);
}

/** Null: it is gone. */
async function startOf(pid: string): Promise<number | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The name of the program comes second, in brackets, and may contain anything.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, start] = [fields[0], fields[19]];
  return start === undefined || state === 'Z' || state === 'X' ? null : Number(start);
}
