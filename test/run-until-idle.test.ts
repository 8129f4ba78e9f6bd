/**
 * One-shot work, for cron and serverless: everything that is ready runs, nothing is waited for, and then it is over. Where
 * a test awaits it directly, the clock stands still meanwhile: it would hang if it waited for a timer.
 */
import { describe, expect, it } from 'vitest';
import type { ClaimRequest } from '../src/core/store.js';
import { defineJob, open, snooze } from '../src/index.js';
import { expectNothingLeft } from '../src/testing/index.js';
import { closedAfterwards, eachStore, expectCode, gate, recordingLogger, tapped } from './support.js';
import {
  bench,
  engines,
  eventually,
  holding,
  passing,
  sharedFile,
  startChild,
  timeUntil,
  until,
} from './worker-support.js';

const none = { ran: 0, left: 0 };

function counting(name: string, options: object = {}) {
  const inputs: unknown[] = [];
  const type = defineJob<any, any>(name, { ...options, run: ({ input }) => void inputs.push(input) });
  return { type, inputs };
}

describe.each(engines)('runUntilIdle on %s', (engine) => {
  it('with nothing to do is over at once, after one question to the store', async () => {
    await using on = await bench(engine, { deaf: true });
    const { type } = counting('mail');
    expect(await on.queue.runUntilIdle([type])).toEqual(none);
    const asked = on.wire.of('claim').filter(({ request }) => (request as ClaimRequest).types.includes('mail'));
    expect(asked).toHaveLength(1);
  });

  it('runs everything that is ready, also more than its slots at once', async () => {
    await using on = await bench(engine);
    const { type, inputs } = counting('mail');
    await on.queue.enqueueMany(Array.from({ length: 250 }, (_, input) => ({ type, input })));
    expect(await on.queue.runUntilIdle([type], { concurrency: 3 })).toEqual({ ran: 250, left: 0 });
    // Two claims may be under way, and be answered in any order: only a worker of one slot promises one.
    expect([...inputs].sort((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: 250 }, (_, input) => input));
    await expectNothingLeft(on.queue);
  });

  it('runs only the types and queues it was given, and counts only these as left', async () => {
    await using on = await bench(engine);
    const mail = counting('mail');
    const sms = counting('sms');
    await on.queue.enqueue(mail.type, 1);
    await on.queue.enqueue(mail.type, 2, { queue: 'slow' });
    await on.queue.enqueue(sms.type, 3);
    expect(await on.queue.runUntilIdle([mail.type], { queues: ['default'] })).toEqual({ ran: 1, left: 0 });
    expect([mail.inputs, sms.inputs]).toEqual([[1], []]);
    expect(await on.queue.runUntilIdle([mail.type, sms.type])).toEqual({ ran: 2, left: 0 });
  });

  it('does not wait for delayed jobs, nor count them as left', async () => {
    await using on = await bench(engine);
    const { type, inputs } = counting('mail');
    await on.queue.enqueue(type, 'now');
    await on.queue.enqueue(type, 'later', { delay: 1 });
    expect(await on.queue.runUntilIdle([type])).toEqual({ ran: 1, left: 0 });
    expect(inputs).toEqual(['now']);
  });

  it('does not wait for a retry or a snooze that is due only later', async () => {
    await using on = await bench(engine);
    const throws = defineJob<any, any>('throws', {
      run() {
        throw new Error('not yet');
      },
    });
    const snoozes = defineJob<any, any>('snoozes', { run: () => snooze('1m') });
    await on.queue.enqueue(throws, 1);
    await on.queue.enqueue(snoozes, 1);
    expect(await on.queue.runUntilIdle([throws, snoozes])).toEqual({ ran: 2, left: 0 });
    expect((await on.queue.stats()).total).toMatchObject({ pending: 2, delayed: 2, processing: 0 });
  });

  it('runs a retry that is due at once', async () => {
    await using on = await bench(engine);
    let runs = 0;
    const type = defineJob<any, any>('throws', {
      attempts: 3,
      backoff: { type: 'fixed', base: 0 },
      run() {
        runs += 1;
        throw new Error('never');
      },
    });
    const { id } = await on.queue.enqueue(type, 1);
    expect(await on.queue.runUntilIdle([type])).toEqual({ ran: 3, left: 0 });
    expect(runs).toBe(3);
    expect(await on.queue.get(id)).toMatchObject({ state: 'failed', attempts: 3 });
  });

  it('runs what handlers enqueue, generation after generation', async () => {
    await using on = await bench(engine);
    const inputs: number[] = [];
    const type = defineJob<any, any>('parent', {
      async run({ input }) {
        inputs.push(input);
        if (input < 5) await on.queue.enqueue('parent', input + 1);
      },
    });
    await on.queue.enqueue(type, 1);
    expect(await on.queue.runUntilIdle([type])).toEqual({ ran: 5, left: 0 });
    expect(inputs).toEqual([1, 2, 3, 4, 5]);
  });

  it('runs what another process enqueued while the last handler ran, without being told', async () => {
    await using on = await bench(engine, { deaf: true });
    const other = await on.another();
    const inputs: string[] = [];
    const type = defineJob<any, any>('parent', {
      async run({ input }) {
        inputs.push(input);
        if (input === 'first') await other.queue.enqueue('parent', 'from elsewhere');
      },
    });
    await on.queue.enqueue(type, 'first');
    expect(await on.queue.runUntilIdle([type])).toEqual({ ran: 2, left: 0 });
    expect(inputs).toEqual(['first', 'from elsewhere']);
  });

  it('waits for handlers that run, however long', async () => {
    await using on = await bench(engine);
    const held = holding('held');
    const { id } = await on.queue.enqueue(held.type, 1);
    const over = on.queue.runUntilIdle([held.type]);
    await until(on.clock, () => held.started.length === 1);
    await on.clock.advance('2m');
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0 });
    held.end(id, 'at last');
    expect(await passing(on.clock, over)).toEqual({ ran: 1, left: 0 });
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', result: 'at last' });
  });

  it('leaves what a pause or another worker holds back, and counts it', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    const held = holding('keyed', { exclusiveKey: 'one' });
    const mail = counting('mail');
    await on.queue.enqueueMany([1, 2, 3].map((input) => ({ type: held.type, input })));
    await on.queue.enqueueMany([1, 2].map((input) => ({ type: mail.type, input, options: { queue: 'paused' } })));
    await on.queue.pause('paused');
    await other.queue.work([held.type]);
    await until(on.clock, () => held.started.length === 1);
    expect(await on.queue.runUntilIdle([held.type, mail.type])).toEqual({ ran: 0, left: 4 });
    await on.queue.resume('paused');
    expect(await on.queue.runUntilIdle([mail.type])).toEqual({ ran: 2, left: 0 });
    held.endAll();
  });

  it('takes over what a dead worker left, once its claim has lapsed', async () => {
    await using on = await bench(engine);
    const { type } = counting('mail');
    const { id } = await on.queue.enqueue(type, 1);
    await on.store.claim({
      owner: 'dead',
      types: ['mail'],
      queues: null,
      slots: 1,
      ahead: 0,
      leaseMs: 30_000,
      maxStalls: 3,
    });
    expect(await on.queue.runUntilIdle([type])).toEqual(none);
    await on.clock.advance(30_000);
    expect(await on.queue.runUntilIdle([type])).toEqual({ ran: 1, left: 0 });
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', stalls: 1 });
  });

  it('goes through many due jobs of other types to find its own', async () => {
    await using on = await bench(engine);
    const { type } = counting('mine');
    const others = (n: number) =>
      Array.from({ length: n }, (_, input) => ({ type: 'others', input, options: { delay: 5 } }));
    for (let i = 0; i < 3; i++) await on.queue.enqueueMany(others(1_000));
    await on.queue.enqueue(type, 1, { delay: 6 });
    await on.clock.advance(10);
    expect(await on.queue.runUntilIdle([type])).toEqual({ ran: 1, left: 0 });
  });

  it('several at once share the work, and each job runs once', async () => {
    await using on = await bench(engine);
    const sides = [on, await on.another(), await on.another()];
    const { type, inputs } = counting('mail');
    await on.queue.enqueueMany(Array.from({ length: 300 }, (_, input) => ({ type, input })));
    const all = Promise.all(sides.map(({ queue }) => queue.runUntilIdle([type], { concurrency: 5 })));
    const reports = await passing(on.clock, all);
    expect(reports.reduce((sum, { ran }) => sum + ran, 0)).toBe(300);
    expect(inputs.toSorted((a, b) => Number(a) - Number(b))).toEqual(Array.from({ length: 300 }, (_, input) => input));
    await expectNothingLeft(on.queue);
  });

  it('works beside a worker of the same queue, and leaves it running', async () => {
    await using on = await bench(engine);
    const { type, inputs } = counting('mail');
    const worker = await on.queue.work([type]);
    await on.queue.enqueue(type, 1);
    await passing(on.clock, on.queue.runUntilIdle([type]));
    await on.queue.enqueue(type, 2);
    await until(on.clock, () => inputs.length === 2);
    expect(await passing(on.clock, worker.stop())).toMatchObject({ abandoned: [] });
  });

  it('leaves no timer behind', async () => {
    await using on = await bench(engine);
    const { type } = counting('mail');
    await on.queue.enqueue(type, 1);
    await on.clock.settle();
    const before = on.clock.pendingTimers;
    await on.queue.runUntilIdle([type], { for: '1h' });
    expect(on.clock.pendingTimers).toBe(before);
  });
});

