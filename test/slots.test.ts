// Slots with a bounded waiting line: how many run, who waits, who is turned away, and that none leaks.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { slotsOn } from '../src/core/slots.js';
import { BackpressureError, createSlots, LastoutError, type SlotOptions } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { fakeClock } from '../src/testing/index.js';
import { expectCode } from './support.js';

/** Whether a promise is settled, after everything that can run has run. */
async function stateOf(promise: Promise<unknown>): Promise<'waiting' | 'granted' | 'refused'> {
  let state: 'waiting' | 'granted' | 'refused' = 'waiting';
  promise.then(
    () => (state = 'granted'),
    () => (state = 'refused'),
  );
  await new Promise<void>((resolve) => setImmediate(resolve));
  return state;
}

describe('slots', () => {
  it('grants up to maxConcurrent at once, lets maxWaiting wait, and turns away the next', async () => {
    const slots = createSlots({ maxConcurrent: 2, maxWaiting: 3 });
    const granted = [slots.acquire(), slots.acquire()];
    for (const slot of granted) expect(await stateOf(slot)).toBe('granted');
    const waiting = [slots.acquire(), slots.acquire(), slots.acquire()];
    for (const slot of waiting) expect(await stateOf(slot)).toBe('waiting');
    expect([slots.running, slots.waiting]).toEqual([2, 3]);
    await expect(slots.acquire()).rejects.toBeInstanceOf(BackpressureError);
    expect([slots.running, slots.waiting]).toEqual([2, 3]);
  });

  it('turns away with a BackpressureError named so, "Queue is full", BACKPRESSURE', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 0 });
    await slots.acquire();
    const error: unknown = await slots.acquire().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(BackpressureError);
    expect(error).toBeInstanceOf(LastoutError);
    expect(error).toMatchObject({ name: 'BackpressureError', message: 'Queue is full', code: 'BACKPRESSURE' });
  });

  it('with an empty line allowed only, a free slot is still granted', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 0 });
    const release = await slots.acquire();
    release();
    expect(await stateOf(slots.acquire())).toBe('granted');
  });

  it('grants in the order of the calls', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 10 });
    const release = await slots.acquire();
    const order: number[] = [];
    const runs = [1, 2, 3, 4, 5].map(async (n) => {
      const done = await slots.acquire();
      order.push(n);
      done();
    });
    release();
    await Promise.all(runs);
    expect(order).toEqual([1, 2, 3, 4, 5]);
    expect([slots.running, slots.waiting]).toEqual([0, 0]);
  });

  it('a newcomer does not overtake those in line when a slot becomes free', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 10 });
    const release = await slots.acquire();
    const first = slots.acquire();
    release();
    const second = slots.acquire();
    expect(await stateOf(first)).toBe('granted');
    expect(await stateOf(second)).toBe('waiting');
  });

  it('releasing twice is releasing once', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 5 });
    const release = await slots.acquire();
    const [second, third] = [slots.acquire(), slots.acquire()];
    release();
    release();
    release();
    expect(await stateOf(second)).toBe('granted');
    expect(await stateOf(third)).toBe('waiting');
    expect([slots.running, slots.waiting]).toEqual([1, 1]);
  });

  it('aborting while in line gives the place up and rejects with the reason', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 2 });
    const release = await slots.acquire();
    const controller = new AbortController();
    const [leaving, staying] = [slots.acquire(controller.signal), slots.acquire()];
    const reason = new Error('no longer wanted');
    controller.abort(reason);
    await expect(leaving).rejects.toBe(reason);
    expect(slots.waiting).toBe(1);
    release();
    expect(await stateOf(staying)).toBe('granted');
  });

  it('a signal that is already aborted takes no slot and no place', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 1 });
    await expect(slots.acquire(AbortSignal.abort(new Error('late')))).rejects.toThrow('late');
    expect([slots.running, slots.waiting]).toEqual([0, 0]);
  });

  it('aborting after the slot was granted changes nothing', async () => {
    const slots = createSlots({ maxConcurrent: 1, maxWaiting: 1 });
    const hold = await slots.acquire();
    const controller = new AbortController();
    const waiting = slots.acquire(controller.signal);
    hold();
    const release = await waiting;
    controller.abort();
    expect(slots.running).toBe(1);
    release();
    expect(slots.running).toBe(0);
  });

  it('waits in line no longer than the timeout', async () => {
    const clock = fakeClock();
    const slots = slotsOn(createSystem(clock), { maxConcurrent: 1, maxWaiting: 5, timeout: '2s' });
    const release = await slots.acquire();
    const waiting = slots.acquire();
    waiting.catch(() => undefined);
    await clock.advance(1_999);
    expect(await stateOf(waiting)).toBe('waiting');
    await clock.advance(1);
    await expectCode('TIMEOUT', () => waiting);
    expect(slots.waiting).toBe(0);
    release();
    expect([slots.running, clock.pendingTimers]).toEqual([0, 0]);
  });

  it('who was granted a slot in time is not timed out later', async () => {
    const clock = fakeClock();
    const slots = slotsOn(createSystem(clock), { maxConcurrent: 1, maxWaiting: 5, timeout: '2s' });
    const release = await slots.acquire();
    const waiting = slots.acquire();
    release();
    await waiting;
    await clock.advance(10_000);
    expect([slots.running, clock.pendingTimers]).toEqual([1, 0]);
  });

  it('disposing refuses everyone in line and every later call with SLOTS_CLOSED "Queue destroyed"', async () => {
    const clock = fakeClock();
    const slots = slotsOn(createSystem(clock), { maxConcurrent: 1, maxWaiting: 5, timeout: '2s' });
    const release = await slots.acquire();
    const waiting = [slots.acquire(), slots.acquire()];
    slots[Symbol.dispose]();
    for (const slot of [...waiting, slots.acquire()])
      await expect(slot).rejects.toMatchObject({ code: 'SLOTS_CLOSED', message: 'Queue destroyed' });
    expect([slots.running, slots.waiting, clock.pendingTimers]).toEqual([1, 0, 0]);
    release();
    expect(slots.running).toBe(0);
    slots[Symbol.dispose]();
    await expectCode('SLOTS_CLOSED', () => slots.acquire());
  });

  it('100 failures and 100 successes leave no slot taken and nobody in line', async () => {
    const slots = createSlots({ maxConcurrent: 5, maxWaiting: 195 });
    let most = 0;
    const run = async (n: number): Promise<void> => {
      const release = await slots.acquire();
      try {
        most = Math.max(most, slots.running);
        await new Promise<void>((resolve) => setImmediate(resolve));
        if (n % 2 === 0) throw new Error(`run ${n} failed`);
      } finally {
        release();
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: 200 }, (_, n) => run(n)));
    expect(ends.filter(({ status }) => status === 'rejected')).toHaveLength(100);
    expect(most).toBe(5);
    expect([slots.running, slots.waiting]).toEqual([0, 0]);
    const all = await Promise.all(Array.from({ length: 5 }, () => slots.acquire()));
    expect(all).toHaveLength(5);
  });

  it('whatever happens in whatever order, running and waiting stay within their bounds and nothing leaks', async () => {
    const action = fc.oneof(
      fc.constant({ kind: 'acquire' } as const),
      fc.record({ kind: fc.constant('release' as const), which: fc.nat(20) }),
      fc.record({ kind: fc.constant('abort' as const), which: fc.nat(20) }),
      fc.record({ kind: fc.constant('advance' as const), ms: fc.nat(1_500) }),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 3 }),
        fc.nat(3),
        fc.array(action, { maxLength: 40 }),
        async (maxConcurrent, maxWaiting, script) => {
          const clock = fakeClock();
          const slots = slotsOn(createSystem(clock), { maxConcurrent, maxWaiting, timeout: 1_000 });
          const releases: (() => void)[] = [];
          const controllers: AbortController[] = [];
          const calls: Promise<unknown>[] = [];
          for (const step of script) {
            if (step.kind === 'acquire') {
              const controller = new AbortController();
              controllers.push(controller);
              calls.push(
                slots.acquire(controller.signal).then(
                  (release) => releases.push(release),
                  () => undefined,
                ),
              );
            } else if (step.kind === 'release') releases[step.which]?.();
            else if (step.kind === 'abort') controllers[step.which]?.abort();
            else await clock.advance(step.ms);
            await Promise.resolve();
            expect(slots.running).toBeLessThanOrEqual(maxConcurrent);
            expect(slots.waiting).toBeLessThanOrEqual(maxWaiting);
            if (slots.waiting > 0) expect(slots.running).toBe(maxConcurrent);
          }
          await clock.advance(2_000);
          await Promise.all(calls);
          for (const release of releases) release();
          expect([slots.running, slots.waiting, clock.pendingTimers]).toEqual([0, 0, 0]);
        },
      ),
      { numRuns: 50 },
    );
  });

  it.each([
    [{ maxConcurrent: 0, maxWaiting: 1 }, 'INVALID_LIMIT'],
    [{ maxConcurrent: 1.5, maxWaiting: 1 }, 'INVALID_LIMIT'],
    [{ maxConcurrent: 1, maxWaiting: -1 }, 'INVALID_LIMIT'],
    [{ maxConcurrent: 1 }, 'INVALID_LIMIT'],
    [{ maxConcurrent: '2', maxWaiting: 1 }, 'INVALID_LIMIT'],
    [{ maxConcurrent: 1, maxWaiting: 1, timeout: '5' }, 'INVALID_DURATION'],
    [{ maxConcurrent: 1, maxWaiting: 1, timout: 5 }, 'UNKNOWN_OPTION'],
    [null, 'UNKNOWN_OPTION'],
  ] as const)('options %j are refused', async (options, code) => {
    await expectCode(code, () => createSlots(options as unknown as SlotOptions));
  });
});
