import type { Context } from 'lastout';
import type { Parts } from './parts.js';
import type { TripDispatcher } from './trip-dispatcher.js';
import type { Handled, TripTimeout } from './trip-request-job.js';

/** A driver's time to answer is over: the next one is asked, and after the last the trip has found no driver. */
export class TripTimeoutProcessor {
  constructor(
    private readonly parts: Parts,
    private readonly dispatcher: TripDispatcher,
  ) {}

  async handleTimeout({ input: { tripId, driverId } }: Context<TripTimeout>): Promise<Handled> {
    const { tripService, logger } = this.parts;
    const trip = await tripService.findById(tripId);
    if (!trip || trip.status !== 'PENDING') {
      logger.warn(`Trip ${tripId} is no longer valid, skipping job`);
      return { outcome: 'skipped' };
    }
    await this.dispatcher.passOver(tripId, driverId, 'The time to answer is over');
    return { outcome: 'processed' };
  }
}
