import { describe, expect, test } from 'vitest';
import { timeoutId } from '../src/trip-request-job.js';
import { TripRequestProcessor } from '../src/trip-request-processor.js';
import { InMemoryTripService } from '../src/trips.js';
import { Door, engines, type Stage, stage, trip, TroubledTrips } from './support.js';

/** What drivers and customers were told, as `who: what`. */
const told = (at: Stage): readonly string[] => at.messages.map(({ to, tripId, text }) => `${to} ${tripId}: ${text}`);

describe.each(engines)('%s', (engine) => {
  test('004-07 the trip is missing: a warning, and the job completes without processing', async () => {
    const at = await stage({ engine, idle: true });
    await at.request('t1', 'd1');
    at.trips.delete('t1');
    await at.app.start();
    await at.clock.advance('1s');
    expect(await at.requestJob('t1', 'd1')).toMatchObject({
      state: 'completed',
      attempts: 1,
      result: { outcome: 'skipped' },
    });
    expect(at.said('warn')).toEqual(['Trip t1 is no longer valid, skipping job']);
    expect(at.messages).toEqual([]);
  });

  test('004-10 an available driver sees the request, once', async () => {
    const at = await stage({ engine });
    await at.request('t1', 'd1');
    await at.clock.advance('1s');
    expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'completed', result: { outcome: 'processed' } });
    expect(at.screens.visibleTo('d1')).toEqual(['t1']);
    await at.clock.advance('10s');
    expect(told(at)).toEqual(['d1 t1: New trip request']);
    expect(at.said('warn')).toEqual([]);
  });

  test('004-24 a driver with an active trip: the job is delayed by a minute, no attempt is used', async () => {
    const at = await stage({ engine });
    await at.drivers.startTrip('d1', 'another');
    await at.request('t1', 'd1');
    await at.clock.advance('1s');
    const job = await at.requestJob('t1', 'd1');
    expect(job).toMatchObject({ state: 'pending', attempts: 0, error: null });
    expect(job!.scheduledFor.toISOString()).toBe('2030-01-01T00:01:00.000Z');
    expect((await at.queue.stats()).queues['trip-requests']).toMatchObject({ pending: 1, delayed: 1 });

    await at.drivers.endTrip('d1', 'another');
    await at.clock.advance('58s');
    expect(at.screens.visibleTo('d1')).toEqual([]);
    await at.clock.advance('2s');
    expect(at.screens.visibleTo('d1')).toEqual(['t1']);
    expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'completed', attempts: 1 });
  });
});

for (const status of ['APPROVED', 'CANCELLED', 'DRIVER_NOT_FOUND'] as const)
  test(`004-08 the trip is not PENDING but ${status}: the same warning, and the job completes without processing`, async () => {
    const at = await stage({ idle: true });
    await at.request('t1', 'd1');
    await at.trips.updateStatus('t1', status);
    await at.app.start();
    await at.clock.advance('1s');
    expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'completed', result: { outcome: 'skipped' } });
    expect(at.said('warn')).toEqual(['Trip t1 is no longer valid, skipping job']);
    expect(at.messages).toEqual([]);
  });

test('004-09 a driver who is not available: a warning and an error, tried again by the policy', async () => {
  const at = await stage();
  await at.app.dispatcher.requestTrip(trip('t1', 'd1'));
  await at.clock.settle();
  expect(await at.requestJob('t1', 'd1')).toMatchObject({
    state: 'pending',
    attempts: 1,
    maxAttempts: 3,
    error: { message: 'Driver not available' },
  });
  expect(at.said('warn')).toContain('Driver d1 is no longer available');
  at.drivers.setAvailable('d1');
  await at.clock.advance('5s');
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'completed', attempts: 2, error: null });
  expect(at.screens.visibleTo('d1')).toEqual(['t1']);
});

test('004-32 a driver who stays away fails the job, and the next driver is asked at once', async () => {
  const at = await stage({ config: { driversAtOnce: 1 } });
  at.drivers.setAvailable('d2');
  await at.app.dispatcher.requestTrip(trip('t1', 'd1', 'd2'));
  await at.clock.advance('9s');
  expect(await at.requestJob('t1', 'd1')).toMatchObject({
    state: 'failed',
    attempts: 3,
    error: { message: 'Driver not available' },
  });
  expect(at.said('warn').filter((text) => text === 'Driver d1 is no longer available')).toHaveLength(3);
  expect(at.screens.visibleTo('d2')).toEqual(['t1']);
  expect((await at.trips.findById('t1'))?.rejectedDrivers).toEqual(['d1']);
});

