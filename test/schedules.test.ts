// Schedules: one live job each, one job per tick, whoever fires it and whatever goes wrong on the way.
import { readFileSync } from 'node:fs';
import { describe, expect, it, onTestFinished } from 'vitest';
import { plainJob } from '../src/core/columns.js';
import type { SettleRequest, StoreFactory } from '../src/core/store.js';
import { defineJob, type JobOptions, open, type OpenOptions, type Queue } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { expectNothingLeft, type FakeClock, fakeClock } from '../src/testing/index.js';
import { engines, processesOn } from './engines.js';
import { closeUnder, eachStore, expectCode, gate, recordingLogger, tapped } from './support.js';

const t0 = Date.parse('2030-01-01T00:00:00Z');
const minute = 60_000;
const atMinute = (n: number): string => new Date(t0 + n * minute).toISOString();

/** Ticks of the jobs that a schedule gave, oldest first. */
async function ticksOf(queue: Queue, type = 'report'): Promise<string[]> {
  const ticks: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Queue['find']>> = await queue.find({
      type,
      limit: 200,
      ...(cursor !== null && { cursor }),
    });
    ticks.push(...page.items.map(({ metadata }) => metadata.tick as string));
    cursor = page.next;
  } while (cursor !== null);
  return ticks.sort();
}

const liveSchedules = async (queue: Queue) =>
  (await queue.find({ type: 'lastout.schedule', state: ['pending', 'processing'] })).items;

/** The clocks of two machines: the second one is off by so much, and both move on together. */
async function twoMachines(factory: () => StoreFactory, offMs: number, options: OpenOptions = {}) {
  const clock = fakeClock();
  const off = {
    now: () => new Date(clock.now().getTime() + offMs),
    monotonic: () => clock.monotonic(),
    timer: (ms: number, callback: () => void) => clock.timer(ms, callback),
    awaiting: clock.awaiting,
  };
  const [first, second] = [
    await open(factory(), { ...options, clock }),
    await open(factory(), { ...options, clock: off }),
  ];
  onTestFinished(async () => {
    await closeUnder(clock, first);
    await closeUnder(clock, second);
  });
  return { clock, first, second };
}

async function fakeQueue(): Promise<{ queue: Queue; clock: FakeClock }> {
  const clock = fakeClock();
  const queue = await open('memory:', { clock });
  onTestFinished(() => closeUnder(clock, queue));
  return { queue, clock };
}

