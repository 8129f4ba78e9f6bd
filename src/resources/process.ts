/**
 * Child processes as a resource. Each carries the name of its lease in its environment, and so does all that it starts: by
 * that they are found in /proc, whoever started them; a number alone may be another process's by now.
 */
import { spawn } from 'node:child_process';
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { defineResource, type Resource } from '../core/resource.js';
import { listOf, reading } from '../core/reading.js';
import { pause } from '../core/system.js';
import { ownOptions } from '../core/own-options.js';
import { createSystem } from '../system.js';
import { marker, type MarkedProcess, markedProcesses, signalMarked } from './marked-processes.js';

export interface ProcessSpec {
  command: string;
  args?: readonly string[];
  cwd?: string;
  /** Added to that of this process. */
  env?: { readonly [name: string]: string };
}

/** Of a lease: the process that was started. */
export type ProcessInfo = { readonly pid: number };

export interface ProcessOptions {
  /** Of the resource; unless it is said, `process`. */
  kind?: string;
  /** Between SIGTERM and SIGKILL: 5 s, at most 20 s. */
  grace?: Duration;
}

const graceMaxMs = 20_000;
const lookAgainMs = 50;
const argsMax = 10_000;
/** On Linux. A process that was started outlives this one; at the end of its lease it goes, with all that it started. */
export function processResource(options: ProcessOptions = {}): Resource<ProcessSpec, ProcessInfo> {
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

  return defineResource<ProcessSpec, ProcessInfo>(kind ?? 'process', {
    async create(spec, { name }) {
      const { command, args = [], cwd, env } = checkSpec(spec);
      await markedProcesses(); // what could not be found again is not started
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
      signalAll(await markedBy(name), 'SIGTERM');
      if (await gone(name, graceMs, signal)) return;
      // What it has started meanwhile is found by the next look.
      for (let left = await markedBy(name); left.length > 0; left = await markedBy(name)) {
        signalAll(left, 'SIGKILL');
        signal.throwIfAborted();
        await pause(system, lookAgainMs, signal, 'hold');
      }
    },
    async list() {
      const first = new Map<string, MarkedProcess>();
      for (const one of await markedProcesses()) {
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

function signalAll(processes: readonly MarkedProcess[], signal: 'SIGTERM' | 'SIGKILL'): void {
  for (const one of processes) signalMarked(one, signal);
}

async function markedBy(name: string): Promise<readonly MarkedProcess[]> {
  return (await markedProcesses()).filter((one) => one.name === name);
}