test('004-32 a job that fails for the last time ends as failed, though the next driver is asked before it has ended', async () => {
  const at = await stage({ config: { driversAtOnce: 1 } });
  at.drivers.setAvailable('d2');
  const { reschedule } = at.queue;
  const during: (string | undefined)[] = [];
  at.queue.reschedule = async (which, to) => {
    if (which === timeoutId({ tripId: 't1', driverId: 'd1' })) {
      during.push((await at.requestJob('t1', 'd1'))?.state);
      await at.app.dispatcher.passOver('t1', 'd1', 'The time to answer is over');
    }
    return reschedule(which, to);
  };
  await at.app.dispatcher.requestTrip(trip('t1', 'd1', 'd2'));
  await at.clock.advance('9s');
  expect(during).toEqual(['processing']);
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'failed', attempts: 3, cancelRequested: null });
  expect(at.screens.visibleTo('d2')).toEqual(['t1']);
});

test('004-32 a driver who leaves while he is under way fails the job after the delay, not before', async () => {
  const at = await stage();
  await at.drivers.startTrip('d1', 'another');
  await at.request('t1', 'd1');
  at.drivers.setUnavailable('d1');
  await at.clock.advance('30s');
  expect(at.said('warn')).toEqual([]);
  await at.drivers.endTrip('d1', 'another');
  await at.clock.advance('31s');
  expect(at.said('warn')).toEqual(['Driver d1 is no longer available', 'Job is tried again']);
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ attempts: 1, error: { message: 'Driver not available' } });
});

test('004-25 after the delay everything is looked at again', async () => {
  const at = await stage();
  await at.drivers.startTrip('d1', 'another');
  await at.request('t1', 'd1');
  await at.drivers.endTrip('d1', 'another');
  // Nobody told the queue: only the look at the trip can find it out.
  await at.trips.updateStatus('t1', 'CANCELLED');
  await at.clock.advance('61s');
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'completed', result: { outcome: 'skipped' } });
  expect(at.messages).toEqual([]);
});

test('004-04 a driver who never gets free does not delay a request for ever: its time ends, the next is asked', async () => {
  const at = await stage({ config: { driversAtOnce: 1 } });
  await at.drivers.startTrip('d1', 'endless');
  await at.request('t1', 'd1', 'd2');
  await at.clock.advance(299_000);
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'pending', attempts: 0 });
  expect(at.screens.visibleTo('d2')).toEqual([]);
  await at.clock.advance('6s');
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'expired', attempts: 0 });
  expect(at.screens.visibleTo('d1')).toEqual([]);
  expect(at.screens.visibleTo('d2')).toEqual(['t1']);
});

test('004-28 the order of the checks: expired, trip, active trip, availability, and only then the request', async () => {
  const asked: string[] = [];
  class Trips extends InMemoryTripService {
    override async findById(tripId: string) {
      asked.push('trip');
      return super.findById(tripId);
    }
  }
  const trips = new Trips();
  const at = await stage({
    tripService: trips,
    idle: true,
    driverService: {
      hasActiveTrip: async () => (asked.push('active trip'), false),
      isAvailable: async () => (asked.push('available'), true),
      startTrip: async () => true,
      endTrip: async () => undefined,
    },
    notifications: {
      showRequest: async () => void asked.push('request'),
      withdrawRequest: async () => undefined,
      tellCustomer: async () => undefined,
    },
  });
  await at.app.dispatcher.requestTrip(trip('t1', 'd1'));
  await at.app.dispatcher.requestTrip(trip('late', 'd2'));
  await at.queue.pause('trip-timeouts');
  await at.queue.remove({ subject: 'trip:t1' });
  await at.clock.advance('5m');
  await at.app.start();
  await at.clock.advance('1s');
  // Past its ttl nothing at all is asked.
  expect(asked).toEqual([]);
  expect(await at.requestJob('late', 'd2')).toMatchObject({ state: 'expired' });

  await at.app.dispatcher.requestTrip(trip('t2', 'd1'));
  await at.clock.advance('1s');
  expect(asked).toEqual(['trip', 'active trip', 'available', 'request', 'trip']);
});

test('004-28 a trip that ends between the checks and the screen leaves nothing on the screen', async () => {
  const door = new Door();
  const at = await stage({
    driverService: {
      hasActiveTrip: async () => false,
      isAvailable: async () => (await door.pass(), true),
      startTrip: async () => true,
      endTrip: async () => undefined,
    },
  });
  const requested = at.app.dispatcher.requestTrip(trip('t1', 'd1'));
  await requested;
  await door.arrived;
  await at.app.cancellation.cancelTrip('t1', 'changed my mind');
  door.open();
  await at.clock.advance('1s');
  expect(at.screens.visibleTo('d1')).toEqual([]);
  expect(await at.live()).toEqual([]);
});

