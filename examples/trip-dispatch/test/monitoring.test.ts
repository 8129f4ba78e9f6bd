import { describe, expect, test } from 'vitest';
import { dashboard, orphanedJobAlerts, orphanedJobMetrics } from '../src/orphaned-job-metrics.js';
import { engines, type Stage, stage, TroubledTrips } from './support.js';

async function orphans(at: Stage, howMany: number, prefix = 'orphan'): Promise<void> {
  await at.drivers.startTrip('busy', 'another');
  for (let n = 0; n < howMany; n++) {
    await at.request(`${prefix}${n}`, 'busy');
    await at.trips.updateStatus(`${prefix}${n}`, 'CANCELLED');
  }
}

const alertsOf = async (at: Stage, rule: string) =>
  (await orphanedJobAlerts(at.app))
    .filter((alert) => alert.rule === rule)
    .map(({ state, message }) => ({ state, message }));

/** What a sweep has done is in the numbers as soon as the ledger has it. */
const inLedger = (at: Stage) => at.clock.advance('1s');

describe.each(engines)('%s', (engine) => {
  test('004-35 totalOrphanedJobs counts the jobs whose trip was over', async () => {
    const at = await stage({ engine });
    await orphans(at, 3);
    await at.request('valid', 'd1');
    expect((await orphanedJobMetrics(at.app)).totalOrphanedJobs).toBe(0);
    await at.app.cleanup.cleanupOrphanedJobs();
    await inLedger(at);
    expect((await orphanedJobMetrics(at.app)).totalOrphanedJobs).toBe(6);
    await at.app.cleanup.cleanupOrphanedJobs();
    await inLedger(at);
    expect((await orphanedJobMetrics(at.app)).totalOrphanedJobs).toBe(6);
  });

  test('004-35 004-40 totalOrphanedJobs and its alert are one number, also in a process that has swept nothing', async () => {
    const at = await stage({ engine, config: { highOrphanCount: 7 } });
    const other = await stage({ engine, beside: at, idle: true, config: { highOrphanCount: 7 } });
    for (const [trips, total] of [
      [3, 6],
      [1, 8],
    ] as const) {
      await orphans(at, trips, `to${total}-`);
      expect(await at.app.cleanup.cleanupOrphanedJobs()).toMatchObject({ removed: trips * 2 });
      await inLedger(at);
      for (const process of [at, other]) {
        expect((await orphanedJobMetrics(process.app)).totalOrphanedJobs).toBe(total);
        const alerts = await alertsOf(process, 'manyOrphans');
        if (total <= 7) expect(alerts).toEqual([]);
        else
          expect(alerts).toMatchObject([
            { state: 'firing', message: expect.stringContaining(`sweeps cancelled ${total} such jobs`) },
          ]);
      }
    }
  });
});

test('004-35 004-40 orphaned jobs that the brake keeps are in the metric as in the alert', async () => {
  const at = await stage({ config: { highOrphanCount: 6 } });
  await at.drivers.startTrip('busy', 'another');
  for (let n = 0; n < 20; n++) await at.request(`lost${n}`, 'busy');
  for (let n = 0; n < 20; n++) at.trips.delete(`lost${n}`);
  expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 20, removed: 0, failed: 1 });
  await inLedger(at);
  expect(await orphanedJobMetrics(at.app)).toMatchObject({ totalOrphanedJobs: 20, failedCleanups: 1 });
  expect(await alertsOf(at, 'manyOrphans')).toMatchObject([
    { state: 'firing', message: expect.stringContaining('jobs of 20 subjects wait') },
  ]);
  expect(await alertsOf(at, 'cleanupFailing')).toMatchObject([
    { state: 'firing', message: expect.stringContaining('failures: 1 since') },
  ]);
});

