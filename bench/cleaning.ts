/** A process that opens a system with many finished jobs, has them removed, tells what its callers noticed, and ends. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import type { OpenCleaner, Where } from './contender.js';
import { type Cleaning, measureCleaning, warmUpMs } from './measure-cleaning.js';
import { ownClock } from './own-clock.js';
import { age, payload, settle } from './prepare.js';

export interface CleanOrder {
  /** The module that opens the system. */
  readonly module: string;
  readonly where: Omit<Where, 'payload'>;
  readonly jobs: number;
  /** A server of one thread, whose waits for a CPU do not count either. */
  readonly serverPid: number | null;
  /** How long idle is measured. */
  readonly seconds: number;
}

export interface Cleaned extends Cleaning {
  readonly loadSeconds: number;
}

/** Between the idle stretch and the moment at which the jobs may go. */
const spareMs = 500;

// A system need not keep a process alive that has nothing else to do; here somebody waits for its jobs.
setInterval(() => undefined, 60_000);
try {
  tell({ result: await cleanIn(JSON.parse(process.argv[2]!) as CleanOrder) });
} catch (error) {
  tell({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
}

/** A peer may leave timers or connections behind: the process ends when its answer is out. */
function tell(answer: { result: Cleaned } | { error: string }): void {
  process.send!(answer, () => process.exit());
}

async function cleanIn({ module, where, jobs, seconds, serverPid }: CleanOrder): Promise<Cleaned> {
  const { openCleaner } = (await import(module)) as { openCleaner: OpenCleaner };
  const isFile = where.store === 'sqlite';
  if (isFile) mkdirSync(where.at, { recursive: true });
  const at = isFile ? join(where.at, 'jobs.db') : where.at;
  const afterMs = warmUpMs + seconds * 1_000 + spareMs;
  const loadedFrom = performance.now();
  const system = await openCleaner({ ...where, at, payload }, { count: jobs, afterMs });
  await settle(where);
  await age(where);
  const loadSeconds = (performance.now() - loadedFrom) / 1_000;
  const cleaned = await measureCleaning(system, seconds, ownClock(serverPid));
  await system.close();
  if (isFile) rmSync(where.at, { recursive: true, force: true });
  return { ...cleaned, loadSeconds };
}