test('004-10 a look-up that fails after the request was shown does not show it again', async () => {
  const trips = new TroubledTrips();
  const at = await stage({ tripService: trips });
  const { showRequest } = at.screens;
  at.screens.showRequest = async (driverId, tripId) => {
    await showRequest.call(at.screens, driverId, tripId);
    trips.troubled.add('all');
  };
  await at.request('t1', 'd1');
  await at.clock.advance('1s');
  expect(at.said('warn')).toEqual(['A trip request cannot be looked at; it is tried again']);
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'pending' });
  trips.troubled.clear();
  await at.clock.advance('5s');
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'completed', result: { outcome: 'processed' } });
  expect(told(at)).toEqual(['d1 t1: New trip request']);
  // His time to answer runs from then on.
  await at.clock.advance('21s');
  expect((await trips.findById('t1'))?.rejectedDrivers).toEqual(['d1']);
});

test('004-10 a request that could not be shown is shown later, once', async () => {
  const at = await stage();
  const { showRequest } = at.screens;
  at.screens.showRequest = () => Promise.reject(new Error('The screens are away'));
  await at.request('t1', 'd1');
  await at.clock.advance('1s');
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'pending', attempts: 0 });
  at.screens.showRequest = showRequest;
  await at.clock.advance('10s');
  expect(told(at)).toEqual(['d1 t1: New trip request']);
});

test('004-23 004-26 there is no queue for a driver: each request reaches its own driver and no other', async () => {
  const at = await stage();
  await at.drivers.startTrip('busy', 'another');
  for (let n = 1; n <= 20; n++) await at.request(`t${n}`, `d${n}`, n % 5 === 0 ? 'busy' : `e${n}`);
  await at.clock.advance('1s');
  expect(Object.keys((await at.queue.stats()).queues).sort()).toEqual(['trip-requests', 'trip-timeouts']);
  const expected = Array.from({ length: 20 }, (_, index) => index + 1).flatMap((n) => [
    `d${n} t${n}: New trip request`,
    ...(n % 5 === 0 ? [] : [`e${n} t${n}: New trip request`]),
  ]);
  expect([...told(at)].sort()).toEqual(expected.sort());
  expect(at.screens.visibleTo('busy')).toEqual([]);
});

test('004-26 a driver who is passed over has no job of the trip left, though the trip goes on', async () => {
  const at = await stage();
  await at.drivers.startTrip('busy', 'another');
  await at.request('t1', 'busy', 'd2');
  await at.app.dispatcher.declineTrip('t1', 'busy');
  expect(await at.requestJob('t1', 'busy')).toMatchObject({ state: 'cancelled', error: { message: 'Trip declined' } });
  await at.drivers.endTrip('busy', 'another');
  await at.clock.advance('19s');
  expect([at.screens.visibleTo('busy'), at.screens.visibleTo('d2')]).toEqual([[], ['t1']]);
});

test('004-28 a request that expires on its way to the handler is put back, and nothing is asked', async () => {
  const trips = new TroubledTrips();
  const at = await stage({ tripService: trips, idle: true });
  await at.request('t1', 'd1');
  const job = (await at.requestJob('t1', 'd1'))!;
  const request = (await at.app.jobs.requestOf('t1', 'd1'))!;
  trips.troubled.add('all');
  await at.clock.advance('5m');
  const outcome = await new TripRequestProcessor(at.app.parts).handleTripRequest(request, job);
  expect(outcome).toMatchObject({ outcome: 'snooze' });
  // No worker runs in this test, and an alert says so.
  expect(at.said('warn').filter((text) => !text.startsWith('Nobody takes'))).toEqual([]);
});

test('004-28 an outage of the look-up uses up no attempt and no driver: the request waits for its end', async () => {
  const trips = new TroubledTrips();
  const at = await stage({ tripService: trips, idle: true });
  await at.request('t1', 'd1');
  trips.troubled.add('all');
  await at.app.start();
  await at.clock.advance('2m');
  expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'pending', attempts: 0 });
  expect(at.said('warn')).toContain('A trip request cannot be looked at; it is tried again');
  trips.troubled.clear();
  await at.clock.advance('5s');
  expect(at.screens.visibleTo('d1')).toEqual(['t1']);

  // Nor does it lose a time-out.
  trips.troubled.add('all');
  await at.clock.advance('5m');
  expect(await at.timeoutJob('t1', 'd1')).toMatchObject({
    state: 'pending',
    error: { message: 'The database is away' },
  });
  trips.troubled.clear();
  await at.clock.advance('2m');
  expect(await trips.findById('t1')).toMatchObject({ status: 'DRIVER_NOT_FOUND', rejectedDrivers: ['d1'] });
  expect(at.screens.visibleTo('d1')).toEqual([]);
});
