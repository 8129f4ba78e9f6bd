// Watching: the event log as an iterable, listeners by name, and waiting for one job.
import { describe, expect, it } from 'vitest';
import { type Code, defineJob, fail, type JobEvent, LastoutError, open, type Queue, snooze } from '../src/index.js';
import {
  closedAfterwards,
  closeUnder,
  eachStore,
  expectCode,
  gate,
  type OnStore,
  recordingLogger,
  tapped,
} from './support.js';

const t0 = new Date('2030-01-01T00:00:00Z');

/** The next n events of an iterable that is being followed. */
async function take(events: AsyncIterable<JobEvent>, n: number): Promise<JobEvent[]> {
  const taken: JobEvent[] = [];
  if (n === 0) return taken;
  for await (const event of events) {
    taken.push(event);
    if (taken.length === n) break;
  }
  return taken;
}
/** The first to follow makes the store listen, for good. */
async function listening(queue: Queue, clock: { settle(): Promise<void> }): Promise<void> {
  queue.on('created', () => undefined)();
  await clock.settle();
}
const brief = (events: readonly JobEvent[]) => events.map(({ name, id }) => [name, id]);

/** A store whose reads fail, or hang, for as long as they are told to. */
function away(on: OnStore) {
  const state = { fails: null as Code | null, hangs: false, asked: 0 };
  const instead = <T>(ask: () => Promise<T>): Promise<T> => {
    state.asked += 1;
    if (state.hangs) return new Promise(() => undefined);
    return state.fails ? Promise.reject(new LastoutError(state.fails, 'gone')) : ask();
  };
  const factory = tapped(on.factory(), (store) => ({
    find: (request) => instead(() => store.find(request)),
    readEvents: (request) => instead(() => store.readEvents(request)),
  }));
  return { state, factory };
}

/** How a promise stands, and its outcome in the end. */
function standing<T>(promise: Promise<T>): { readonly promise: Promise<T>; readonly isOver: boolean } {
  const stand = { promise, isOver: false };
  const over = (): void => void (stand.isOver = true);
  promise.then(over, over);
  return stand;
}

