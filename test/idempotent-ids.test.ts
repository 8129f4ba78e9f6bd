/** A given id stands for one job while its row or tombstone exists: whoever is unsure whether a call arrived repeats it. */
import { describe, expect, it } from 'vitest';
import { cancel, defineJob, type Job, type JobOptions, open, type Queue } from '../src/index.js';
import type { FakeClock } from '../src/testing/index.js';
import { closedAfterwards, eachStore, expectCode, gate, refusalOf, tapped } from './support.js';
import { bench, engines, passing } from './worker-support.js';

const id = 'order-7';
const input = { order: 7, lines: ['a', 'b'] };

const send = (queue: Queue, given: unknown = input, options: JobOptions = {}, type = 'order') =>
  queue.enqueue(type, given, { id, ...options });

/** The same call again is answered, another one is refused, and neither changes anything. */
async function expectKnown(queue: Queue): Promise<void> {
  const before = await queue.find({ limit: 200 });
  expect(await send(queue)).toEqual({ id, outcome: 'existing' });
  const refusal = await expectCode('IDEMPOTENCY_CONFLICT', () => send(queue, { order: 8 }));
  expect(refusal.message).toContain(id);
  await expectCode('IDEMPOTENCY_CONFLICT', () => send(queue, input, {}, 'other'));
  expect(await queue.find({ limit: 200 })).toEqual(before);
}

type Life = (on: { queue: Queue; clock: FakeClock }) => Promise<unknown>;
const run = (queue: Queue, handler: () => unknown) =>
  queue.runUntilIdle([defineJob<any, any>('order', { run: handler })]);
const lives: Readonly<Record<string, Life>> = {
  'is pending': ({ queue }) => send(queue),
  'is delayed': ({ queue }) => send(queue, input, { delay: '1h' }),
  'waits for its next attempt': async ({ queue }) => {
    await send(queue);
    await run(queue, () => Promise.reject(new Error('once')));
  },
  'is completed': async ({ queue }) => {
    await send(queue);
    await run(queue, () => 'done');
  },
  'has failed': async ({ queue }) => {
    await send(queue, input, { attempts: 1 });
    await run(queue, () => Promise.reject(new Error('for good')));
  },
  'was cancelled': async ({ queue }) => {
    await send(queue);
    await run(queue, () => cancel('not needed'));
  },
  'is expired and not yet swept': async ({ queue, clock }) => {
    await queue.stopPeriodicCleanup();
    await send(queue, input, { ttl: '1s' });
    await clock.advance('2s');
  },
  'was replaced by another': async ({ queue }) => {
    await send(queue, input, { deduplication: 'replace' });
    await queue.enqueue('order', 'newer', { deduplication: 'replace' });
  },
  'was removed by hand': async ({ queue }) => {
    await send(queue);
    await queue.remove(id);
    expect(await queue.get(id)).toBeNull();
  },
  'was removed by retention': async ({ queue, clock }) => {
    await send(queue);
    await run(queue, () => 'done');
    await clock.advance('2h');
    await queue.sweep();
    expect(await queue.get(id)).toBeNull();
  },
};