describe('a schedule', () => {
  eachStore((on) => {
    it('gives one job per tick, which says where it comes from', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule(
        'nightly',
        'report',
        { of: 'sales' },
        { every: '1m' },
        { metadata: { team: 7 }, priority: 5 },
      );
      await clock.advance('3m');
      const { items } = await queue.find({ type: 'report' });
      expect(items).toHaveLength(3);
      expect(items[0]).toMatchObject({
        state: 'pending', priority: 5, input: { of: 'sales' }, source: 'schedule:nightly',
        metadata: { team: 7, schedule: 'nightly', tick: atMinute(3) },
      }); // biome-ignore format: one list
      expect(await ticksOf(queue)).toEqual([1, 2, 3].map(atMinute));
    });

    it('gives each job at its tick, not at the next tending', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('a', 'report', null, { cron: '*/7 * * * * *' });
      await queue.schedule('b', 'other', null, { cron: '3 * * * * *' });
      await clock.advance(6_999);
      expect(await ticksOf(queue, 'other')).toEqual(['2030-01-01T00:00:03.000Z']);
      expect(await ticksOf(queue)).toEqual([]);
      await clock.advance(1);
      expect(await ticksOf(queue)).toEqual(['2030-01-01T00:00:07.000Z']);
    });

    it('runs under a worker like any job, with the options of its type', async () => {
      const { queue, clock } = await on.still();
      const ran: unknown[] = [];
      const report = defineJob<{ of: string }>('report', {
        attempts: 1, queue: 'reports', subject: ({ of }) => `report:${of}`, exclusiveKey: ({ of }) => of,
        run: ({ job }) => void ran.push([job.subject, job.exclusiveKey, job.queue, job.metadata.tick]),
      }); // biome-ignore format: one list
      await queue.work([report]);
      await queue.schedule('nightly', report, { of: 'sales' }, { cron: '*/2 * * * *' });
      await clock.advance('4m');
      expect(ran).toEqual([2, 4].map((n) => ['report:sales', 'sales', 'reports', atMinute(n)]));
      await expectNothingLeft(queue);
    });

    it('keeps the source that is given', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('nightly', 'report', null, { every: '1m' }, { source: 'cli' });
      await clock.advance('1m');
      expect((await queue.find({ source: 'cli' })).items).toHaveLength(1);
    });

    it('is deduplicated as its options say: a job that still waits is not joined by another', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('nightly', 'report', null, { every: '1m' }, { deduplication: 'skip' });
      await clock.advance('5m');
      expect(await ticksOf(queue)).toEqual([atMinute(1)]);
      expect((await queue.schedules())[0]).toMatchObject({ last: new Date(t0 + 5 * minute) });
    });

    it('is one live job that keeps its last tick', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('nightly', 'report', null, { every: '1m' });
      const how = { cron: null, timeZone: null, every: minute, missed: 'once', input: null };
      const each = { name: 'nightly', type: 'report', ...how };
      expect(await queue.schedules()).toEqual([{ ...each, next: new Date(t0 + minute), last: null, paused: false }]);
      await clock.advance('10m');
      const [live, ...others] = await liveSchedules(queue);
      expect(others).toEqual([]);
      expect(live).toMatchObject({ queue: 'lastout', deduplicationKey: 'nightly', dueAt: new Date(t0 + 11 * minute) });
      expect(await queue.schedules()).toEqual([
        { ...each, next: new Date(t0 + 11 * minute), last: new Date(t0 + 10 * minute), paused: false },
      ]);
    });

    it('is set again by every start: an equal one keeps its phase and writes nothing', async () => {
      const writes: string[] = [];
      const seeing = tapped(on.factory(), (store) => ({
        insert: (jobs, options) => (writes.push('insert'), store.insert(jobs, options)),
      }));
      const { queue, clock } = await on.still({}, seeing);
      const set = (): Promise<void> => queue.schedule('nightly', 'report', { a: 1, b: 2 }, { every: '1m' });
      await set();
      expect(writes).toEqual(['insert']);
      for (let i = 0; i < 5; i++) {
        await clock.advance(40_000);
        await set();
      }
      expect(writes).toEqual(['insert']);
      expect(await ticksOf(queue)).toEqual([1, 2, 3].map(atMinute));
    });

    it('is equal whatever the order of the keys in its input and metadata', async () => {
      const { queue } = await on.still();
      const set = (input: object, metadata: object): Promise<void> =>
        queue.schedule('nightly', 'report', input, { every: '1m' }, { metadata: metadata as never });
      await set({ a: { c: 1, d: 2 }, b: 2 }, { x: 1, y: 2 });
      const [before] = await liveSchedules(queue);
      await set({ b: 2, a: { d: 2, c: 1 } }, { y: 2, x: 1 });
      expect((await liveSchedules(queue)).map(({ id }) => id)).toEqual([before!.id]);
      await set({ b: 2, a: { d: 2, c: 3 } }, { y: 2, x: 1 });
      expect((await liveSchedules(queue)).map(({ id }) => id)).not.toEqual([before!.id]);
    });

    it('32 calls at once, on two queues, make one live job', async () => {
      const clock = fakeClock();
      const shared = on.factory();
      const queues = await Promise.all([open(shared, { clock }), open(shared, { clock })]);
      onTestFinished(async () => {
        for (const queue of queues) await closeUnder(clock, queue);
      });
      const calls = Array.from({ length: 32 }, (_, n) =>
        queues[n % 2]!.schedule('nightly', 'report', null, { cron: '* * * * *', timeZone: 'Europe/Berlin' }),
      );
      await Promise.all(calls);
      const { items } = await queues[0].find({ type: 'lastout.schedule', state: ['pending', 'processing'] });
      expect(items).toHaveLength(1);
      await clock.advance('3m');
      expect(await ticksOf(queues[0])).toEqual([1, 2, 3].map(atMinute));
    });

    it('32 different calls at once leave one live job, and it is one of them', async () => {
      const { queue, clock } = await on.still();
      const calls = Array.from({ length: 32 }, (_, n) => queue.schedule('nightly', 'report', { n }, { every: '1m' }));
      await Promise.all(calls);
      expect(await liveSchedules(queue)).toHaveLength(1);
      await clock.advance('2m');
      expect(await ticksOf(queue)).toEqual([1, 2].map(atMinute));
    });

    it('reads cron in its time zone, also where the clocks change', async () => {
      const clock = fakeClock(new Date('2030-03-31T00:30:00Z'));
      const queue = await open(await on.url(), { clock });
      onTestFinished(() => closeUnder(clock, queue));
      await queue.stopPeriodicCleanup();
      await queue.schedule('a', 'report', null, { cron: '30 2 * * *', timeZone: 'Europe/Berlin' });
      expect((await queue.schedules())[0]?.next).toEqual(new Date('2030-03-31T01:00:00Z'));
      await clock.advance('1h');
      expect(await ticksOf(queue)).toEqual(['2030-03-31T01:00:00.000Z']);
      expect((await queue.schedules())[0]?.next).toEqual(new Date('2030-04-01T00:30:00Z'));
    });

    it('ends by itself where no tick is to come', async () => {
      const clock = fakeClock(new Date('2999-12-31T22:00:00Z'));
      const queue = await open(await on.url(), { clock });
      onTestFinished(() => closeUnder(clock, queue));
      await queue.schedule('last', 'report', null, { cron: '0 23 31 12 *' });
      await clock.advance('1h');
      expect(await ticksOf(queue)).toEqual(['2999-12-31T23:00:00.000Z']);
      expect(await queue.schedules()).toEqual([]);
    });
  });
});

