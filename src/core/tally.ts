/** The counts of a queue while they are put together. */
import { finishedStates } from './job.js';
import type { QueueTally } from './store.js';

export type Counts = { -readonly [K in keyof QueueTally]: QueueTally[K] };

export function emptyCounts(queue: string, paused: boolean): Counts {
  return {
    queue,
    pending: 0,
    delayed: 0,
    processing: 0,
    stalled: 0,
    completed: 0,
    failed: 0,
    replaced: 0,
    cancelled: 0,
    expired: 0,
    paused,
    oldestDueAgeMs: null,
    blockedBy: null,
    blockedUntil: null,
    full: false,
  };
}

/** Something of it is stored, or it is paused. */
export function isWorthTelling(counts: QueueTally): boolean {
  return (
    counts.paused || counts.pending > 0 || counts.processing > 0 || finishedStates.some((state) => counts[state] > 0)
  );
}
