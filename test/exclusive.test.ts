/** exclusiveKey: one job per key has the turn, within its queue and type; nobody waits for a turn that no one has. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cancel, fail, type Job, snooze } from '../src/index.js';
import { expectNothingLeft } from '../src/testing/index.js';
import {
  bench,
  type Bench,
  claimRequest,
  engines,
  holding,
  jobType,
  passing,
  rejected,
  stateOf,
  until,
} from './worker-support.js';

async function started(on: Bench, held: { started: string[] }, count: number): Promise<void> {
  await until(on.clock, () => held.started.length >= count, `${count} starts`);
  await on.clock.advance(500);
  expect(held.started).toHaveLength(count);
}

describe.each(engines)('one turn per key on %s', (engine) => {
  it('never two at once, first come first served, whatever slots are free', async () => {
    await using on = await bench(engine);
    const held = holding('keyed', { exclusiveKey: 'site' });
    const ids = (await on.queue.enqueueMany(Array.from({ length: 5 }, (_, input) => ({ type: held.type, input })))).map(
      ({ id }) => id,
    );
    await on.queue.work([held.type], { concurrency: 10 });
    const other = await on.another();
    await other.queue.work([held.type], { concurrency: 10 });
    for (let n = 1; n <= 5; n++) {
      await started(on, held, n);
      expect((await on.queue.stats()).total).toMatchObject({ processing: 1, pending: 5 - n });
      held.end(held.started.at(-1)!);
    }
    await until(on.clock, async () => (await on.queue.stats()).total.completed === 5);
    expect(held.started).toEqual(ids);
  });

  it('within a key the order is priority, due time, insertion', async () => {
    await using on = await bench(engine);
    const order: unknown[] = [];
    const type = jobType('line', ({ input }) => void order.push(input), { exclusiveKey: 'k' });
    const first = holding('line', { exclusiveKey: 'k' });
    const blocker = await on.queue.enqueue(first.type, 'first');
    const worker = await on.queue.work([first.type]);
    await started(on, first, 1);
    await on.queue.enqueue(type, 'later', { delay: '2s' });
    await on.queue.enqueue(type, 'plain');
    await on.queue.enqueue(type, 'plain too');
    await on.queue.enqueue(type, 'urgent', { priority: -5 });
    await on.clock.advance(3_000);
    const stopping = worker.stop();
    first.end(blocker.id);
    await passing(on.clock, stopping);
    await on.queue.work([type]);
    await until(on.clock, () => order.length === 4);
    expect(order).toEqual(['urgent', 'plain', 'plain too', 'later']);
  });

  it('other keys, other types, other queues and jobs without a key go past', async () => {
    await using on = await bench(engine);
    const held = holding('a');
    const alike = holding('b');
    await on.queue.work([held.type, alike.type], { concurrency: 10 });
    await on.queue.enqueue(held.type, 'has the turn', { exclusiveKey: 'k' });
    await on.queue.enqueueMany(
      Array.from({ length: 300 }, (_, input) => ({ type: held.type, input, options: { exclusiveKey: 'k' } })),
    );
    await started(on, held, 1);
    const claimed = on.wire.of('claim').length;
    await on.queue.enqueue(held.type, 'other key', { exclusiveKey: 'k2' });
    await on.queue.enqueue(held.type, 'other queue', { exclusiveKey: 'k', queue: 'q' });
    await on.queue.enqueue(held.type, 'no key');
    await on.queue.enqueue(alike.type, 'other type', { exclusiveKey: 'k' });
    await started(on, held, 4);
    await started(on, alike, 1);
    expect(on.wire.of('claim').length - claimed).toBeLessThan(40);
    expect((await on.queue.stats()).total).toMatchObject({ processing: 5, pending: 300 });
  });

  it('the turn passes in the step that ends it, however it ends', async () => {
    await using on = await bench(engine);
    const held = holding('passes', { exclusiveKey: 'k', backoff: { type: 'fixed', base: '1h', jitter: 0 } });
    const endings: unknown[] = [
      'value',
      rejected(new Error('thrown')),
      fail('no'),
      cancel('no'),
      snooze('1h'),
      () => undefined, // a result that cannot be stored
    ];
    await on.queue.work([held.type], { poll: '1h' });
    await on.queue.enqueueMany(Array.from({ length: endings.length + 1 }, (_, input) => ({ type: held.type, input })));
    for (const [index, ending] of endings.entries()) {
      await until(on.clock, () => held.started.length === index + 1);
      held.end(held.started.at(-1)!, ending);
    }
    await until(on.clock, () => held.started.length === endings.length + 1);
    expect(new Set(held.started).size).toBe(endings.length + 1);
    expect(on.clock.monotonic()).toBe(0);
  });

  it('a ready job that is cancelled, removed, expired or moved passes its turn on', async () => {
    await using on = await bench(engine);
    const options = { exclusiveKey: 'k' };
    const enqueue = (input: string, more: object = {}) => on.queue.enqueue('ready', input, { ...options, ...more });
    const cancelled = await enqueue('cancelled');
    const removed = await enqueue('removed');
    const expired = await enqueue('expired', { ttl: '1s' });
    const moved = await enqueue('moved');
    const last = await enqueue('last');
    await on.queue.cancel(cancelled.id);
    await on.queue.remove(removed.id);
    await on.clock.advance(5_000);
    expect(await stateOf(on.queue, expired.id)).toBe('expired');
    await on.queue.reschedule(moved.id, { delay: '1h' });
    const ran: string[] = [];
    await on.queue.work([jobType('ready', ({ job }) => void ran.push(job.id))]);
    await until(on.clock, () => ran.length === 1);
    expect(ran).toEqual([last.id]);
  });

  it('a job behind can be cancelled or moved without disturbing the line', async () => {
    await using on = await bench(engine);
    const held = holding('line', { exclusiveKey: 'k' });
    await on.queue.work([held.type]);
    const [first, second, third, fourth] = await on.queue.enqueueMany(
      Array.from({ length: 4 }, (_, input) => ({ type: held.type, input })),
    );
    await started(on, held, 1);
    expect((await on.queue.cancel(second!.id)).items[0]!.outcome).toBe('cancelled');
    await on.queue.reschedule(fourth!.id, { priority: -1 });
    held.end(first!.id);
    await started(on, held, 2);
    held.end(fourth!.id);
    await started(on, held, 3);
    expect(held.started).toEqual([first!.id, fourth!.id, third!.id]);
  });

  it('a claim that lapses passes the turn on, and the job stands in line again', async () => {
    await using on = await bench(engine);
    const held = holding('lapses', { exclusiveKey: 'k' });
    const [first, second] = await on.queue.enqueueMany([
      { type: held.type, input: 1 },
      { type: held.type, input: 2 },
    ]);
    const { jobs } = await on.store.claim(claimRequest(['lapses'], { slots: 10 }));
    expect(jobs.map(({ id }) => id)).toEqual([first.id]);
    expect((await on.store.claim(claimRequest(['lapses'], { slots: 10 }))).jobs).toEqual([]);
    await on.clock.advance(35_000);
    await on.queue.work([held.type]);
    await started(on, held, 1);
    held.end(held.started[0]!);
    await started(on, held, 2);
    expect([...held.started].sort()).toEqual([first.id, second.id].sort());
  });

  it('a dead worker blocks its key no longer than its lease and one tending', async () => {
    await using on = await bench(engine);
    const type = jobType('graves', () => 'ran', { exclusiveKey: 'k', attempts: 1 });
    await on.queue.enqueue(type, 'dies with its worker');
    await on.store.claim(claimRequest(['graves'], { maxStalls: 1 }));
    const { id } = await on.queue.enqueue(type, 'next');
    await on.queue.work([type]);
    await on.clock.advance(29_000);
    expect(await stateOf(on.queue, id)).toBe('pending');
    await on.clock.advance(6_000);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
  });

  it('with skip there is never more than one processing and one pending', async () => {
    await using on = await bench(engine);
    const held = holding('build', { exclusiveKey: 'k', deduplication: 'skip', deduplicationKey: 'k' });
    await on.queue.work([held.type], { concurrency: 10 });
    await on.queue.enqueue(held.type, 0);
    await started(on, held, 1);
    for (let n = 0; n < 20; n++) await on.queue.enqueue(held.type, n);
    expect((await on.queue.stats()).total).toMatchObject({ processing: 1, pending: 1 });
    held.end(held.started[0]!);
    await started(on, held, 2);
    held.end(held.started[1]!);
    await until(on.clock, async () => (await on.queue.stats()).total.completed === 2);
    await expectNothingLeft(on.queue);
  });
});

// ---- any history ------------------------------------------------------------------------------------------------

const keys = ['red', 'green', null] as const;
const words = fc.constantFrom('value', 'throw', 'fail', 'snooze', 'cancel');
const enqueue = fc.record({
  op: fc.constant('enqueue' as const),
  key: fc.constantFrom(...keys),
  delay: fc.constantFrom(0, 0, 300, 2_000),
  priority: fc.integer({ min: -1, max: 1 }),
  ttl: fc.constantFrom(null, null, null, 4_000),
  /** What its runs say, one after the other; then it completes. */
  says: fc.array(words, { maxLength: 3 }),
  takes: fc.constantFrom(0, 0, 50, 1_500),
});
const operation = fc.oneof(
  { weight: 5, arbitrary: enqueue },
  { weight: 3, arbitrary: fc.record({ op: fc.constant('wait' as const), ms: fc.constantFrom(0, 40, 500, 3_000) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('cancel', 'reschedule', 'remove'), nth: fc.nat(20) }) },
  { weight: 1, arbitrary: fc.record({ op: fc.constantFrom('die' as const, 'restart' as const, 'pause' as const) }) },
);