describe.each(engines)('runUntilIdle with `for` on %s', (engine) => {
  it('ends when it is over, lets what runs finish, and says how much is left', async () => {
    await using on = await bench(engine);
    const held = holding('held');
    await on.queue.enqueueMany([1, 2, 3, 4].map((input) => ({ type: held.type, input })));
    const over = on.queue.runUntilIdle([held.type], { concurrency: 1, for: '10s' });
    await until(on.clock, () => held.started.length === 1);
    await on.clock.advance('9s');
    held.endAll();
    await until(on.clock, () => held.started.length === 2);
    await on.clock.advance('2s');
    held.endAll();
    expect(await passing(on.clock, over)).toEqual({ ran: 2, left: 2 });
    expect(held.started).toHaveLength(2);
  });

  it('hands back what does not end within the grace', async () => {
    await using on = await bench(engine);
    const held = holding('held', {}, true);
    const { id } = await on.queue.enqueue(held.type, 1);
    const over = on.queue.runUntilIdle([held.type], { for: '10s' });
    await until(on.clock, () => held.started.length === 1);
    const took = await timeUntil(on.clock, over);
    expect(await over).toEqual({ ran: 0, left: 1 });
    expect(took).toBeGreaterThanOrEqual(40_000);
    expect(took).toBeLessThanOrEqual(41_000);
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
  });

  it('ends before it is over when nothing is ready', async () => {
    await using on = await bench(engine);
    const { type } = counting('mail');
    await on.queue.enqueue(type, 1);
    expect(await on.queue.runUntilIdle([type], { for: '1h' })).toEqual({ ran: 1, left: 0 });
  });

  it('ends also a job that is ready for ever', async () => {
    await using on = await bench(engine);
    let runs = 0;
    const type = defineJob<any, any>('loop', {
      run() {
        runs += 1;
        return snooze(0);
      },
    });
    await on.queue.enqueue(type, 1);
    // While somebody asks without end, each step of the clock lets a thousand questions pass: one step is enough.
    const { ran, left } = await passing(on.clock, on.queue.runUntilIdle([type], { for: 10 }), 10);
    expect(ran).toBe(runs);
    expect(ran).toBeGreaterThan(0);
    expect(left).toBe(1);
  });
});

