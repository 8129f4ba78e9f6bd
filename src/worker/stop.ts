/** Stopping: no new jobs, running ones finish within the grace, the rest is handed back without using an attempt. */
import { LastoutError } from '../core/errors.js';
import type { WorkerReport } from '../core/stop-report.js';
import { atMost, type System } from '../core/system.js';
import type { Worker } from './worker.js';

/** After the grace, handlers are told and get this long to return before their jobs are handed back. */
const lastWordMs = 500;
const lastFlushMs = 500;

export async function stopWorker(worker: Worker): Promise<WorkerReport> {
  const { system } = worker.parts;
  const finishedBefore = worker.finished;
  worker.slots.giveBackAhead();
  await drained(worker, worker.graceOver.signal);
  const abandoned: string[] = [];
  if (worker.claims.running.length > 0) {
    const closed = new LastoutError('CLOSED', 'The worker is stopping');
    for (const run of worker.claims.running) run.abort(closed);
    await drainedWithin(worker, system, lastWordMs);
    for (const run of worker.claims.running) {
      worker.slots.abandon(run, closed);
      if (run.exclusive) abandoned.push(run.id);
      else worker.giveBack(run.id, run.epoch, run);
    }
  }
  await drainedWithin(worker, system, lastFlushMs);
  abandoned.push(...worker.unsettled());
  await atMost(system, lastFlushMs, worker.leave());
  worker.shutDown();
  const handedBack = [...worker.handedBack].filter((id) => !abandoned.includes(id));
  return { finished: worker.finished - finishedBefore, handedBack, abandoned };
}

/** Until nothing is left to do, or until the signal. */
function drained(worker: Worker, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (worker.isDrained || signal.aborted) return resolve();
    const done = (): void => {
      stopListening();
      signal.removeEventListener('abort', done);
      resolve();
    };
    const stopListening = worker.whenDrained(done);
    signal.addEventListener('abort', done, { once: true });
  });
}

async function drainedWithin(worker: Worker, system: System, ms: number): Promise<void> {
  const late = new AbortController();
  const callOff = system.timer(ms, () => late.abort(), 'hold');
  await drained(worker, late.signal);
  callOff();
}
