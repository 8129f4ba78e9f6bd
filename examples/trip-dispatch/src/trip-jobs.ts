import type { Parts } from './parts.js';
import { requestTtlMs, tripSubject } from './trip-request-job.js';

/** No job of a trip that is over is taken in for so long: longer than any that was on its way could matter. */
const fenceMs = 2 * requestTtlMs;

/** Removes jobs by their trip, whichever queue they are in: waiting, delayed and active ones. */
export class TripJobs {
  constructor(private readonly parts: Parts) {}

  /** The trip is over already, so a failure loses nothing: its jobs do nothing any more, and the next cleanup finds them. */
  async removeAllJobsForTrip(tripId: string, reason: string): Promise<void> {
    try {
      await this.parts.queue.endSubject(tripSubject(tripId), reason, { fence: fenceMs });
    } catch (error) {
      this.parts.failedCleanups.add(1);
      this.parts.logger.error(`Jobs of trip ${tripId} could not be removed; the next cleanup does it`, {
        error: String(error),
      });
    }
  }
}
