/** The worker's loop: slots, batches, wake-ups, order, and what is claimed ahead. */
import { describe, expect, it } from 'vitest';
import { defineJob, handle } from '../src/index.js';
import { expectNothingLeft } from '../src/testing/index.js';
import {
  bench,
  type Bench,
  claimRequest,
  codeOf,
  engines,
  gate,
  holding,
  jobType,
  passing,
  stateOf,
  until,
} from './worker-support.js';

function many(type: any, count: number, options: (index: number) => object = () => ({})) {
  return Array.from({ length: count }, (_, index) => ({ type, input: index, options: options(index) }));
}

async function allDone({ queue, clock }: Pick<Bench, 'queue' | 'clock'>, count: number): Promise<void> {
  await until(clock, async () => (await queue.stats()).total.completed === count, `${count} completed jobs`);
}

describe.each(engines)('slots and batches on %s', (engine) => {
  it('never runs more handlers at once than its concurrency', async () => {
    await using on = await bench(engine);
    let running = 0;
    let most = 0;
    const type = jobType('counted', async ({ input }) => {
      running += 1;
      most = Math.max(most, running);
      for (let turn = 0; turn < Number(input) % 5; turn++) await on.clock.settle();
      running -= 1;
    });
    await on.queue.enqueueMany(many(type, 60));
    await on.queue.work([type], { concurrency: 4 });
    await allDone(on, 60);
    expect(most).toBe(4);
    await expectNothingLeft(on.queue);
  });

  it('claims in one call as many jobs as it has free slots', async () => {
    await using on = await bench(engine);
    const held = holding('held');
    await on.queue.enqueueMany(many(held.type, 12));
    await on.queue.work([held.type], { concurrency: 8 });
    await until(on.clock, () => held.started.length === 8);
    const withJobs = on.wire.of('claim').filter(({ reply }) => reply.jobs.length > 0);
    expect(withJobs.map(({ request, reply }) => [request.slots, reply.jobs.length])).toEqual([[8, 8]]);
    held.end(held.started[0]!);
    held.end(held.started[1]!);
    await until(on.clock, () => held.started.length === 10);
    const later = [...on.wire.of('settle').map(({ request }) => request.next), ...on.wire.of('claim').slice(1)];
    for (const request of later) expect(request?.slots ?? 0).toBeLessThanOrEqual(2);
    held.endAll();
    await until(on.clock, () => held.started.length === 12);
    held.endAll();
    await allDone(on, 12);
  });

  it('extends all its claims with one heartbeat', async () => {
    await using on = await bench(engine);
    const held = holding('held');
    await on.queue.work([held.type], { concurrency: 10 });
    for (let n = 0; n < 5; n++) {
      await on.queue.enqueue(held.type, n);
      await until(on.clock, () => held.started.length === n + 1);
    }
    on.wire.calls.length = 0;
    await on.clock.advance(10_000);
    const [beat, ...more] = on.wire.of('extend');
    expect(more).toHaveLength(0);
    expect(beat!.request.claims.flatMap(({ ids }: { ids: string[] }) => ids).sort()).toEqual([...held.started].sort());
    await on.clock.advance(10_000);
    expect(on.wire.of('extend')).toHaveLength(2);
  });

  it('shows its card with each heartbeat, also while it holds nothing', async () => {
    await using on = await bench(engine);
    const type = jobType('quick', () => 1);
    await on.queue.work([type]);
    await on.queue.enqueue(type, null);
    await allDone(on, 1);
    on.wire.calls.length = 0;
    await on.clock.advance(60_000);
    const beats = on.wire.of('extend').map(({ request }) => request);
    expect(beats).toHaveLength(6);
    for (const beat of beats) expect(beat).toMatchObject({ claims: [], card: { types: ['quick'], queues: null } });
  });

  it('asks for no more jobs at a time than the endings that one exchange carries', async () => {
    await using on = await bench(engine);
    let ran = 0;
    const type = jobType('short', () => void (ran += 1));
    for (let i = 0; i < 3; i++) await on.queue.enqueueMany(many(type, 1_000));
    await on.queue.work([type], { concurrency: 100 });
    await until(on.clock, () => ran === 3_000);
    const claims = on.wire.of('claim').map(({ request }) => request);
    const carried = on.wire.of('settle').flatMap(({ request }) => request.next ?? []);
    expect(Math.max(...[...claims, ...carried].map(({ slots, ahead }) => slots + ahead))).toBe(500);
  });

  it('settles the jobs that end in one turn together', async () => {
    await using on = await bench(engine);
    const start = gate();
    let started = 0;
    const type = jobType('together', async () => {
      started += 1;
      await start.passed;
    });
    await on.queue.enqueueMany(many(type, 100));
    await on.queue.work([type], { concurrency: 100 });
    await until(on.clock, () => started === 100);
    start.open();
    await allDone(on, 100);
    const settles = on.wire.of('settle');
    expect(settles.flatMap(({ request }) => request.settlements)).toHaveLength(100);
    expect(settles.length).toBeLessThanOrEqual(3);
  });

  it('asks for the next jobs in the call that settles the last ones', async () => {
    await using on = await bench(engine);
    const type = jobType('chain', () => null);
    await on.queue.pause();
    await on.queue.enqueueMany(many(type, 10));
    await on.queue.work([type], { concurrency: 1 });
    await on.queue.resume();
    await allDone(on, 10);
    const carried = on.wire.of('settle').filter(({ request, reply }) => request.next && reply.claimed?.jobs.length > 0);
    expect(carried.length).toBeGreaterThanOrEqual(9);
    expect(on.wire.of('claim').filter(({ reply }) => reply.jobs.length > 0)).toHaveLength(1);
  });
});

