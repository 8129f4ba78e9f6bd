// Retention: what goes, when exactly, in which order, who starts it, and that live work is never touched.
import { describe, expect, it } from 'vitest';
import type { StoreFactory } from '../src/core/store.js';
import { defineJob, fail, type FinishedState, type Keep, open, type OpenOptions, type Queue } from '../src/index.js';
import { closedAfterwards, eachStore, gate, type OnStore, recordingLogger, tapped } from './support.js';

const t0 = Date.parse('2030-01-01T00:00:00Z');
const hour = 3_600_000;
const day = 24 * hour;

/** A queue whose clock is set by hand; timers run by the real one, so only what a test starts is swept. */
async function byHand(on: OnStore, options: OpenOptions = {}, where?: string | StoreFactory) {
  const clock = { at: t0, now: () => new Date(clock.at) };
  const queue = closedAfterwards(await open(where ?? (await on.url()), { ...options, clock }));
  await queue.stopPeriodicCleanup();
  return { queue, clock };
}

/** Makes a job of that type end in that state, now. */
async function finish(queue: Queue, clock: { at: number }, state: FinishedState, keep?: Keep, name = 'job') {
  const options = { attempts: 1, ...(keep !== undefined && { keep }) };
  if (state === 'cancelled') {
    const { id } = await queue.enqueue(name, null, options);
    await queue.cancel(id);
    return id;
  }
  if (state === 'expired') {
    const now = clock.at;
    clock.at = now - 1;
    const { id } = await queue.enqueue(name, null, { ...options, ttl: 1 });
    clock.at = now;
    return id;
  }
  const type = defineJob(name, { run: () => (state === 'completed' ? 'done' : fail('no')) });
  const worker = await queue.work([type]);
  const { id } = await queue.enqueue(type, null, options);
  await queue.wait(id);
  await worker.stop();
  return id;
}

const exists = async (queue: Queue, id: string): Promise<boolean> => (await queue.get(id)) !== null;
const stored = async (queue: Queue): Promise<string[]> => (await queue.find({ limit: 200 })).items.map(({ id }) => id);

/** Counts cleanups and tendings apart. */
function watchingSweeps(factory: StoreFactory) {
  const seen = { cleanups: 0, failing: false };
  const tap = tapped(factory, (store) => ({
    async sweepInTerm(term, request) {
      seen.cleanups += 1;
      if (seen.failing) throw new Error('disk full');
      return store.sweepInTerm(term, request);
    },
  }));
  return { factory: tap, seen };
}

describe('retention by age', () => {
  eachStore((on) => {
    it.each(['completed', 'failed', 'cancelled', 'expired'] as const)(
      'a job that is %s stays for exactly 24 hours and goes a millisecond later',
      async (state) => {
        const { queue, clock } = await byHand(on);
        const id = await finish(queue, clock, state);
        expect(await queue.get(id)).toMatchObject({ state, dueAt: new Date(t0 + day) });
        clock.at = t0 + day;
        expect(await queue.sweep()).toMatchObject({ removed: 0 });
        expect(await exists(queue, id)).toBe(true);
        clock.at += 1;
        expect(await queue.sweep()).toMatchObject({ removed: 1, removedBy: { age: 1, count: 0, cap: 0 } });
        expect(await exists(queue, id)).toBe(false);
      },
    );

    it('counts from completedAt: created 48 hours ago and completed an hour ago, a job stays', async () => {
      const { queue, clock } = await byHand(on);
      const { id } = await queue.enqueue('job', null);
      clock.at = t0 + 47 * hour;
      await queue.cancel(id);
      clock.at = t0 + 48 * hour;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect(await exists(queue, id)).toBe(true);
    });

    it('counts from createdAt with useCompletedTime: false', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { useCompletedTime: false } });
      const { id } = await queue.enqueue('job', null);
      clock.at = t0 + 23 * hour;
      await queue.cancel(id);
      expect(await queue.get(id)).toMatchObject({ dueAt: new Date(t0 + day) });
      clock.at = t0 + day;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      clock.at += 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
      expect(await exists(queue, id)).toBe(false);
    });

    it('jobRetentionMs sets the age, and 0 keeps a job for its millisecond', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { jobRetentionMs: 0 } });
      const id = await finish(queue, clock, 'cancelled');
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      clock.at += 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
      expect(await exists(queue, id)).toBe(false);
    });

    it('never touches live work, however old', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 0 } });
      const running = gate();
      const done = gate();
      const type = defineJob('slow', {
        run: async () => {
          running.open();
          await done.opened;
        },
      });
      const { id: processing } = await queue.enqueue(type, null);
      await queue.work([type], { lease: '1w' });
      await running.opened;
      const { id: pending } = await queue.enqueue('job', null);
      const { id: delayed } = await queue.enqueue('job', null, { delay: '100d' });
      clock.at = t0 + 3 * day;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect(await stored(queue)).toEqual([delayed, pending, processing]);
      expect((await queue.get(processing))!.state).toBe('processing');
      done.open();
    });

    it('one sweep removes all that is due, however much', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
      for (let i = 0; i < 3; i++)
        await queue.enqueueMany(Array.from({ length: 400 }, () => ({ type: 'job', input: null })));
      await queue.cancel({ type: 'job' });
      await queue.cancel({ type: 'job' });
      expect((await queue.stats()).total.cancelled).toBe(1_200);
      clock.at = t0 + day + 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1_200, removedBy: { age: 1_200, count: 0, cap: 0 } });
      expect((await queue.stats()).total.cancelled).toBe(0);
    });

    it('a removed job takes its log lines along, and its id stays idempotent', async () => {
      const { queue, clock } = await byHand(on);
      const type = defineJob('talk', { run: ({ log }) => log('said') });
      await queue.enqueue(type, { a: 1 }, { id: 'mine' });
      const worker = await queue.work([type]);
      await queue.wait('mine');
      await worker.stop();
      expect(await queue.logs('mine')).toHaveLength(1);
      clock.at = t0 + day + 1;
      await queue.sweep();
      expect(await queue.get('mine')).toBeNull();
      expect(await queue.logs('mine')).toEqual([]);
      expect(await queue.enqueue(type, { a: 1 }, { id: 'mine' })).toEqual({ id: 'mine', outcome: 'existing' });
      expect(await queue.get('mine')).toBeNull();
    });
  });
});