eachStore((on) => {
  describe('a given id is known while its job', () => {
    it.each(Object.entries(lives))('%s', async (_state, live) => {
      const still = await on.still({ cleanup: { jobRetentionMs: 3_600_000 } });
      await live(still);
      await expectKnown(still.queue);
    });

    it('runs', async () => {
      const queue = await on.open();
      const started = gate();
      const go = gate();
      const type = defineJob<any, any>('order', {
        async run() {
          started.open();
          await go.opened;
        },
      });
      await send(queue);
      const over = queue.runUntilIdle([type]);
      await started.opened;
      expect(await send(queue)).toEqual({ id, outcome: 'existing' });
      await expectCode('IDEMPOTENCY_CONFLICT', () => send(queue, { order: 8 }));
      go.open();
      expect(await over).toEqual({ ran: 1, left: 0 });
    });
  });

  it('a tombstone is forgotten after 10,000 newer ones, and the id is free again', { timeout: 60_000 }, async () => {
    const { queue } = await on.still({ cleanup: { maxStoredJobs: 100_000 } });
    await send(queue);
    await queue.remove(id);
    const churn = async (n: number): Promise<void> => {
      await queue.enqueueMany(Array.from({ length: n }, () => ({ type: 'churn', input: 0 })));
      await queue.remove({ type: 'churn' });
    };
    for (let i = 0; i < 9; i++) await churn(1_000);
    await churn(999);
    expect(await send(queue)).toEqual({ id, outcome: 'existing' });
    await churn(2);
    expect(await send(queue, 'anything')).toEqual({ id, outcome: 'created' });
  });

  it('is compared by type and input alone: other options are ignored', async () => {
    const queue = await on.open();
    await send(queue, input, { priority: 3 });
    const others: JobOptions = { priority: -3, queue: 'other', delay: '1h', deduplication: 'replace', attempts: 9 };
    expect(await send(queue, input, others)).toEqual({ id, outcome: 'existing' });
    expect(await queue.get(id)).toMatchObject({ priority: 3, queue: 'default', maxAttempts: 3, state: 'pending' });
  });

  it.each([
    ['keys in another order', { a: 1, b: { c: [1, 2], d: null } }, { b: { d: null, c: [1, 2] }, a: 1 }, true],
    ['the same number written otherwise', { n: 1.0 }, { n: 1 }, true],
    ['a list in another order', [1, 2], [2, 1], false],
    ['a null instead of nothing', { a: null }, {}, false],
    ['a number as text', { n: 1 }, { n: '1' }, false],
    ['an empty list instead of an empty object', {}, [], false],
  ])('%s: %j and %j', async (_what, first, second, same) => {
    const queue = await on.open();
    await send(queue, first);
    if (same) expect((await send(queue, second)).outcome).toBe('existing');
    else await expectCode('IDEMPOTENCY_CONFLICT', () => send(queue, second));
  });

  it('is compared by what the schema made of the input', async () => {
    const queue = await on.open();
    const type = defineJob<any, any>('order', {
      input: {
        '~standard': {
          version: 1,
          vendor: 'test',
          validate: (value: unknown) => ({ value: { order: Number((value as { order: unknown }).order) } }),
        },
      },
    });
    expect((await queue.enqueue(type, { order: '7' }, { id })).outcome).toBe('created');
    expect((await queue.enqueue(type, { order: 7, more: true }, { id })).outcome).toBe('existing');
    await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueue(type, { order: 8 }, { id }));
  });

  it('twenty callers at once, over three queues on one store, make one job', async () => {
    const factory = on.factory();
    const queues: Queue[] = [];
    for (let i = 0; i < 3; i++) queues.push(closedAfterwards(await open(factory)));
    const sent = await Promise.all(Array.from({ length: 21 }, (_, n) => send(queues[n % 3]!)));
    expect(sent.map(({ outcome }) => outcome).toSorted()).toEqual(['created', ...Array<string>(20).fill('existing')]);
    expect((await queues[0]!.find()).items.map((job) => job.id)).toEqual([id]);
  });

  it('of callers at once with different inputs one wins, and the others are told', async () => {
    const queue = await on.open();
    const sent = await Promise.allSettled([1, 2, 3].map((order) => send(queue, { order })));
    expect(sent.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
    expect((await queue.get(id))!.input).toEqual({ order: 1 });
  });

  it('a list sent again is answered job by job; one conflict in it and nothing of it is stored', async () => {
    const queue = await on.open();
    const list = (n: number) =>
      Array.from({ length: n }, (_, i) => ({ type: 'order', input: i, options: { id: `line-${i}` } }));
    await queue.enqueueMany(list(3));
    const again = await queue.enqueueMany(list(5));
    expect(again.map(({ outcome }) => outcome)).toEqual(['existing', 'existing', 'existing', 'created', 'created']);
    const changed = [...list(7).slice(5), { type: 'order', input: 'changed', options: { id: 'line-1' } }];
    const refusal = await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueueMany(changed));
    expect(refusal.details).toMatchObject({ index: 2 });
    expect((await queue.find()).items).toHaveLength(5);
  });

  it('is answered before deduplication looks: the same call never replaces itself', async () => {
    const queue = await on.open();
    for (const outcome of ['created', 'existing'])
      expect((await send(queue, input, { deduplication: 'replace', deduplicationKey: 'k' })).outcome).toBe(outcome);
    expect(await queue.get(id)).toMatchObject({ state: 'pending' });
  });

  it('that was skipped for another job stands for nothing, and is skipped again', async () => {
    const queue = await on.open();
    const first = await queue.enqueue('order', 'first', { deduplication: 'skip' });
    for (let i = 0; i < 2; i++)
      expect(await send(queue, input, { deduplication: 'skip' })).toEqual({ id: first.id, outcome: 'skipped' });
    expect(await queue.get(id)).toBeNull();
  });

  it('keeps standing for the old job when that is retried by hand', async () => {
    const queue = await on.open();
    await send(queue, input, { attempts: 1 });
    await run(queue, () => Promise.reject(new Error('once')));
    const { items } = await queue.retry(id);
    expect(items[0]!.newId).not.toBe(id);
    await expectKnownBeside(queue, items[0]!.newId!);
  });

  async function expectKnownBeside(queue: Queue, newId: string): Promise<void> {
    await expectKnown(queue);
    expect((await queue.get(newId))!.retryOf).toBe(id);
  }

  it('that lastout made can be given too: the same input is the same job', async () => {
    const queue = await on.open();
    const made = await queue.enqueue('order', input);
    expect((await queue.enqueue('order', input, { id: made.id })).outcome).toBe('existing');
    await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueue('order', 0, { id: made.id }));
  });
});