describe('docs/schedules.md', () => {
  it('its first lines run as they are written', async () => {
    const text = readFileSync(new URL('../docs/schedules.md', import.meta.url), 'utf8');
    const [, code] = /```ts\n([\s\S]*?)```/.exec(text) ?? [];
    const { queue, clock } = await fakeQueue();
    const run = (async () => undefined).constructor as new (
      ...args: string[]
    ) => (...given: unknown[]) => Promise<void>;
    await new run('queue', 'report', code!)(queue, defineJob('report', {}));
    expect(await queue.schedules()).toMatchObject([{ name: 'nightly-report', next: new Date('2030-01-01T02:00:00Z') }]);
    await clock.advance('2h');
    expect(await ticksOf(queue)).toEqual(['2030-01-01T02:00:00.000Z']);
  });
});

describe('changing and removing', () => {
  eachStore((on) => {
    it('go by the name of the schedule, however many jobs have it as their deduplicationKey', async () => {
      const { queue } = await on.still({ cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
      await queue.schedule('nightly', 'report', null, { every: '1h' });
      const [before] = await liveSchedules(queue);
      const others = { type: 'mail', input: 1, options: { deduplicationKey: 'nightly', delay: '2d' } } as const;
      for (let i = 0; i < 11; i++) await queue.enqueueMany(Array(1_000).fill(others));
      await queue.schedule('nightly', 'report', null, { every: '1h' });
      expect((await liveSchedules(queue)).map(({ id }) => id)).toEqual([before!.id]);
      await queue.schedule('nightly', 'report', null, { every: '2h' });
      expect(await queue.schedules()).toMatchObject([{ name: 'nightly' }]);
      expect(await queue.unschedule('nightly')).toBe(true);
      expect(await queue.schedules()).toEqual([]);
      expect((await queue.stats()).total.pending).toBe(11_000);
    });

    it('a changed rhythm begins now: what it would have ticked before is not made up for', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('nightly', 'report', 1, { every: '10m' });
      await clock.advance('15m');
      await queue.schedule('nightly', 'report', 1, { cron: '*/12 * * * *' });
      expect(await queue.schedules()).toEqual([
        {
          name: 'nightly',
          type: 'report',
          cron: '*/12 * * * *',
          timeZone: 'UTC',
          every: null,
          missed: 'once',
          input: 1,
          next: new Date(t0 + 24 * minute),
          last: new Date(t0 + 10 * minute),
          paused: false,
        },
      ]);
      await clock.advance('12m');
      expect(await ticksOf(queue)).toEqual([10, 24].map(atMinute));
    });

    it('a changed input or option goes on with the same ticks', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('nightly', 'report', 1, { every: '10m' });
      await clock.advance('15m');
      await queue.schedule('nightly', 'report', 2, { every: '10m' }, { priority: 3 });
      await clock.advance('15m');
      expect(await ticksOf(queue)).toEqual([10, 20, 30].map(atMinute));
      expect((await queue.find({ type: 'report' })).items.map(({ input, priority }) => [input, priority])).toEqual([
        [2, 3], [2, 3], [1, 0],
      ]); // biome-ignore format: one list
    });

    it('a tick that came while nobody was there is not lost by a change of the input', async () => {
      const shared = on.factory();
      const { queue, clock } = await on.still({}, shared);
      await queue.schedule('nightly', 'report', 1, { every: '10m' });
      await closeUnder(clock, queue);
      await clock.advance('12m');
      const nothing = { epoch: 0, at: 0, jobs: [], nextDueInMs: null, more: false };
      let changed = false;
      const late = tapped(shared, (store) => ({
        claim: async (request) => (changed ? store.claim(request) : nothing),
        async insert(jobs, options) {
          const inserted = await store.insert(jobs, options);
          changed = true;
          return inserted;
        },
      }));
      const later = await open(late, { clock });
      onTestFinished(() => closeUnder(clock, later));
      await later.schedule('nightly', 'report', 2, { every: '10m' });
      expect(await ticksOf(later)).toEqual([atMinute(10)]);
      expect((await later.find({ type: 'report' })).items).toMatchObject([{ input: 2 }]);
    });

    it('under a running worker: old ticks with the old input, new ticks with the new one, none twice', async () => {
      const { queue, clock } = await on.still();
      const ran: unknown[] = [];
      await queue.work([defineJob('report', { run: ({ job }) => void ran.push([job.input, job.metadata.tick]) })]);
      await queue.schedule('nightly', 'report', 'old', { every: '1m' });
      await clock.advance('2m');
      await queue.schedule('nightly', 'report', 'new', { every: '1m' });
      await clock.advance('2m');
      expect(await queue.unschedule('nightly')).toBe(true);
      await clock.advance('5m');
      expect(ran).toEqual([
        ['old', atMinute(1)],
        ['old', atMinute(2)],
        ['new', atMinute(3)],
        ['new', atMinute(4)],
      ]);
      expect(await queue.schedules()).toEqual([]);
      await expectNothingLeft(queue);
    });

    it('while it fires: the tick under way is not lost, the change stands, and no tick comes twice', async () => {
      const [reached, goOn] = [gate(), gate()];
      let held = false;
      const slow = tapped(on.factory(), (store) => ({
        async settle(request: SettleRequest) {
          if (held || !request.settlements.some(({ then }) => then?.length)) return store.settle(request);
          held = true;
          reached.open();
          await goOn.opened;
          return store.settle(request);
        },
      }));
      const { queue, clock } = await on.still({}, slow);
      await queue.schedule('nightly', 'report', 'old', { cron: '* * * * *' });
      const passing = clock.advance('1m');
      await reached.opened;
      const changing = queue.schedule('nightly', 'report', 'new', { cron: '* * * * *' });
      await clock.settle();
      expect(await liveSchedules(queue)).toHaveLength(2);
      goOn.open();
      await Promise.all([passing, changing]);
      await clock.advance('2m');
      expect(await ticksOf(queue)).toEqual([1, 2, 3].map(atMinute));
      expect((await queue.find({ type: 'report' })).items.map(({ input }) => input)).toEqual(['new', 'new', 'old']);
      expect(await liveSchedules(queue)).toHaveLength(1);
    });

    it('removed while it fires, it fires no more', async () => {
      const [reached, goOn] = [gate(), gate()];
      const slow = tapped(on.factory(), (store) => ({
        async settle(request: SettleRequest) {
          if (request.settlements.some(({ then }) => then?.length)) {
            reached.open();
            await goOn.opened;
          }
          return store.settle(request);
        },
      }));
      const { queue, clock } = await on.still({}, slow);
      await queue.schedule('nightly', 'report', null, { every: '1m' });
      const passing = clock.advance('1m');
      await reached.opened;
      expect(await queue.unschedule('nightly')).toBe(true);
      goOn.open();
      await passing;
      await clock.advance('5m');
      expect(await ticksOf(queue)).toEqual([]);
    });

    it('cancelled by hand while it fires and set again, it lives', async () => {
      const [reached, goOn] = [gate(), gate()];
      let firings = 0;
      const slow = tapped(on.factory(), (store) => ({
        async settle(request: SettleRequest) {
          if (request.settlements.some(({ then }) => then?.length) && ++firings === 1) {
            reached.open();
            await goOn.opened;
          }
          return store.settle(request);
        },
      }));
      const { queue, clock } = await on.still({}, slow);
      const set = (): Promise<void> => queue.schedule('nightly', 'report', null, { every: '1m' });
      await set();
      const passing = clock.advance('1m');
      await reached.opened;
      const [live] = await liveSchedules(queue);
      expect((await queue.cancel(live!.id)).items).toMatchObject([{ outcome: 'requested' }]);
      const setting = set();
      await clock.settle();
      goOn.open();
      await Promise.all([passing, setting]);
      await clock.advance('2m');
      expect(await ticksOf(queue)).toEqual([1, 2, 3].map(atMinute));
      expect(await liveSchedules(queue)).toHaveLength(1);
    });

    it('unschedule answers whether there was one, and the name is free again', async () => {
      const { queue, clock } = await on.still();
      expect(await queue.unschedule('nightly')).toBe(false);
      await queue.schedule('nightly', 'report', null, { every: '1m' });
      expect(await queue.unschedule('nightly')).toBe(true);
      expect(await queue.unschedule('nightly')).toBe(false);
      await clock.advance('90s');
      await queue.schedule('nightly', 'report', null, { every: '1m' });
      await clock.advance('1m');
      expect(await ticksOf(queue)).toEqual([new Date(t0 + 150_000).toISOString()]);
    });

    it('the jobs that a schedule has given stay when it goes', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('nightly', 'report', null, { every: '1m' });
      await clock.advance('1m');
      await queue.unschedule('nightly');
      expect(await ticksOf(queue)).toEqual([atMinute(1)]);
    });

    it('what a change leaves behind goes with the next cleanup', async () => {
      const { queue, clock } = await on.still();
      for (let n = 0; n < 5; n++) await queue.schedule('nightly', 'report', n, { every: '1d' });
      await clock.advance(1);
      await queue.sweep();
      expect((await queue.find({ type: 'lastout.schedule' })).items).toHaveLength(1);
    });
  });
});