describe('retention by the cap', () => {
  eachStore((on) => {
    const cap = (maxStoredJobs: number): OpenOptions => ({ cleanup: { maxStoredJobs } });
    async function cancelled(queue: Queue, n: number): Promise<string[]> {
      const answers = await queue.enqueueMany(Array.from({ length: n }, () => ({ type: 'job', input: null })));
      await queue.cancel({ state: 'pending' });
      return answers.map(({ id }) => id);
    }

    it('exactly 1000 stay; at 1001 exactly one goes', async () => {
      // The default of memory, and what the others are told here.
      const { queue } = await byHand(on, on.engine === 'memory' ? {} : cap(1_000));
      await cancelled(queue, 1_000);
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect((await queue.stats()).total.cancelled).toBe(1_000);
      await cancelled(queue, 1);
      expect(await queue.sweep()).toMatchObject({ removed: 1, removedBy: { age: 0, count: 0, cap: 1 } });
      expect((await queue.stats()).total.cancelled).toBe(1_000);
    });

    it('the oldest completedAt goes first, not the oldest job', async () => {
      const { queue, clock } = await byHand(on, cap(3));
      const ids = [];
      for (let i = 0; i < 5; i++) ids.push((await queue.enqueue('job', i)).id);
      for (const index of [3, 0, 4, 1, 2]) {
        clock.at += 1_000;
        await queue.cancel(ids[index]!);
      }
      expect(await queue.sweep()).toMatchObject({ removed: 2 });
      expect(await stored(queue)).toEqual([ids[4], ids[2], ids[1]]);
    });

    it('counts every stored job and removes finished ones only', async () => {
      const { queue } = await byHand(on, cap(5));
      const gone = await cancelled(queue, 2);
      const live = [];
      for (let i = 0; i < 8; i++) live.push((await queue.enqueue('job', i)).id);
      expect(await queue.sweep()).toMatchObject({ removed: 2, removedBy: { cap: 2 } });
      for (const id of gone) expect(await exists(queue, id)).toBe(false);
      expect(await stored(queue)).toEqual(live.toReversed());
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
    });

    it('removes exactly the excess that the age rule has left', async () => {
      const { queue, clock } = await byHand(on, cap(10));
      await cancelled(queue, 6);
      clock.at = t0 + day + 1;
      const fresh = await cancelled(queue, 9);
      expect(await queue.sweep()).toMatchObject({ removed: 6, removedBy: { age: 6, cap: 0 } });
      expect(await stored(queue)).toEqual(fresh.toReversed());
      const more = await cancelled(queue, 3);
      expect(await queue.sweep()).toMatchObject({ removed: 2, removedBy: { age: 0, cap: 2 } });
      expect(await stored(queue)).toEqual([...fresh.slice(2), ...more].toReversed());
    });

    it('is 1000 in memory by default, and there is none elsewhere', async () => {
      const { queue } = await byHand(on);
      for (let i = 0; i < 2; i++) await cancelled(queue, 600);
      const stay = on.engine === 'memory' ? 1_000 : 1_200;
      expect(await queue.sweep()).toMatchObject({ removed: 1_200 - stay });
      expect((await queue.stats()).total.cancelled).toBe(stay);
    });

    it('applies at once when an ending exceeds it, without waiting for the hour', async () => {
      const { queue, clock } = await on.still(cap(3));
      await clock.settle();
      await cancelled(queue, 3);
      await clock.advance(100);
      expect((await queue.stats()).total.cancelled).toBe(3);
      await cancelled(queue, 2);
      await clock.advance(100);
      expect((await queue.stats()).total.cancelled).toBe(3);
    });

    it('applies at once when an enqueue exceeds it', async () => {
      const { queue, clock } = await on.still(cap(3));
      await clock.settle();
      await cancelled(queue, 3);
      await clock.advance(100);
      await queue.enqueue('job', null);
      await clock.advance(100);
      expect((await queue.stats()).total).toMatchObject({ pending: 1, cancelled: 2 });
    });

    it('a burst of endings above it makes one pass', async () => {
      const watching = watchingSweeps(on.factory());
      const { queue, clock } = await on.still(cap(1), watching.factory);
      await clock.settle();
      watching.seen.cleanups = 0;
      const answers = await queue.enqueueMany(Array.from({ length: 20 }, () => ({ type: 'job', input: null })));
      for (const { id } of answers) await queue.cancel(id);
      await clock.advance(100);
      expect(watching.seen.cleanups).toBe(1);
      expect((await queue.stats()).total.cancelled).toBe(1);
    });
  });
});

