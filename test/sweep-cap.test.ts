// Above the cap a pass is made at once where something can go: it is never lost, never in vain, and told where nothing can.
import { describe, expect, it } from 'vitest';
import type { Queue } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { processesOn } from './engines.js';
import { contextFor, handClock, hour, watchedBlobs } from './lifecycle-support.js';
import { eachStore, gate, type LoggedLine, type OnStore, recordingLogger, tapped } from './support.js';

const cleanup = { maxStoredJobs: 10 };
const warnings = (lines: readonly LoggedLine[]): LoggedLine[] => lines.filter(({ level }) => level === 'warn');
const passes = async (queue: Queue): Promise<number> => (await queue.ledger({ limit: 200 })).items.length;

async function enqueued(queue: Queue, n: number): Promise<void> {
  await queue.enqueueMany(Array.from({ length: n }, () => ({ type: 'live', input: null })));
}

/** Stores so many jobs that have ended. */
async function cancelled(queue: Queue, n: number): Promise<void> {
  await queue.enqueueMany(Array.from({ length: n }, () => ({ type: 'ended', input: null })));
  await queue.cancel({ type: 'ended' });
}

async function stored(queue: Queue): Promise<number> {
  const { pending, cancelled } = (await queue.stats()).total;
  return pending + cancelled;
}

/** A queue beside a process that has just taken the term. */
async function besideAnother(on: OnStore) {
  const connect = processesOn(on.engine);
  let looks = 0;
  const counted = tapped(connect(), (store) => ({
    async sweepInTerm(term, request) {
      looks += 1;
      return store.sweepInTerm(term, request);
    },
  }));
  const { queue, clock } = await on.still({ cleanup }, counted);
  const other = await connect().open({ ...contextFor(handClock()), system: createSystem(clock) });
  const term = { holder: 'another', ttlMs: 30_000 };
  const spare = { ...cleanup, jobRetentionMs: hour, cleanupIntervalMs: hour, useCompletedTime: true };
  expect((await other.sweepInTerm(term, { limit: 1, cleanup: spare })).term).not.toBeNull();
  return { queue, clock, other, term, looks: () => looks };
}

describe('a cap that is exceeded', () => {
  eachStore((on) => {
    it('while a pass lists files, is looked at when that one has ended', async () => {
      const watched = watchedBlobs(handClock());
      const listing = gate();
      watched.fail(async (verb) => {
        if (verb === 'list') await listing.opened;
      });
      const { queue, clock } = await on.still({ cleanup, artifacts: { blobs: watched.blobs } });
      await cancelled(queue, 30);
      await clock.advance(1_000);
      expect(await stored(queue)).toBe(30); // that pass is past the removal
      listing.open();
      await clock.advance(1_000);
      expect(await stored(queue)).toBe(10);
      expect(await passes(queue)).toBe(2);
    });

    it('while another process cleans up, is looked at again when that one has ended', async () => {
      const { queue, clock, other, term } = await besideAnother(on);
      await cancelled(queue, 30);
      await clock.advance(5_000);
      expect(await stored(queue)).toBe(30);
      await other.endTerm(term.holder, '{}');
      await clock.advance(1_000);
      expect(await stored(queue)).toBe(10);
      await other.close();
    });

    it('while another process cleans up and dies, is looked at again until its term is over', async () => {
      const { queue, clock, other, looks } = await besideAnother(on);
      await cancelled(queue, 30);
      await clock.advance(29_000);
      expect(await stored(queue)).toBe(30);
      await clock.advance(3_000);
      expect(await stored(queue)).toBe(10);
      expect(looks()).toBeLessThan(40);
      await other.close();
    });
  });
});

describe('above the cap with jobs that cannot go', () => {
  eachStore((on) => {
    it('no pass is made for live ones, which is told once; one that ends goes at once', async () => {
      const { logger, lines } = recordingLogger();
      const { queue, clock } = await on.still({ cleanup, logger });
      for (let i = 0; i < 15; i++) {
        await enqueued(queue, 1);
        await clock.advance(25);
      }
      expect(await passes(queue)).toBe(1); // that at the start
      expect(warnings(lines)).toEqual([
        { level: 'warn', message: 'Only active jobs are left above maxStoredJobs', fields: { stored: 11, over: 1 } },
      ]);
      await cancelled(queue, 1);
      await clock.advance(25);
      expect((await queue.stats()).total.cancelled).toBe(0);
    });

    it('each pass by the clock tells it, at most once an hour', async () => {
      const { logger, lines } = recordingLogger();
      const { queue, clock } = await on.still({ cleanup: { ...cleanup, cleanupIntervalMs: hour / 4 }, logger });
      await enqueued(queue, 15);
      await clock.advance(hour);
      expect(await passes(queue)).toBe(5);
      expect(warnings(lines)).toHaveLength(1);
      await clock.advance(hour / 4);
      expect(warnings(lines)).toHaveLength(2);
    });

    it('held ones cost one pass a minute at most', async () => {
      const { queue, clock } = await on.still({ cleanup });
      await cancelled(queue, 10);
      await queue.hold({ type: 'ended' }, 'under investigation');
      const before = await passes(queue);
      for (let i = 0; i < 48; i++) {
        await enqueued(queue, 1);
        await clock.advance(2_500);
      }
      expect((await passes(queue)) - before).toBeGreaterThan(0);
      expect((await passes(queue)) - before).toBeLessThanOrEqual(3);
    });
  });
});