describe.each(engines)('waking up on %s', (engine) => {
  it('starts a new job at once, without the clock moving', async () => {
    await using on = await bench(engine);
    const type = jobType('at-once', () => 'done');
    await on.queue.work([type], { poll: '1h' });
    await on.clock.settle();
    const before = on.clock.now();
    const { id } = await on.queue.enqueue(type, null);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    expect(on.clock.now()).toEqual(before);
  });

  it('B74: a sooner delayed job shortens the sleep', async () => {
    await using on = await bench(engine);
    const type = jobType('sooner', () => null);
    await on.queue.work([type], { poll: '2h' });
    await on.clock.settle();
    const late = await on.queue.enqueue(type, 1, { delay: '1h' });
    await on.clock.settle();
    const soon = await on.queue.enqueue(type, 2, { delay: '1s' });
    await on.clock.advance(999);
    expect(await stateOf(on.queue, soon.id)).toBe('pending');
    await on.clock.advance(1);
    await until(on.clock, async () => (await stateOf(on.queue, soon.id)) === 'completed');
    expect(await stateOf(on.queue, late.id)).toBe('pending');
    expect((await on.queue.get(soon.id))!.startedAt).toEqual(on.clock.now());
  });

  it('runs both of two delayed jobs at their time, whatever the poll', async () => {
    await using on = await bench(engine);
    const type = jobType('both', () => null);
    await on.queue.work([type], { poll: '10h' });
    const first = await on.queue.enqueue(type, 1, { delay: '1s' });
    const second = await on.queue.enqueue(type, 2, { delay: '1h' });
    await on.clock.advance(1_000);
    await until(on.clock, async () => (await stateOf(on.queue, first.id)) === 'completed');
    await on.clock.advance(3_599_000);
    await until(on.clock, async () => (await stateOf(on.queue, second.id)) === 'completed');
    expect((await on.queue.get(second.id))!.startedAt).toEqual(on.clock.now());
  });

  it('a stream of later jobs does not postpone one that becomes due', async () => {
    await using on = await bench(engine);
    const type = jobType('stream', () => null);
    await on.queue.work([type], { poll: 100 });
    await on.clock.settle();
    const { id } = await on.queue.enqueue(type, 0, { delay: 50 });
    for (let n = 1; n <= 10; n++) {
      await on.clock.advance(40);
      await on.queue.enqueue(type, n, { delay: 95 });
    }
    const job = (await on.queue.get(id))!;
    expect(job.state).toBe('completed');
    expect(job.startedAt!.getTime() - job.scheduledFor.getTime()).toBe(0);
  });

  it('a resumed queue goes on at once', async () => {
    await using on = await bench(engine);
    const type = jobType('resumed', () => null);
    await on.queue.work([type], { poll: '1h' });
    await on.queue.pause('default');
    const { id } = await on.queue.enqueue(type, null);
    await on.clock.advance(1_000);
    expect(await stateOf(on.queue, id)).toBe('pending');
    await on.queue.resume('default');
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
  });

  it('pause stops claims, not what runs', async () => {
    await using on = await bench(engine);
    const held = holding('paused');
    await on.queue.work([held.type], { concurrency: 5 });
    const running = await on.queue.enqueue(held.type, 1);
    await until(on.clock, () => held.started.length === 1);
    await on.queue.pause();
    const waiting = await on.queue.enqueue(held.type, 2);
    held.end(running.id, 'ran');
    await until(on.clock, async () => (await stateOf(on.queue, running.id)) === 'completed');
    await on.clock.advance(5_000);
    expect(await stateOf(on.queue, waiting.id)).toBe('pending');
    expect(held.started).toEqual([running.id]);
  });

  it('polling alone runs everything within one poll', async () => {
    await using on = await bench(engine, { deaf: true });
    const type = jobType('polled', () => null);
    await on.queue.work([type], { poll: 500, concurrency: 3 });
    await on.clock.advance(10);
    const now = await on.queue.enqueue(type, 1);
    await on.clock.advance(500);
    expect(await stateOf(on.queue, now.id)).toBe('completed');

    const delayed = await on.queue.enqueue(type, 2, { delay: 1_250 });
    await on.clock.advance(1_249);
    expect(await stateOf(on.queue, delayed.id)).toBe('pending');
    await on.clock.advance(501);
    expect(await stateOf(on.queue, delayed.id)).toBe('completed');

    await on.queue.pause();
    const resumed = await on.queue.enqueue(type, 3);
    await on.clock.advance(2_000);
    expect(await stateOf(on.queue, resumed.id)).toBe('pending');
    await on.queue.resume();
    await on.clock.advance(500);
    expect(await stateOf(on.queue, resumed.id)).toBe('completed');

    await on.queue.pause();
    const recovered = await on.queue.enqueue(type, 4);
    await on.queue.resume();
    const byHand = await on.store.claim(claimRequest(['polled'], { leaseMs: 2_000 }));
    expect(byHand.jobs.map(({ id }) => id)).toEqual([recovered.id]);
    await on.clock.advance(2_000 + 500);
    expect(await stateOf(on.queue, recovered.id)).toBe('completed');
  });

  it('polling alone runs a batch that is larger than the slots without waiting for a poll per round', async () => {
    await using on = await bench(engine, { deaf: true });
    const type = jobType('rounds', () => null);
    await on.queue.enqueueMany(many(type, 50));
    await on.queue.work([type], { poll: '1m', concurrency: 2 });
    await allDone(on, 50);
    expect(on.clock.monotonic()).toBe(0);
  });

  it('an idle worker asks the store once per poll and writes no log line', async () => {
    await using on = await bench(engine);
    const type = jobType('idle', () => null);
    await on.queue.work([type], { poll: '1s' });
    await on.clock.settle();
    on.wire.calls.length = 0;
    on.logs.length = 0;
    await on.clock.advance(600_000);
    const { length } = on.wire.of('claim');
    expect(length).toBeGreaterThanOrEqual(599);
    expect(length).toBeLessThanOrEqual(601);
    expect(on.wire.of('sweep').length).toBeLessThanOrEqual(121);
    expect(on.wire.of('sweepInTerm')).toEqual([]);
    expect(on.wire.of('extend').length).toBeLessThanOrEqual(61);
    expect(on.wire.calls).toHaveLength(length + on.wire.of('sweep').length + on.wire.of('extend').length);
    expect(on.logs).toEqual([]);
  });

  it('what the store refused for a while is sent again by itself, however rare the poll', async () => {
    await using on = await bench(engine);
    const type = jobType('unheard', () => 'done');
    await on.queue.work([type], { poll: '10h' });
    // Many rounds, because each wait is drawn by chance: a timer may fire a moment before the instant it was set for.
    for (let round = 1; round <= 20; round++) {
      let refusals = 5;
      on.wire.before.settle = () => {
        if (refusals-- > 0) throw new Error('not now');
      };
      await on.queue.enqueue(type, round);
      await on.clock.advance(5_000);
      expect((await on.queue.stats()).total).toMatchObject({ completed: round, processing: 0 });
    }
  });

  it('a job is settled after its log lines, also when they travel with those of another one', async () => {
    await using on = await bench(engine);
    const noted = gate();
    on.wire.before.note = () => noted.passed;
    const ends: Record<string, ReturnType<typeof gate<null>>> = { a: gate<null>(), b: gate<null>() };
    let started = 0;
    const type = jobType('told', ({ input, log }) => {
      log(`a line of ${String(input)}`);
      started += 1;
      return ends[input as string]!.passed;
    });
    const [a, b] = await on.queue.enqueueMany(['a', 'b'].map((input) => ({ type, input })));
    await on.queue.work([type], { concurrency: 2 });
    await until(on.clock, () => started === 2);
    for (const each of ['a', 'b']) {
      ends[each]!.open(null);
      await on.clock.settle();
    }
    expect(on.wire.of('settle')).toEqual([]);
    noted.open();
    await allDone(on, 2);
    for (const { id } of [a!, b!]) expect(await on.queue.logs(id)).toHaveLength(1);
  });

  it('a far delayed job keeps nobody busy', async () => {
    await using on = await bench(engine);
    const type = jobType('far', () => null);
    await on.queue.enqueue(type, null, { delay: '400d' });
    await on.queue.work([type], { poll: '1s' });
    await on.clock.settle();
    on.wire.calls.length = 0;
    await on.clock.advance(60_000);
    expect(on.wire.of('claim').length).toBeLessThanOrEqual(61);
  });

  it('a full worker does not ask for more', async () => {
    await using on = await bench(engine);
    const held = holding('full');
    await on.queue.enqueueMany(many(held.type, 5));
    await on.queue.work([held.type], { concurrency: 2 });
    await until(on.clock, () => held.started.length === 2);
    on.wire.calls.length = 0;
    await on.clock.advance(5_000);
    expect(on.wire.of('claim')).toHaveLength(0);
  });
});