describe('keep', () => {
  eachStore((on) => {
    const states = ['completed', 'failed', 'cancelled', 'expired'] as const;

    it.each(states)('one duration holds for every state: %s', async (state) => {
      const { queue, clock } = await byHand(on);
      const id = await finish(queue, clock, state, '2h');
      expect(await queue.get(id)).toMatchObject({ state, dueAt: new Date(t0 + 2 * hour) });
      clock.at = t0 + 2 * hour;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      clock.at += 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1, removedBy: { age: 1 } });
    });

    it('by state: the named one follows its rule, the others follow the cleanup policy', async () => {
      const { queue, clock } = await byHand(on);
      const keep = { failed: '7d', completed: '1h' } as const;
      const ids = {
        completed: await finish(queue, clock, 'completed', keep),
        failed: await finish(queue, clock, 'failed', keep),
        cancelled: await finish(queue, clock, 'cancelled', keep),
      };
      clock.at = t0 + hour + 1;
      await queue.sweep();
      expect(await stored(queue)).toEqual([ids.cancelled, ids.failed]);
      clock.at = t0 + day + 1;
      await queue.sweep();
      expect(await stored(queue)).toEqual([ids.failed]);
      clock.at = t0 + 7 * day;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      clock.at += 1;
      await queue.sweep();
      expect(await stored(queue)).toEqual([]);
    });

    it('counts from completedAt also where the policy counts from createdAt', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { useCompletedTime: false } });
      const { id } = await queue.enqueue('job', null, { keep: '2h' });
      clock.at = t0 + 10 * hour;
      await queue.cancel(id);
      clock.at = t0 + 12 * hour;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      clock.at += 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
    });

    it('forever is never too old, reads as never due, and still counts for the cap', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 2 } });
      const first = await finish(queue, clock, 'completed', 'forever');
      expect(await queue.get(first)).toMatchObject({ dueAt: null });
      clock.at = t0 + 3_000 * day;
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      const second = await finish(queue, clock, 'completed', { completed: 'forever' });
      const third = await finish(queue, clock, 'completed', { age: 'forever' });
      expect(await queue.sweep()).toMatchObject({ removed: 1, removedBy: { cap: 1 } });
      expect(await stored(queue)).toEqual([third, second]);
    });

    it('count keeps the newest n of its type and state', async () => {
      const { queue, clock } = await byHand(on);
      const ids: string[] = [];
      for (let i = 0; i < 4; i++) {
        clock.at += 1_000;
        ids.push(await finish(queue, clock, 'cancelled', { count: 2 }));
      }
      const otherState = await finish(queue, clock, 'completed', { count: 2 });
      const otherType = await finish(queue, clock, 'cancelled', { count: 2 }, 'other');
      const unruled = await finish(queue, clock, 'cancelled', undefined, 'third');
      expect(await queue.sweep()).toMatchObject({ removed: 2, removedBy: { age: 0, count: 2, cap: 0 } });
      expect(await stored(queue)).toEqual([unruled, otherType, otherState, ids[3], ids[2]]);
    });

    it('count alone leaves the age to the cleanup policy, and age and count hold together', async () => {
      const { queue, clock } = await byHand(on);
      const byPolicy = await finish(queue, clock, 'cancelled', { count: 5 });
      const byBoth = await finish(queue, clock, 'cancelled', { age: '1h', count: 5 }, 'other');
      clock.at = t0 + hour + 1;
      await queue.sweep();
      expect(await stored(queue)).toEqual([byPolicy]);
      expect(await exists(queue, byBoth)).toBe(false);
      clock.at = t0 + day + 1;
      await queue.sweep();
      expect(await stored(queue)).toEqual([]);
    });

    it('count 0 keeps none', async () => {
      const { queue, clock } = await byHand(on);
      await finish(queue, clock, 'cancelled', { cancelled: { count: 0 } });
      expect(await queue.sweep()).toMatchObject({ removed: 1, removedBy: { count: 1 } });
    });

    it('of a definition holds for its jobs, and a call may say otherwise', async () => {
      const { queue, clock } = await byHand(on);
      const type = defineJob('job', { keep: '1h' });
      const { id: short } = await queue.enqueue(type, 1);
      const { id: long } = await queue.enqueue(type, 2, { keep: { cancelled: '2h' } });
      await queue.cancel({ type: 'job' });
      clock.at = t0 + 2 * hour;
      await queue.sweep();
      expect(await exists(queue, short)).toBe(false);
      expect(await exists(queue, long)).toBe(true);
    });
  });
});

