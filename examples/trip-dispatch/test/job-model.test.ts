import { describe, expect, test } from 'vitest';
import { processTripRequest, toTripRequestJob, type TripRequestJob } from '../src/trip-request-job.js';
import { engines, stage, trip } from './support.js';

describe.each(engines)('%s', (engine) => {
  test('004-01 004-03 a request carries trip, driver, customer, data and dates five minutes apart', async () => {
    const at = await stage({ engine, idle: true });
    await at.request('t1', 'd1');
    const job = await at.requestJob('t1', 'd1');
    const request: TripRequestJob = toTripRequestJob(job!);
    expect(request).toEqual({
      tripId: 't1',
      driverId: 'd1',
      customerId: 'customer-of-t1',
      tripData: { pickup: 'Harbour', dropoff: 'Airport' },
      metadata: { createdAt: '2030-01-01T00:00:00.000Z', expiresAt: '2030-01-01T00:05:00.000Z', status: 'PENDING' },
    });
    expect(job).toMatchObject({
      type: 'process-trip-request',
      queue: 'trip-requests',
      subject: 'trip:t1',
      scheduledFor: new Date('2030-01-01T00:00:00Z'),
      expiresAt: new Date('2030-01-01T00:05:00Z'),
    });
    expect(JSON.parse(JSON.stringify(request))).toEqual(request);
  });

  test('004-04 004-31 an expired request is never processed, ends EXPIRED, and is counted', async () => {
    const at = await stage({ engine, idle: true });
    await at.request('t1', 'd1');
    await at.clock.advance(299_999);
    expect(toTripRequestJob((await at.requestJob('t1', 'd1'))!).metadata.status).toBe('PENDING');
    await at.clock.advance(1);
    await at.queue.pause('trip-timeouts');
    await at.app.start();
    await at.clock.advance('10s');
    const job = await at.requestJob('t1', 'd1');
    expect(job).toMatchObject({ state: 'expired', attempts: 0 });
    expect(toTripRequestJob(job!).metadata.status).toBe('EXPIRED');
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
      (await at.queue.find({ queue: 'trip-requests', state })).items.map((job) => toTripRequestJob(job).tripId);
    expect(new Set(await trips('completed'))).toEqual(new Set(Array.from({ length: 10 }, (_, n) => `good${n + 3}`)));
    expect(new Set(await trips('failed'))).toEqual(new Set(['bad3', 'bad4', 'bad5', 'bad6', 'bad7']));
  });
});

test('004-02 the status is computed from the state of the job, in the four words of the payload', async () => {
  const at = await stage();
  await at.request('t1', 'd1');
  const job = (await at.requestJob('t1', 'd1'))!;
  const statusOf = (state: typeof job.state) => toTripRequestJob({ ...job, state }).metadata.status;
  expect((['pending', 'processing', 'expired', 'completed'] as const).map(statusOf)).toEqual([
    'PENDING',
    'PROCESSING',
    'EXPIRED',
    'COMPLETED',
  ]);
  // Over without having been put to the driver; the job's own state says how.
  expect((['failed', 'cancelled'] as const).map(statusOf)).toEqual(['EXPIRED', 'EXPIRED']);
  expect(job.state).toBe('completed');
  expect(toTripRequestJob(job).metadata.status).toBe('COMPLETED');
});

test('asked for twice, a request is inserted once', async () => {
  const at = await stage({ idle: true });
  await at.request('t1', 'd1');
  const job = (await at.requestJob('t1', 'd1'))!;
  const { outcome } = await at.queue.enqueue(processTripRequest, job.input as never, { id: job.id });
  expect(outcome).toBe('existing');
});
