import { describe, expect, test } from 'vitest';
import { TripDispatch } from '../src/app.js';
import { InMemoryDriverService } from '../src/drivers.js';
import { createLogger } from '../src/logger.js';
import { InMemoryNotificationService, type Message } from '../src/notifications.js';
import { processTripRequest } from '../src/trip-request-job.js';
import { InMemoryTripService } from '../src/trips.js';
import { startProcess, type World } from './processes.js';
import { engines, newStore, trip } from './support.js';

const tripsMin = 40;
const tripsMax = 1_000;

describe.each(engines.filter((engine) => engine !== 'memory'))('%s', (engine) => {
  test('004-10 004-33 two processes of the system: each driver is shown each request once, though its job is there twice', async () => {
    const url = (await newStore(engine)) as string;
    const messages: Message[] = [];
    const trips = new InMemoryTripService();
    const drivers = new InMemoryDriverService();
    const screens = new InMemoryNotificationService((message) => messages.push(message));
    const world: World = { tripService: trips, driverService: drivers, notifications: screens };
    const shownBy = [0, 0];
    await Promise.all(
      shownBy.map((_, index) =>
        startProcess(url, world, ({ method }) => {
          if (method === 'showRequest') shownBy[index]! += 1;
        }),
      ),
    );
    await using app = await TripDispatch.open(url, { logger: createLogger('error', () => undefined), ...world });

    // Until both have had their part.
    const expected: string[] = [];
    for (let n = 0; n < tripsMin || (Math.min(...shownBy) === 0 && n < tripsMax); n++) {
      const pair = [`a${n}`, `b${n}`];
      drivers.setAvailable(...pair);
      const { id: tripId, customerId, tripData } = await app.dispatcher.requestTrip(trip(`t${n}`, ...pair));
      // As if somebody had added them by another name, or had retried them by hand.
      await app.queue.enqueueMany(
        pair.map((driverId) => ({ type: processTripRequest, input: { tripId, driverId, customerId, tripData } })),
      );
      expected.push(...pair.map((driverId) => `${driverId} t${n} New trip request`));
    }
    const isDone = async () => {
      const { pending = 0, processing = 0 } = (await app.queue.stats()).queues['trip-requests'] ?? {};
      return pending + processing === 0;
    };
    await expect.poll(isDone, { timeout: 40_000, interval: 50 }).toBe(true);

    expect(messages.map(({ to, tripId, text }) => `${to} ${tripId} ${text}`).sort()).toEqual(expected.sort());
    expect(Math.min(...shownBy)).toBeGreaterThan(0);
    const { items } = await app.queue.find({ type: 'process-trip-request', state: ['failed', 'cancelled', 'expired'] });
    expect(items).toEqual([]);
  }, 120_000);
});