describe('who cleans, and when', () => {
  eachStore((on) => {
    it('opening cleans at once', async () => {
      const store = on.factory();
      const first = await byHand(on, {}, store);
      const id = await finish(first.queue, first.clock, 'cancelled');
      const { logger, lines } = recordingLogger();
      const clock = { now: () => new Date(t0 + day + 1) };
      const second = closedAfterwards(await open(store, { clock, logger }));
      await second.stopPeriodicCleanup();
      expect(await exists(second, id)).toBe(false);
      expect(lines).toContainEqual({
        level: 'info',
        message: `Removed 1 old jobs from ${on.engine}`,
        fields: undefined,
      });
    });

    it('by default every hour, to the millisecond', async () => {
      const watching = watchingSweeps(on.factory());
      const { clock } = await on.still({}, watching.factory);
      await clock.settle();
      expect(watching.seen.cleanups).toBe(1);
      await clock.advance(hour - 1);
      expect(watching.seen.cleanups).toBe(1);
      await clock.advance(1);
      expect(watching.seen.cleanups).toBe(2);
    });

    it('every cleanupIntervalMs removes what became too old meanwhile', async () => {
      const { queue, clock } = await on.still({ cleanup: { cleanupIntervalMs: 60_000, jobRetentionMs: 90_000 } });
      const { id } = await queue.enqueue('job', null);
      await queue.cancel(id);
      await clock.advance(60_000);
      expect(await exists(queue, id)).toBe(true);
      await clock.advance(60_000);
      expect(await exists(queue, id)).toBe(false);
    });

    it('starting it again and again changes nothing; stopping ends it; starting anew cleans at once', async () => {
      const watching = watchingSweeps(on.factory());
      const { queue, clock } = await on.still({ cleanup: { cleanupIntervalMs: 60_000 } }, watching.factory);
      await clock.settle();
      for (let i = 0; i < 3; i++) queue.startPeriodicCleanup();
      await clock.settle();
      expect(watching.seen.cleanups).toBe(1);
      await clock.advance(180_000);
      expect(watching.seen.cleanups).toBe(4);
      await queue.stopPeriodicCleanup();
      await clock.advance(180_000);
      expect(watching.seen.cleanups).toBe(4);
      queue.startPeriodicCleanup();
      await clock.settle();
      expect(watching.seen.cleanups).toBe(5);
      await clock.advance(60_000);
      expect(watching.seen.cleanups).toBe(6);
    });

    it('stopped, it does not clean when the cap is exceeded either; sweep still does', async () => {
      const { queue, clock } = await on.still({ cleanup: { maxStoredJobs: 1 } });
      await queue.stopPeriodicCleanup();
      await queue.enqueueMany([
        { type: 'job', input: 1 },
        { type: 'job', input: 2 },
      ]);
      await queue.cancel({ type: 'job' });
      await clock.advance(10_000);
      expect((await queue.stats()).total.cancelled).toBe(2);
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
    });

    it('a cleanup that fails is logged and tried again at the next interval', async () => {
      const watching = watchingSweeps(on.factory());
      const { logger, lines } = recordingLogger();
      const options = { logger, cleanup: { cleanupIntervalMs: 60_000, jobRetentionMs: 0 } };
      const { queue, clock } = await on.still(options, watching.factory);
      await clock.settle();
      const { id } = await queue.enqueue('job', null);
      await queue.cancel(id);
      watching.seen.failing = true;
      await clock.advance(60_000);
      expect(lines).toContainEqual({
        level: 'error',
        message: 'Cleanup failed; it is tried again',
        fields: { error: expect.stringContaining('(cause: disk full)') as string },
      });
      await expect(queue.sweep()).rejects.toMatchObject({ code: 'RESULT_UNKNOWN', cause: { message: 'disk full' } });
      watching.seen.failing = false;
      await clock.advance(60_000);
      expect(await exists(queue, id)).toBe(false);
    });

    it('two sweeps at once are one pass', async () => {
      const watching = watchingSweeps(on.factory());
      const { queue, clock } = await on.still({}, watching.factory);
      await clock.settle();
      const [one, other] = await Promise.all([queue.sweep(), queue.sweep()]);
      expect(one).toBe(other);
      expect(watching.seen.cleanups).toBe(2);
    });

    it('closing stops every rhythm: no timer is left', async () => {
      const { queue, clock } = await on.still();
      await clock.settle();
      expect(clock.pendingTimers).toBeGreaterThanOrEqual(2); // a networked store looks after its connections besides
      await queue.close();
      expect(clock.pendingTimers).toBe(0);
    });
  });
});

