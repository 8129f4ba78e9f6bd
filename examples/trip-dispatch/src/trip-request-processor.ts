import { type Job, type Outcome, snooze } from 'lastout';
import { sendOnce } from './notices.js';
import type { Parts } from './parts.js';
import { type Handled, timeoutId, type TripRequestJob } from './trip-request-job.js';
import { isAsked } from './trips.js';

/** A driver who is under way is asked again after this time. */
const activeTripDelayMs = 60_000;
/** Whoever could not be asked about the trip or the driver is asked again after this time. */
const outageDelayMs = 5_000;
/** The time-out may end the whole trip and cancel what runs: it comes when this attempt has ended as failed. */
const passOnDelayMs = 100;

class DriverNotAvailableError extends Error {
  constructor() {
    super('Driver not available');
  }
}

/** Puts a trip to a driver, if both are still there for it. */
export class TripRequestProcessor {
  constructor(private readonly parts: Parts) {}

  async handleTripRequest(
    request: TripRequestJob,
    { attempts, maxAttempts }: Pick<Job, 'attempts' | 'maxAttempts'>,
  ): Promise<Handled | Outcome> {
    try {
      return await this.validateAndProcess(request);
    } catch (error) {
      if (error instanceof DriverNotAvailableError) {
        // This driver will not be asked any more, so the next one need not wait for the time-out.
        if (attempts >= maxAttempts) await this.passOn(request);
        throw error;
      }
      // Nobody knows whether the request is valid: that is no reason to drop it. Its ttl bounds the waiting.
      this.parts.logger.warn('A trip request cannot be looked at; it is tried again', {
        ...{ tripId: request.tripId, driverId: request.driverId },
        error: String(error),
      });
      return snooze(outageDelayMs, 'The look-up failed');
    }
  }

  private async validateAndProcess({ tripId, driverId, metadata }: TripRequestJob): Promise<Handled | Outcome> {
    const { tripService, driverService, logger, now } = this.parts;

    // The store hands out no expired job. This one expired on its way: put back, it ends as expired, too.
    if (metadata.expiresAt <= now()) return snooze('1s', 'Expired');

    const trip = await tripService.findById(tripId);
    if (!trip || trip.status !== 'PENDING') {
      logger.warn(`Trip ${tripId} is no longer valid, skipping job`);
      return { outcome: 'skipped' };
    }

    // He has been passed over meanwhile; the trip goes on with others.
    if (!isAsked(trip, driverId)) return { outcome: 'skipped' };

    if (await driverService.hasActiveTrip(driverId)) return snooze(activeTripDelayMs, 'Driver has an active trip');

    if (!(await driverService.isAvailable(driverId))) {
      logger.warn(`Driver ${driverId} is no longer available`);
      throw new DriverNotAvailableError();
    }

    return this.processRequest(tripId, driverId);
  }

  /**
   * The trip may end at any moment between two of these steps. Whoever ends it changes its status first and withdraws its
   * requests last; here it is shown first and looked at last. So one of the two always withdraws it.
   */
  private async processRequest(tripId: string, driverId: string): Promise<Handled> {
    const { queue, tripService, notifications, config } = this.parts;
    // A job that is tried again does not show it again.
    await sendOnce(tripService, tripId, `request to ${driverId}`, () => notifications.showRequest(driverId, tripId));
    const trip = await tripService.findById(tripId);
    if (trip?.driverId === driverId) return { outcome: 'processed' }; // he was quick, and has accepted
    if (!isAsked(trip, driverId)) {
      await notifications.withdrawRequest(driverId, tripId, 'Trip is no longer available');
      return { outcome: 'skipped' };
    }
    await queue.reschedule(timeoutId({ tripId, driverId }), { delay: config.driverResponseMs });
    return { outcome: 'processed' };
  }

  private async passOn({ tripId, driverId }: TripRequestJob): Promise<void> {
    const { queue, logger } = this.parts;
    await queue.reschedule(timeoutId({ tripId, driverId }), { delay: passOnDelayMs }).catch((error: unknown) => {
      logger.warn('The next driver is asked later', { tripId, driverId, error: String(error) });
    });
  }
}
