import type { Job } from 'lastout';
import type { Parts } from './parts.js';
import {
  processTripRequest,
  requestId,
  toTripRequestJob,
  type TripRequest,
  type TripRequestJob,
  tripSubject,
} from './trip-request-job.js';

/** The jobs of a trip: its requests as one reads them, and their removal. */
export class TripJobs {
  constructor(private readonly parts: Parts) {}

  /** What has become of the request to one driver, as long as its job is kept. */
  async requestOf(tripId: string, driverId: string): Promise<TripRequestJob | null> {
    const job = await this.parts.queue.get(processTripRequest, requestId({ tripId, driverId }));
    return job && toTripRequestJob(job);
  }

  /** All requests of a trip whose jobs are kept, newest first. */
  async requestsOf(tripId: string): Promise<readonly TripRequestJob[]> {
    const { items } = await this.parts.queue.find({
      ...{ subject: tripSubject(tripId), type: processTripRequest.name },
      limit: 200,
    });
    return items.map((job) => toTripRequestJob(job as unknown as Job<TripRequest>));
  }

  /** From both queues: waiting, delayed and active ones. The trip is over already, so a failure loses nothing: its jobs do nothing any more, and the next cleanup finds them. */
  async removeAllJobsForTrip(tripId: string, reason: string): Promise<void> {
    const { queue, config } = this.parts;
    try {
      // No job of it is taken in for so long: longer than any that was on its way could matter.
      await queue.endSubject(tripSubject(tripId), reason, { fence: 2 * config.ttl });
    } catch (error) {
      this.parts.failedCleanups.add(1);
      this.parts.logger.error(`Jobs of trip ${tripId} could not be removed; the next cleanup does it`, {
        error: String(error),
      });
    }
  }
}