describe('the report of a sweep', () => {
  eachStore((on) => {
    it('says when, by whom, what was looked at and what went, and health remembers when', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 1 } });
      await finish(queue, clock, 'cancelled', '1h');
      await finish(queue, clock, 'cancelled', { count: 0 }, 'other');
      await finish(queue, clock, 'cancelled', undefined, 'third');
      await finish(queue, clock, 'cancelled', undefined, 'third');
      clock.at = t0 + hour + 1;
      const report = await queue.sweep();
      expect(report).toEqual({
        at: new Date(clock.at),
        by: expect.stringMatching(/^[0-9a-z]{20}$/),
        examined: 3,
        removed: 3,
        removedBy: { age: 1, count: 1, cap: 1 },
        failures: 0,
        durationMs: expect.any(Number),
      });
      expect(Number.isInteger(report.durationMs)).toBe(true);
      expect((await queue.health()).lastSweepAt).toEqual(report.at);
      expect((await queue.sweep()).by).toBe(report.by);
    });

    it('a sweep ends what passed its ttl and brings back what lapsed, too', async () => {
      const { queue, clock } = await byHand(on);
      const { id } = await queue.enqueue('job', null, { ttl: '1s' });
      clock.at = t0 + 1_000;
      expect(await queue.sweep()).toMatchObject({ examined: 1, removed: 0 });
      const events: string[] = [];
      for await (const event of queue.events({ after: '0.0' })) {
        events.push(event.name);
        if (event.name === 'expired') break;
      }
      expect(events).toEqual(['created', 'expired']);
      expect(await queue.get(id)).toMatchObject({ state: 'expired', completedAt: new Date(t0 + 1_000) });
    });

    it('what was removed is told as events: one for each job, one for the sweep', async () => {
      const { queue, clock } = await byHand(on);
      const id = await finish(queue, clock, 'cancelled');
      const events = queue.events();
      clock.at = t0 + day + 1;
      await queue.sweep();
      const names: (string | undefined)[][] = [];
      for await (const event of events) {
        names.push([event.name, event.id]);
        if (event.name === 'swept') break;
      }
      expect(names).toEqual([
        ['removed', id],
        ['swept', undefined],
      ]);
    });
  });
});
