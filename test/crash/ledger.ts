/**
 * What the processes saw, in files outside the store: one file per process, opened for appending, one line per fact.
 * A process that is killed loses nothing that it has written, since a line is handed to the kernel in one call.
 */
import { fsyncSync, openSync, readdirSync, readFileSync, writeSync } from 'node:fs';
import { basename, join } from 'node:path';

export type Line =
  /** A worker is ready. It may lose this many runs when it is killed: its slots, and what it claims ahead. */
  | { readonly line: 'worker'; readonly mayHold: number }
  | { readonly line: 'start'; readonly id: string; readonly type: string; readonly epoch: number; readonly at: number }
  | { readonly line: 'end'; readonly id: string; readonly epoch: number; readonly how: How; readonly at: number }
  /** The worker told the handler that the job is no longer held. */
  | { readonly line: 'lost'; readonly id: string; readonly epoch: number; readonly at: number }
  /** The worker logged "Late result refused". */
  | { readonly line: 'refused'; readonly id: string; readonly epoch: number; readonly at: number }
  /** An enqueue was acknowledged; written to the disk before the next one is asked for. */
  | {
      readonly line: 'acked';
      readonly id: string;
      readonly type: string;
      readonly askedAt: number;
      readonly at: number;
    }
  /** What was done to a process; a job that blocks its event loop does so itself. */
  | { readonly line: 'kill' | 'stop' | 'resume' | 'block' | 'unblock'; readonly name: string; readonly at: number };

export type How = 'value' | 'threw';

export interface Ledger {
  write(...lines: readonly Line[]): void;
  /** As `write`, and on the disk when it returns. */
  record(...lines: readonly Line[]): void;
}

const suffix = '.ledger';

export function openLedger(folder: string, name: string): Ledger {
  const file = openSync(join(folder, name + suffix), 'a');
  const write = (...lines: readonly Line[]): void => {
    for (const line of lines) writeSync(file, `${JSON.stringify(line)}\n`);
  };
  return {
    write,
    record(...lines) {
      write(...lines);
      fsyncSync(file);
    },
  };
}

export interface ReadLedger {
  readonly name: string;
  readonly lines: readonly Line[];
}

export function readLedgers(folder: string): ReadLedger[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(suffix))
    .map((name) => ({ name: basename(name, suffix), lines: parse(readFileSync(join(folder, name), 'utf8')) }));
}

/** What follows the last line break is a line that was never finished. */
function parse(text: string): Line[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

/** Microseconds of the machine's monotonic clock: the same in all processes, and never set back. */
export function instant(): number {
  return Number(process.hrtime.bigint() / 1_000n);
}
