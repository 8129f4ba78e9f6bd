import { describe, expect, test } from 'vitest';
import { requestId, timeoutId } from '../src/trip-request-job.js';
import { InMemoryTripService, openCalls, type TripStatus } from '../src/trips.js';
import { Door, engines, stage, trip } from './support.js';

/** Both drivers are passed over before it is seen who is left, and both callers have seen it before one goes on. */
class RejectTogether extends InMemoryTripService {
  private readonly rejected = new Door(2);
  private readonly seen = new Door(2);
  endings = 0;
  override async reject(tripId: string, driverId: string): Promise<void> {
    await super.reject(tripId, driverId);
    await this.rejected.pass();
  }
  override async callDrivers(tripId: string, atOnce: number) {
    const called = await super.callDrivers(tripId, atOnce);
    if (openCalls(called).length === 0) await this.seen.pass();
    return called;
  }
  override async updateStatus(tripId: string, status: TripStatus, reason?: string) {
    if (status === 'DRIVER_NOT_FOUND') this.endings += 1;
    return super.updateStatus(tripId, status, reason);
  }
}

describe.each(engines)('%s', (engine) => {
  test('004-17 cancelTrip sets the status, then removes the jobs, then notifies the drivers', async () => {
    const at = await stage({ engine });
    await at.request('t1', 'd1', 'd2');
    const steps: string[] = [];
    const { updateStatus } = at.trips;
    at.trips.updateStatus = async (...args) => {
      steps.push(`status ${args[1]} with ${(await at.live()).length} jobs`);
      return updateStatus.apply(at.trips, args);
    };
    const { withdrawRequest } = at.screens;
    at.screens.withdrawRequest = async (...args) => {
      const { status } = (await at.trips.findById('t1'))!;
      steps.push(`notify ${args[0]} of ${status} with ${(await at.live()).length} jobs`);
      return withdrawRequest.apply(at.screens, args);
    };
    expect(await at.live()).toHaveLength(2);
    await at.app.cancellation.cancelTrip('t1', 'changed my mind');
    expect(steps).toEqual([
      'status CANCELLED with 2 jobs',
      'notify d1 of CANCELLED with 0 jobs',
      'notify d2 of CANCELLED with 0 jobs',
    ]);
  });

  test('004-18 004-19 it removes waiting, delayed and active jobs from both queues, of that trip alone', async () => {
    const door = new Door();
    const at = await stage({
      engine,
      idle: true,
      config: { driversAtOnce: 4 },
      driverService: {
        hasActiveTrip: async (driverId) => driverId === 'busy',
        isAvailable: async (driverId) => {
          if (driverId === 'active') await door.pass();
          return driverId !== 'away';
        },
        startTrip: async () => true,
        endTrip: async () => undefined,
      },
    });
    // One request is active, one delayed, one waits to be tried again; the time-outs are delayed.
    await at.app.dispatcher.requestTrip(trip('t1', 'active', 'busy', 'away'));
    await at.app.dispatcher.requestTrip(trip('t2', 'busy'));
    await at.app.start();
    await door.arrived;
    await at.clock.settle();
    // And one waits in each queue, with nobody to take it.
    await at.queue.pause();
    for (const name of ['process-trip-request', 'timeout-trip-request'])
      await at.queue.enqueue(name, { tripId: 't1', driverId: 'other' }, { delay: 0 });
    const { queues } = await at.queue.stats();
    expect(queues['trip-requests']).toMatchObject({ pending: 4, delayed: 3, processing: 1 });
    expect(queues['trip-timeouts']).toMatchObject({ pending: 5, delayed: 4 });

    await at.app.cancellation.cancelTrip('t1', 'changed my mind');
    const active = requestId({ tripId: 't1', driverId: 'active' });
    expect(await at.live()).toEqual(
      [active, requestId({ tripId: 't2', driverId: 'busy' }), timeoutId({ tripId: 't2', driverId: 'busy' })].sort(),
    );
    // The one that runs is told to stop; what it does not stop itself comes to nothing.
    expect((await at.queue.get(active))?.cancelRequested).toMatchObject({ reason: 'changed my mind' });
    door.open();
    await at.clock.advance('1s');
    expect(await at.live()).toHaveLength(2);
    expect(at.screens.visibleTo('active')).toEqual([]);
    expect((await at.queue.find({ subject: 'trip:t2', state: 'pending' })).items).toHaveLength(2);
  });

  test('004-20 004-22 all drivers who were asked are told why, and none sees the request any more', async () => {
    const at = await stage({ engine });
    await at.request('t1', 'd1', 'd2', 'd3');
    await at.request('t2', 'd1');
    await at.clock.advance('1s');
    expect([at.screens.visibleTo('d1'), at.screens.visibleTo('d2')]).toEqual([['t1', 't2'], ['t1']]);
    at.messages.length = 0;
    await at.app.cancellation.cancelTrip('t1', 'changed my mind');
    expect(at.messages).toEqual(
      ['d1', 'd2'].map((to) => ({ to, tripId: 't1', text: 'Trip was cancelled: changed my mind' })),
    );
    expect([at.screens.visibleTo('d1'), at.screens.visibleTo('d2')]).toEqual([['t2'], []]);
    expect(await at.trips.findById('t1')).toMatchObject({ status: 'CANCELLED', reason: 'changed my mind' });
    expect(await at.timeoutJob('t1', 'd1')).toMatchObject({
      state: 'cancelled',
      error: { message: 'changed my mind', code: 'CANCELLED' },
    });
  });

  test('004-21 a trip that times out ends in the same way: status, jobs, drivers, and the customer is told', async () => {
    const at = await stage({ engine });
    await at.request('t1', 'd1', 'd2');
    await at.clock.advance('21s');
    expect(await at.trips.findById('t1')).toMatchObject({ status: 'DRIVER_NOT_FOUND', reason: 'No driver accepted' });
    expect(await at.live()).toEqual([]);
    expect([at.screens.visibleTo('d1'), at.screens.visibleTo('d2')]).toEqual([[], []]);
    const withdrawn = at.messages.filter(({ text }) => text === 'The time to answer is over').map(({ to }) => to);
    expect(withdrawn.sort()).toEqual(['d1', 'd2']);
    // Both drivers' time ends at once: either may be the one after whom the customer is told.
    expect(at.messages.filter(({ to }) => to === 'customer-of-t1')).toEqual([
      { to: 'customer-of-t1', tripId: 't1', text: 'No driver was found' },
    ]);
  });

  test('004-21 two time-outs of one trip in two processes at once: the customer is told once', async () => {
    const trips = new RejectTogether();
    const at = await stage({ engine, tripService: trips });
    const other = await stage({ engine, beside: at, idle: true });
    await at.request('t1', 'd1', 'd2');
    await at.clock.advance('1s');
    await Promise.all([
      at.app.dispatcher.passOver('t1', 'd1', 'The time to answer is over'),
      other.app.dispatcher.passOver('t1', 'd2', 'The time to answer is over'),
    ]);
    // Both found nobody left to be asked.
    expect(trips.endings).toBe(2);
    expect(await trips.findById('t1')).toMatchObject({ status: 'DRIVER_NOT_FOUND' });
    expect(at.messages.filter(({ to }) => to === 'customer-of-t1').map(({ text }) => text)).toEqual([
      'No driver was found',
    ]);
    expect(await at.live()).toEqual([]);
  });
});

