/** A process that measures one cell of one system, tells the result and ends. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Cell, Contender, OpenContender, Where } from './contender.js';
import { measure } from './measure.js';
import { payload, settle } from './prepare.js';
import { profiled } from './profiler.js';
import { Stopwatch } from './stopwatch.js';

export interface Order {
  /** The module that opens the system. */
  readonly module: string;
  readonly where: Omit<Where, 'payload'>;
  readonly cell: Cell;
  readonly seconds: number;
  readonly serverPid: number | null;
  /** Where to write a CPU profile of the measured stretches. */
  readonly profile: string | null;
}

export interface Result {
  readonly jobs: number;
  readonly ms: number;
  readonly clientMicroseconds: number;
  readonly serverMicroseconds: number;
  readonly samples: readonly number[];
}

const memoryPassMax = 200_000;

// A system need not keep a process alive that has nothing else to do; here somebody waits for its jobs.
setInterval(() => undefined, 60_000);
await obey(JSON.parse(process.argv[2]!) as Order);

async function obey(order: Order): Promise<void> {
  try {
    const watch = new Stopwatch(order.serverPid);
    const samples = await runCell(order, order.profile === null ? watch : profiled(watch, order.profile));
    const { jobs, ms, clientMicroseconds, serverMicroseconds } = watch;
    tell({ result: { jobs, ms, clientMicroseconds, serverMicroseconds, samples } satisfies Result });
  } catch (error) {
    tell({ error: error instanceof Error ? (error.stack ?? error.message) : String(error) });
  }
}

/** A peer may leave timers or connections behind: the process ends when its answer is out. */
function tell(answer: { result: Result } | { error: string }): void {
  process.send!(answer, () => process.exit());
}

async function runCell({ module, where, cell, seconds }: Order, watch: Stopwatch): Promise<readonly number[]> {
  const { openContender } = (await import(module)) as { openContender: OpenContender };
  let opened: Contender | null = null;
  let files = 0;
  const fresh = async (): Promise<Contender> => {
    await opened?.close();
    if (where.store !== 'sqlite') return (opened = await openContender({ ...where, payload }));
    const folder = join(where.at, String(++files));
    mkdirSync(folder, { recursive: true });
    return (opened = await openContender({ ...where, payload, at: join(folder, 'jobs.db') }));
  };
  const passMax = where.store === 'memory' ? memoryPassMax : Number.POSITIVE_INFINITY;
  const samples = await measure(cell, { watch, seconds, fresh, passMax, settle: () => settle(where) });
  await opened!.close();
  if (where.store === 'sqlite') rmSync(where.at, { recursive: true, force: true });
  return samples;
}
