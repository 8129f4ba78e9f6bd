import { describe, expect, test } from 'vitest';
import { orphanedJobMetrics } from '../src/orphaned-job-metrics.js';
import { InMemoryTripService } from '../src/trips.js';
import { Door, engines, type Stage, stage, TroubledTrips } from './support.js';

/** A trip whose driver is under way, so that its request and its time-out are delayed. */
async function delayed(at: Stage, ...tripIds: string[]): Promise<void> {
  await at.drivers.startTrip('busy', 'another');
  for (const tripId of tripIds) await at.request(tripId, 'busy');
}

const removals = (at: Stage) => at.said('debug').filter((text) => text.startsWith('Removed orphaned job'));

describe.each(engines)('%s', (engine) => {
  test('004-12 004-13 004-14 it removes waiting and delayed jobs of both queues whose trip is missing or not PENDING', async () => {
    const at = await stage({ engine });
    await delayed(at, 'missing', 'cancelled', 'approved');
    await at.queue.pause();
    for (const tripId of ['missing', 'cancelled', 'approved'])
      for (const name of ['process-trip-request', 'timeout-trip-request'])
        await at.queue.enqueue(name, { tripId, driverId: 'other' }, { delay: 0 });
    at.trips.delete('missing');
    await at.trips.updateStatus('cancelled', 'CANCELLED');
    await at.trips.updateStatus('approved', 'APPROVED');
    const { queues } = await at.queue.stats();
    for (const name of ['trip-requests', 'trip-timeouts'])
      expect(queues[name]).toMatchObject({ pending: 6, delayed: 3 });

    expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 3, removed: 12, failed: 0 });
    expect(await at.live()).toEqual([]);
    for (const tripId of ['missing', 'cancelled', 'approved'])
      expect(removals(at).filter((text) => text === `Removed orphaned job for trip ${tripId}`)).toHaveLength(4);
    expect(await at.requestJob('missing', 'busy')).toMatchObject({ state: 'cancelled', error: { code: 'ORPHANED' } });
  });

  test('004-14 004-15 of 25 trips ten are CANCELLED: the first sweep removes the jobs of all ten, and of no other', async () => {
    const at = await stage({ engine });
    const ids = Array.from({ length: 25 }, (_, n) => `t${n}`);
    await delayed(at, ...ids);
    for (const tripId of ids.slice(0, 10)) await at.trips.updateStatus(tripId, 'CANCELLED');
    expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 25, removed: 20, failed: 0 });
    const left = (await at.queue.find({ state: 'pending', limit: 100 })).items.map(({ subject }) => subject);
    expect([...new Set(left)].sort()).toEqual(
      ids
        .slice(10)
        .map((tripId) => `trip:${tripId}`)
        .sort(),
    );
    expect(left).toHaveLength(30);
    await at.clock.advance('1s');
    expect((await at.queue.alerts()).filter(({ rule }) => rule === 'cleanupFailing')).toEqual([]);
  });

  test('004-15 valid jobs stay, and so does what runs', async () => {
    const door = new Door();
    const at = await stage({
      engine,
      driverService: {
        hasActiveTrip: async (driverId) => driverId === 'busy',
        isAvailable: async () => (await door.pass(), true),
        startTrip: async () => true,
        endTrip: async () => undefined,
      },
    });
    await delayed(at, 'valid', 'orphan');
    await at.request('running', 'd1');
    await door.arrived;
    await at.trips.updateStatus('orphan', 'CANCELLED');
    at.trips.delete('running');
    await at.app.cleanup.cleanupOrphanedJobs();
    const left = (await at.queue.find({ state: ['pending', 'processing'] })).items;
    expect(left.map(({ subject, state }) => `${subject} ${state}`).sort()).toEqual([
      'trip:running processing',
      'trip:valid pending',
      'trip:valid pending',
    ]);
    door.open();
    await at.clock.settle();
  });
});

test('004-11 it runs every two minutes, by itself', async () => {
  const at = await stage();
  expect(await at.queue.schedules()).toMatchObject([
    { name: 'cleanup-orphaned-jobs', type: 'cleanup-orphaned-jobs', next: new Date('2030-01-01T00:02:00Z') },
  ]);
  await delayed(at, 't1', 't2');
  at.trips.delete('t1');
  await at.clock.advance(119_999);
  expect(removals(at)).toEqual([]);
  await at.clock.advance('1s');
  // The request has found out by itself after a minute; the time-out would have waited for three more.
  expect(removals(at)).toEqual(['Removed orphaned job for trip t1']);
  at.trips.delete('t2');
  await at.clock.advance('2m');
  expect(removals(at).at(-1)).toBe('Removed orphaned job for trip t2');
  const { items } = await at.queue.find({ type: 'cleanup-orphaned-jobs', state: 'completed' });
  expect(items.map(({ metadata, result }) => [metadata.tick, result])).toEqual([
    ['2030-01-01T00:04:00.000Z', { checked: 1, removed: 1, failed: 0 }],
    ['2030-01-01T00:02:00.000Z', { checked: 2, removed: 1, failed: 0 }],
  ]);
});