describe.each(engines)('runUntilIdle and the end of the queue on %s', (engine) => {
  it('close waits for it, and it still reports', async () => {
    await using on = await bench(engine);
    const held = holding('held');
    await on.queue.enqueueMany([1, 2].map((input) => ({ type: held.type, input })));
    const over = on.queue.runUntilIdle([held.type], { concurrency: 1 });
    await until(on.clock, () => held.started.length === 1);
    const closing = on.queue.close();
    held.endAll();
    expect(await passing(on.clock, over)).toEqual({ ran: 1, left: 1 });
    expect(await passing(on.clock, closing)).toEqual({ finished: 1, handedBack: [], abandoned: [], leases: [] });
    await expectCode('CLOSED', () => on.queue.runUntilIdle([held.type]));
  });

  it('close waits for its last question to the store', async () => {
    await using on = await bench(engine);
    const { type } = counting('mail');
    const asked = gate();
    const slow = gate();
    on.wire.before.countDue = async () => {
      asked.open();
      await slow.opened;
    };
    const order: string[] = [];
    const over = on.queue.runUntilIdle([type]).then(() => order.push('reported'));
    await asked.opened;
    const closing = on.queue.close().then(() => order.push('closed'));
    await on.clock.settle();
    slow.open();
    await passing(on.clock, Promise.all([over, closing]));
    expect(order).toEqual(['reported', 'closed']);
  });

  it('a close without patience hands its jobs back', async () => {
    await using on = await bench(engine);
    const held = holding('held', {}, true);
    const { id } = await on.queue.enqueue(held.type, 1);
    const over = on.queue.runUntilIdle([held.type]);
    await until(on.clock, () => held.started.length === 1);
    const closing = on.queue.close({ grace: 0 });
    expect(await passing(on.clock, over)).toEqual({ ran: 0, left: 1 });
    expect(await passing(on.clock, closing)).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
  });

  it('a store that is away for a while only delays it', async () => {
    await using on = await bench(engine);
    const { type } = counting('mail');
    await on.queue.enqueue(type, 1);
    on.wire.down = true;
    const over = on.queue.runUntilIdle([type]);
    await on.clock.advance('3s');
    on.wire.down = false;
    expect(await passing(on.clock, over)).toEqual({ ran: 1, left: 0 });
  });

  it('a store that stays away ends it with an error when `for` is over', async () => {
    await using on = await bench(engine);
    const { type } = counting('mail');
    await on.queue.enqueue(type, 1);
    on.wire.down = true;
    const over = on.queue.runUntilIdle([type], { for: '5s' });
    await expectCode('STORE_UNAVAILABLE', () => passing(on.clock, over));
  });
});

