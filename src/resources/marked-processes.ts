/** The processes of this machine that bear a mark in their environment, as /proc shows them. Linux alone has it. */
import { readFileSync, statSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { LastoutError } from '../core/errors.js';

export const marker = 'LASTOUT_LEASE';

export interface MarkedProcess {
  readonly pid: number;
  readonly name: string;
  /** Its user. */
  readonly owner: number;
  /** In ticks since the machine was started: no other process with this number has the same. */
  readonly startedAt: number;
  readonly createdAt: Date;
}

/** Linux shows start times in hundredths of a second, whatever its own rate is. */
const ticksPerSecond = 100;

/** Those of other users cannot be read, and were not started by us. One that has ended and waits for its parent is gone. */
export async function markedProcesses(): Promise<readonly MarkedProcess[]> {
  const bootedAt = await bootTime();
  const pids = (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry));
  const marked: MarkedProcess[] = [];
  for (const pid of pids) {
    const name = nameIn(await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => ''));
    if (name === null) continue;
    const owner = await stat(`/proc/${pid}`).catch(() => null);
    const startedAt = startIn(await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ''));
    if (!owner || startedAt === null) continue;
    const createdAt = new Date(bootedAt + (startedAt / ticksPerSecond) * 1_000);
    marked.push({ pid: Number(pid), name, owner: owner.uid, startedAt, createdAt });
  }
  return marked;
}

/**
 * Looks again, right before the signal, whether the number still stands for this process: since it was listed it may have ended and
 * given its number to another one. Nothing comes between the last look and the signal but this function. False: it is gone.
 */
export function signalMarked(one: MarkedProcess, signal: 'SIGTERM' | 'SIGKILL'): boolean {
  try {
    if (!isStill(one)) return false;
    process.kill(one.pid, signal);
    return true;
  } catch (error) {
    if (['ESRCH', 'ENOENT'].includes((error as NodeJS.ErrnoException).code ?? '')) return false;
    throw error;
  }
}

/** The start comes last: it alone tells one process from the next by the same number. */
function isStill({ pid, name, owner, startedAt }: MarkedProcess): boolean {
  return (
    statSync(`/proc/${pid}`).uid === owner &&
    nameIn(readFileSync(`/proc/${pid}/environ`, 'utf8')) === name &&
    startIn(readFileSync(`/proc/${pid}/stat`, 'utf8')) === startedAt
  );
}

async function bootTime(): Promise<number> {
  const text = await readFile('/proc/stat', 'utf8').catch(() => '');
  const seconds = /^btime (\d+)$/m.exec(text)?.[1];
  if (seconds !== undefined) return Number(seconds) * 1_000;
  throw new LastoutError('UNKNOWN_OPTION', 'lastout/process finds processes by /proc; it works on Linux alone.');
}

function nameIn(environment: string): string | null {
  const entry = environment.split('\0').find((text) => text.startsWith(`${marker}=`));
  return entry === undefined ? null : entry.slice(marker.length + 1);
}

/** Null: it is gone. */
function startIn(text: string): number | null {
  // The name of the program comes second, in brackets, and may contain anything.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state, start] = [fields[0], fields[19]];
  return start === undefined || state === 'Z' || state === 'X' ? null : Number(start);
}
