import { describe, expect, test } from 'vitest';
import { configFrom, defaultConfig, readConfig } from '../src/config.js';
import { engines, stage, trip } from './support.js';

test('004-28 what nobody sets is as in the document', () => {
  expect(readConfig({})).toEqual(defaultConfig);
  expect(defaultConfig).toEqual({
    ttl: 300_000,
    removeOnComplete: 10,
    removeOnFail: 5,
    cleanupCron: '*/2 * * * *',
    driversAtOnce: 2,
    driverResponseMs: 20_000,
    highOrphanCount: 20,
  });
});

test('004-28 every setting has a variable of the environment', () => {
  expect(
    configFrom({
      TRIP_TTL: '60000',
      TRIP_REMOVE_ON_COMPLETE: '3',
      TRIP_REMOVE_ON_FAIL: '0',
      TRIP_CLEANUP_CRON: '*/5 * * * *',
      TRIP_DRIVERS_AT_ONCE: '4',
      TRIP_DRIVER_RESPONSE_MS: '15000',
      TRIP_HIGH_ORPHAN_COUNT: '0',
      TRIP_ADVISOR: 'is not ours',
    }),
  ).toEqual({
    ttl: 60_000,
    removeOnComplete: 3,
    removeOnFail: 0,
    cleanupCron: '*/5 * * * *',
    driversAtOnce: 4,
    driverResponseMs: 15_000,
    highOrphanCount: 0,
  });
  expect(configFrom({ TRIP_TTL: '' })).toEqual(defaultConfig);
  expect(configFrom({}, { driverResponseMs: 1_000 })).toEqual({ ...defaultConfig, driverResponseMs: 1_000 });
  expect(configFrom({ TRIP_DRIVER_RESPONSE_MS: '2000' }, { driverResponseMs: 1_000 }).driverResponseMs).toBe(2_000);
});

describe('004-28 a setting that makes no sense is refused by its name, before anything is opened', () => {
  const refusals: readonly [object, string][] = [
    [{ ttl: 0 }, 'ttl is 0; give a whole number from 1000 to 86400000.'],
    [{ ttl: '5m' }, 'ttl is "5m"; give a whole number from 1000 to 86400000.'],
    [{ removeOnComplete: -1 }, 'removeOnComplete is -1; give a whole number from 0 to 10000.'],
    [{ removeOnFail: 1.5 }, 'removeOnFail is 1.5; give a whole number from 0 to 10000.'],
    [{ driversAtOnce: 0 }, 'driversAtOnce is 0; give a whole number from 1 to 100.'],
    [{ driverResponseMs: Number.NaN }, 'driverResponseMs is NaN; give a whole number from 100 to 86400000.'],
    [{ highOrphanCount: -1 }, 'highOrphanCount is -1; give a whole number from 0 to 1000000.'],
    [{ cleanupCron: '' }, 'cleanupCron is ""; give a cron expression.'],
    [{ timeToLive: 5 }, 'There is no setting timeToLive; there are ttl, removeOnComplete, removeOnFail, cleanupCron,'],
  ];
  test.each(refusals)('%o', async (config, message) => {
    await expect(stage({ config })).rejects.toThrow(message);
  });

  test('a variable is named as it was given', () => {
    expect(() => configFrom({ TRIP_TTL: '5 minutes' })).toThrow(
      'TRIP_TTL is "5 minutes"; give a whole number from 1000 to 86400000.',
    );
    expect(() => configFrom({ TRIP_REMOVE_ON_FAIL: '0x10' })).toThrow('TRIP_REMOVE_ON_FAIL is "0x10"');
  });

  test('a cron expression that is none', async () => {
    await expect(stage({ config: { cleanupCron: 'every now and then' } })).rejects.toThrow(
      'cleanupCron is "every now and then"',
    );
  });
});

describe.each(engines)('%s', (engine) => {
  test('004-03 ttl is a setting: request, time-out and expiry follow it', async () => {
    const at = await stage({ engine, idle: true, config: { ttl: 60_000 } });
    await at.request('t1', 'd1');
    expect((await at.app.jobs.requestOf('t1', 'd1'))?.metadata.expiresAt).toEqual(new Date('2030-01-01T00:01:00Z'));
    expect((await at.timeoutJob('t1', 'd1'))?.scheduledFor).toEqual(new Date('2030-01-01T00:01:00Z'));
    await at.clock.advance('1m');
    expect((await at.app.jobs.requestOf('t1', 'd1'))?.metadata.status).toBe('EXPIRED');
  });

  test('004-05 004-06 removeOnComplete and removeOnFail are settings', async () => {
    const at = await stage({ engine, config: { driversAtOnce: 1, removeOnComplete: 2, removeOnFail: 1 } });
    for (let n = 1; n <= 4; n++) await at.request(`good${n}`, `d${n}`);
    for (let n = 1; n <= 3; n++) await at.app.dispatcher.requestTrip(trip(`bad${n}`, `away${n}`));
    await at.clock.advance('10s');
    expect((await at.queue.stats()).queues['trip-requests']).toMatchObject({ completed: 4, failed: 3 });
    await at.queue.sweep();
    expect((await at.queue.stats()).queues['trip-requests']).toMatchObject({ completed: 2, failed: 1 });
  });
});

test('004-11 how often is swept is a setting, and the last start decides', async () => {
  const at = await stage({ config: { cleanupCron: '*/5 * * * *' } });
  await at.drivers.startTrip('busy', 'another');
  await at.request('t1', 'busy');
  at.trips.delete('t1');
  await at.queue.pause('trip-requests');
  await at.clock.advance('4m');
  expect(await at.live()).toHaveLength(2);
  await at.clock.advance('61s');
  expect(await at.live()).toEqual([]);
  await stage({ beside: at, config: { cleanupCron: '*/10 * * * *' } });
  expect(await at.queue.schedules()).toMatchObject([{ next: new Date('2030-01-01T00:10:00Z') }]);
});