describe('missed ticks', () => {
  eachStore((on) => {
    it.each([
      ['skip', [], [8]],
      ['once', [7], [8]],
      ['all', [1, 2, 3, 4, 5, 6, 7], [8]],
    ] as const)('%s, after an absence and then as ever', async (missed, madeUp, then) => {
      const shared = on.factory();
      const { queue, clock } = await on.still({}, shared);
      await queue.schedule('nightly', 'report', null, { every: '10m', missed });
      await closeUnder(clock, queue);
      await clock.advance('75m');
      const later = await open(shared, { clock });
      onTestFinished(() => closeUnder(clock, later));
      await clock.settle();
      expect(await ticksOf(later)).toEqual(madeUp.map((n) => atMinute(10 * n)));
      await clock.advance('5m');
      expect(await ticksOf(later)).toEqual([...madeUp, ...then].map((n) => atMinute(10 * n)));
    });

    it('all, after a long absence: the newest hundred', async () => {
      const shared = on.factory();
      const { queue, clock } = await on.still({}, shared);
      await queue.schedule('nightly', 'report', null, { every: '1m', missed: 'all' });
      await closeUnder(clock, queue);
      await clock.advance('500m');
      const later = await open(shared, { clock });
      onTestFinished(() => closeUnder(clock, later));
      await clock.settle();
      const ticks = await ticksOf(later);
      expect(ticks).toHaveLength(100);
      expect([ticks[0], ticks.at(-1)]).toEqual([atMinute(401), atMinute(500)]);
    });

    it('resuming a paused schedule counts what was missed', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('nightly', 'report', null, { every: '10m' });
      await queue.pause('lastout');
      await clock.advance('35m');
      expect(await queue.schedules()).toMatchObject([{ paused: true, next: new Date(t0 + 10 * minute), last: null }]);
      expect(await ticksOf(queue)).toEqual([]);
      await queue.resume('lastout');
      await clock.settle();
      expect(await ticksOf(queue)).toEqual([atMinute(30)]);
      expect(await queue.schedules()).toMatchObject([{ paused: false, next: new Date(t0 + 40 * minute) }]);
    });
  });
});

