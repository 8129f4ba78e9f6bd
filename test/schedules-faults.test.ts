// Schedules among processes that cannot read them, codecs that fail, crashes and clocks that were wrong.
import { describe, expect, it, onTestFinished } from 'vitest';
import type { SettleRequest, StoreFactory } from '../src/core/store.js';
import { type Codec, LastoutError, open, type OpenOptions, type Queue } from '../src/index.js';
import { type FakeClock, fakeClock } from '../src/testing/index.js';
import { createSystem } from '../src/system.js';
import { aesGcm, newKey } from './codec/aes.js';
import { engines, processesOn } from './engines.js';
import { closeUnder, eachStore, recordingLogger, tapped } from './support.js';

const hour = 3_600_000;
const codec = aesGcm({ k1: newKey() });

async function openUnder(clock: FakeClock, factory: StoreFactory, options: OpenOptions = {}): Promise<Queue> {
  const queue = await open(factory, { clock, ...options });
  onTestFinished(() => closeUnder(clock, queue));
  return queue;
}

/** The clock of a machine that is wrong by so much. */
const offBy = (clock: FakeClock, ms: () => number) => ({
  now: () => new Date(clock.now().getTime() + ms()),
  monotonic: () => clock.monotonic(),
  timer: (delay: number, callback: () => void) => clock.timer(delay, callback),
  awaiting: clock.awaiting,
});

const nextOf = async (queue: Queue): Promise<Date> => (await queue.schedules())[0]!.next;

const countOf = async (queue: Queue, type = 'report'): Promise<number> =>
  (await queue.find({ type, limit: 200 })).items.length;

/** A store beside the queues whose clock is a millisecond ahead: it is there before all others. */
async function firstOn(factory: StoreFactory, clock: FakeClock) {
  const system = createSystem(offBy(clock, () => 1));
  const store = await factory.open({ system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY });
  onTestFinished(() => store.close());
  return store;
}

const request = {
  owner: 'dying', types: ['lastout.schedule'], queues: ['lastout'],
  slots: 20, ahead: 0, leaseMs: 20_000, maxStalls: 1e9,
}; // biome-ignore format: one list

const cannotFire = 'A schedule cannot be fired; it is tried again';

describe('a process that cannot read a schedule', () => {
  /** One whose clock is ahead meets every tick first. */
  const readers: readonly (readonly [who: string, options: OpenOptions, aheadMs: number])[] = [
    ['without the codec', {}, 0],
    ['without the codec and ahead', {}, 6_000],
    ['with another key and ahead', { codec: aesGcm({ k0: newKey() }) }, 6_000],
  ];
  for (const engine of engines) {
    const make = () => processesOn(engine);
    const where = `one store of ${engine}`;
    for (const [who, options, aheadMs] of readers) {
      it.each(['once', 'skip', 'all'] as const)(
        `${who}, on ${where}, leaves every tick to those that can (missed: %s)`,
        async (missed) => {
          const clock = fakeClock();
          const factory = make();
          const { lines, logger } = recordingLogger();
          const ahead = await open(factory(), { ...options, logger, clock: offBy(clock, () => aheadMs) });
          onTestFinished(() => closeUnder(clock, ahead));
          const queue = await openUnder(clock, factory(), { codec });
          await queue.schedule('often', 'report', null, { every: '10s', missed });
          await clock.advance('10m');
          await clock.advance('9s');
          expect(await countOf(queue)).toBe(60);
          const told = lines.filter(({ message }) => message === cannotFire).length;
          if (aheadMs > 0) expect(told).toBeGreaterThan(0);
          expect(told).toBeLessThanOrEqual(11);
        },
      );
    }
  }

  eachStore((on) => {
    it('hands it back in its place, claims it no more than its tending asks for, and fires its own', async () => {
      const clock = fakeClock();
      const shared = on.factory();
      const coded = await open(shared, { clock, codec });
      // More than one step takes: they stand before all others.
      for (let i = 0; i < 45; i++) await coded.schedule(`coded-${i}`, 'other', null, { every: '10s' });
      await closeUnder(clock, coded);
      await clock.advance('30s');
      let claims = 0;
      const counting = tapped(shared, (store) => ({
        claim: (asked) => {
          claims += asked.types.includes('lastout.schedule') ? 1 : 0;
          return store.claim(asked);
        },
      }));
      const { lines, logger } = recordingLogger();
      const queue = await openUnder(clock, counting, { logger });
      await queue.schedule('own', 'report', null, { every: '1m' });
      await clock.advance('10m');
      await clock.advance('1s');
      expect(await countOf(queue)).toBe(10);
      expect(claims).toBeLessThan(10 * 60);
      expect(lines.filter(({ message }) => message === cannotFire).length).toBeLessThanOrEqual(45 * 12);
      const { items } = await queue.find({ type: 'lastout.schedule', state: 'pending', limit: 200 });
      const waiting = items.filter(({ deduplicationKey }) => deduplicationKey !== 'own');
      expect(waiting).toHaveLength(45);
      for (const { dueAt, stalls } of waiting)
        expect([dueAt!.getTime() < clock.now().getTime(), stalls]).toEqual([true, 0]);
      const later = await openUnder(clock, shared, { codec });
      await clock.settle();
      expect(await countOf(later, 'other')).toBe(45);
    });
  });
});

