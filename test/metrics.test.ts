// Metrics: what the text tells, from when on it counts, that labels are bounded, and that nobody pays who does not ask.
import { Counter, Histogram } from 'prom-client';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { defineJob, defineResource, fail, memoryStore, open, type Queue, snooze } from '../src/index.js';
import { meterSwitch } from '../src/observe/meter-switch.js';
import { counters, gauges, timers } from '../src/observe/metric-table.js';
import { labelSetsMax, loadPrometheus, metricsOn } from '../src/observe/metrics.js';
import { createSystem } from '../src/system.js';
import { fakeClock } from '../src/testing/index.js';
import { closedAfterwards, closeUnder, eachStore, expectCode, recordingLogger, tapped } from './support.js';

/** Each line of the text that is no comment, by its name and labels. */
async function read(queue: Queue): Promise<Map<string, number>> {
  const lines = (await queue.metrics()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

const jobs = (queue: string, state: string): string => `lastout_jobs{queue="${queue}",state="${state}"}`;

describe('metrics: what the store knows', () => {
  eachStore((on) => {
    it('is read at each scrape: jobs by queue and state, ages, pauses, workers, and what is left behind', async () => {
      const { queue, clock } = await on.still();
      await queue.enqueue('mail', null, { queue: 'mails' });
      await queue.enqueue('mail', null, { queue: 'mails', delay: '1h' });
      const { id } = await queue.enqueue('mail', null);
      await queue.cancel(id);
      for (const input of [1, 2]) await queue.enqueue('build', input, { deduplication: 'replace' });
      await queue.pause('mails');
      await clock.advance('90s');
      const seen = await read(queue);
      expect(seen.get('lastout_store_up')).toBe(1);
      expect(seen.get(jobs('mails', 'waiting'))).toBe(1);
      expect(seen.get(jobs('mails', 'delayed'))).toBe(1);
      expect(seen.get(jobs('mails', 'processing'))).toBe(0);
      expect(seen.get(jobs('default', 'cancelled'))).toBe(1);
      expect(seen.get(jobs('default', 'failed'))).toBe(0);
      expect(seen.get(jobs('default', 'replaced'))).toBe(1);
      expect(seen.get('lastout_oldest_due_age_seconds{queue="mails"}')).toBe(90);
      expect(seen.get('lastout_queue_paused{queue="mails"}')).toBe(1);
      expect(seen.get('lastout_queue_paused{queue="default"}')).toBe(0);
      expect(seen.get('lastout_workers')).toBe(0);
      expect(seen.get('lastout_left_behind')).toBe((await queue.stats()).leftBehind);
      expect(seen.get('lastout_last_cleanup_timestamp_seconds')).toBe(Date.parse('2030-01-01T00:00:00Z') / 1_000);
      expect([...seen.keys()].filter((name) => name.includes('queue="lastout"'))).toEqual([]);
    });

    it('what happens is counted from the option on: attempts, durations, waits, lifetimes, refusals, cleanups', async () => {
      const { queue, clock } = await on.still({ metrics: true, queues: { full: { maxPending: 1 } } });
      const work = defineJob('work', {
        attempts: 1,
        async run({ input, job }) {
          if (input === 'snooze' && job.attempts === 1 && !snoozed.has(job.id)) {
            snoozed.add(job.id);
            return snooze('1m');
          }
          return input === 'fail' ? fail('no') : null;
        },
      });
      const snoozed = new Set<string>();
      for (const input of ['fine', 'fail', 'snooze']) await queue.enqueue(work, input);
      await clock.advance('2s');
      const worker = await queue.work([work]);
      await clock.advance('2m');
      await worker.stop();
      await queue.enqueue('work', null, { queue: 'full' });
      await expectCode('QUEUE_FULL', () => queue.enqueue('work', null, { queue: 'full' }));
      await expectCode('INVALID_PRIORITY', () => queue.enqueue('work', null, { priority: 0.5 }));
      await queue.sweep();
      const seen = await read(queue);
      const attempts = (outcome: string) =>
        seen.get(`lastout_attempts_total{queue="default",type="work",outcome="${outcome}"}`);
      expect([attempts('completed'), attempts('failed'), attempts('snoozed')]).toEqual([2, 1, 1]);
      const at = (name: string) => seen.get(`${name}{queue="default",type="work"}`);
      expect(at('lastout_job_wait_seconds_count')).toBe(4);
      expect(at('lastout_job_wait_seconds_sum')).toBeCloseTo(6, 0);
      expect(at('lastout_job_lifetime_seconds_count')).toBe(3);
      expect(seen.get('lastout_job_duration_seconds_count{queue="default",type="work",outcome="completed"}')).toBe(2);
      expect(seen.get('lastout_refusals_total{code="QUEUE_FULL"}')).toBe(1);
      expect(seen.get('lastout_refusals_total{code="INVALID_PRIORITY"}')).toBe(1);
      expect(seen.get('lastout_cleanup_passes_total')).toBeGreaterThanOrEqual(1);
      expect(seen.get('avgJobLifetime')).toBeGreaterThanOrEqual(2_000);
      expect(seen.get('totalOrphanedJobs')).toBe(0);
      expect(seen.get('cleanupFrequency')).toBe(0);
      expect(seen.get('failedCleanups')).toBe(0);
    });

    it('the lag between due to go and gone is told of the oldest job of a pass', async () => {
      const cleanup = { jobRetentionMs: 60_000, cleanupIntervalMs: 3_600_000 };
      const { queue, clock } = await on.still({ metrics: true, cleanup });
      const { id } = await queue.enqueue('mail', null);
      await queue.cancel(id);
      await clock.advance('11m');
      await queue.sweep();
      const seen = await read(queue);
      expect(seen.get('lastout_cleanup_removed_total{kind="age"}')).toBe(1);
      expect(seen.get('lastout_cleanup_lag_seconds_count')).toBe(1);
      expect(seen.get('lastout_cleanup_lag_seconds_sum')).toBe(600);
    });
  });
});

describe('metrics: leases and orphans', () => {
  eachStore((on) => {
    it('a sweep that the brake stops is a failed cleanup, as it is for the alert', async () => {
      const { queue, clock } = await on.still({ metrics: true });
      queue.defineSubject('trip', { check: async (ids) => ids.map(() => 'absent'), every: '1h', confirm: 1 });
      await clock.advance('1s');
      for (let n = 0; n < 20; n++) await queue.enqueue('ride', null, { subject: `trip:${n}` });
      expect(await queue.sweepSubjects('trip')).toMatchObject({ braked: true, failures: 0 });
      await clock.advance('1s');
      const failing = (await queue.alerts()).filter(({ rule }) => rule === 'cleanupFailing');
      expect(failing).toMatchObject([{ state: 'firing', message: expect.stringContaining('failures: 1 since') }]);
      expect((await read(queue)).get('failedCleanups')).toBe(1);
    });

    it('what is taken, ended and left behind is told, by kind, and the four of orphaned jobs by their names', async () => {
      const { queue, clock } = await on.still({ metrics: true });
      let isBroken = true;
      const there = new Set<string>();
      const box = defineResource<null>('box', {
        async create(_spec, { name }) {
          there.add(name);
          return null;
        },
        async destroy({ name }) {
          if (isBroken) throw new Error('the engine is away');
          there.delete(name);
        },
        list: async () => [...there].map((name) => ({ name, createdAt: clock.now() })),
      });
      await queue.lease(box, null, { ttl: '1s' });
      await queue.enqueue('ride', null, { subject: 'trip:1' });
      await queue.enqueue('ride', null, { subject: 'trip:2' });
      const check = async (ids: readonly string[]) => ids.map((id) => (id === '1' ? 'absent' : 'present'));
      queue.defineSubject('trip', { check, every: '2m', confirm: 1 });
      await clock.advance('10m');
      const seen = await read(queue);
      expect(seen.get('lastout_leases_taken_total{kind="box"}')).toBe(1);
      expect(seen.get('lastout_lease_end_failures_total{kind="box"}')).toBeGreaterThanOrEqual(3);
      expect(seen.get('lastout_leases_needing_attention')).toBe(1);
      expect(seen.get('lastout_left_behind')).toBe(1);
      expect((await queue.stats()).leftBehind).toBe(1);
      expect(seen.get('lastout_workers')).toBe(0);
      expect(seen.get('lastout_orphans_cancelled_total{kind="trip"}')).toBe(1);
      expect(seen.get('totalOrphanedJobs')).toBe(1);
      expect(seen.get('cleanupFrequency')).toBe(seen.get('lastout_orphan_sweeps_total{kind="trip"}'));
      expect(seen.get('cleanupFrequency')).toBeGreaterThanOrEqual(4);
      expect(seen.get('failedCleanups')).toBe(0);
      isBroken = false;
      await clock.advance('20m');
      const later = await read(queue);
      expect(later.get('lastout_leases_ended_total{kind="box"}')).toBe(1);
      expect(later.get('lastout_left_behind')).toBe(0);
    });
  });
});

describe('metrics: counting', () => {
  it('begins with the first call where the option is not given', async () => {
    const queue = closedAfterwards(await open('memory:'));
    await expectCode('TYPE_REQUIRED', () => queue.enqueue('', null));
    expect((await read(queue)).get('lastout_refusals_total{code="TYPE_REQUIRED"}')).toBeUndefined();
    await expectCode('TYPE_REQUIRED', () => queue.enqueue('', null));
    expect((await read(queue)).get('lastout_refusals_total{code="TYPE_REQUIRED"}')).toBe(1);
  });

  it('a refusal that is counted is the caller’s all the same', async () => {
    const queue = closedAfterwards(await open('memory:', { metrics: true }));
    await expectCode('BATCH_SIZE', () => queue.enqueueMany([]));
    expect((await read(queue)).get('lastout_refusals_total{code="BATCH_SIZE"}')).toBe(1);
  });

  it('two queues of one process have registries of their own', async () => {
    const [one, other] = [await open('memory:', { metrics: true }), await open('memory:', { metrics: true })];
    closedAfterwards(one);
    closedAfterwards(other);
    await one.enqueue('mail', null);
    expect((await read(one)).get(jobs('default', 'waiting'))).toBe(1);
    expect((await read(other)).get(jobs('default', 'waiting'))).toBeUndefined();
  });

  it('a store that does not answer leaves its numbers out, and the counted ones stay', async () => {
    const clock = fakeClock();
    let isDown = false;
    const factory = tapped(memoryStore(), (store) => ({
      async tally(cleanup) {
        if (isDown) throw new Error('down');
        return store.tally(cleanup);
      },
    }));
    const queue = await open(factory, { clock, metrics: true });
    await expectCode('TYPE_REQUIRED', () => queue.enqueue('', null));
    await queue.enqueue('mail', null);
    expect((await read(queue)).get('lastout_left_behind')).toBe(0);
    isDown = true;
    const seen = await read(queue);
    expect(seen.get('lastout_store_up')).toBe(0);
    expect(seen.get('lastout_refusals_total{code="TYPE_REQUIRED"}')).toBe(1);
    for (const name of ['lastout_left_behind', 'lastout_workers', jobs('default', 'waiting')])
      expect(seen.has(name), name).toBe(false);
    isDown = false;
    expect((await read(queue)).get('lastout_left_behind')).toBe(0);
    await closeUnder(clock, queue);
  });

  it('a pass that breaks off is a failure once, though the next report tells of it again', async () => {
    const clock = fakeClock();
    let isDown = false;
    const factory = tapped(memoryStore(), (store) => ({
      async sweepInTerm(term, request) {
        if (isDown) throw new Error('down');
        return store.sweepInTerm(term, request);
      },
    }));
    const queue = await open(factory, { clock, metrics: true });
    await clock.settle();
    isDown = true;
    await expect(queue.sweep()).rejects.toThrow();
    isDown = false;
    expect(await queue.sweep()).toMatchObject({ failures: 1 });
    expect((await read(queue)).get('lastout_cleanup_failures_total')).toBe(1);
    await closeUnder(clock, queue);
  });

  it('firing alerts are told by rule', async () => {
    const clock = fakeClock();
    const queue = await open('memory:', { clock, alerts: { every: '10s', notify: [] } });
    await queue.enqueue('mail', null);
    await clock.advance('2m');
    expect((await read(queue)).get('lastout_alerts_firing{rule="noWorkers",severity="critical"}')).toBe(1);
    await closeUnder(clock, queue);
  });
});

describe('metrics: labels', () => {
  const system = createSystem();
  const parts = { system, alerts: () => [] };

  it(`of one metric are at most ${labelSetsMax} sets; the others are counted together`, async () => {
    const meters = meterSwitch();
    const metrics = metricsOn({ ...parts, meters, standing: async () => null });
    await metrics.start();
    for (let n = 0; n < labelSetsMax + 5; n++)
      meters.add('settlements', 1, { queue: `q${n}`, type: 't', outcome: 'completed' });
    const lines = (await metrics.text()).split('\n').filter((line) => line.startsWith('lastout_attempts_total{'));
    expect(lines).toHaveLength(labelSetsMax + 1);
    expect(lines.at(-1)).toBe('lastout_attempts_total{queue="other",type="other",outcome="other"} 5');
  });

  it('of queues are as many, and the counts of the others are added up', async () => {
    const queue = closedAfterwards(await open('memory:'));
    for (let n = 0; n < labelSetsMax + 3; n++) await queue.enqueue('mail', null, { queue: `q${n}` });
    const seen = await read(queue);
    expect([...seen.keys()].filter((name) => name.includes('state="waiting"'))).toHaveLength(labelSetsMax + 1);
    expect(seen.get(jobs('other', 'waiting'))).toBe(3);
  });

  it('are those of the table: what else is given is left out, what is missing is empty', async () => {
    const meters = meterSwitch();
    const metrics = metricsOn({ ...parts, meters, standing: async () => null });
    await metrics.start();
    meters.add('leases_taken', 1, { kind: 'container', name: 'secret' });
    meters.add('leases_taken', 1);
    const text = await metrics.text();
    expect(text).toContain('lastout_leases_taken_total{kind="container"} 1\n');
    expect(text).toContain('lastout_leases_taken_total{kind=""} 1\n');
    expect(text).not.toContain('secret');
  });
});

describe('metrics: names', () => {
  const described = [...Object.values(counters), ...Object.values(timers), ...Object.values(gauges)];

  it('say their unit, and counters end in _total', () => {
    for (const { name } of Object.values(counters)) expect(name).toMatch(/^lastout_[a-z_]+_total$/);
    for (const { name } of Object.values(timers)) expect(name).toMatch(/^lastout_[a-z_]+_seconds$/);
    expect(new Set(described.map(({ name }) => name)).size).toBe(described.length);
  });
});

describe('metrics: without prom-client', () => {
  it('the refusal names the package and what to do', async () => {
    const load = () => Promise.reject(new Error('Cannot find package'));
    const { message } = await expectCode('DRIVER_MISSING', () => loadPrometheus(load));
    expect(message).toBe(
      'metrics needs the package prom-client, which cannot be loaded: run "npm install prom-client".',
    );
  });

  it.each(['yes', 1, {}, null])('metrics: %j is refused', async (metrics) => {
    await expectCode('UNKNOWN_OPTION', () => open('memory:', { metrics: metrics as never }));
  });
});

it('a metric that throws decides nothing, and is told once', async () => {
  const { lines, logger } = recordingLogger();
  const boom = (): never => {
    throw new Error('boom');
  };
  // What inc and observe of prom-client call.
  const counter: Record<'incWithoutExemplar', () => void> = Counter.prototype as never;
  const histogram: Record<'observeWithoutExemplar', () => void> = Histogram.prototype as never;
  const spies = [
    vi.spyOn(counter, 'incWithoutExemplar').mockImplementation(boom),
    vi.spyOn(histogram, 'observeWithoutExemplar').mockImplementation(boom),
  ];
  onTestFinished(() => spies.forEach((spy) => spy.mockRestore()));
  const queue = closedAfterwards(await open('memory:', { metrics: true, logger }));
  let runs = 0;
  const type = defineJob('counted', { run: () => ++runs });
  const { id } = await queue.enqueue(type, null);
  await queue.work([type]);
  expect(await queue.wait(id)).toMatchObject({ state: 'completed', attempts: 1, result: 1 });
  await queue.sweep();
  expect(lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([
    { level: 'warn', message: 'A metric could not be counted', fields: { error: 'boom' } },
  ]);
});
