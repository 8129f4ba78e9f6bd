import { LastoutError } from 'lastout';
import { sendOnce } from './notices.js';
import type { Parts } from './parts.js';
import type { TripCancellationService } from './trip-cancellation-service.js';
import { optionsOf, processTripRequest, requestId, timeoutId, timeoutTripRequest } from './trip-request-job.js';
import type { TripJobs } from './trip-jobs.js';
import { openCalls, type Trip, type TripService } from './trips.js';

/** Asks drivers, the next ones in place of those who do not want, until one accepts. */
export class TripDispatcher {
  constructor(
    private readonly parts: Parts,
    private readonly jobs: TripJobs,
    private readonly cancellation: TripCancellationService,
  ) {}

  async requestTrip(trip: Parameters<TripService['create']>[0]): Promise<Trip> {
    const created = await this.parts.tripService.create(trip);
    await this.askDrivers(created.id);
    return created;
  }

  /** False: somebody else was faster, the trip is over, or the driver is under way. */
  async acceptTrip(tripId: string, driverId: string): Promise<boolean> {
    const { tripService, driverService, notifications } = this.parts;
    if (!(await driverService.startTrip(driverId, tripId))) return false;
    const trip = await tripService.approve(tripId, driverId);
    if (!trip) {
      await driverService.endTrip(driverId, tripId);
      return false;
    }
    await this.jobs.removeAllJobsForTrip(tripId, `Accepted by driver ${driverId}`);
    for (const called of openCalls(trip)) {
      const why = called === driverId ? 'Trip is yours' : 'Trip is already taken';
      await notifications.withdrawRequest(called, tripId, why);
    }
    await sendOnce(tripService, tripId, 'driver on the way', () =>
      notifications.tellCustomer(trip.customerId, tripId, `Driver ${driverId} is on the way`),
    );
    return true;
  }

  /** The driver is free for the next one. False: it is not his, or not under way. May be called again after a failure. */
  async completeTrip(tripId: string, driverId: string): Promise<boolean> {
    const { tripService, driverService } = this.parts;
    if (!(await tripService.complete(tripId, driverId))) return false;
    await driverService.endTrip(driverId, tripId);
    return true;
  }

  async declineTrip(tripId: string, driverId: string): Promise<void> {
    await this.passOver(tripId, driverId, 'Trip declined');
  }

  /** This driver is not waited for any more. May be called again after a failure at any point: every step may. */
  async passOver(tripId: string, driverId: string, why: string): Promise<void> {
    const { queue, tripService, notifications } = this.parts;
    await tripService.reject(tripId, driverId);
    // One that runs finds out by itself. It may just be failing, and is to end so.
    await queue.cancel({ id: requestId({ tripId, driverId }), state: 'pending' }, { reason: why });
    await notifications.withdrawRequest(driverId, tripId, why);
    await this.askDrivers(tripId);
  }

  /** A driver who is asked already is not asked twice: the jobs have his id in theirs. */
  private async askDrivers(tripId: string): Promise<void> {
    const { queue, tripService, config } = this.parts;
    const trip = await tripService.callDrivers(tripId, config.driversAtOnce);
    if (trip.status !== 'PENDING') return;
    const drivers = openCalls(trip);
    if (drivers.length === 0) return this.cancellation.timeOutTrip(tripId);
    const { customerId, tripData } = trip;
    const { request, timeout } = optionsOf(config);
    try {
      await queue.enqueueMany(
        drivers.flatMap((driverId) => {
          const to = { tripId, driverId };
          return [
            {
              type: processTripRequest,
              input: { ...to, customerId, tripData },
              options: { ...request, id: requestId(to) },
            },
            { type: timeoutTripRequest, input: to, options: { ...timeout, id: timeoutId(to) } },
          ];
        }),
      );
    } catch (error) {
      // The trip ended in this very moment.
      if (!(error instanceof LastoutError && error.code === 'SUBJECT_ENDED')) throw error;
    }
  }
}