describe.each(engines)('after any history on %s', (engine) => {
  it('no key ever ran twice at once, and everybody ran in the end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 5, maxLength: 25 }), fc.integer({ min: 1, max: 4 }), replay),
      { numRuns: engine === 'postgres' || engine === 'redis' ? 15 : 40 },
    );
  });

  async function replay(operations: readonly any[], concurrency: number): Promise<void> {
    await using on = await bench(engine);
    const busy = new Map<string, number>();
    const overlaps: string[] = [];
    const runs = new Map<string, number>();
    const type = jobType(
      'any',
      async ({ input, job, signal }) => {
        const run = runs.get(job.id) ?? 0;
        runs.set(job.id, run + 1);
        const key = job.exclusiveKey;
        if (key !== null) {
          busy.set(key, (busy.get(key) ?? 0) + 1);
          if (busy.get(key)! > 1) overlaps.push(key);
        }
        await new Promise<void>((resolve) => {
          if (input.takes === 0) return resolve();
          on.clock.timer(input.takes, resolve);
          signal.addEventListener('abort', () => resolve());
        });
        if (key !== null) busy.set(key, busy.get(key)! - 1);
        signal.throwIfAborted();
        return say(input.says[run] ?? 'value');
      },
      { attempts: 5, backoff: { type: 'fixed', base: 200, jitter: 0 } },
    );
    const ids: string[] = [];
    let worker = await on.queue.work([type], { concurrency, poll: 1_000 });
    const second = await on.another();
    await second.queue.work([type], { concurrency, poll: 1_000 });

    const acts: Record<string, (operation: any) => Promise<unknown>> = {
      enqueue: async ({ key, delay, priority, ttl, says, takes }) => {
        const options = { delay, priority, ...(key !== null && { exclusiveKey: key }), ...(ttl !== null && { ttl }) };
        ids.push((await on.queue.enqueue(type, { says, takes }, options)).id);
      },
      wait: ({ ms }) => on.clock.advance(ms),
      cancel: async ({ nth }) => ids[nth] && on.queue.cancel(ids[nth]),
      reschedule: async ({ nth }) => ids[nth] && on.queue.reschedule(ids[nth], { delay: 100 }),
      remove: async ({ nth }) => ids[nth] && on.queue.remove(ids[nth]),
      die: () => on.store.claim(claimRequest(['any'], { slots: 2, ahead: 1 })),
      pause: async () => {
        await on.queue.pause();
        await on.clock.advance(200);
        await on.queue.resume();
      },
      restart: async () => {
        await passing(on.clock, worker.stop({ grace: 0 }));
        worker = await on.queue.work([type], { concurrency, poll: 1_000 });
      },
    };
    for (const each of operations) await acts[each.op]!(each);
    await on.clock.advance(180_000);

    expect(overlaps).toEqual([]);
    await expectNothingLeft(on.queue);
    for (const id of ids) {
      const job: Job | null = await on.queue.get(id);
      if (job?.state === 'completed') expect(runs.get(id)).toBeGreaterThan(0);
    }
  }
});

function say(word: string): unknown {
  if (word === 'throw') throw new Error('thrown');
  return word === 'fail' ? fail('no') : word === 'cancel' ? cancel('no') : word === 'snooze' ? snooze(300) : word;
}
