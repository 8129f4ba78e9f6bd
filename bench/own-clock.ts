/**
 * A clock that stands still while the process was ready to run and other programs had the CPU: what is left is what the
 * measured system itself kept its callers waiting. Linux tells; elsewhere it is the ordinary clock.
 */
import { openSync, readSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

/** `also`: a server of one thread that works while this process waits for its answer. */
export function ownClock(also: number | null): () => number {
  const waits = [process.pid, ...(also === null ? [] : [also])].map(waitOf).filter((wait) => wait !== null);
  return () => waits.reduce((now, wait) => now - wait(), performance.now());
}

/** Milliseconds that the first thread of a process has waited for a CPU so far. */
function waitOf(pid: number): (() => number) | null {
  const text = Buffer.alloc(100);
  try {
    const file = openSync(`/proc/${pid}/schedstat`, 'r');
    const read = (): number => Number(text.toString('latin1', 0, readSync(file, text, 0, 100, 0)).split(' ')[1]) / 1e6;
    return Number.isFinite(read()) ? read : null;
  } catch {
    return null;
  }
}
