/** One-shot work: runs what is ready, and what becomes ready meanwhile; then it stops like any worker. */
import { yearMs } from '../core/duration.js';
import { defaults } from '../core/policy.js';
import type { Worker } from './worker.js';

/** More than that are not counted. */
const leftMax = 10_000;

export interface OneShotReport {
  /** Handlers that ran to an end: completed, failed, snoozed or to be tried again. */
  readonly ran: number;
  /** Jobs of these types and queues that are due and do not run; at most 10,000 are counted. */
  readonly left: number;
}

export async function runOneShot(worker: Worker, forMs: number | null, closing: AbortSignal): Promise<OneShotReport> {
  await idleOrOver(worker, forMs, closing);
  await worker.stop(defaults.graceMs);
  const { store, types, settings } = worker.parts;
  const left = await store.read({
    log: 'due',
    types: [...types.keys()],
    queues: settings.queues,
    limit: leftMax,
  });
  return { ran: worker.ran, left };
}

/** Idle is what the store says after the last handler has ended: a hint of what became ready meanwhile may be lost. */
function idleOrOver(worker: Worker, forMs: number | null, closing: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    let startedBefore = 0;
    const done = (): void => {
      callOff();
      stopListening();
      closing.removeEventListener('abort', done);
      resolve();
    };
    const callOff = worker.parts.system.timer(forMs ?? yearMs, done);
    const stopListening = worker.whenDrained(() => {
      if (worker.slots.started === startedBefore && !worker.moreReady) return done();
      startedBefore = worker.slots.started;
      worker.hear({ kind: 'ready', types: new Set(['*']) });
    });
    closing.addEventListener('abort', done, { once: true });
  });
}
