import { sendOnce } from './notices.js';
import type { Parts } from './parts.js';
import type { TripJobs } from './trip-jobs.js';
import { openCalls, type Trip, type TripStatus } from './trips.js';

/** Ends a trip: its status first, so that no job starts any more; then its jobs; then whoever knows of it is told. */
export class TripCancellationService {
  constructor(
    private readonly parts: Parts,
    private readonly jobs: TripJobs,
  ) {}

  /** May be called again after a failure at any point. */
  async cancelTrip(tripId: string, reason: string): Promise<void> {
    const trip = await this.end(tripId, 'CANCELLED', reason);
    await this.notifyDriversOfCancellation(trip, `Trip was cancelled: ${reason}`);
    if (trip.driverId !== null) await this.parts.driverService.endTrip(trip.driverId, tripId);
  }

  /** Every driver has declined or has not answered in time. The last two may be passed over at once: the customer is told once. */
  async timeOutTrip(tripId: string): Promise<void> {
    const trip = await this.end(tripId, 'DRIVER_NOT_FOUND', 'No driver accepted');
    await this.notifyDriversOfCancellation(trip, 'Trip is no longer available');
    const { tripService, notifications } = this.parts;
    await sendOnce(tripService, tripId, 'no driver found', () =>
      notifications.tellCustomer(trip.customerId, tripId, 'No driver was found'),
    );
  }

  private async end(tripId: string, status: TripStatus, reason: string): Promise<Trip> {
    const trip = await this.parts.tripService.updateStatus(tripId, status, reason);
    await this.jobs.removeAllJobsForTrip(tripId, reason);
    return trip;
  }

  /** Whoever has accepted, or else was asked and has not answered; the request leaves his screen. */
  private async notifyDriversOfCancellation(trip: Trip, why: string): Promise<void> {
    const affected = trip.driverId === null ? openCalls(trip) : [trip.driverId];
    for (const driverId of affected) await this.parts.notifications.withdrawRequest(driverId, trip.id, why);
  }
}
