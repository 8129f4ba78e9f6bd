import { describe, expect, test } from 'vitest';
import { expectNothingLeft } from 'lastout/testing';
import { engines, stage, trip } from './support.js';

describe.each(engines)('%s', (engine) => {
  test('004-27 two drivers are asked, none accepts: no job of the trip remains, and a new request gets no stale one', async () => {
    const at = await stage({ engine });
    await at.request('t1', 'd1', 'd2');
    await at.clock.advance('1s');
    expect([at.screens.visibleTo('d1'), at.screens.visibleTo('d2')]).toEqual([['t1'], ['t1']]);
    await at.clock.advance('20s');
    expect(await at.live()).toEqual([]);
    expect(await at.trips.findById('t1')).toMatchObject({ status: 'DRIVER_NOT_FOUND', rejectedDrivers: ['d1', 'd2'] });

    at.messages.length = 0;
    await at.request('t2', 'd1', 'd2');
    await at.clock.advance('1s');
    expect(at.messages.map(({ to, tripId, text }) => `${to} ${tripId} ${text}`).sort()).toEqual([
      'd1 t2 New trip request',
      'd2 t2 New trip request',
    ]);
    expect([at.screens.visibleTo('d1'), at.screens.visibleTo('d2')]).toEqual([['t2'], ['t2']]);
    expect((await at.queue.find({ subject: 'trip:t1', state: ['pending', 'processing'] })).items).toEqual([]);
  });

  test('004-27 on a time-out the next driver is asked; who accepts takes the trip, and the others lose their jobs', async () => {
    const at = await stage({ engine });
    await at.request('t1', 'd1', 'd2', 'd3', 'd4');
    await at.clock.advance('5s');
    await at.app.dispatcher.declineTrip('t1', 'd2');
    await at.clock.advance('1s');
    expect(at.screens.visibleTo('d3')).toEqual(['t1']);
    await at.clock.advance('15s');
    expect([at.screens.visibleTo('d1'), at.screens.visibleTo('d4')]).toEqual([[], ['t1']]);

    expect(await at.app.dispatcher.acceptTrip('t1', 'd1')).toBe(false);
    expect(await at.app.dispatcher.acceptTrip('t1', 'd3')).toBe(true);
    expect(await at.app.dispatcher.acceptTrip('t1', 'd4')).toBe(false);
    expect(await at.trips.findById('t1')).toMatchObject({ status: 'APPROVED', driverId: 'd3' });
    expect(await at.live()).toEqual([]);
    expect([at.screens.visibleTo('d3'), at.screens.visibleTo('d4')]).toEqual([[], []]);
    expect(at.messages.filter(({ to }) => to === 'd4').map(({ text }) => text)).toEqual([
      'New trip request',
      'Trip is already taken',
    ]);
    expect([await at.drivers.hasActiveTrip('d3'), await at.drivers.hasActiveTrip('d4')]).toEqual([true, false]);
    await expectNothingLeft(at.queue);
  });

  test('004-24 004-25 a trip that is completed sets its driver free: the next trip, which waited for him, reaches him', async () => {
    const at = await stage({ engine });
    await at.request('t1', 'd1');
    expect(await at.app.dispatcher.acceptTrip('t1', 'd1')).toBe(true);
    await at.request('t2', 'd1');
    await at.clock.advance('1s');
    expect(await at.requestJob('t2', 'd1')).toMatchObject({ state: 'pending', attempts: 0 });
    expect(at.screens.visibleTo('d1')).toEqual([]);

    expect(await at.app.dispatcher.completeTrip('t1', 'd1')).toBe(true);
    expect(await at.trips.findById('t1')).toMatchObject({ status: 'COMPLETED', driverId: 'd1' });
    expect(await at.drivers.hasActiveTrip('d1')).toBe(false);
    await at.clock.advance('60s');
    expect(at.screens.visibleTo('d1')).toEqual(['t2']);
    expect(await at.app.dispatcher.acceptTrip('t2', 'd1')).toBe(true);
    expect(await at.drivers.hasActiveTrip('d1')).toBe(true);
    await expectNothingLeft(at.queue);
  });

  test('004-33 many requests at once: each driver is asked once, and of many answers one is taken', async () => {
    const at = await stage({ engine, config: { driversAtOnce: 5 } });
    const [tripCount, driverCount] = [20, 5];
    const driversOf = (n: number) => Array.from({ length: driverCount }, (_, k) => `d${n}-${k}`);
    await Promise.all(Array.from({ length: tripCount }, (_, n) => at.request(`t${n}`, ...driversOf(n))));
    await at.clock.advance('5s');
    const shown = at.messages.map(({ to, tripId }) => `${tripId}/${to}`);
    expect(shown).toHaveLength(tripCount * driverCount);
    expect(new Set(shown).size).toBe(tripCount * driverCount);
    for (let n = 0; n < tripCount; n++) {
      const answers = await Promise.all(driversOf(n).map((driver) => at.app.dispatcher.acceptTrip(`t${n}`, driver)));
      expect(answers.filter(Boolean)).toHaveLength(1);
    }
    await at.clock.advance('30s');
    expect(await at.live()).toEqual([]);
    expect(at.messages.filter(({ text }) => text === 'Trip is already taken')).toHaveLength(tripCount * 4);
  });
});

