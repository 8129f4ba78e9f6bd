import { defineJob, handle, type Job, type JobType, LastoutError, type Presence } from 'lastout';
import type { Parts } from './parts.js';
import type { Trip } from './trips.js';

const cleanup = defineJob<null, Cleaned | null>('cleanup-orphaned-jobs', {
  queue: 'cleanup',
  // Never two at once, and none that waits while another one does.
  exclusiveKey: 'cleanup-orphaned-jobs',
  deduplication: 'skip',
  ttl: '2m',
  attempts: 1,
  keep: { completed: { count: 10 }, failed: { count: 5 } },
});

export interface Cleaned {
  /** Trips that were looked up. */
  readonly checked: number;
  /** Jobs that were removed. */
  readonly removed: number;
  /** Look-ups that failed, and the sweep itself where it would have removed too much. */
  readonly failed: number;
}

/** Removes waiting and delayed jobs of both queues whose trip is missing or not PENDING any more. */
export class OrphanedJobCleanupService {
  constructor(private readonly parts: Parts) {}

  /** Every process calls it when it starts; there is one schedule all the same, and one sweep at a time. */
  async start(): Promise<void> {
    const { queue, config } = this.parts;
    queue.defineSubject('trip', {
      check: (tripIds, signal) => this.check(tripIds, signal),
      // One look is enough: a trip that is missing does not come back. Should nobody call, it goes by itself.
      confirm: 1,
      every: '24h',
    });
    const { cleanupCron: cron } = config;
    await queue.schedule('cleanup-orphaned-jobs', cleanup, null, { cron }).catch((error: unknown) => {
      if (!(error instanceof LastoutError && error.code === 'INVALID_CRON')) throw error;
      throw new Error(`cleanupCron is ${JSON.stringify(cron)}: ${error.message}`, { cause: error });
    });
  }

  /** The code of the scheduled job. */
  get handler(): JobType<null, Cleaned | null> {
    return handle(cleanup, () => this.cleanupOrphanedJobs());
  }

  /** The last cleanups by the schedule, of every process, newest first. */
  async lastCleanups(): Promise<readonly Job<null, Cleaned | null>[]> {
    const { items } = await this.parts.queue.find({ type: cleanup.name, state: 'completed', limit: 10 });
    return items as unknown as readonly Job<null, Cleaned | null>[];
  }

  /** Null: another process is at it. */
  async cleanupOrphanedJobs(): Promise<Cleaned | null> {
    const { queue, logger, failedCleanups, now } = this.parts;
    const began = now();
    const before = failedCleanups.total;
    const swept = await queue.sweepSubjects('trip');
    if (!swept) return null;
    for (const { subject } of swept.orphans)
      logger.debug(`Removed orphaned job for trip ${subject.slice('trip:'.length)}`);
    const failed = swept.failures + Number(swept.braked) + failedCleanups.total - before;
    if (failed === 0) failedCleanups.wentWell(began);
    return { checked: swept.checked, removed: swept.cancelled, failed };
  }

  /** Whoever cannot be looked up is unknown, and keeps his jobs. */
  private async check(tripIds: readonly string[], signal: AbortSignal): Promise<Presence[]> {
    const { tripService, logger, failedCleanups } = this.parts;
    try {
      return (await tripService.findByIds(tripIds, signal)).map(presenceOf);
    } catch (error) {
      // One of them may be to blame. If it is not, all fail again, and the sweep is told so.
      const answers = await Promise.allSettled(tripIds.map((tripId) => tripService.findById(tripId)));
      const unknown = tripIds.filter((_, n) => answers[n]!.status === 'rejected');
      if (unknown.length === tripIds.length) throw error;
      failedCleanups.add(unknown.length);
      logger.warn('Trips could not be looked up; their jobs are kept', { tripIds: unknown, error: String(error) });
      return answers.map((answer) => (answer.status === 'fulfilled' ? presenceOf(answer.value) : 'unknown'));
    }
  }
}

/** A trip that is there and not PENDING is over, and no sign of a database that has lost its trips. */
function presenceOf(trip: Trip | null): Presence {
  if (!trip) return 'absent';
  return trip.status === 'PENDING' ? 'present' : 'over';
}