describe('events', () => {
  eachStore((on) => {
    it('tell what happens from the call on, in order, with ids and never payloads', async () => {
      const { queue, clock } = await on.still();
      await queue.enqueue('before', 'secret');
      const events = queue.events();
      let runs = 0;
      const type = defineJob('act', {
        attempts: 2,
        backoff: { type: 'fixed', base: '1s' },
        subject: 'trip:42',
        run: ({ progress }) => {
          runs += 1;
          if (runs === 1) return snooze('1s');
          progress(50);
          if (runs === 2) throw Object.assign(new Error('no paper'), { code: 'EPAPER' });
          return 'secret';
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, 'secret', { queue: 'slow' });
      await clock.advance(3_000);
      await queue.remove(id);
      const told = await take(events, 10);
      expect(told.map(({ name }) => name)).toEqual([
        'created',
        'claimed',
        'snoozed',
        'claimed',
        'progress',
        'retried',
        'claimed',
        'progress',
        'completed',
        'removed',
      ]);
      for (const event of told) {
        expect(event).toMatchObject({ id, type: 'act', queue: 'slow', subject: 'trip:42', cursor: expect.any(String) });
        expect(event.at).toBeInstanceOf(Date);
      }
      expect(told[0]!.at).toEqual(t0);
      expect(told[5]).toMatchObject({ attempt: 1, error: { message: 'no paper', code: 'EPAPER' } });
      expect(told[5]!.error).not.toHaveProperty('stack');
      expect(told.map(({ progress }) => progress).filter(Boolean)).toEqual([{ percent: 50 }, { percent: 50 }]);
      expect(told[4]!.progress).toEqual({ percent: 50 });
      expect(told[8]).toMatchObject({ attempt: 2 });
      expect(JSON.stringify(told)).not.toContain('secret');
    });

    it('are complete: every ending has its own', async () => {
      const { queue, clock } = await on.still();
      const events = queue.events();
      const type = defineJob('act', { attempts: 1, run: () => fail({ message: 'no', code: 'MINE' }) });
      const { id: expired } = await queue.enqueue('mail', 1, { ttl: '1s' });
      const { id: cancelled } = await queue.enqueue('mail', 2);
      await queue.cancel(cancelled, { reason: 'not needed' });
      await queue.work([type]);
      const { id: failed } = await queue.enqueue(type, null);
      await queue.wait(failed);
      await clock.advance(1_000);
      await queue.sweep();
      const told = await take(events, 7);
      expect(brief(told)).toEqual([
        ['created', expired],
        ['created', cancelled],
        ['cancelled', cancelled],
        ['created', failed],
        ['claimed', failed],
        ['failed', failed],
        ['expired', expired],
      ]);
      expect(told[2]).toMatchObject({ error: { code: 'CANCELLED', message: 'not needed' } });
      expect(told[5]).toMatchObject({ error: { code: 'MINE', message: 'no' } });
      expect(told[6]).toMatchObject({ error: { code: 'EXPIRED' } });
    });

    it('go on after the cursor of any event, without loss and without repetition', async () => {
      const { queue } = await on.still();
      const events = queue.events();
      // Batches of several events in one step, and steps of one.
      const ids: string[] = [];
      for (let i = 0; i < 5; i++) {
        const answers = await queue.enqueueMany(Array.from({ length: i + 1 }, () => ({ type: 'mail', input: i })));
        ids.push(...answers.map(({ id }) => id));
      }
      const all = await take(events, ids.length);
      expect(all.map(({ id }) => id)).toEqual(ids);
      expect(new Set(all.map(({ cursor }) => cursor)).size).toBe(ids.length);
      for (const [index, { cursor }] of all.entries()) {
        const rest = await take(queue.events({ after: cursor }), ids.length - index - 1);
        expect(rest.map(({ id }) => id)).toEqual(ids.slice(index + 1));
      }
    });

    it('more than one page of them is told in full', async () => {
      const { queue } = await on.still();
      const events = queue.events();
      const jobs = Array.from({ length: 700 }, (_, n) => ({ type: 'mail', input: n }));
      const ids = [...(await queue.enqueueMany(jobs)), ...(await queue.enqueueMany(jobs))].map(({ id }) => id);
      expect((await take(events, 1_400)).map(({ id }) => id)).toEqual(ids);
    });

    it('by subject and by type', async () => {
      const { queue } = await on.still();
      const [bySubject, byType, byBoth] = [
        queue.events({ subject: 'trip:1' }),
        queue.events({ type: 'letter' }),
        queue.events({ subject: 'trip:1', type: 'letter' }),
      ];
      const a = await queue.enqueue('mail', 1, { subject: 'trip:1' });
      await queue.enqueue('mail', 2, { subject: 'trip:2' });
      await queue.enqueue('mail', 3);
      const b = await queue.enqueue('letter', 4, { subject: 'trip:2' });
      const c = await queue.enqueue('letter', 5, { subject: 'trip:1' });
      expect((await take(bySubject, 2)).map(({ id }) => id)).toEqual([a.id, c.id]);
      expect((await take(byType, 2)).map(({ id }) => id)).toEqual([b.id, c.id]);
      expect((await take(byBoth, 1)).map(({ id }) => id)).toEqual([c.id]);
    });

    it('wake their reader at once, and reach it by polling alone', async () => {
      const { queue, clock } = await on.still();
      const woken = take(queue.events(), 1);
      await clock.settle();
      const { id } = await queue.enqueue('mail', 1);
      expect((await woken)[0]!.id).toBe(id);

      const deaf = tapped(on.factory(), () => ({ subscribe: () => () => undefined }));
      const other = await on.still({}, deaf);
      let told = false;
      const polled = take(other.queue.events(), 1).finally(() => {
        told = true;
      });
      await other.clock.settle();
      await other.queue.enqueue('mail', 2);
      await other.clock.settle();
      expect(told).toBe(false);
      await other.clock.advance(100);
      expect((await polled)[0]!.name).toBe('created');
    });

    it('end with the signal: while waiting, in the middle of a page, and before they began', async () => {
      const { queue, clock } = await on.still();
      const waiting = new AbortController();
      const end = take(queue.events({ signal: waiting.signal }), 1);
      await clock.settle();
      waiting.abort();
      expect(await end).toEqual([]);

      const middle = new AbortController();
      const events = queue.events({ signal: middle.signal });
      await queue.enqueueMany(Array.from({ length: 10 }, () => ({ type: 'mail', input: 1 })));
      const seen: string[] = [];
      for await (const event of events) {
        seen.push(event.name);
        if (seen.length === 3) middle.abort();
      }
      expect(seen).toHaveLength(3);
      expect(await take(queue.events({ after: '0.0', signal: AbortSignal.abort() }), 1)).toEqual([]);
    });

    it('end when the queue is closed', async () => {
      const { queue, clock } = await on.still();
      const reading = take(queue.events(), 1);
      await clock.settle();
      await closeUnder(clock, queue);
      expect(await reading).toEqual([]);
    });

    it('leaving the loop leaves no timer behind', async () => {
      const { queue, clock } = await on.still();
      await listening(queue, clock);
      const before = clock.pendingTimers;
      const events = queue.events();
      await queue.enqueue('mail', 1);
      await take(events, 1);
      await clock.settle();
      expect(clock.pendingTimers).toBe(before);
    });

    it.each(['', 'garbage', '1', '1.', '.1', '-1.0', '1.2.3', '99999999999999999999.0'])(
      'after the cursor %j are refused as INVALID_CURSOR',
      async (cursor) => {
        const { queue } = await on.still();
        await expectCode('INVALID_CURSOR', () => take(queue.events({ after: cursor }), 1));
      },
    );

    it('after a cursor of another store, which lies beyond the end, are INVALID_CURSOR with reset', async () => {
      const { queue } = await on.still();
      await queue.enqueue('mail', 1);
      const { details } = await expectCode('INVALID_CURSOR', () => take(queue.events({ after: '5000.0' }), 1));
      expect(details).toEqual({ reset: true });
    });

    it('after a cursor that is too old are INVALID_CURSOR with reset, and nothing is told as if nothing was missed', async () => {
      const { queue, clock } = await on.still();
      const events = queue.events();
      await queue.enqueue('mail', 1, { id: 'one' });
      const [first] = await take(events, 1);
      await queue.enqueue('mail', 2, { id: 'missed' });
      await clock.advance(11 * 60_000);
      // Each enqueue is a step of its own. The log keeps 10,000 steps (on SQL only those of ten minutes), trimmed now and then.
      const steps = on.engine === 'memory' || on.engine === 'redis' ? 11_000 : 300;
      for (let i = 0; i < steps; i++) await queue.enqueue('mail', 1, { deduplication: 'replace' });
      const { message, details } = await expectCode('INVALID_CURSOR', () =>
        take(queue.events({ after: first!.cursor }), 1),
      );
      expect(details).toEqual({ reset: true });
      expect(message).toContain('find');
      const fromNow = queue.events();
      const { id } = await queue.enqueue('letter', 1);
      expect((await take(fromNow, 1))[0]!.id).toBe(id);
    });

    it('go on where they were when the store was away for less than 30 s, and its answer renews the patience', async () => {
      const { state, factory } = away(on);
      const { queue, clock } = await on.still({}, factory);
      const events = queue.events();
      await clock.settle();
      const reading = standing(take(events, 2));
      const ids: string[] = [];
      for (let i = 0; i < 2; i++) {
        state.fails = 'STORE_UNAVAILABLE';
        ids.push((await queue.enqueue('mail', i)).id);
        await clock.advance(29_000);
        expect(reading.isOver).toBe(false);
        state.fails = null;
        await clock.advance(200);
      }
      expect((await reading.promise).map(({ id }) => id)).toEqual(ids);
    });

    it('reject when the store was away for 30 s, and ask by the rhythm of the poll until then', async () => {
      const { state, factory } = away(on);
      const { queue, clock } = await on.still({}, factory);
      const reading = standing(take(queue.events(), 1));
      await clock.settle();
      state.fails = 'STORE_UNAVAILABLE';
      state.asked = 0;
      await clock.advance(29_900);
      expect(reading.isOver).toBe(false);
      expect(state.asked).toBeGreaterThan(250);
      expect(state.asked).toBeLessThan(350);
      await clock.advance(300);
      expect(reading.isOver).toBe(true);
      await expectCode('STORE_UNAVAILABLE', () => reading.promise);
    });

    it('end with the signal and with the queue while the store is away or hangs', async () => {
      for (const how of ['fails', 'hangs'] as const) {
        const { state, factory } = away(on);
        const { queue, clock } = await on.still({}, factory);
        const controller = new AbortController();
        const bySignal = take(queue.events({ signal: controller.signal }), 1);
        const byQueue = take(queue.events(), 1);
        await clock.settle();
        if (how === 'fails') state.fails = 'STORE_UNAVAILABLE';
        else state.hangs = true;
        await clock.advance(1_000);
        controller.abort();
        expect(await bySignal).toEqual([]);
        state.hangs = false;
        state.fails = 'STORE_UNAVAILABLE';
        await closeUnder(clock, queue);
        expect(await byQueue).toEqual([]);
      }
    });

    it('that cannot begin say so at once: what happens meanwhile would be missed', async () => {
      const { state, factory } = away(on);
      const { queue } = await on.still({}, factory);
      state.fails = 'STORE_UNAVAILABLE';
      await expectCode('STORE_UNAVAILABLE', () => take(queue.events(), 1));
    });

    it('a refusal of another kind is told at once', async () => {
      const { state, factory } = away(on);
      const { queue, clock } = await on.still({}, factory);
      const reading = standing(take(queue.events(), 1));
      await clock.settle();
      state.fails = 'STORE_DENIED';
      await clock.advance(100);
      expect(reading.isOver).toBe(true);
      await expectCode('STORE_DENIED', () => reading.promise);
    });

    it('unknown options are refused', async () => {
      const { queue } = await on.still();
      const { message } = await expectCode('UNKNOWN_OPTION', () => queue.events({ afer: '1.0' } as never));
      expect(message).toContain('Did you mean after?');
    });
  });
});

describe('on', () => {
  eachStore((on) => {
    it('calls every listener of that name, and of no other', async () => {
      const { queue, clock } = await on.still();
      const heard: string[] = [];
      queue.on('created', ({ id }) => heard.push(`a ${id}`));
      queue.on('created', ({ id }) => heard.push(`b ${id}`));
      queue.on('cancelled', ({ id }) => heard.push(`c ${id}`));
      await queue.enqueue('mail', 1, { id: 'one' });
      await queue.enqueue('mail', 2, { id: 'two' });
      await queue.cancel('one');
      await clock.settle();
      expect(heard).toEqual(['a one', 'b one', 'a two', 'b two', 'c one']);
    });

    it.each<[string, () => unknown]>([
      [
        'throws',
        () => {
          throw new Error('listener broke');
        },
      ],
      ['rejects', () => Promise.reject(new Error('listener broke'))],
    ])('a listener that %s is logged and hurts neither the others nor the next event', async (_, broken) => {
      const { logger, lines } = recordingLogger();
      const { queue, clock } = await on.still({ logger });
      const heard: (string | undefined)[] = [];
      queue.on('created', broken);
      queue.on('created', ({ id }) => heard.push(id));
      await queue.enqueue('mail', 1, { id: 'one' });
      await queue.enqueue('mail', 2, { id: 'two' });
      await clock.settle();
      expect(heard).toEqual(['one', 'two']);
      const complaints = lines.filter(({ level }) => level === 'error');
      expect(complaints).toEqual(
        Array(2).fill({
          level: 'error',
          message: 'An event listener threw',
          fields: { event: 'created', error: 'listener broke' },
        }),
      );
    });

    it('hears what happens from the call on, at once', async () => {
      const { queue, clock } = await on.still();
      await queue.enqueue('mail', 1, { id: 'before' });
      const heard: (string | undefined)[] = [];
      queue.on('created', ({ id }) => heard.push(id));
      await queue.enqueue('mail', 2, { id: 'after' });
      await clock.settle();
      // On PostgreSQL a step of somebody else that is under way may hold events back until the next look.
      if (on.engine === 'postgres') await clock.advance(200);
      expect(heard).toEqual(['after']);
    });

    it('returns how to stop listening; the others go on, and stopping twice is stopping once', async () => {
      const { queue, clock } = await on.still();
      const heard: string[] = [];
      const stop = queue.on('created', () => heard.push('a'));
      queue.on('created', () => heard.push('b'));
      await queue.enqueue('mail', 1);
      await clock.settle();
      stop();
      stop();
      await queue.enqueue('mail', 2);
      await clock.settle();
      expect(heard).toEqual(['a', 'b', 'b']);
    });

    it('one that starts again while it is called hears the next event next, not this one again', async () => {
      const { queue, clock } = await on.still();
      const heard: string[] = [];
      queue.on('created', ({ id }) => heard.push(`other ${id}`));
      const arm = (): void => {
        const stop = queue.on('created', ({ id }) => {
          heard.push(`again ${id}`);
          if (heard.length > 10) throw new Error('without end');
          stop();
          arm();
        });
      };
      arm();
      await queue.enqueue('mail', 1, { id: 'one' });
      await queue.enqueue('mail', 2, { id: 'two' });
      await clock.settle();
      expect(heard).toEqual(['other one', 'again one', 'other two', 'again two']);
    });

    it('one that was stopped by another for the same event is not called', async () => {
      const { queue, clock } = await on.still();
      const heard: string[] = [];
      queue.on('created', () => {
        heard.push('first');
        stop();
      });
      const stop = queue.on('created', () => heard.push('second'));
      await queue.enqueue('mail', 1);
      await clock.settle();
      expect(heard).toEqual(['first']);
    });

    it('the last listener to stop ends the reading, and a new one starts it anew', async () => {
      let reads = 0;
      const counting = tapped(on.factory(), (store) => ({
        readEvents(request) {
          reads += 1;
          return store.readEvents(request);
        },
      }));
      const { queue, clock } = await on.still({}, counting);
      await listening(queue, clock);
      const before = clock.pendingTimers;
      const heard: (string | undefined)[] = [];
      queue.on('created', () => heard.push('never'))();
      const stop = queue.on('created', ({ id }) => heard.push(id));
      await queue.enqueue('mail', 1, { id: 'one' });
      await clock.settle();
      stop();
      await clock.settle();
      expect(clock.pendingTimers).toBe(before);
      const sofar = reads;
      await queue.enqueue('mail', 2, { id: 'two' });
      await clock.advance(1_000);
      expect(reads).toBe(sofar);
      queue.on('created', ({ id }) => heard.push(id));
      await queue.enqueue('mail', 3, { id: 'three' });
      await clock.settle();
      expect(heard).toEqual(['one', 'three']);
    });

    it('a log that cannot be read for a while is read from where it was left, and the failure is told once', async () => {
      let down = false;
      const flaky = tapped(on.factory(), (store) => ({
        readEvents: (request) => (down ? Promise.reject(new Error('gone')) : store.readEvents(request)),
      }));
      const { logger, lines } = recordingLogger();
      const { queue, clock } = await on.still({ logger }, flaky);
      const heard: (string | undefined)[] = [];
      queue.on('created', ({ id }) => heard.push(id));
      await clock.settle();
      down = true;
      await queue.enqueue('mail', 1, { id: 'meanwhile' });
      await clock.advance(1_000);
      expect(heard).toEqual([]);
      down = false;
      await clock.advance(1_000);
      await queue.enqueue('mail', 2, { id: 'after' });
      await clock.settle();
      expect(heard).toEqual(['meanwhile', 'after']);
      expect(lines.filter(({ level }) => level === 'warn')).toEqual([
        {
          level: 'warn',
          message: 'Reading the event log failed; it is tried again',
          fields: { error: 'The store broke off "readEvents". (cause: gone)' },
        },
      ]);
    });

    it('hears nothing after the queue is closed', async () => {
      const store = on.factory();
      const { queue, clock } = await on.still({}, store);
      const heard: string[] = [];
      queue.on('created', ({ name }) => heard.push(name));
      const other = closedAfterwards(await open(store));
      await closeUnder(clock, queue);
      await other.enqueue('mail', 1);
      await clock.settle();
      expect(heard).toEqual([]);
    });
  });
});

describe('wait', () => {
  const act = defineJob<string, string>('act', {
    attempts: 1,
    run: ({ input }) => {
      if (input === 'throw') throw new Error('no');
      return input;
    },
  });

  eachStore((on) => {
    const ends: [string, (queue: Queue) => Promise<string>, object][] = [
      ['completed', async (queue) => (await queue.enqueue(act, 'fine')).id, { state: 'completed', result: 'fine' }],
      [
        'failed',
        async (queue) => (await queue.enqueue(act, 'throw')).id,
        { state: 'failed', error: { message: 'no' } },
      ],
      ['expired', async (queue) => (await queue.enqueue('mail', 1, { ttl: '1s' })).id, { state: 'expired' }],
      ['cancelled', async (queue) => (await queue.enqueue('mail', 1)).id, { state: 'cancelled' }],
    ];
    it.each(ends)('resolves when the job is %s', async (state, start, job) => {
      const { queue, clock } = await on.still();
      const id = await start(queue);
      const waiting = queue.wait(id);
      await clock.settle();
      if (state === 'cancelled') await queue.cancel(id);
      else await queue.work([act]);
      await clock.advance(1_000);
      expect(await waiting).toMatchObject({ id, ...job });
      expect(await queue.wait(id), 'and again, at once').toMatchObject({ id, ...job });
    });

    it('needs no clock to move: the ending itself wakes it', async () => {
      const { queue } = await on.still();
      await queue.work([act]);
      for (let i = 0; i < 20; i++) {
        const { id } = await queue.enqueue(act, `${i}`);
        expect((await queue.wait(id)).result).toBe(`${i}`);
      }
    });

    it('costs one read for all who are woken together, and each gets its own job', async () => {
      const finds: number[] = [];
      const counting = tapped(on.factory(), (store) => ({
        find: (request) => {
          finds.push(request.filter.ids?.length ?? 0);
          return store.find(request);
        },
      }));
      const { queue, clock } = await on.still({}, counting);
      const jobs = await queue.enqueueMany(Array.from({ length: 250 }, (_, i) => ({ type: 'mail', input: i })));
      const waits = jobs.map(({ id }) => queue.wait(id));
      const again = queue.wait(jobs[0]!.id);
      await clock.settle();
      finds.length = 0;
      await queue.enqueue('other', 1);
      await clock.settle();
      expect(finds.length).toBeGreaterThan(0);
      // A poll may fall beside the event.
      expect(finds.length).toBeLessThanOrEqual(6);
      expect(Math.max(...finds)).toBe(100);
      await queue.cancel({ type: 'mail' });
      await clock.advance(200);
      expect((await Promise.all(waits)).map(({ id }) => id)).toEqual(jobs.map(({ id }) => id));
      expect((await again).state).toBe('cancelled');
    });

    it('follows a job through its retries', async () => {
      const { queue, clock } = await on.still();
      let runs = 0;
      const type = defineJob('twice', {
        backoff: { type: 'fixed', base: '5s' },
        run: () => {
          runs += 1;
          if (runs < 3) throw new Error('not yet');
          return runs;
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      const waiting = queue.wait(id);
      await clock.advance(10_000);
      expect(await waiting).toMatchObject({ state: 'completed', result: 3, attempts: 3 });
    });

    it('sees a job that another queue on the store ends', async () => {
      const store = on.factory();
      const [one, other] = [closedAfterwards(await open(store)), closedAfterwards(await open(store))];
      const { id } = await one.enqueue('mail', 1);
      const waiting = one.wait(id);
      await other.cancel(id);
      expect((await waiting).state).toBe('cancelled');
    });

    it('rejects with WAIT_TIMEOUT at its timeout, saying how far the job is, and the job goes on', async () => {
      const { queue, clock } = await on.still();
      const { id } = await queue.enqueue('mail', 1);
      let over = false;
      const waiting = queue.wait(id, { timeout: '2s' }).finally(() => {
        over = true;
      });
      waiting.catch(() => undefined);
      await clock.advance(1_999);
      expect(over).toBe(false);
      await clock.advance(1);
      const { details, message } = await expectCode('WAIT_TIMEOUT', () => waiting);
      expect(details).toEqual({ state: 'pending' });
      expect(message).toContain(id);
      expect(await queue.get(id)).toMatchObject({ state: 'pending' });
    });

    it('a timeout of 0 looks once', async () => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue('mail', 1);
      await expectCode('WAIT_TIMEOUT', () => queue.wait(id, { timeout: 0 }));
      await queue.cancel(id);
      expect((await queue.wait(id, { timeout: 0 })).state).toBe('cancelled');
    });

    it('outlasts a store that is away for less than 30 s, and its answer renews the patience', async () => {
      const { state, factory } = away(on);
      const { queue, clock } = await on.still({}, factory);
      const { id } = await queue.enqueue('mail', 1);
      const waiting = standing(queue.wait(id));
      for (let i = 0; i < 2; i++) {
        await clock.advance(100);
        state.fails = 'STORE_UNAVAILABLE';
        await clock.advance(29_000);
        expect(waiting.isOver).toBe(false);
        state.fails = null;
      }
      await clock.advance(100);
      await queue.cancel(id);
      await clock.advance(100);
      expect(await waiting.promise).toMatchObject({ id, state: 'cancelled' });
    });

    it('rejects when the store was away for 30 s, and asks by the rhythm of the poll until then', async () => {
      const { state, factory } = away(on);
      const { queue, clock } = await on.still({}, factory);
      const { id } = await queue.enqueue('mail', 1);
      state.fails = 'STORE_UNAVAILABLE';
      state.asked = 0;
      const waiting = standing(queue.wait(id));
      await clock.advance(29_900);
      expect(waiting.isOver).toBe(false);
      expect(state.asked).toBeGreaterThan(250);
      expect(state.asked).toBeLessThan(350);
      await clock.advance(300);
      expect(waiting.isOver).toBe(true);
      await expectCode('STORE_UNAVAILABLE', () => waiting.promise);
    });

    it.each(['fails', 'hangs'] as const)(
      'keeps its timeout while the store %s, and says why it does not know',
      async (how) => {
        const { state, factory } = away(on);
        const { queue, clock } = await on.still({}, factory);
        const { id } = await queue.enqueue('mail', 1);
        const seen = standing(queue.wait(id, { timeout: '2s' }));
        await clock.settle();
        if (how === 'fails') state.fails = 'STORE_UNAVAILABLE';
        else state.hangs = true;
        const unseen = standing(queue.wait(id, { timeout: '2s' }));
        await clock.advance(1_999);
        expect([seen.isOver, unseen.isOver]).toEqual([false, false]);
        // A look that began while the store still answered has a second at least.
        await clock.advance(how === 'fails' ? 1 : 1_000);
        expect([seen.isOver, unseen.isOver]).toEqual([true, true]);
        for (const [{ promise }, job] of [
          [seen, 'pending'],
          [unseen, null],
        ] as const) {
          const { message, details } = await expectCode('WAIT_TIMEOUT', () => promise);
          expect(message).toContain('the store cannot be reached');
          expect(details).toEqual({ state: job });
        }
      },
    );

    it('ends with its signal and with the queue while the store is away', async () => {
      const { state, factory } = away(on);
      const { queue, clock } = await on.still({}, factory);
      const { id } = await queue.enqueue('mail', 1);
      const controller = new AbortController();
      const bySignal = standing(queue.wait(id, { signal: controller.signal }));
      const byQueue = standing(queue.wait(id));
      state.fails = 'STORE_UNAVAILABLE';
      await clock.advance(1_000);
      const reason = new Error('enough');
      controller.abort(reason);
      await expect(bySignal.promise).rejects.toBe(reason);
      state.hangs = true;
      const hanging = new AbortController();
      const hung = queue.wait(id, { signal: hanging.signal });
      hung.catch(() => undefined);
      await clock.settle();
      hanging.abort(reason);
      await expect(hung).rejects.toBe(reason);
      state.hangs = false;
      expect(byQueue.isOver).toBe(false);
      await closeUnder(clock, queue);
      await expectCode('CLOSED', () => byQueue.promise);
    });

    it('a refusal of another kind is told at once', async () => {
      const { state, factory } = away(on);
      const { queue, clock } = await on.still({}, factory);
      const { id } = await queue.enqueue('mail', 1);
      const waiting = standing(queue.wait(id, { timeout: '1m' }));
      await clock.settle();
      state.fails = 'STORE_DENIED';
      await clock.advance(100);
      expect(waiting.isOver).toBe(true);
      await expectCode('STORE_DENIED', () => waiting.promise);
    });

    it('rejects with JOB_NOT_FOUND for a job that is not there, or is removed meanwhile', async () => {
      const { queue, clock } = await on.still();
      await expectCode('JOB_NOT_FOUND', () => queue.wait('nobody'));
      const { id } = await queue.enqueue('mail', 1);
      const waiting = queue.wait(id);
      waiting.catch(() => undefined);
      await clock.settle();
      await queue.remove(id);
      await expectCode('JOB_NOT_FOUND', () => waiting);
    });

    it('rejects with the reason of its signal', async () => {
      const { queue, clock } = await on.still();
      const { id } = await queue.enqueue('mail', 1);
      const controller = new AbortController();
      const waiting = queue.wait(id, { signal: controller.signal });
      waiting.catch(() => undefined);
      await clock.settle();
      const reason = new Error('enough');
      controller.abort(reason);
      await expect(waiting).rejects.toBe(reason);
      await expect(queue.wait(id, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    });

    it('rejects with CLOSED when the queue is closed', async () => {
      const { queue, clock } = await on.still();
      const { id } = await queue.enqueue('mail', 1);
      const waiting = queue.wait(id);
      waiting.catch(() => undefined);
      await clock.settle();
      await closeUnder(clock, queue);
      await expectCode('CLOSED', () => waiting);
    });

    it('looks once more after the queue was closed: an answer on its way may be older than the ending', async () => {
      const [asked, answer] = [gate(), gate()];
      let held = false;
      const factory = tapped(on.factory(), (store) => ({
        async find(request) {
          const found = await store.find(request);
          if (held || request.filter.ids === null || found.jobs[0]?.state !== 'processing') return found;
          held = true;
          asked.open();
          await answer.opened;
          return found;
        },
      }));
      const { queue, clock } = await on.still({}, factory);
      const [begun, end] = [gate(), gate()];
      const type = defineJob('slow', {
        run() {
          begun.open();
          return end.opened;
        },
      });
      const { id } = await queue.enqueue(type, null);
      await queue.work([type]);
      await begun.opened;
      const waiting = queue.wait(id);
      await asked.opened;
      const closing = queue.close();
      end.open();
      await clock.settle();
      answer.open();
      expect(await waiting).toMatchObject({ state: 'completed' });
      await closing;
    });

    it('resolves with the ending that closing itself brought about', async () => {
      const { queue, clock } = await on.still();
      const begun = gate();
      const end = gate<string>();
      const type = defineJob('slow', {
        run: async () => {
          begun.open();
          return end.opened;
        },
      });
      const { id } = await queue.enqueue(type, null);
      await queue.work([type]);
      await begun.opened;
      const waiting = queue.wait(id);
      const closing = queue.close();
      end.open('last word');
      expect(await waiting).toMatchObject({ state: 'completed', result: 'last word' });
      await clock.settle();
      expect(await closing).toMatchObject({ finished: 1 });
    });

    it('leaves no timer behind', async () => {
      const { queue, clock } = await on.still();
      await listening(queue, clock);
      const before = clock.pendingTimers;
      const { id } = await queue.enqueue('mail', 1);
      const waiting = queue.wait(id, { timeout: '50ms' });
      await clock.settle();
      await queue.cancel(id);
      await waiting;
      await clock.settle();
      expect(clock.pendingTimers).toBe(before);
    });

    it('refuses options that are none', async () => {
      const { queue } = await on.still();
      await expectCode('INVALID_DURATION', () => queue.wait('x', { timeout: '5' as never }));
      await expectCode('UNKNOWN_OPTION', () => queue.wait('x', { timout: 5 } as never));
    });
  });
});