describe('two processes', () => {
  for (const engine of engines) {
    const make = () => processesOn(engine);
    const where = `one store of ${engine}`;
    for (const off of ['10m', '-10m'] as const) {
      const offMs = off === '10m' ? 600_000 : -600_000;
      it.each(['skip', 'once', 'all'] as const)(
        `whose clocks are ${off} apart, on ${where}: one job per tick (missed: %s)`,
        async (missed) => {
          const { clock, first, second } = await twoMachines(make(), offMs);
          const set = (queue: Queue): Promise<void> =>
            queue.schedule('nightly', 'report', null, { cron: '*/4 * * * *', missed });
          await Promise.all([set(first), set(second)]);
          for (let i = 0; i < 12; i++) {
            await clock.advance('3m');
            if (i % 4 === 0) await set(first);
            if (i % 4 === 2) await set(second);
          }
          const ticks = await ticksOf(first);
          expect(new Set(ticks).size).toBe(ticks.length);
          const times = ticks.map((tick) => Date.parse(tick));
          for (let i = 1; i < times.length; i++) expect(times[i]! - times[i - 1]!).toBe(4 * minute);
          expect(ticks.length).toBeGreaterThanOrEqual(36 / 4 - 1);
          expect(await liveSchedules(first)).toHaveLength(1);
        },
      );

      it(`whose clocks are ${off} apart, on ${where}: none twice, also when its job was removed already`, async () => {
        const { clock, first, second } = await twoMachines(make(), offMs);
        const seen: string[] = [];
        for (let i = 0; i < 24; i++) {
          for (const queue of [first, second]) await queue.schedule('nightly', 'report', null, { every: '2m' });
          await clock.advance('1m');
          seen.push(...(await ticksOf(first)));
          await first.remove({ type: 'report' });
        }
        expect(new Set(seen).size).toBe(seen.length);
        expect(seen.length).toBeGreaterThanOrEqual(11);
      });

      it(`whose clocks are ${off} apart, on ${where}: a change by the one does not repeat a tick of the other`, async () => {
        const { clock, first, second } = await twoMachines(make(), offMs);
        const seen: string[] = [];
        for (let i = 0; i < 20; i++) {
          const queue = i % 2 ? first : second;
          await queue.schedule('nightly', 'report', i, { cron: i % 3 ? '*/2 * * * *' : '*/4 * * * *', missed: 'all' });
          await clock.advance('3m');
          seen.push(...(await ticksOf(first)));
          await first.remove({ type: 'report' });
        }
        expect(new Set(seen).size).toBe(seen.length);
        expect(seen.length).toBeGreaterThan(10);
      });
    }

    it(`on ${where}: one dies between claim and settlement, the other fires the tick after the lease`, async () => {
      const factory = make();
      let dead = false;
      const dying = (): StoreFactory =>
        tapped(factory(), (store) => ({
          settle(request) {
            dead ||= request.settlements.some(({ then }) => then?.length);
            return dead ? new Promise(() => undefined) : store.settle(request);
          },
          claim: (request) => (dead ? new Promise(() => undefined) : store.claim(request)),
          sweep: (request) => (dead ? new Promise(() => undefined) : store.sweep(request)),
          sweepInTerm: (term, request) => (dead ? new Promise(() => undefined) : store.sweepInTerm(term, request)),
        }));
      const clock = fakeClock();
      const first = await open(dying(), { clock });
      onTestFinished(() => closeUnder(clock, first));
      await first.schedule('nightly', 'report', null, { every: '1m', missed: 'skip' });
      await clock.advance('1m');
      expect(dead).toBe(true);
      const second = await open(factory(), { clock });
      onTestFinished(() => closeUnder(clock, second));
      await clock.settle();
      expect(await ticksOf(second)).toEqual([]);
      await clock.advance('26s');
      expect(await ticksOf(second)).toEqual([atMinute(1)]);
      await clock.advance('2m');
      expect(await ticksOf(second)).toEqual([1, 2, 3].map(atMinute));
      expect(await liveSchedules(second)).toMatchObject([{ state: 'pending', stalls: 0 }]);
    });
  }
});

