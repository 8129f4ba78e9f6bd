import type { Parts } from './parts.js';
import { tripSubject } from './trip-request-job.js';

/** Removes jobs by their trip, whichever queue they are in: waiting, delayed and active ones. */
export class TripJobs {
  constructor(private readonly parts: Pick<Parts, 'queue' | 'logger'>) {}

  async removeAllJobsForTrip(tripId: string, reason: string): Promise<void> {
    await this.parts.queue.cancel({ subject: tripSubject(tripId) }, { reason });
  }
}