describe.each(engines)('%s', (engine) => {
  test('004-33 two dispatchers on one store: each request is processed once, and each tick sweeps once', async () => {
    const at = await stage({ engine });
    const other = await stage({ engine, beside: at });
    for (let n = 0; n < 10; n++) await (n % 2 ? at : other).app.dispatcher.requestTrip(trip(`t${n}`, `d${n}`));
    at.drivers.setAvailable(...Array.from({ length: 10 }, (_, n) => `d${n}`));
    await at.clock.advance('5s');
    expect(at.messages.map(({ to }) => to).sort()).toEqual(Array.from({ length: 10 }, (_, n) => `d${n}`));
    await at.clock.advance('4m');
    const { items } = await at.queue.find({ type: 'cleanup-orphaned-jobs' });
    expect(items.map(({ metadata, state }) => [metadata.tick, state])).toEqual([
      ['2030-01-01T00:04:00.000Z', 'completed'],
      ['2030-01-01T00:02:00.000Z', 'completed'],
    ]);
  });
});

test('004-24 only its own driver completes a trip, once it is his, and again without harm', async () => {
  const at = await stage();
  await at.request('t1', 'd1', 'd2');
  expect(await at.app.dispatcher.completeTrip('t1', 'd1')).toBe(false);
  expect(await at.trips.findById('t1')).toMatchObject({ status: 'PENDING' });
  await at.app.dispatcher.acceptTrip('t1', 'd1');
  expect(await at.app.dispatcher.completeTrip('t1', 'd2')).toBe(false);
  expect(await at.trips.findById('t1')).toMatchObject({ status: 'APPROVED' });
  expect(await at.drivers.hasActiveTrip('d1')).toBe(true);

  // The second system is away for a moment: whoever calls again completes the rest.
  const { endTrip } = at.drivers;
  at.drivers.endTrip = () => Promise.reject(new Error('The database of drivers is away'));
  await expect(at.app.dispatcher.completeTrip('t1', 'd1')).rejects.toThrow('The database of drivers is away');
  at.drivers.endTrip = endTrip;
  expect(await at.app.dispatcher.completeTrip('t1', 'd1')).toBe(true);
  expect(await at.drivers.hasActiveTrip('d1')).toBe(false);

  // A trip that was completed long ago does not end the one that he drives now.
  await at.request('t2', 'd1');
  await at.app.dispatcher.acceptTrip('t2', 'd1');
  expect(await at.app.dispatcher.completeTrip('t1', 'd1')).toBe(true);
  expect(await at.drivers.hasActiveTrip('d1')).toBe(true);
  await at.app.cancellation.cancelTrip('t2', 'changed my mind');
  expect(await at.app.dispatcher.completeTrip('t2', 'd1')).toBe(false);
  expect(await at.app.dispatcher.completeTrip('t3', 'd1')).toBe(false);
});