describe('a store that fails', () => {
  eachStore((on) => {
    it('a settlement whose answer is lost fires once', async () => {
      let lost = 0;
      const losing = tapped(on.factory(), (store) => ({
        async settle(request: SettleRequest) {
          const answer = await store.settle(request);
          if (!request.settlements.some(({ then }) => then?.length)) return answer;
          lost += 1;
          if (lost % 2 === 1) throw new Error('the answer was lost');
          return answer;
        },
      }));
      const { queue, clock } = await on.still({}, losing);
      await queue.schedule('nightly', 'report', null, { every: '1m', missed: 'all' });
      await clock.advance('6m');
      expect(await ticksOf(queue)).toEqual([1, 2, 3, 4, 5, 6].map(atMinute));
      expect(lost).toBeGreaterThanOrEqual(6);
    });

    it('while it is down nothing fires, and afterwards what was missed does, without a word of ours', async () => {
      const { lines, logger } = recordingLogger();
      let down = false;
      const failing = tapped(on.factory(), (store) => ({
        claim: (request) => (down ? Promise.reject(new Error('down')) : store.claim(request)),
      }));
      const { queue, clock } = await on.still({ logger }, failing);
      await queue.schedule('nightly', 'report', null, { every: '1m', missed: 'all' });
      down = true;
      await clock.advance('3m');
      expect(await ticksOf(queue)).toEqual([]);
      expect(lines).toContainEqual(expect.objectContaining({ message: 'Firing schedules failed; it is tried again' }));
      down = false;
      await clock.advance('5s');
      expect(await ticksOf(queue)).toEqual([1, 2, 3].map(atMinute));
    });

    it('an insert whose answer is lost makes one schedule', async () => {
      let first = true;
      const losing = tapped(on.factory(), (store) => ({
        async insert(jobs, options) {
          const answer = await store.insert(jobs, options);
          if (!first) return answer;
          first = false;
          throw new Error('the answer was lost');
        },
      }));
      const { queue, clock } = await on.still({}, losing);
      await queue.schedule('nightly', 'report', null, { every: '1m' });
      expect(first).toBe(false);
      expect((await queue.find({ type: 'lastout.schedule' })).items).toHaveLength(1);
      await clock.advance('2m');
      expect(await ticksOf(queue)).toEqual([1, 2].map(atMinute));
    });

    it.each([
      ['of another form', '{"from":"the future"}'],
      [
        'in an unknown zone',
        '{"rhythm":{"cron":"* * * * *","timeZone":"Mars/X"},"job":{"type":"report","input":"null"},"carried":{"since":null,"last":null}}',
      ],
    ])('a definition %s is told of and tried again, and its neighbours fire', async (_, input) => {
      const { lines, logger } = recordingLogger();
      const shared = on.factory();
      const { queue, clock } = await on.still({ logger }, shared);
      await queue.schedule('a', 'report', null, { every: '1m' });
      const store = await shared.open({
        system: createSystem(clock),
        namespace: 'lastout',
        maxStoredJobs: Number.POSITIVE_INFINITY,
      });
      onTestFinished(() => store.close());
      const job = {
        ...plainJob, id: 'strange-schedule', idGiven: true, type: 'lastout.schedule', queue: 'lastout', maxAttempts: 1,
        key: 'strange', deduplication: 'skip', input,
        policy: '{"backoff":null,"timeoutMs":null,"keep":{}}',
      } as const; // biome-ignore format: one list
      await store.insert([job], { atomic: false });
      await clock.advance('2m');
      await clock.advance('1s');
      expect(await ticksOf(queue)).toEqual([1, 2].map(atMinute));
      expect(
        lines.filter(({ message }) => message === 'A schedule cannot be fired; it is tried again').length,
      ).toBeGreaterThan(1);
      expect(await queue.schedules()).toMatchObject([
        { name: 'a', every: minute },
        { name: 'strange', every: null, missed: null, input: null },
      ]);
      expect(await queue.unschedule('strange')).toBe(true);
    });
  });
});