describe.each(engines)('order and choice on %s', (engine) => {
  it('runs strictly by priority, then due time, then insertion', async () => {
    await using on = await bench(engine);
    const order: unknown[] = [];
    const type = jobType('ordered', ({ input }) => void order.push(input));
    const other = jobType('ordered-too', ({ input }) => void order.push(input));
    const plan = [
      { name: 'late', priority: 0, delay: 3_000 },
      { name: 'first of equals', priority: 0, delay: 1_000 },
      { name: 'second of equals', priority: 0, delay: 1_000 },
      { name: 'low', priority: 7, delay: 0 },
      { name: 'early', priority: 0, delay: 500 },
      { name: 'high but latest', priority: -5, delay: 4_000 },
    ];
    for (const [index, { name, priority, delay }] of plan.entries())
      await on.queue.enqueue(index % 2 ? type : other, name, { priority, delay, queue: index % 3 ? 'a' : 'b' });
    await on.clock.advance(5_000);
    await on.queue.work([type, other], { concurrency: 1 });
    await allDone(on, plan.length);
    expect(order).toEqual(['high but latest', 'early', 'first of equals', 'second of equals', 'late', 'low']);
  });

  it('takes jobs of the queues it was given only', async () => {
    await using on = await bench(engine);
    const type = jobType('chosen', () => null);
    const mine = await on.queue.enqueue(type, 1, { queue: 'mine' });
    const also = await on.queue.enqueue(type, 2, { queue: 'also' });
    const other = await on.queue.enqueue(type, 3, { queue: 'other' });
    await on.queue.work([type], { queues: ['mine', 'also'] });
    await allDone(on, 2);
    await on.clock.advance(1_000);
    expect(await Promise.all([mine, also, other].map(({ id }) => stateOf(on.queue, id)))).toEqual([
      'completed',
      'completed',
      'pending',
    ]);
  });

  it('takes jobs of the types it was given only', async () => {
    await using on = await bench(engine);
    const known = jobType('known', () => null);
    await on.queue.enqueue('foreign', null, { priority: -10 });
    const { id } = await on.queue.enqueue(known, null);
    await on.queue.work([known]);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    await on.clock.advance(1_000);
    expect((await on.queue.find({ type: 'foreign' })).items[0]).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('two workers in one process share the jobs, each within its slots', async () => {
    await using on = await bench(engine);
    const one = holding('shared');
    const two = handle(one.type, async (context) => one2(context));
    const others: string[] = [];
    const go = gate();
    const one2 = async ({ job }: any) => {
      others.push(job.id);
      await go.passed;
    };
    await on.queue.enqueueMany(many(one.type, 10));
    const first = await on.queue.work([one.type], { concurrency: 3 });
    const second = await on.queue.work([two], { concurrency: 4 });
    await until(on.clock, () => one.started.length === 3 && others.length === 4);
    expect(first.id).not.toBe(second.id);
    expect([...first.running].sort()).toEqual([...one.started].sort());
    expect([...second.running].sort()).toEqual([...others].sort());
    go.open();
    one.endAll();
    await until(on.clock, () => one.started.length + others.length === 10);
    one.endAll();
    await allDone(on, 10);
    expect(new Set([...one.started, ...others]).size).toBe(10);
  });
});

describe('options of work', () => {
  it('refuses types without code, no types, the same type twice and what is no type', async () => {
    await using on = await bench('memory');
    const type = jobType('coded', () => null);
    expect(await codeOf(on.queue.work([defineJob('codeless', {})]))).toBe('UNKNOWN_TYPE');
    expect(await codeOf(on.queue.work([]))).toBe('TYPE_REQUIRED');
    expect(await codeOf(on.queue.work([type, handle(type, () => null)]))).toBe('INVALID_NAME');
    expect(await codeOf(on.queue.work([{ name: 'made-up' }]))).toBe('TYPE_REQUIRED');
    expect(on.wire.of('claim')).toHaveLength(0);
  });

  it.each([
    ['a lease under one second', { lease: 999 }, 'INVALID_LEASE'],
    ['a lease without a unit', { lease: '30' }, 'INVALID_LEASE'],
    ['a negative lease', { lease: -1 }, 'INVALID_LEASE'],
    ['a lease that is no number', { lease: Number.NaN }, 'INVALID_LEASE'],
    ['a heartbeat as long as the lease', { lease: '30s', heartbeat: '30s' }, 'INVALID_LEASE'],
    ['a heartbeat of nothing', { heartbeat: 0 }, 'INVALID_LEASE'],
    ['a heartbeat longer than the default lease', { heartbeat: '31s' }, 'INVALID_LEASE'],
    ['a negative poll', { poll: -5 }, 'INVALID_DURATION'],
    ['a poll without a unit', { poll: '5' }, 'INVALID_DURATION'],
    ['no slots', { concurrency: 0 }, 'INVALID_LIMIT'],
    ['half a slot', { concurrency: 1.5 }, 'INVALID_LIMIT'],
    ['no stalls', { maxStalls: 0 }, 'INVALID_LIMIT'],
    ['a queue name with a colon', { queues: ['a:b'] }, 'INVALID_NAME'],
    ['a misspelt option', { concurency: 3 }, 'UNKNOWN_OPTION'],
  ])('refuses %s', async (_, options, code) => {
    await using on = await bench('memory');
    expect(await codeOf(on.queue.work([jobType('any', () => null)], options as object))).toBe(code);
    expect(on.wire.of('claim')).toHaveLength(0);
  });

  it('takes the shortest lease and a heartbeat just below it', async () => {
    await using on = await bench('memory');
    const type = jobType('short', () => null);
    await on.queue.work([type], { lease: 1_000, heartbeat: 999 });
    await on.queue.enqueue(type, null);
    await allDone(on, 1);
    expect(on.wire.of('claim')[0]!.request.leaseMs).toBe(1_000);
  });
});

describe.each(engines)('jobs claimed ahead on %s', (engine) => {
  /** A worker that has learnt that its jobs are short, then meets a slow one with others behind it. */
  async function aheadOfASlowJob(on: Bench, behind: number, options: object = {}, workOptions: object = {}) {
    const slow = gate<unknown>();
    const ran: string[] = [];
    const type = jobType('mixed', async ({ input, job }) => {
      ran.push(job.id);
      return input === 'slow' ? slow.passed : null;
    });
    const worker = await on.queue.work([type], { concurrency: 1, ...workOptions });
    await on.queue.enqueueMany(many(type, 40));
    await allDone(on, 40);
    ran.length = 0;
    const first = { type, input: 'slow', options: { priority: -1 } };
    const ids = (await on.queue.enqueueMany([first, ...many(type, behind, () => options)])).map(({ id }) => id);
    await until(on.clock, () => ran.length === 1);
    const [front, ...waiting] = ids as [string, ...string[]];
    expect(ran).toEqual([front]);
    expect(await stateOf(on.queue, waiting[0]!)).toBe('processing');
    return { worker, slow, ran, front, waiting, type };
  }

  it('short jobs are claimed many at a time, and each is still settled', async () => {
    await using on = await bench(engine);
    const type = jobType('short', () => null);
    await on.queue.enqueueMany(many(type, 500));
    await on.queue.work([type], { concurrency: 1 });
    await allDone(on, 500);
    const claims = on.wire.calls.map(({ reply }) => reply?.claimed ?? reply).filter((reply) => reply?.jobs?.length > 0);
    expect(claims.length).toBeLessThan(30);
    const { items } = await on.queue.find({ limit: 200 });
    for (const job of items) expect(job).toMatchObject({ attempts: 1, stalls: 0, startedAt: on.clock.now() });
  });

  it('a slow job in front sends those behind it back, for others to run', async () => {
    await using on = await bench(engine);
    const { waiting, slow, ran, front, type } = await aheadOfASlowJob(on, 5);
    const other = await on.another();
    const elsewhere: string[] = [];
    await other.queue.work([handle(type, ({ job }) => void elsewhere.push(job.id))]);
    await on.clock.advance(1_000);
    await until(on.clock, () => elsewhere.length === 5);
    expect(elsewhere.sort()).toEqual([...waiting].sort());
    for (const id of waiting)
      expect(await on.queue.get(id)).toMatchObject({ state: 'completed', attempts: 1, stalls: 0 });
    slow.open('at last');
    await until(on.clock, async () => (await stateOf(on.queue, front)) === 'completed');
    expect(ran).toEqual([front]);
  });

  it('they go back soon even where the worker polls rarely', async () => {
    await using on = await bench(engine);
    const { waiting } = await aheadOfASlowJob(on, 3, {}, { poll: '1h' });
    await on.clock.advance(500);
    for (const id of waiting) expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('a pause is honoured: none of them begins after it', async () => {
    await using on = await bench(engine);
    const { waiting, slow, ran, front } = await aheadOfASlowJob(on, 5);
    await on.queue.pause();
    slow.open(null);
    await until(on.clock, async () => (await stateOf(on.queue, front)) === 'completed');
    await on.clock.advance(1_000);
    expect(ran).toEqual([front]);
    for (const id of waiting)
      expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0, stalls: 0, startedAt: null });
    await on.queue.resume();
    await allDone(on, 46);
  });

  it('a cancel is honoured: the job never begins', async () => {
    await using on = await bench(engine);
    const { waiting, slow, ran } = await aheadOfASlowJob(on, 3);
    const { items } = await on.queue.cancel(waiting[1]!, { reason: 'not needed' });
    expect(items[0]!.outcome).toMatch(/cancelled|requested/);
    await until(on.clock, async () => (await stateOf(on.queue, waiting[1]!)) === 'cancelled');
    slow.open(null);
    await until(on.clock, async () => (await stateOf(on.queue, waiting[2]!)) === 'completed');
    expect(ran).not.toContain(waiting[1]);
    expect(await on.queue.get(waiting[1]!)).toMatchObject({
      attempts: 0,
      error: { code: 'CANCELLED', message: 'not needed' },
    });
  });

  it('the ttl is honoured: what is past it never begins', async () => {
    await using on = await bench(engine);
    const { waiting, slow, ran, front } = await aheadOfASlowJob(on, 2, { ttl: 50 });
    await on.clock.advance(60);
    slow.open(null);
    await until(on.clock, async () => (await stateOf(on.queue, front)) === 'completed');
    await on.clock.advance(200);
    expect(ran).toEqual([front]);
    for (const id of waiting)
      expect(await on.queue.get(id)).toMatchObject({ state: 'expired', attempts: 0, error: { code: 'EXPIRED' } });
  });

  it('a stop is honoured: they are handed back and said to be', async () => {
    await using on = await bench(engine);
    const { waiting, slow, worker, ran, front } = await aheadOfASlowJob(on, 4);
    const stopping = worker.stop({ grace: '10s' });
    await on.clock.settle();
    for (const id of waiting) expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
    slow.open(null);
    const report = await passing(on.clock, stopping);
    expect(report.finished).toBe(1);
    expect([...report.handedBack].sort()).toEqual([...waiting].sort());
    expect(report.abandoned).toEqual([]);
    expect(ran).toEqual([front]);
  });

  it('jobs with an exclusiveKey or a long timeout are not claimed ahead', async () => {
    await using on = await bench(engine);
    const slow = gate<unknown>();
    const type = jobType('dear', ({ input }) => (input === 'slow' ? slow.passed : null));
    await on.queue.work([type], { concurrency: 1 });
    await on.queue.enqueueMany(many(type, 40));
    await allDone(on, 40);
    const [front, keyed, timed] = await on.queue.enqueueMany([
      { type, input: 'slow' },
      { type, input: 1, options: { exclusiveKey: 'key' } },
      { type, input: 2, options: { timeout: '10m' } },
    ]);
    await until(on.clock, async () => (await stateOf(on.queue, front.id)) === 'processing');
    expect(await stateOf(on.queue, keyed.id)).toBe('pending');
    expect(await stateOf(on.queue, timed.id)).toBe('pending');
    slow.open(null);
    await allDone(on, 43);
  });

  it('a claim whose answer comes after the stop is handed back, not run', async () => {
    await using on = await bench(engine);
    const ran: string[] = [];
    const type = jobType('late-answer', ({ job }) => void ran.push(job.id));
    const worker = await on.queue.work([type], { concurrency: 1, poll: '1h' });
    await on.queue.enqueueMany(many(type, 40));
    await allDone(on, 40);
    ran.length = 0;
    const answer = gate();
    on.wire.after.claim = () => answer.passed;
    const ids = (await on.queue.enqueueMany(many(type, 5))).map(({ id }) => id);
    await until(on.clock, async () => (await stateOf(on.queue, ids[0]!)) === 'processing');
    const stopping = worker.stop({ grace: '5s' });
    answer.open();
    const report = await passing(on.clock, stopping);
    expect(ran).toEqual([]);
    expect([...report.handedBack].sort()).toEqual([...ids].sort());
    for (const id of ids) expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('a claim whose answer came after its lease is not trusted', async () => {
    await using on = await bench(engine);
    const ran: number[] = [];
    const type = jobType('slow-answer', ({ job }) => void ran.push(job.epoch));
    const answer = gate();
    let first = true;
    on.wire.after.claim = () => {
      if (!first) return undefined;
      first = false;
      return answer.passed;
    };
    const { id } = await on.queue.enqueue(type, null);
    await on.queue.work([type], { lease: '2s' });
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'processing');
    const stale = (await on.queue.get(id))!.epoch;
    await on.clock.advance(2_500);
    answer.open();
    await on.clock.advance(5_000);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    expect(ran).toHaveLength(1);
    expect(ran[0]).toBeGreaterThan(stale);
  });
});