test('004-33 a driver whose answer is sent twice has the trip, and the customer is told once', async () => {
  const at = await stage();
  await at.request('t1', 'd1');
  const answers = await Promise.all(['t1', 't1'].map((tripId) => at.app.dispatcher.acceptTrip(tripId, 'd1')));
  expect(answers).toEqual([true, true]);
  expect(at.messages.filter(({ to }) => to === 'customer-of-t1').map(({ text }) => text)).toEqual([
    'Driver d1 is on the way',
  ]);
});

test('004-33 a driver who answers two trips at once gets one of them', async () => {
  const at = await stage();
  await at.request('t1', 'd1');
  await at.request('t2', 'd1', 'd2');
  const answers = await Promise.all(['t1', 't2'].map((tripId) => at.app.dispatcher.acceptTrip(tripId, 'd1')));
  expect(answers).toEqual([true, false]);
  expect(await at.trips.findById('t2')).toMatchObject({ status: 'PENDING', driverId: null });
  await at.clock.advance('1s');
  expect(await at.app.dispatcher.acceptTrip('t2', 'd2')).toBe(true);
});

test('004-33 an answer and a time-out at the same moment: exactly one of them counts', async () => {
  const at = await stage();
  await at.request('t1', 'd1');
  await at.clock.advance(19_999);
  const [accepted] = await Promise.all([at.app.dispatcher.acceptTrip('t1', 'd1'), at.clock.advance('1s')]);
  const { status } = (await at.trips.findById('t1'))!;
  expect(status).toBe(accepted ? 'APPROVED' : 'DRIVER_NOT_FOUND');
  expect(at.messages.filter(({ to }) => to === 'customer-of-t1').map(({ text }) => text)).toEqual([
    accepted ? 'Driver d1 is on the way' : 'No driver was found',
  ]);
  expect(await at.drivers.hasActiveTrip('d1')).toBe(accepted);
  expect(await at.live()).toEqual([]);
  expect(at.screens.visibleTo('d1')).toEqual([]);
});

test('004-33 a driver who accepts while his request is being shown is told once, that the trip is his', async () => {
  const at = await stage();
  const { showRequest } = at.screens;
  at.screens.showRequest = async (driverId, tripId) => {
    await showRequest.call(at.screens, driverId, tripId);
    await at.app.dispatcher.acceptTrip(tripId, driverId);
  };
  await at.request('t1', 'd1');
  await at.clock.advance('1s');
  expect(at.messages.filter(({ to }) => to === 'd1').map(({ text }) => text)).toEqual([
    'New trip request',
    'Trip is yours',
  ]);
  expect(await at.trips.findById('t1')).toMatchObject({ status: 'APPROVED', driverId: 'd1' });
  expect(await at.live()).toEqual([]);
});

test('004-34 trouble in one trip, with one driver or in one queue stays there', async () => {
  const at = await stage();
  await at.drivers.startTrip('busy', 'another');
  await at.request('t1', 'busy');
  await at.request('t2', 'd2');
  await at.clock.advance('1s');
  expect(at.screens.visibleTo('d2')).toEqual(['t2']);
  expect(await at.requestJob('t1', 'busy')).toMatchObject({ state: 'pending' });

  await at.queue.pause('trip-timeouts');
  await at.request('t3', 'd3');
  await at.clock.advance('1s');
  expect(at.screens.visibleTo('d3')).toEqual(['t3']);
  await at.queue.pause('trip-requests');
  await at.queue.resume('trip-timeouts');
  await at.request('t4', 'd4');
  await at.clock.advance('30s');
  expect(at.screens.visibleTo('d4')).toEqual([]);
  // The time-outs go on: those who saw their request have been passed over, the others not.
  const statuses = await at.trips.findByIds(['t1', 't2', 't3', 't4']);
  expect(statuses.map((one) => one?.status)).toEqual(['PENDING', 'DRIVER_NOT_FOUND', 'DRIVER_NOT_FOUND', 'PENDING']);

  await at.queue.resume('trip-requests');
  await at.app.cancellation.cancelTrip('t1', 'changed my mind');
  await at.clock.advance('1s');
  expect(at.screens.visibleTo('d4')).toEqual(['t4']);
});