test('004-11 two sweeps never overlap: in a process the second waits, of two processes one sweeps', async () => {
  const trips = new SlowTrips();
  const at = await stage({ tripService: trips });
  const other = await stage({ beside: at });
  await delayed(at, 't1');
  const first = at.app.cleanup.cleanupOrphanedJobs();
  await trips.door.arrived;
  const second = at.app.cleanup.cleanupOrphanedJobs();
  expect(await other.app.cleanup.cleanupOrphanedJobs()).toBeNull();
  expect(trips.looking).toBe(1);
  trips.door.open();
  expect(await Promise.all([first, second])).toEqual([
    { checked: 1, removed: 0, failed: 0 },
    { checked: 1, removed: 0, failed: 0 },
  ]);
  expect(trips.most).toBe(1);
});

class SlowTrips extends InMemoryTripService {
  readonly door = new Door();
  looking = 0;
  most = 0;
  override async findByIds(tripIds: readonly string[]) {
    this.looking += 1;
    this.most = Math.max(this.most, this.looking);
    await this.door.pass();
    this.looking -= 1;
    return super.findByIds(tripIds);
  }
}

async function troubledStage() {
  const trips = new TroubledTrips();
  const at = await stage({ tripService: trips });
  return { ...at, trips };
}

test('004-16 one job that cannot be looked at does not stop the sweep, and is counted', async () => {
  const at = await troubledStage();
  await delayed(at, 'orphan1', 'trouble', 'orphan2');
  at.trips.delete('orphan1');
  at.trips.delete('trouble');
  at.trips.delete('orphan2');
  at.trips.troubled.add('trouble');
  expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 3, removed: 4, failed: 1 });
  const left = (await at.queue.find({ state: 'pending' })).items;
  expect(new Set(left.map(({ subject }) => subject))).toEqual(new Set(['trip:trouble']));
  await at.clock.advance('1s');
  expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(1);
  expect(at.said('warn')).toContain('Trips could not be looked up; their jobs are kept');

  at.trips.troubled.clear();
  expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 1, removed: 2, failed: 0 });
});

test('004-16 an outage of the look-up removes nothing, however long, and is counted', async () => {
  const at = await troubledStage();
  await delayed(at, 't1', 't2');
  await at.queue.pause();
  at.trips.troubled.add('all');
  for (let n = 0; n < 5; n++)
    expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 2, removed: 0, failed: 1 });
  await at.clock.advance('1s');
  expect(await at.live()).toHaveLength(4);
  expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(5);
  at.trips.troubled.clear();
  expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 2, removed: 0, failed: 0 });
});

test('004-16 a database that has lost its trips condemns nobody: too many at once stop the sweep', async () => {
  const at = await stage();
  await delayed(at, ...Array.from({ length: 20 }, (_, n) => `t${n}`));
  for (let n = 0; n < 20; n++) at.trips.delete(`t${n}`);
  expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 20, removed: 0, failed: 1 });
  expect(await at.live()).toHaveLength(40);
  await at.clock.advance('1s');
  expect((await at.queue.alerts()).map(({ rule, state }) => `${rule} ${state}`)).toContain('cleanupFailing firing');
});

test('004-16 trips that are over are removed also where too many others seem to be lost', async () => {
  const at = await stage();
  await delayed(at, ...Array.from({ length: 20 }, (_, n) => `t${n}`));
  for (let n = 0; n < 7; n++) at.trips.delete(`t${n}`);
  for (let n = 7; n < 10; n++) await at.trips.updateStatus(`t${n}`, 'CANCELLED');
  expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 20, removed: 6, failed: 1 });
  expect(await at.requestJob('t7', 'busy')).toMatchObject({ state: 'cancelled', error: { code: 'ORPHANED' } });
  expect(await at.requestJob('t0', 'busy')).toMatchObject({ state: 'pending' });
});

test('004-29 jobs are removed by trip and by sweep, and both say so', async () => {
  const at = await stage();
  await delayed(at, 't1', 't2');
  await at.app.jobs.removeAllJobsForTrip('t1', 'by hand');
  expect((await at.queue.find({ subject: 'trip:t1', state: 'cancelled' })).items).toMatchObject([
    { error: { message: 'by hand' } },
    { error: { message: 'by hand' } },
  ]);
  at.trips.delete('t2');
  await at.app.cleanup.cleanupOrphanedJobs();
  expect(removals(at)).toEqual(Array(2).fill('Removed orphaned job for trip t2'));
  expect(await at.live()).toEqual([]);
  await at.clock.advance('1s');
  expect(await orphanedJobMetrics(at.app)).toMatchObject({ totalOrphanedJobs: 2, failedCleanups: 0 });
  expect((await at.queue.ledger()).items.some(({ removedBy }) => removedBy.orphan === 2)).toBe(true);
});