describe('the queue lastout', () => {
  eachStore((on) => {
    async function scheduled(): Promise<{ queue: Queue; clock: FakeClock }> {
      const made = await on.still();
      await made.queue.schedule('nightly', 'report', null, { every: '1m' });
      return made;
    }

    it('is left out of stats, find, events and acts, and shown where it is named', async () => {
      const { queue, clock } = await scheduled();
      const heard: unknown[] = [];
      const stop = queue.on('snoozed', ({ type }) => heard.push(type));
      onTestFinished(stop);
      const named: unknown[] = [];
      const controller = new AbortController();
      const reading = (async () => {
        for await (const { name } of queue.events({ type: 'lastout.schedule', signal: controller.signal }))
          named.push(name);
      })();
      await clock.advance('1m');
      await clock.advance('1s');
      controller.abort();
      await reading;
      expect(heard).toEqual([]);
      expect(named).toEqual(['claimed', 'snoozed']);
      expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 0 });
      expect(Object.keys((await queue.stats()).queues)).toEqual(['default']);
      expect((await queue.find()).items.map(({ type }) => type)).toEqual(['report']);
      expect((await queue.find({ queue: 'lastout' })).items).toHaveLength(1);
      expect((await queue.remove({ all: true })).items).toHaveLength(1);
      expect(await queue.schedules()).toHaveLength(1);
      await expectNothingLeft(queue);
    });

    it('goes on while every queue is paused', async () => {
      const { queue, clock } = await scheduled();
      await queue.pause();
      await clock.advance('2m');
      expect(await ticksOf(queue)).toEqual([1, 2].map(atMinute));
      expect(await queue.schedules()).toMatchObject([{ paused: false }]);
    });

    it('is kept for the library, and so are types that begin like it', async () => {
      const { queue } = await on.still();
      await expectCode('INVALID_NAME', () => queue.enqueue('report', null, { queue: 'lastout' }));
      await expectCode('INVALID_NAME', () => queue.enqueue('lastout.schedule', null));
      await expectCode('INVALID_NAME', () => defineJob('lastout.mine', {}));
      await expectCode('INVALID_NAME', () => defineJob('mine', { queue: 'lastout' }));
      await expectCode('INVALID_NAME', () => queue.schedule('a', 'lastout.schedule', null, { every: '1m' }));
      const type = defineJob('mine', { run: () => null });
      await expectCode('INVALID_NAME', () => queue.work([type], { queues: ['lastout'] }));
      expect(await queue.schedules()).toEqual([]);
    });
  });
});