describe('a codec that cannot encode what a tick brings', () => {
  const poisonous = (refuses: () => boolean): Codec => ({
    encode(text) {
      if (text === '"poison"' && refuses()) throw new Error('will not touch it');
      return text;
    },
    decode: (text) => text,
  });

  eachStore((on) => {
    it('costs that schedule alone its ticks, and is told', async () => {
      const { lines, logger } = recordingLogger();
      const { queue, clock } = await on.still({ codec: poisonous(() => true), logger });
      await queue.schedule('bad', 'other', 'poison', { every: '10s' });
      await queue.schedule('good', 'report', 'fine', { every: '10s' });
      await clock.advance('10m');
      await clock.advance('1s');
      expect([await countOf(queue), await countOf(queue, 'other')]).toEqual([60, 0]);
      expect(lines).toContainEqual(
        expect.objectContaining({ message: cannotFire, fields: expect.objectContaining({ schedule: 'bad' }) }),
      );
    });

    it('for a moment: the tick comes with the next tending', async () => {
      let down = false;
      const { queue, clock } = await on.still({ codec: poisonous(() => down) });
      await queue.schedule('nightly', 'report', 'poison', { every: '1m' });
      await clock.advance('59s');
      down = true;
      await clock.advance('1s');
      down = false;
      expect(await countOf(queue)).toBe(0);
      await clock.advance('7s');
      expect(await countOf(queue)).toBe(1);
    });

    it('a settlement that the store refuses gives back what it held', async () => {
      let full = false;
      const failing = tapped(on.factory(), (store) => ({
        settle: (asked: SettleRequest) =>
          full && asked.settlements.some(({ then }) => then?.length)
            ? Promise.reject(new LastoutError('STORE_FULL', 'full'))
            : store.settle(asked),
      }));
      const { queue, clock } = await on.still({}, failing);
      await queue.schedule('nightly', 'report', null, { every: '1m' });
      await clock.advance('59s');
      full = true;
      await clock.advance('1s');
      full = false;
      await clock.advance('5s');
      expect(await countOf(queue)).toBe(1);
    });
  });
});

describe('crashes', () => {
  eachStore((on) => {
    it('the tenth crash of a schedule costs no more than the first', async () => {
      const clock = fakeClock();
      const shared = on.factory();
      const queue = await openUnder(clock, shared);
      const dying = await firstOn(shared, clock);
      await queue.schedule('nightly', 'report', null, { every: '5m', missed: 'skip' });
      for (let crash = 1; crash <= 10; crash++) {
        const next = await nextOf(queue);
        await clock.advance(next.getTime() - clock.now().getTime() - 1);
        expect((await dying.claim(request)).jobs).toHaveLength(1);
        await clock.advance('26s');
        expect(await countOf(queue)).toBe(crash);
      }
    });
  });
});

describe('a clock that was ahead for a moment', () => {
  /** A queue whose clock can be put wrong. */
  async function unsteady(factory: StoreFactory) {
    const clock = fakeClock();
    const off = { ms: 0 };
    const queue = await open(factory, { clock: offBy(clock, () => off.ms) });
    onTestFinished(() => closeUnder(clock, queue));
    return { queue, clock, off };
  }

  eachStore((on) => {
    it.each([
      ['set again as it is', 1],
      ['set again with another input', 2],
    ])('%s, a schedule goes on from now', async (_, input) => {
      const { queue, clock, off } = await unsteady(on.factory());
      await queue.schedule('often', 'report', 1, { every: '10s' });
      await clock.advance('35s');
      off.ms = 365 * 24 * hour;
      await clock.advance('15s');
      off.ms = 0;
      await clock.advance('1m');
      const before = await countOf(queue);
      await queue.schedule('often', 'report', input, { every: '10s' });
      await clock.advance('1m');
      expect(await countOf(queue)).toBe(before + 6);
      const next = await nextOf(queue);
      expect(next.getTime() - clock.now().getTime()).toBeLessThanOrEqual(10_000);
    });

    it('by less than an hour: no tick comes twice, and it waits until then', async () => {
      const { queue, clock, off } = await unsteady(on.factory());
      await queue.schedule('often', 'report', 1, { every: '1m' });
      off.ms = 50 * 60_000;
      await clock.advance('10s');
      off.ms = 0;
      expect(await countOf(queue)).toBe(1);
      await queue.remove({ type: 'report' });
      await queue.schedule('often', 'report', 1, { every: '1m' });
      await queue.schedule('often', 'report', 2, { every: '1m' });
      await clock.advance('49m');
      expect(await countOf(queue)).toBe(0);
      await clock.advance('2m');
      expect(await countOf(queue)).toBeGreaterThan(0);
    });

    it('S21: a caller whose own clock is behind changes nothing: the clock of the store decides', async () => {
      const shared = on.factory();
      const clock = fakeClock();
      const queue = await openUnder(clock, shared);
      // The store goes by the right clock, as one on a server does.
      const right: StoreFactory = {
        engine: shared.engine,
        open: (context) => shared.open({ ...context, system: createSystem(clock) }),
      };
      const wrong = await open(right, { clock: offBy(clock, () => -5 * hour) });
      onTestFinished(() => closeUnder(clock, wrong));
      await queue.schedule('often', 'report', 1, { every: '1m' });
      for (let i = 0; i < 5; i++) {
        await clock.advance('90s');
        await queue.remove({ type: 'report' });
        const next = await nextOf(queue);
        await wrong.schedule('often', 'report', 1, { every: '1m' });
        expect(await queue.schedules()).toMatchObject([{ next }]);
        expect(await countOf(queue)).toBe(0);
      }
    });
  });
});
