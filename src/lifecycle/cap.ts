/** How the stored jobs stand against the cap, and the warning where live jobs alone are above it. */
import { systemQueue } from '../core/names.js';
import type { CleanupPolicy } from '../core/policy.js';
import type { Logger } from '../core/job.js';
import type { Store } from '../core/store.js';
import type { System } from '../core/system.js';

/** The library's own jobs do not count. */
export interface Standing {
  readonly stored: number;
  /** Only these may go. */
  readonly finished: number;
  /** Negative: there is room. */
  readonly over: number;
}

/** A number that goes up and down around the cap, or stays above it, is no news. */
const warnAgainMs = 3_600_000;

export async function standingOf(store: Store, cleanup: CleanupPolicy): Promise<Standing> {
  let live = 0;
  let finished = 0;
  for (const { queue, pending, processing, completed, failed, cancelled, expired } of (await store.tally(cleanup))
    .queues) {
    if (queue === systemQueue) continue;
    live += pending + processing;
    finished += completed + failed + cancelled + expired;
  }
  return { stored: live + finished, finished, over: live + finished - cleanup.maxStoredJobs };
}

/** Warns where nothing can go: no pass would help. */
export function capWarning(system: System, logger: Logger): (standing: Standing) => void {
  let warnedAt = Number.NEGATIVE_INFINITY;
  return ({ stored, finished, over }) => {
    if (over <= 0 || finished > 0 || system.monotonic() - warnedAt < warnAgainMs) return;
    warnedAt = system.monotonic();
    logger.warn('Only active jobs are left above maxStoredJobs', { stored, over });
  };
}