describe('what schedule refuses, before anything is written', () => {
  eachStore((on) => {
    it.each([
      ['INVALID_NAME', ['no name', 'report', null, { every: '1m' }]],
      ['INVALID_NAME', [undefined, 'report', null, { every: '1m' }]],
      ['TYPE_REQUIRED', ['a', undefined, null, { every: '1m' }]],
      ['UNSERIALIZABLE', ['a', 'report', () => 1, { every: '1m' }]],
      ['INVALID_CRON', ['a', 'report', null, { cron: '60 * * * *' }]],
      ['INVALID_CRON', ['a', 'report', null, { cron: '* * * * * * *' }]],
      ['INVALID_TIMEZONE', ['a', 'report', null, { cron: '* * * * *', timeZone: 'Mars' }]],
      ['INVALID_DURATION', ['a', 'report', null, { every: '500ms' }]],
      ['UNKNOWN_OPTION', ['a', 'report', null, { every: '1m' }, { id: 'mine' }]],
      ['UNKNOWN_OPTION', ['a', 'report', null, { every: '1m' }, { runAt: new Date(t0) }]],
      ['UNKNOWN_OPTION', ['a', 'report', null, { every: '1m' }, { tx: {} }]],
      ['UNKNOWN_OPTION', ['a', 'report', null, { every: '1m' }, { repeat: 3 }]],
      ['INVALID_PRIORITY', ['a', 'report', null, { every: '1m' }, { priority: 5_000 }]],
      ['TTL_BEFORE_DUE', ['a', 'report', null, { every: '1m' }, { ttl: '1s', delay: '2s' }]],
    ] as const)('%s: %o', async (code, args) => {
      const { queue } = await on.still();
      await expectCode(code, () => (queue.schedule as (...given: readonly unknown[]) => unknown)(...args));
      expect(await queue.schedules()).toEqual([]);
    });

    it('a misspelt option, as one of schedule', async () => {
      const { queue } = await on.still();
      const options = { prioritty: 1 } as JobOptions;
      const refusal = await expectCode('UNKNOWN_OPTION', () =>
        queue.schedule('a', 'report', null, { every: '1m' }, options),
      );
      expect(refusal.message).toContain('The options of schedule: there is no "prioritty". Did you mean priority?');
    });

    it('an input that its schema refuses', async () => {
      const { queue } = await on.still();
      const schema = {
        '~standard': { version: 1 as const, vendor: 'test', validate: () => ({ issues: [{ message: 'no' }] }) },
      };
      const type = defineJob('report', { input: schema });
      await expectCode('INVALID_INPUT', () => queue.schedule('a', type, 1, { every: '1m' }));
    });

    it('every call on a closed queue', async () => {
      const { queue, clock } = await on.still();
      await closeUnder(clock, queue);
      await expectCode('CLOSED', () => queue.schedule('a', 'report', null, { every: '1m' }));
      await expectCode('CLOSED', () => queue.unschedule('a'));
      await expectCode('CLOSED', () => queue.schedules());
    });

    it('a delay is counted from the tick', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('a', 'report', null, { every: '1m' }, { delay: '10s' });
      await clock.advance('1m');
      expect((await queue.find({ type: 'report' })).items[0]?.scheduledFor).toEqual(new Date(t0 + 70_000));
    });

    it('a delay is counted from the tick, also where it is fired late', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('a', 'report', null, { every: '1h' }, { delay: '2h' });
      await queue.pause('lastout');
      await clock.advance('90m');
      await queue.resume('lastout');
      await clock.settle();
      expect((await queue.find({ type: 'report' })).items[0]?.scheduledFor).toEqual(new Date(t0 + 180 * minute));
    });
  });
});
