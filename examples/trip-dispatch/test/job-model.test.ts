import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { processTripRequest, type TripRequestJob } from '../src/trip-request-job.js';
import { TripRequestProcessor } from '../src/trip-request-processor.js';
import { Door, engines, type Stage, stage, trip } from './support.js';

const statusOf = async (at: Stage, tripId: string, driverId: string) =>
  (await at.app.jobs.requestOf(tripId, driverId))?.metadata.status;

describe.each(engines)('%s', (engine) => {
  test('004-01 004-03 a request carries trip, driver, customer, data and dates five minutes apart', async () => {
    const at = await stage({ engine, idle: true });
    await at.request('t1', 'd1');
    const job = await at.requestJob('t1', 'd1');
    const request: TripRequestJob | null = await at.app.jobs.requestOf('t1', 'd1');
    expect(request).toEqual({
      tripId: 't1',
      driverId: 'd1',
      customerId: 'customer-of-t1',
      tripData: { pickup: 'Harbour', dropoff: 'Airport' },
      metadata: {
        createdAt: new Date('2030-01-01T00:00:00Z'),
        expiresAt: new Date('2030-01-01T00:05:00Z'),
        status: 'PENDING',
      },
    });
    expect(job).toMatchObject({
      type: 'process-trip-request',
      queue: 'trip-requests',
      subject: 'trip:t1',
      scheduledFor: new Date('2030-01-01T00:00:00Z'),
      expiresAt: new Date('2030-01-01T00:05:00Z'),
    });
    expect(await at.app.jobs.requestOf('t1', 'd2')).toBeNull();
  });

  test('004-04 004-31 an expired request is never processed, ends EXPIRED, and is counted', async () => {
    const at = await stage({ engine, idle: true });
    await at.request('t1', 'd1');
    await at.clock.advance(299_999);
    expect(await statusOf(at, 't1', 'd1')).toBe('PENDING');
    await at.clock.advance(1);
    await at.queue.pause('trip-timeouts');
    await at.app.start();
    await at.clock.advance('10s');
    expect(await at.requestJob('t1', 'd1')).toMatchObject({ state: 'expired', attempts: 0 });
    expect(await statusOf(at, 't1', 'd1')).toBe('EXPIRED');
    expect((await at.queue.stats()).queues['trip-requests']).toMatchObject({ expired: 1, pending: 0, completed: 0 });
    expect(at.messages).toEqual([]);
  });

  test('004-05 004-06 of finished jobs the newest 10 completed and the newest 5 failed are kept', async () => {
    const at = await stage({ engine, config: { driversAtOnce: 1 } });
    for (let n = 1; n <= 12; n++) {
      await at.request(`good${n}`, `d${n}`);
      await at.clock.advance('1s');
    }
    for (let n = 1; n <= 7; n++) {
      await at.app.dispatcher.requestTrip(trip(`bad${n}`, `away${n}`));
      await at.clock.advance('1s');
    }
    await at.clock.advance('10s');
    expect((await at.queue.stats()).queues['trip-requests']).toMatchObject({ completed: 12, failed: 7 });
    await at.queue.sweep();
    const trips = async (state: 'completed' | 'failed') =>
      (await at.queue.find({ queue: 'trip-requests', state })).items.map(
        ({ input }) => (input as { tripId: string }).tripId,
      );
    expect(new Set(await trips('completed'))).toEqual(new Set(Array.from({ length: 10 }, (_, n) => `good${n + 3}`)));
    expect(new Set(await trips('failed'))).toEqual(new Set(['bad3', 'bad4', 'bad5', 'bad6', 'bad7']));
  });
});

describe.each(engines)('%s', (engine) => {
  test('004-02 a request goes through the four statuses, as the service and its handler see them', async () => {
    const door = new Door();
    const handed: TripRequestJob[] = [];
    const { handleTripRequest } = TripRequestProcessor.prototype;
    const watched = vi.spyOn(TripRequestProcessor.prototype, 'handleTripRequest');
    onTestFinished(() => watched.mockRestore());
    watched.mockImplementation(async function (this: TripRequestProcessor, request, job) {
      handed.push(request);
      if (request.driverId === 'd1') await door.pass();
      return handleTripRequest.call(this, request, job);
    });
    const at = await stage({ engine, idle: true, config: { driversAtOnce: 3 } });
    await at.drivers.startTrip('busy', 'another');
    await at.request('t1', 'd1', 'busy');
    const statuses = async () => [await statusOf(at, 't1', 'd1'), await statusOf(at, 't1', 'busy')];
    expect(await statuses()).toEqual(['PENDING', 'PENDING']);
    await at.app.start();
    await door.arrived;
    await at.clock.settle();
    expect(await statuses()).toEqual(['PROCESSING', 'PENDING']);
    expect(handed.find(({ driverId }) => driverId === 'd1')).toEqual(await at.app.jobs.requestOf('t1', 'd1'));
    door.open();
    await at.clock.advance('1s');
    expect(await statuses()).toEqual(['COMPLETED', 'PENDING']);
    await at.queue.pause();
    await at.clock.advance('5m');
    expect(await statuses()).toEqual(['COMPLETED', 'EXPIRED']);
    expect(
      (await at.app.jobs.requestsOf('t1')).map(({ driverId, metadata }) => `${driverId} ${metadata.status}`).sort(),
    ).toEqual(['busy EXPIRED', 'd1 COMPLETED']);
    expect(await at.app.jobs.requestsOf('t2')).toEqual([]);
  });
});

test('004-02 a request that failed, or was cancelled, is EXPIRED: it will not be put to its driver any more', async () => {
  const at = await stage();
  await at.app.dispatcher.requestTrip(trip('t1', 'away'));
  await at.clock.advance('9s');
  expect([await statusOf(at, 't1', 'away'), (await at.requestJob('t1', 'away'))?.state]).toEqual(['EXPIRED', 'failed']);
  await at.drivers.startTrip('busy', 'another');
  await at.request('t2', 'busy');
  await at.app.cancellation.cancelTrip('t2', 'changed my mind');
  expect([await statusOf(at, 't2', 'busy'), (await at.requestJob('t2', 'busy'))?.state]).toEqual([
    'EXPIRED',
    'cancelled',
  ]);
});

test('asked for twice, a request is inserted once', async () => {
  const at = await stage({ idle: true });
  await at.request('t1', 'd1');
  const job = (await at.requestJob('t1', 'd1'))!;
  const { outcome } = await at.queue.enqueue(processTripRequest, job.input as never, { id: job.id });
  expect(outcome).toBe('existing');
});
