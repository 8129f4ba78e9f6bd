/** One-shot work: runs what is ready, and what becomes ready meanwhile; then it stops like any worker. */
import { yearMs } from '../core/duration.js';
import { fingerprint } from '../core/json.js';
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
  const known = leaveCard(worker).catch(() => undefined); // where it fails, an alert comes too soon
  const left = await store.countDue({
    types: [...types.keys()],
    queues: settings.queues,
    limit: leftMax,
  });
  await known;
  return { ran: worker.ran, left };
}

/** So long after it ran, its types are known to be taken. */
const recentMs = 3_600_000;

/** One card for all runs of the same types and queues: it says that they come again, and not that one runs. */
async function leaveCard({ parts: { store, types, settings } }: Worker): Promise<void> {
  const { name, queues } = settings;
  const taken = [...types.keys()].sort();
  const owner = `idle-${fingerprint(JSON.stringify([taken, queues, name]))}`;
  const card = { name: name ?? owner, types: taken, queues, concurrency: 0 };
  await store.extend({ owner, leaseMs: recentMs, claims: [], card });
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