test('004-30 what was cancelled stays so: a late request of the trip is refused, a late time-out asks nobody', async () => {
  const at = await stage({ config: { driversAtOnce: 1 } });
  await at.request('t1', 'd1', 'd2');
  await at.app.cancellation.cancelTrip('t1', 'changed my mind');
  await at.app.dispatcher.declineTrip('t1', 'd1');
  await at.clock.advance('9m');
  expect(at.screens.visibleTo('d2')).toEqual([]);
  expect(await at.trips.findById('t1')).toMatchObject({ status: 'CANCELLED', calledDrivers: ['d1'] });
  await expect(
    at.queue.enqueue('process-trip-request', { tripId: 't1' }, { subject: 'trip:t1' }),
  ).rejects.toMatchObject({ code: 'SUBJECT_ENDED' });
  expect(await at.live()).toEqual([]);
});

test('004-30 jobs that cannot be removed are reported, and the drivers are told all the same', async () => {
  const at = await stage();
  await at.request('t1', 'd1');
  await at.clock.advance('1s');
  const { endSubject } = at.queue;
  at.queue.endSubject = async () => Promise.reject(new Error('The store is away'));
  await at.app.cancellation.cancelTrip('t1', 'changed my mind');
  expect(at.said('error')).toEqual(['Jobs of trip t1 could not be removed; the next cleanup does it']);
  expect(await at.trips.findById('t1')).toMatchObject({ status: 'CANCELLED' });
  expect(at.screens.visibleTo('d1')).toEqual([]);
  expect(at.messages.at(-1)?.text).toBe('Trip was cancelled: changed my mind');
  at.queue.endSubject = endSubject;
  await at.clock.advance('2m');
  expect(await at.live()).toEqual([]);
});

test('004-20 a trip that was accepted and is cancelled concerns its driver alone, who is free again', async () => {
  const at = await stage();
  await at.request('t1', 'd1', 'd2');
  await at.app.dispatcher.acceptTrip('t1', 'd1');
  at.messages.length = 0;
  await at.app.cancellation.cancelTrip('t1', 'missed the flight');
  expect(at.messages).toEqual([{ to: 'd1', tripId: 't1', text: 'Trip was cancelled: missed the flight' }]);
  expect(await at.drivers.hasActiveTrip('d1')).toBe(false);
});

test('004-30 a cancellation is repeated without harm; a trip that is over cannot be cancelled', async () => {
  const at = await stage();
  await at.request('t1', 'd1');
  await at.app.cancellation.cancelTrip('t1', 'changed my mind');
  await at.app.cancellation.cancelTrip('t1', 'again');
  expect(await at.trips.findById('t1')).toMatchObject({ status: 'CANCELLED', reason: 'changed my mind' });
  await at.request('t2', 'd1');
  expect(await at.app.dispatcher.acceptTrip('t2', 'd1')).toBe(true);
  await at.trips.updateStatus('t2', 'COMPLETED');
  await expect(at.app.cancellation.cancelTrip('t2', 'too late')).rejects.toThrow(
    'Trip t2 is COMPLETED; it cannot become CANCELLED.',
  );
  await expect(at.app.cancellation.cancelTrip('t3', 'which?')).rejects.toThrow('There is no trip t3.');
});
