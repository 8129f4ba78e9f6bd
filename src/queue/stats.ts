/** Stats and health as users read them. */
import { LastoutError } from '../core/errors.js';
import { systemQueue } from '../core/names.js';
import type { Durability, Engine, QueueTally, Store, Tally } from '../core/store.js';
import type { CleanupPolicy } from '../core/policy.js';
import { describeThrown } from '../core/thrown.js';
import { untakenTypes } from '../core/untaken.js';

/** `delayed` is the part of `pending` that is not due yet, `stalled` that of `processing` whose claim has lapsed, `replaced` that of `failed`. */
export interface QueueStats extends Omit<QueueTally, 'queue' | 'blockedUntil'> {
  /** When the rate lets jobs start again; null unless that is what blocks. */
  readonly blockedUntil: Date | null;
}

export interface Stats {
  /** Paused, and full, where every queue is. */
  readonly total: QueueStats;
  readonly queues: { readonly [queue: string]: QueueStats };
  /** What should be gone and is not; its good value is 0. */
  readonly leftBehind: number;
}

export interface Health {
  readonly ok: boolean;
  readonly store: Engine;
  readonly durability: Durability;
  readonly warnings: readonly { code: string; message: string }[];
  readonly lastSweepAt: Date | null;
}

const counted = [
  ...(['pending', 'delayed', 'processing', 'stalled', 'completed'] as const),
  ...(['failed', 'replaced', 'cancelled', 'expired'] as const),
];

/**
 * The library's own queue is left out; what stalls there is left behind all the same. `others` are leases that could not be
 * ended, and confirmed orphans.
 */
export function statsOf({ queues: all, paused, overdue }: Tally, others: number): Stats {
  const queues = all.filter(({ queue }) => queue !== systemQueue);
  const stalled = all.reduce((sum, queue) => sum + queue.stalled, 0);
  const total = {
    pending: 0,
    delayed: 0,
    processing: 0,
    stalled: 0,
    completed: 0,
    failed: 0,
    replaced: 0,
    cancelled: 0,
    expired: 0,
    paused: paused || (queues.length > 0 && queues.every((queue) => queue.paused)),
    oldestDueAgeMs: null as number | null,
    blockedUntil: null,
    full: queues.length > 0 && queues.every((queue) => queue.full),
  };
  const byName: { [queue: string]: QueueStats } = {};
  for (const { queue, blockedUntil, ...stats } of queues) {
    byName[queue] = { ...stats, blockedUntil: blockedUntil === null ? null : new Date(blockedUntil) };
    for (const name of counted) total[name] += stats[name];
    if (stats.oldestDueAgeMs !== null) total.oldestDueAgeMs = Math.max(total.oldestDueAgeMs ?? 0, stats.oldestDueAgeMs);
  }
  const blockedBy = total.paused ? 'paused' : null;
  return { total: { ...total, blockedBy }, queues: byName, leftBehind: stalled + overdue + others };
}

interface WatchedWorker {
  readonly id: string;
  readonly isFailing: boolean;
  readonly stuck: ReadonlySet<{ readonly id: string }>;
}

export async function healthOf(
  store: Store,
  cleanup: CleanupPolicy,
  seen: {
    closed: boolean;
    workers: readonly WatchedWorker[];
    lastSweepAt: Date | null;
    leases: Health['warnings'];
  },
): Promise<Health> {
  const warnings: { code: string; message: string }[] = [];
  let ok = !seen.closed;
  if (seen.closed) warnings.push({ code: 'CLOSED', message: 'The queue is closed.' });
  else {
    try {
      for (const { code, message, blocks = false } of await store.check()) {
        if (blocks) ok = false;
        warnings.push({ code, message });
      }
      for (const { message } of await untakenTypes(store, cleanup)) warnings.push({ code: 'NOBODY_TAKES', message });
    } catch (error) {
      ok = false;
      const code = error instanceof LastoutError ? error.code : 'STORE_UNAVAILABLE';
      warnings.push({ code, message: describeThrown(error).message });
    }
  }
  warnings.push(...seen.leases);
  for (const { id, isFailing, stuck } of seen.workers) {
    if (isFailing) {
      ok = false;
      warnings.push({ code: 'WORKER_FAILING', message: `Worker ${id} gets no answer from the store.` });
    }
    for (const run of stuck)
      warnings.push({ code: 'STUCK_HANDLER', message: `The handler of job ${run.id} ignores its abort signal.` });
  }
  return { ok, store: store.engine, durability: store.durability, warnings, lastSweepAt: seen.lastSweepAt };
}