const failures: { readonly [what: string]: (at: Stage, trips: TroubledTrips) => Promise<() => void> } = {
  'an outage of the look-up': async (at, trips) => {
    trips.troubled.add('all');
    expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 2, removed: 0, failed: 1 });
    return () => trips.troubled.clear();
  },
  'one trip that cannot be looked up': async (at, trips) => {
    trips.troubled.add('t1');
    expect(await at.app.cleanup.cleanupOrphanedJobs()).toEqual({ checked: 2, removed: 0, failed: 1 });
    return () => trips.troubled.clear();
  },
  'jobs that could not be removed': async (at) => {
    const { endSubject } = at.queue;
    at.queue.endSubject = () => Promise.reject(new Error('The store is away'));
    await at.app.cancellation.cancelTrip('t2', 'changed my mind');
    return () => void (at.queue.endSubject = endSubject);
  },
};
for (const [what, fail] of Object.entries(failures))
  test(`004-38 004-41 ${what}: failedCleanups counts it and the alert fires, until a cleanup goes well`, async () => {
    const trips = new TroubledTrips();
    const at = await stage({ tripService: trips });
    await at.drivers.startTrip('busy', 'another');
    for (const tripId of ['t1', 't2']) await at.request(tripId, 'busy');
    expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(0);
    expect(await alertsOf(at, 'cleanupFailing')).toEqual([]);
    const mend = await fail(at, trips);
    await inLedger(at);
    expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(1);
    expect(await alertsOf(at, 'cleanupFailing')).toMatchObject([
      { state: 'firing', message: expect.stringMatching(/^Cleanup service failures: 1 /) },
    ]);
    expect(await dashboard(at.app)).toMatch(/failedCleanups +1\n[^]*FIRING Cleanup service failures: 1 /);
    mend();
    await at.app.cleanup.cleanupOrphanedJobs();
    await inLedger(at);
    expect((await alertsOf(at, 'cleanupFailing')).filter(({ state }) => state === 'firing')).toEqual([]);
    expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(1);
  });

test('004-41 a failure of this process is over when any process has cleaned up well', async () => {
  const at = await stage({ idle: true });
  const other = await stage({ beside: at });
  await at.request('t1', 'd1');
  at.queue.endSubject = () => Promise.reject(new Error('The store is away'));
  await at.clock.advance('1s');
  await at.app.cancellation.cancelTrip('t1', 'changed my mind');
  expect(await alertsOf(at, 'cleanupFailing')).toMatchObject([{ state: 'firing' }]);
  await at.clock.advance('3m');
  expect(await other.live()).toEqual([]);
  expect(await alertsOf(at, 'cleanupFailing')).toEqual([]);
});

test('004-36 cleanupFrequency is the number of sweeps in the last hour', async () => {
  const at = await stage();
  expect((await orphanedJobMetrics(at.app)).cleanupFrequency).toBe(0);
  await at.clock.advance('10m');
  expect((await orphanedJobMetrics(at.app)).cleanupFrequency).toBe(5);
  await at.clock.advance('2h');
  expect((await orphanedJobMetrics(at.app)).cleanupFrequency).toBe(30);
}, 180_000);

test('004-37 avgJobLifetime is the mean time from created to ended, in milliseconds', async () => {
  const at = await stage({ idle: true });
  await at.queue.pause('trip-timeouts');
  await at.request('t1', 'd1');
  await at.clock.advance('4s');
  await at.request('t2', 'd2');
  await at.clock.advance('2s');
  await at.app.start();
  await at.clock.settle();
  // One lived for six seconds, the other one for two.
  expect((await orphanedJobMetrics(at.app)).avgJobLifetime).toBe(4_000);
});

test('004-38 failedCleanups counts sweeps that could not look, and jobs that could not be removed', async () => {
  const trips = new TroubledTrips();
  const at = await stage({ tripService: trips });
  await at.request('t1', 'd1');
  expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(0);
  const { endSubject } = at.queue;
  at.queue.endSubject = () => Promise.reject(new Error('The store is away'));
  await at.app.jobs.removeAllJobsForTrip('t1', 'by hand');
  at.queue.endSubject = endSubject;
  expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(1);
  trips.troubled.add('all');
  await at.app.cleanup.cleanupOrphanedJobs();
  await inLedger(at);
  expect((await orphanedJobMetrics(at.app)).failedCleanups).toBe(2);
});

