import type { TripService } from './trips.js';

/**
 * Sends each notice of a trip once, whoever comes with it: two processes, two jobs, or a job that is tried again. The right to
 * send it is taken in the database of trips, so a process that dies between the two steps sends nothing; one that could not
 * send it gives the right back.
 */
export async function sendOnce(
  tripService: TripService,
  tripId: string,
  notice: string,
  send: () => Promise<void>,
): Promise<void> {
  if (!(await tripService.takeNotice(tripId, notice))) return;
  try {
    await send();
  } catch (error) {
    await tripService.giveNoticeBack(tripId, notice);
    throw error;
  }
}