describe.each(engines)('a caller that repeats itself on %s', (engine) => {
  const lost = (): never => {
    throw new Error('connection reset');
  };
  const only = async (queue: Queue): Promise<readonly Job[]> => (await queue.find({ limit: 200 })).items;

  it('after a lost reply gets existing, and there is one job', async () => {
    await using on = await bench(engine);
    on.wire.after.insert = lost;
    on.wire.before.find = lost; // nor can the library find out by itself
    expect((await refusalOf(() => send(on.queue))).code).toBe('RESULT_UNKNOWN');
    delete on.wire.after.insert;
    delete on.wire.before.find;
    expect(await send(on.queue)).toEqual({ id, outcome: 'existing' });
    expect(await only(on.queue)).toMatchObject([{ id, input }]);
  });

  it('after a call that never arrived gets created', async () => {
    await using on = await bench(engine);
    on.wire.before.insert = lost;
    expect((await refusalOf(() => send(on.queue))).code).toBe('RESULT_UNKNOWN');
    delete on.wire.before.insert;
    expect(await send(on.queue)).toEqual({ id, outcome: 'created' });
    expect(await only(on.queue)).toHaveLength(1);
  });

  it('one lost reply is made good by the library, and the caller hears of no trouble', async () => {
    await using on = await bench(engine);
    let calls = 0;
    on.wire.after.insert = () => void (++calls === 1 && lost());
    expect((await send(on.queue)).id).toBe(id);
    expect(await only(on.queue)).toHaveLength(1);
  });

  it('while the first call still hangs: both are answered in the end, and there is one job', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    let release!: () => void;
    const hanging = new Promise<void>((resolve) => {
      release = resolve;
    });
    on.wire.before.insert = () => hanging;
    const first = send(on.queue);
    await on.clock.settle();
    expect(await send(other.queue)).toEqual({ id, outcome: 'created' });
    release();
    expect(await first).toEqual({ id, outcome: 'existing' });
    expect(await only(on.queue)).toHaveLength(1);
  });

  it('in another process after the first gave up at its deadline, whenever the late write lands', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    let release!: () => void;
    const late = new Promise<void>((resolve) => {
      release = resolve;
    });
    on.wire.before.insert = () => late;
    on.wire.before.find = () => late;
    const first = refusalOf(() => send(on.queue));
    expect((await passing(on.clock, first, 1_000)).code).toBe('RESULT_UNKNOWN');
    expect(await send(other.queue)).toEqual({ id, outcome: 'created' });
    release();
    await on.clock.settle();
    expect(await only(other.queue)).toHaveLength(1);
  });

  it('also after the job has run and gone: it does not run a second time', async () => {
    await using on = await bench(engine);
    let runs = 0;
    on.wire.after.insert = lost;
    on.wire.before.find = lost;
    await refusalOf(() => send(on.queue));
    delete on.wire.after.insert;
    delete on.wire.before.find;
    const type = defineJob<any, any>('order', { run: () => void (runs += 1) });
    await on.queue.runUntilIdle([type]);
    await on.queue.remove(id);
    expect(await send(on.queue)).toEqual({ id, outcome: 'existing' });
    await on.queue.runUntilIdle([type]);
    expect(runs).toBe(1);
  });

  it('with a list: what arrived is existing, and nothing is stored twice', async () => {
    await using on = await bench(engine);
    const list = Array.from({ length: 5 }, (_, i) => ({ type: 'order', input: i, options: { id: `line-${i}` } }));
    on.wire.after.insert = lost;
    on.wire.before.find = lost;
    expect((await refusalOf(() => on.queue.enqueueMany(list))).code).toBe('RESULT_UNKNOWN');
    delete on.wire.after.insert;
    delete on.wire.before.find;
    const again = await on.queue.enqueueMany(list);
    expect(again.map(({ outcome }) => outcome)).toEqual(Array(5).fill('existing'));
    expect(await only(on.queue)).toHaveLength(5);
  });
});