eachStore((on) => {
  it.each([
    ['INVALID_DURATION', { for: 'soon' }],
    ['INVALID_DURATION', { for: -1 }],
    ['INVALID_DURATION', { for: 0 }],
    ['UNKNOWN_OPTION', { fro: '5s' }],
    ['INVALID_LIMIT', { concurrency: 0 }],
    ['INVALID_LEASE', { lease: 5 }],
  ] as const)('refuses with %s %o', async (code, options) => {
    const queue = await on.open();
    const { type } = counting('mail');
    await queue.enqueue(type, 1);
    await expectCode(code, () => queue.runUntilIdle([type], options as object));
    expect((await queue.stats()).total.pending).toBe(1);
  });

  it('suggests the option that was meant, and names the call', async () => {
    const queue = await on.open();
    const { type } = counting('mail');
    const refusal = await expectCode('UNKNOWN_OPTION', () => queue.runUntilIdle([type], { concurency: 2 } as object));
    expect(refusal.message).toContain('runUntilIdle');
    expect(refusal.message).toContain('concurrency');
    expect((await expectCode('TYPE_REQUIRED', () => queue.runUntilIdle([]))).message).toContain('runUntilIdle');
    await expectCode('UNKNOWN_TYPE', () => queue.runUntilIdle([defineJob('bare', {})]));
  });

  it('by the real clock, an idle one ends by itself and leaves nothing to do', async () => {
    const queue = await on.open();
    const { type, inputs } = counting('mail');
    await Promise.all([1, 2, 3].map((input) => queue.enqueue(type, input)));
    expect(await queue.runUntilIdle([type], { for: '1m' })).toEqual({ ran: 3, left: 0 });
    expect(inputs).toHaveLength(3);
    await expectNothingLeft(queue);
  });

  it('asks the store no more than the work needs', async () => {
    let claims = 0;
    const counted = tapped(on.factory(), (store) => ({
      claim(request) {
        claims += 1;
        return store.claim(request);
      },
      settle(request) {
        if (request.next) claims += 1;
        return store.settle(request);
      },
    }));
    const queue = closedAfterwards(await open(counted, { logger: recordingLogger().logger }));
    const { type } = counting('mail');
    const go = gate();
    const slow = defineJob<any, any>('slow', { run: () => go.opened });
    await queue.enqueue(type, 1);
    await queue.enqueue(slow, 1);
    const over = queue.runUntilIdle([type, slow], { poll: '1h' });
    go.open();
    expect(await over).toEqual({ ran: 2, left: 0 });
    expect(claims).toBeLessThanOrEqual(6);
  });
});

describe('as a process', () => {
  it('runs what is ready, jobs of its handlers included, and ends by itself', async () => {
    await using shared = await sharedFile();
    await using queue = await open(`sqlite:${shared.file}`);
    const a = await queue.enqueue('spawns', 2);
    const b = await queue.enqueue('takes', 150);
    await queue.enqueue('takes', 0, { delay: '1h' });
    await using child = startChild('once', shared.file);
    expect(await child.said('report')).toBe('report {"ran":4,"left":0}');
    expect(await child.exited).toEqual({ code: 0, signal: null });
    for (const { id } of [a, b]) expect((await queue.get(id))!.state).toBe('completed');
  });

  it('lives until its report is there, even where nothing else keeps it alive', async () => {
    await using shared = await sharedFile();
    await using queue = await open(`sqlite:${shared.file}`);
    const { id } = await queue.enqueue('dozes', 0);
    await using child = startChild('once', shared.file);
    expect(await child.said('report')).toBe('report {"ran":1,"left":0}');
    expect(await child.exited).toEqual({ code: 0, signal: null });
    expect(await queue.get(id)).toMatchObject({ state: 'completed', result: 'awake' });
  });

  it('several at once share one file, and each ends by itself', async () => {
    await using shared = await sharedFile();
    await using queue = await open(`sqlite:${shared.file}`);
    await queue.enqueueMany(Array.from({ length: 60 }, () => ({ type: 'takes', input: 5 })));
    await using one = startChild('once', shared.file);
    await using two = startChild('once', shared.file);
    const reports = await Promise.all(
      [one, two].map(async (child) => JSON.parse((await child.said('report')).slice(7))),
    );
    expect(reports[0].ran + reports[1].ran).toBe(60);
    expect(await one.exited).toEqual({ code: 0, signal: null });
    expect(await two.exited).toEqual({ code: 0, signal: null });
    await eventually(async () => (await queue.stats()).total.completed === 60, 'every job');
  });
});