test('004-39 004-42 a job that has waited for more than ten minutes is an alert, until it is gone', async () => {
  const at = await stage({ idle: true });
  await at.request('t1', 'd1');
  // Requests expire after five minutes; a time-out that nobody handles gets old.
  await at.clock.advance('15m');
  expect(await alertsOf(at, 'oldJobs')).toEqual([]);
  await at.clock.advance('1m');
  expect(await alertsOf(at, 'oldJobs')).toMatchObject([
    { state: 'firing', message: expect.stringContaining('Jobs older than 10 minutes') },
  ]);
  expect(await dashboard(at.app)).toContain('FIRING Jobs older than 10 minutes');
  // The alert and the statistics have one number.
  expect((await at.queue.stats()).queues['trip-timeouts']?.oldestDueAgeMs).toBe(11 * 60_000);
  expect((await alertsOf(at, 'oldJobs'))[0]?.message).toContain('has waited 11 minutes');
  await at.app.start();
  await at.clock.advance('5s');
  expect(await alertsOf(at, 'oldJobs')).toMatchObject([{ state: 'cleared' }]);
});

test('004-40 004-42 many orphaned jobs are an alert, by a threshold to set, until there are few', async () => {
  const at = await stage({ config: { highOrphanCount: 6 } });
  await orphans(at, 3);
  await at.app.cleanup.cleanupOrphanedJobs();
  await at.clock.advance('1s');
  expect(await alertsOf(at, 'manyOrphans')).toEqual([]);
  await orphans(at, 1, 'more');
  await at.app.cleanup.cleanupOrphanedJobs();
  await at.clock.advance('1s');
  expect(await alertsOf(at, 'manyOrphans')).toMatchObject([
    { state: 'firing', message: expect.stringContaining('High orphaned job count') },
  ]);
  expect(await dashboard(at.app)).toContain('FIRING High orphaned job count');
  await at.clock.advance('11m');
  expect(await alertsOf(at, 'manyOrphans')).toMatchObject([{ state: 'cleared' }]);
});

test('004-41 004-42 failures of the cleanup service are an alert, until it works again', async () => {
  const trips = new TroubledTrips();
  const at = await stage({ tripService: trips });
  await at.drivers.startTrip('busy', 'another');
  await at.request('t1', 'busy');
  trips.troubled.add('all');
  await at.clock.advance('121s');
  expect(await alertsOf(at, 'cleanupFailing')).toMatchObject([
    { state: 'firing', message: expect.stringContaining('Cleanup service failures') },
  ]);
  expect(await dashboard(at.app)).toContain('FIRING Cleanup service failures');
  trips.troubled.clear();
  await at.clock.advance('5m');
  expect(await alertsOf(at, 'cleanupFailing')).toMatchObject([{ state: 'cleared' }]);
});

test('004-42 the dashboard shows both queues, the four metrics and the alerts', async () => {
  const at = await stage();
  await at.request('t1', 'd1');
  await at.clock.advance('1s');
  const shown = await dashboard(at.app);
  const rows = shown.split('\n').map((line) => line.trim().split(/\s+/));
  expect(rows[0]).toEqual(['waiting', 'delayed', 'active', 'completed', 'failed', 'expired', 'cancelled']);
  expect(rows[1]).toEqual(['trip-requests', '0', '0', '0', '1', '0', '0', '0']);
  expect(rows[2]).toEqual(['trip-timeouts', '0', '1', '0', '0', '0', '0', '0']);
  expect(rows.slice(3, 7).map(([name]) => name)).toEqual([
    'totalOrphanedJobs',
    'cleanupFrequency',
    'avgJobLifetime',
    'failedCleanups',
  ]);
  expect(shown).toContain('no alerts');
});

test('004-43 each of the four layers by itself ends the jobs of a trip that is over', async () => {
  // 1. The time limit: nobody works, nobody sweeps.
  const idle = await stage({ idle: true });
  await idle.request('t1', 'd1');
  await idle.clock.advance('5m');
  expect((await idle.requestJob('t1', 'd1'))?.state).toBe('expired');

  // 2. The look at the trip when the job runs.
  const validated = await stage({ idle: true });
  await validated.request('t1', 'd1');
  await validated.trips.updateStatus('t1', 'CANCELLED');
  await validated.app.start();
  await validated.clock.settle();
  expect(await validated.requestJob('t1', 'd1')).toMatchObject({ state: 'completed', result: { outcome: 'skipped' } });

  // 3. The sweep every two minutes.
  const swept = await stage();
  await orphans(swept, 1);
  await swept.clock.advance('2m');
  expect(await swept.live()).toEqual([]);

  // 4. The cancellation of the trip.
  const cancelled = await stage();
  await cancelled.request('t1', 'd1');
  await cancelled.app.cancellation.cancelTrip('t1', 'changed my mind');
  expect(await cancelled.live()).toEqual([]);
});