eachStore((on) => {
  it.each([1, 2, 3])(
    'a hundred callers on a bad line who never give up make a hundred jobs (seed %i)',
    async (seed) => {
      let state = seed;
      const draw = (): number => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
      const bad = tapped(on.factory(), (store) => ({
        async insert(jobs, options) {
          if (draw() < 0.3) throw new Error('lost on the way there');
          const answers = await store.insert(jobs, options);
          if (draw() < 0.3) throw new Error('lost on the way back');
          return answers;
        },
        async find(request) {
          if (draw() < 0.5) throw new Error('lost');
          return store.find(request);
        },
      }));
      const queue = closedAfterwards(await open(bad));
      const runs = new Map<number, number>();
      const type = defineJob<any, any>('order', { run: ({ input: n }) => void runs.set(n, (runs.get(n) ?? 0) + 1) });
      const insist = async (n: number): Promise<void> => {
        for (let tries = 0; tries < 200; tries++) {
          try {
            await queue.enqueue(type, n, { id: `order-${n}` });
            return;
          } catch (error) {
            expect((error as { code?: string }).code).toBe('RESULT_UNKNOWN');
          }
        }
        expect.unreachable('the line was never good');
      };
      const worker = await queue.work([type]);
      await Promise.all(Array.from({ length: 100 }, (_, n) => insist(n)));
      await worker.stop();
      await queue.runUntilIdle([type]);
      expect(runs.size).toBe(100);
      expect([...runs.values()].every((n) => n === 1)).toBe(true);
      expect((await queue.stats()).total).toMatchObject({ completed: 100, pending: 0, processing: 0 });
    },
  );
});

eachStore((on) => {
  describe('an id from the input', () => {
    const order = defineJob<{ order: number; note?: string }>('order', { id: ({ order }) => `order-${order}` });

    it('makes the same input the same job, and another input of the same id a conflict', async () => {
      const queue = await on.open();
      expect(await queue.enqueue(order, { order: 7 })).toEqual({ id: 'order-7', outcome: 'created' });
      expect(await queue.enqueue(order, { order: 7 })).toEqual({ id: 'order-7', outcome: 'existing' });
      await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueue(order, { order: 7, note: 'again' }));
      const [a, b] = await queue.enqueueMany([
        { type: order, input: { order: 7 } },
        { type: order, input: { order: 8 } },
      ]);
      expect([a.outcome, b.outcome]).toEqual(['existing', 'created']);
    });

    it('gives way to the id of the call, is checked, and names its type where it throws', async () => {
      const queue = await on.open();
      expect((await queue.enqueue(order, { order: 7 }, { id: 'mine' })).id).toBe('mine');
      const bad = defineJob<string>('bad', { id: (text) => text });
      await expectCode('INVALID_ID', () => queue.enqueue(bad, 'no id at all'));
      const broken = defineJob<{ of?: { id: string } }>('broken', { id: (input) => input.of!.id });
      await expect(queue.enqueue(broken, {})).rejects.toThrow(/id of job type "broken" threw/);
      expect(() => defineJob('fixed', { id: 'not an id' })).toThrow(/must match/);
    });

    it('is not that of the ticks of a schedule', async () => {
      const { queue, clock } = await on.still();
      await queue.schedule('hourly', order, { order: 7 }, { every: '1h' });
      await clock.advance('3h');
      const ids = (await queue.find({ type: 'order' })).items.map((job) => job.id);
      expect(new Set(ids).size).toBe(3);
      expect(ids).not.toContain('order-7');
    });
  });
});
