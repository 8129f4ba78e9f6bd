/** What a handler is given, what it may say, and what becomes of its job. */
import { describe, expect, it } from 'vitest';
import { cancel, fail, type Job, snooze } from '../src/index.js';
import { healthOf } from './support.js';
import {
  bench,
  type Bench,
  claimRequest,
  engines,
  gate,
  holding,
  jobType,
  passing,
  rejected,
  stateOf,
  until,
  warnings,
} from './worker-support.js';

const at = (on: Bench, ms = 0): Date => new Date(on.clock.now().getTime() + ms);
const finished = async (on: Bench, id: string): Promise<Job> => {
  await until(on.clock, async () => !['pending', 'processing'].includes((await stateOf(on.queue, id))!));
  return (await on.queue.get(id))!;
};

describe.each(engines)('the handler on %s', (engine) => {
  it('is given its input, its job, a signal, progress and log', async () => {
    await using on = await bench(engine);
    const held = holding('context', { subject: 'site:docs' });
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, { site: 'docs', pages: [1, 2] }, { metadata: { by: 'test' } });
    await until(on.clock, () => held.started.length === 1);
    const { input, job, signal, progress, log } = held.context(id);
    expect(input).toEqual({ site: 'docs', pages: [1, 2] });
    expect(job).toMatchObject({ id, type: 'context', state: 'processing', attempts: 1, subject: 'site:docs' });
    expect(job.metadata).toEqual({ by: 'test' });
    expect(job.epoch).toBeGreaterThan(0);
    expect(job.startedAt).toEqual(on.clock.now());
    expect(signal).toBeInstanceOf(AbortSignal);
    expect(signal.aborted).toBe(false);
    progress(10);
    progress({ percent: 40, step: 'render', message: 'half way' });
    log('first', { page: 1 });
    log('second');
    await on.clock.advance(100);
    expect((await on.queue.get(id))!.progress).toEqual({ percent: 40, step: 'render', message: 'half way' });
    expect(await on.queue.logs(id)).toEqual([
      { at: at(on), message: 'first', fields: { page: 1 } },
      { at: at(on), message: 'second', fields: null },
    ]);
    held.end(id);
    await finished(on, id);
  });

  it('what it wrote in its last moment is kept', async () => {
    await using on = await bench(engine);
    const type = jobType('last-words', ({ progress, log }) => {
      progress(99);
      log('almost');
      return 'done';
    });
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    expect(await finished(on, id)).toMatchObject({ state: 'completed', result: 'done', progress: { percent: 99 } });
    expect((await on.queue.logs(id)).map(({ message }) => message)).toEqual(['almost']);
  });

  it('keeps at most 1,000 log lines and says that it was cut', async () => {
    await using on = await bench(engine);
    const type = jobType('talkative', ({ log }) => {
      for (let n = 0; n < 1_500; n++) log(`line ${n}`);
    });
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    await finished(on, id);
    const lines = await on.queue.logs(id);
    expect(lines).toHaveLength(1_001);
    expect(lines.at(-2)!.message).toBe('line 999');
    expect(lines.at(-1)!.message).toBe('truncated');
  });

  it('a log line with fields that cannot be stored fails nobody', async () => {
    await using on = await bench(engine);
    const cyclic: any = {};
    cyclic.self = cyclic;
    const type = jobType('odd-log', ({ log }) => {
      log('nul \0 and half \ud800', cyclic);
      return 'fine';
    });
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    expect(await finished(on, id)).toMatchObject({ state: 'completed' });
    const [line] = await on.queue.logs(id);
    expect(line!.message).not.toContain('\0');
    expect(Object.keys(line!.fields!)).toEqual(['unstorable']);
  });

  it('lines beyond those that are kept are not even looked at', async () => {
    await using on = await bench(engine);
    let read = 0;
    const fields = {
      get n() {
        return (read += 1);
      },
    };
    const type = jobType('too-talkative', async ({ log }) => {
      for (let n = 0; n < 900; n++) log('a line', fields);
      await new Promise((resolve) => on.clock.timer(200, () => resolve(null)));
      for (let n = 0; n < 100_000; n++) log('a line', fields);
    });
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    await on.clock.settle();
    await on.clock.advance(200);
    await finished(on, id);
    expect(await on.queue.logs(id)).toHaveLength(1_001);
    expect(read).toBe(1_001);
  });

  it('a message that is no text is told in short, whatever it is', async () => {
    await using on = await bench(engine);
    // A longer one is a hash table to V8, and takes ten seconds to fill.
    const huge = new Array(30_000_000).fill('x');
    const throws = {
      toString() {
        throw new Error('boom');
      },
    };
    const odd: unknown[] = [7, undefined, new Error('why'), { page: 1 }, throws, huge, Symbol('s'), 10n ** 100_000n];
    const type = jobType('odd-messages', ({ log }) => odd.forEach((message) => log(message as string)));
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    expect(await finished(on, id)).toMatchObject({ state: 'completed' });
    const told = (await on.queue.logs(id)).map(({ message }) => message);
    expect(told.slice(0, 4)).toEqual(['7', 'undefined', 'why', '{"page":1}']);
    expect(told[4]).toMatch(/unstorable/);
    expect(told[5]).toMatch(/unstorable.*8192 bytes/);
    expect(told.slice(6)).toEqual(['Symbol(s)', 'a bigint']);
  });

  it.each([
    ['not a number', Number.NaN],
    ['below 0', -1],
    ['above 100', 101],
    ['a text', 'half'],
    ['nothing', null],
    ['without a percentage', { step: 'render' }],
    ['with a huge text', { percent: 1, message: 'x'.repeat(1_000_000) }],
    ['with a text that cannot be stored', { percent: 1, step: 'a\0b' }],
  ])('progress %s is INVALID_PROGRESS', async (_, value) => {
    await using on = await bench(engine);
    const type = jobType('progress', ({ progress }) => progress(value as number), { attempts: 1 });
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    expect(await finished(on, id)).toMatchObject({
      state: 'failed',
      error: { code: 'INVALID_PROGRESS' },
      progress: null,
    });
  });

  it('progress of 0 and of 100 is taken', async () => {
    await using on = await bench(engine);
    const type = jobType('bounds', ({ progress, input }) => progress(input));
    await on.queue.work([type]);
    for (const percent of [0, 100]) {
      const { id } = await on.queue.enqueue(type, percent);
      expect(await finished(on, id)).toMatchObject({ state: 'completed', progress: { percent } });
    }
  });
});

describe.each(engines)('outcomes on %s', (engine) => {
  it('a returned value is the result; nothing returned is null', async () => {
    await using on = await bench(engine);
    const type = jobType('value', ({ input }) => (input === null ? undefined : input));
    await on.queue.work([type]);
    for (const value of [{ deep: [1, 'two', { three: true }] }, '', 0, false, [], null]) {
      const { id } = await on.queue.enqueue(type, value);
      expect(await finished(on, id)).toMatchObject({ state: 'completed', result: value, error: null, attempts: 1 });
    }
  });

  it('a result that only looks like an outcome stays a result', async () => {
    await using on = await bench(engine);
    const type = jobType('lookalike', () => ({ outcome: 'fail' }));
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    expect(await finished(on, id)).toMatchObject({ state: 'completed', result: { outcome: 'fail' } });
  });

  it('a result that cannot be stored fails the job at once: the work was done and is not repeated', async () => {
    await using on = await bench(engine);
    let runs = 0;
    const type = jobType('unstorable', ({ input }) => {
      runs += 1;
      return input === 'function' ? () => 1 : input === 'big' ? 'x'.repeat(300_000) : 'a\0b';
    });
    await on.queue.work([type]);
    for (const input of ['function', 'big', 'nul']) {
      const { id } = await on.queue.enqueue(type, input);
      expect(await finished(on, id)).toMatchObject({
        state: 'failed',
        error: { code: 'RESULT_INVALID' },
        attempts: 1,
        result: null,
      });
    }
    expect(runs).toBe(3);
  });

  it('a throw is retried after the backoff, and after the last attempt the job has failed', async () => {
    await using on = await bench(engine);
    const type = jobType(
      'throws',
      ({ job }) => {
        throw Object.assign(new Error(`attempt ${job.attempts}`), { code: 'EBROKEN' });
      },
      { attempts: 3, backoff: { type: 'linear', base: '10s', jitter: 0 } },
    );
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    await until(on.clock, async () => (await on.queue.get(id))!.error !== null);
    const first = (await on.queue.get(id))!;
    expect(first).toMatchObject({ state: 'pending', attempts: 1, error: { message: 'attempt 1', code: 'EBROKEN' } });
    expect(first.scheduledFor).toEqual(at(on, 10_000));
    await on.clock.advance(9_999);
    expect((await on.queue.get(id))!.attempts).toBe(1);
    await on.clock.advance(1);
    expect((await on.queue.get(id))!.scheduledFor).toEqual(at(on, 20_000));
    await on.clock.advance(20_000);
    const last = await finished(on, id);
    expect(last).toMatchObject({ state: 'failed', attempts: 3, error: { message: 'attempt 3', code: 'EBROKEN' } });
    expect(last.completedAt).toEqual(on.clock.now());
    expect(last.error!.stack).toContain('attempt 3');
  });

  it('the error is null again once completed, and startedAt is that of the first attempt', async () => {
    await using on = await bench(engine);
    const type = jobType(
      'second-time',
      ({ job }) => {
        if (job.attempts < 2) throw new Error('not yet');
        return 'now';
      },
      { backoff: { type: 'fixed', base: '5s', jitter: 0 } },
    );
    await on.clock.advance(1_000);
    const began = on.clock.now();
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    await on.clock.advance(6_000);
    const job = await finished(on, id);
    expect(job).toMatchObject({ state: 'completed', error: null, attempts: 2, result: 'now' });
    expect(job.startedAt).toEqual(began);
    expect(job.completedAt!.getTime() - began.getTime()).toBe(5_000);
  });

  it('fail ends the job now, whatever attempts are left', async () => {
    await using on = await bench(engine);
    const type = jobType('fails', ({ input }) => fail(input));
    await on.queue.work([type]);
    const text = await on.queue.enqueue(type, 'no such site');
    const error = await on.queue.enqueue(type, { message: 'gone', code: 'GONE' });
    expect(await finished(on, text.id)).toMatchObject({
      state: 'failed',
      attempts: 1,
      error: { message: 'no such site' },
    });
    expect((await finished(on, error.id)).error).toEqual({ message: 'gone', code: 'GONE' });
  });

  it('cancel ends the job as cancelled, with its reason', async () => {
    await using on = await bench(engine);
    const type = jobType('cancels', () => cancel('nothing to do'));
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    expect(await finished(on, id)).toMatchObject({
      state: 'cancelled',
      error: { code: 'CANCELLED', message: 'nothing to do' },
    });
  });

  it('a backoff function that is broken does not break the failure path', async () => {
    await using on = await bench(engine);
    const type = jobType(
      'broken-backoff',
      () => {
        throw new Error('first');
      },
      {
        backoff: () => {
          throw new Error('second');
        },
      },
    );
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    await until(on.clock, async () => (await on.queue.get(id))!.error !== null);
    const job = (await on.queue.get(id))!;
    expect(job).toMatchObject({ state: 'pending', error: { message: 'first' } });
    expect(job.scheduledFor.getTime()).toBeGreaterThan(on.clock.now().getTime());
  });
});

// ---- the table of endings ---------------------------------------------------------------------------------------

type Mark = 'normally' | 'after a cancel request' | 'marked to run again';
const marks: readonly Mark[] = ['normally', 'after a cancel request', 'marked to run again'];
const endings = [
  'returned a value',
  'threw, attempts left',
  'threw at the last attempt',
  'returned fail()',
  'returned snooze()',
  'returned cancel()',
  'was handed back by close()',
  'its claim lapsed',
] as const;
type EndingName = (typeof endings)[number];

const cancelled = { state: 'cancelled', error: { code: 'CANCELLED' } };
const again = { state: 'pending', attempts: 0, error: null };
const table: Record<EndingName, readonly [object, object, object]> = {
  'returned a value': [
    { state: 'completed', attempts: 1, result: 'value' },
    { state: 'completed', attempts: 1, result: 'value' },
    again,
  ],
  'threw, attempts left': [{ state: 'pending', attempts: 1, error: { message: 'thrown' } }, cancelled, again],
  'threw at the last attempt': [{ state: 'failed', attempts: 1, error: { message: 'thrown' } }, cancelled, again],
  'returned fail()': [
    { state: 'failed', attempts: 1, error: { message: 'failed' } },
    { state: 'failed', attempts: 1, error: { message: 'failed' } },
    again,
  ],
  'returned snooze()': [{ state: 'pending', attempts: 0 }, cancelled, again],
  'returned cancel()': [cancelled, cancelled, cancelled],
  'was handed back by close()': [
    { state: 'pending', attempts: 0, stalls: 0 },
    { ...cancelled, attempts: 0 },
    { state: 'pending', attempts: 0, stalls: 0 },
  ],
  'its claim lapsed': [
    { state: 'pending', attempts: 0, stalls: 1 },
    { ...cancelled, attempts: 0 },
    { state: 'pending', attempts: 0, stalls: 1 },
  ],
};
/** When the job is due after it went back to pending, counted from the ending. */
const dueIn: Partial<Record<`${EndingName} ${Mark}`, number>> = {
  'returned a value marked to run again': 20_000,
  'threw, attempts left normally': 5_000,
  'threw, attempts left marked to run again': 20_000,
  'threw at the last attempt marked to run again': 20_000,
  'returned fail() marked to run again': 20_000,
  'returned snooze() normally': 60_000,
  'returned snooze() marked to run again': 20_000,
};
const keepsItsPlace = (name: EndingName): boolean =>
  name === 'was handed back by close()' || name === 'its claim lapsed';

describe.each(engines)('what an ending becomes on %s', (engine) => {
  describe.each(endings)('%s', (name) => {
    it.each(marks)('%s', async (mark) => {
      await using on = await bench(engine);
      const held = holding('ending', {
        deduplication: 'coalesce',
        deduplicationKey: 'slot',
        attempts: name === 'threw at the last attempt' ? 1 : 3,
        backoff: { type: 'fixed', base: '5s', jitter: 0 },
      });
      const { id } = await on.queue.enqueue(held.type, null);
      const place = (await on.queue.get(id))!.scheduledFor;
      await on.clock.advance(1_000);
      const worker = name === 'its claim lapsed' ? null : await on.queue.work([held.type]);
      if (worker) await until(on.clock, () => held.started.length === 1);
      else await on.store.claim(claimRequest(['ending']));
      await on.queue.pause();

      if (mark === 'after a cancel request') {
        expect((await on.queue.cancel(id, { reason: 'changed my mind' })).items).toEqual([
          { id, outcome: 'requested' },
        ]);
      }
      if (mark === 'marked to run again') {
        const event = await on.queue.enqueue(held.type, null, { delay: '20s' });
        expect(event).toEqual({ id, outcome: 'coalesced' });
      }
      const words: Partial<Record<EndingName, unknown>> = {
        'returned a value': 'value',
        'threw, attempts left': rejected(new Error('thrown')),
        'threw at the last attempt': rejected(new Error('thrown')),
        'returned fail()': fail('failed'),
        'returned snooze()': snooze('60s'),
        'returned cancel()': cancel('by itself'),
      };
      if (name in words) {
        held.end(id, words[name]);
        await until(on.clock, async () => (await stateOf(on.queue, id)) !== 'processing');
      } else if (name === 'was handed back by close()') {
        const report = await passing(on.clock, worker!.stop({ grace: 0 }));
        expect(report).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
      } else {
        await on.clock.advance(35_000);
      }

      const job = (await on.queue.get(id))!;
      expect(job).toMatchObject(table[name][marks.indexOf(mark)]!);
      if (job.state === 'pending') {
        const due = dueIn[`${name} ${mark}`];
        expect(job.scheduledFor).toEqual(keepsItsPlace(name) ? place : at(on, due));
        expect(job.completedAt).toBeNull();
      } else {
        expect(job.completedAt).not.toBeNull();
      }
      if (job.state === 'cancelled' && mark === 'after a cancel request')
        expect(job.error!.message).toBe('changed my mind');
      if (job.state !== 'pending') return;
      // The mark counted once: the next run is the last.
      if (worker) await passing(on.clock, worker.stop());
      await on.queue.resume();
      const next = jobType('ending', () => 'next run');
      await on.queue.work([next]);
      await on.clock.advance(61_000);
      expect(await finished(on, id)).toMatchObject({ state: 'completed', result: 'next run', cancelRequested: null });
    });
  });

  it('a snooze shorter than the wish to run again keeps the sooner time', async () => {
    await using on = await bench(engine);
    const held = holding('sooner', { deduplication: 'coalesce' });
    const { id } = await on.queue.enqueue(held.type, null);
    await on.queue.work([held.type]);
    await until(on.clock, () => held.started.length === 1);
    await on.queue.enqueue(held.type, null, { delay: '1h' });
    held.end(id, snooze('10s'));
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'pending');
    expect((await on.queue.get(id))!.scheduledFor).toEqual(at(on, 10_000));
  });

  it('a cancel request outranks the wish to run again', async () => {
    await using on = await bench(engine);
    const held = holding('outranked', { deduplication: 'coalesce' });
    const { id } = await on.queue.enqueue(held.type, null);
    await on.queue.work([held.type]);
    await until(on.clock, () => held.started.length === 1);
    await on.queue.enqueue(held.type, null);
    await on.queue.cancel(id);
    held.end(id, rejected(new Error('stopped')));
    expect(await finished(on, id)).toMatchObject({ state: 'cancelled' });
    await on.clock.advance(5_000);
    expect(held.started).toHaveLength(1);
  });
});

describe.each(engines)('attempts are honest on %s', (engine) => {
  it('100 snoozes use none', async () => {
    await using on = await bench(engine);
    let runs = 0;
    const seen = new Set<number>();
    const type = jobType(
      'snoozer',
      ({ job }) => {
        seen.add(job.attempts);
        return ++runs <= 100 ? snooze('1s') : 'awake';
      },
      { attempts: 1 },
    );
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null);
    await on.clock.advance(101_000);
    expect(await finished(on, id)).toMatchObject({ state: 'completed', attempts: 1, result: 'awake', stalls: 0 });
    expect(runs).toBe(101);
    expect([...seen]).toEqual([1]);
  });

  it('100 hand-backs use none', async () => {
    await using on = await bench(engine);
    const type = jobType('handed', () => 'done', { attempts: 1 });
    const { id } = await on.queue.enqueue(type, null);
    for (let n = 0; n < 100; n++) {
      const { epoch, jobs } = await on.store.claim(claimRequest(['handed']));
      expect(jobs.map((job) => [job.id, job.attempts])).toEqual([[id, 1]]);
      const settlements = [{ id, epoch, ending: { kind: 'release' } as const }];
      expect(await on.store.settle({ owner: 'byhand', settlements, started: [], next: null })).toMatchObject({
        answers: ['ok'],
      });
    }
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0, stalls: 0 });
    await on.queue.work([type]);
    expect(await finished(on, id)).toMatchObject({ state: 'completed', attempts: 1 });
  });

  it('100 lapses use none', async () => {
    await using on = await bench(engine);
    const type = jobType('lapsing', () => 'done', { attempts: 1 });
    const { id } = await on.queue.enqueue(type, null);
    for (let n = 0; n < 100; n++) {
      const { jobs } = await on.store.claim(claimRequest(['lapsing'], { leaseMs: 1_000, maxStalls: 1_000 }));
      expect(jobs).toHaveLength(1);
      await on.clock.advance(36_000);
    }
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0, stalls: 100 });
    await on.queue.work([type]);
    expect(await finished(on, id)).toMatchObject({ state: 'completed', attempts: 1, stalls: 100 });
  });

  it('a handler that was stopped at the end of the grace is as good as never begun', async () => {
    await using on = await bench(engine);
    const held = holding('stopped', { attempts: 1 });
    const { id } = await on.queue.enqueue(held.type, null);
    for (let n = 1; n <= 5; n++) {
      const worker = await on.queue.work([held.type]);
      await until(on.clock, () => held.started.length === n);
      expect((await on.queue.get(id))!.attempts).toBe(1);
      await passing(on.clock, worker.stop({ grace: '1s' }));
      expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0 });
    }
    await on.queue.work([held.type]);
    await until(on.clock, () => held.started.length === 6);
    held.end(id, 'at last');
    expect(await finished(on, id)).toMatchObject({ state: 'completed', attempts: 1, result: 'at last' });
  });
});

describe.each(engines)('timeouts on %s', (engine) => {
  it('the signal aborts with TIMEOUT, and a handler that obeys ends its attempt', async () => {
    await using on = await bench(engine);
    const held = holding('obeys', { timeout: '10s', attempts: 1 }, true);
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    const { signal } = held.context(id);
    await on.clock.advance(9_999);
    expect(signal.aborted).toBe(false);
    await on.clock.advance(1);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'TIMEOUT' });
    expect(await finished(on, id)).toMatchObject({ state: 'failed', attempts: 1, error: { code: 'TIMEOUT' } });
    expect(warnings(on.logs)).toEqual(['Job failed']);
  });

  it('the timeout counts from the start of each attempt', async () => {
    await using on = await bench(engine);
    const held = holding(
      'each',
      { timeout: '10s', attempts: 2, backoff: { type: 'fixed', base: '1s', jitter: 0 } },
      true,
    );
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(11_000);
    expect(held.started).toHaveLength(2);
    await on.clock.advance(9_000);
    held.end(id, 'in time');
    expect(await finished(on, id)).toMatchObject({ state: 'completed', attempts: 2 });
  });

  it('a handler that ignores the signal loses its attempt after 5 s, is reported, and frees its slot', async () => {
    await using on = await bench(engine);
    const held = holding('ignores', { timeout: '10s', attempts: 1 });
    const worker = await on.queue.work([held.type], { concurrency: 1 });
    const stuck = await on.queue.enqueue(held.type, 1);
    const next = await on.queue.enqueue(held.type, 2);
    await until(on.clock, () => held.started.length === 1);
    await on.clock.advance(14_999);
    expect(await stateOf(on.queue, stuck.id)).toBe('processing');
    expect(held.started).toEqual([stuck.id]);
    await on.clock.advance(1);
    expect(await finished(on, stuck.id)).toMatchObject({ state: 'failed', attempts: 1, error: { code: 'TIMEOUT' } });
    await until(on.clock, () => held.started.length === 2);
    expect(worker.running).toEqual([next.id]);
    expect(warnings(on.logs)).toEqual(['Handler ignores its abort signal', 'Job failed']);
    expect(on.logs.find(({ level }) => level === 'warn')!.fields).toMatchObject({ id: stuck.id, type: 'ignores' });
    const { ok, warnings: told } = await healthOf(on.queue);
    expect(ok).toBe(true);
    expect(told).toEqual([{ code: 'STUCK_HANDLER', message: expect.stringContaining(stuck.id) }]);

    held.end(stuck.id, 'too late');
    await until(on.clock, () => on.logs.some(({ message }) => message === 'Late result refused'));
    expect(await on.queue.get(stuck.id)).toMatchObject({ state: 'failed', result: null, error: { code: 'TIMEOUT' } });
    expect((await healthOf(on.queue)).warnings).toEqual([]);
    held.end(next.id, 'in time');
    expect(await finished(on, next.id)).toMatchObject({ state: 'completed' });
  });

  it('with attempts left, the attempt that timed out is followed by another', async () => {
    await using on = await bench(engine);
    const held = holding('again', { timeout: '10s', attempts: 2, backoff: { type: 'fixed', base: '1s', jitter: 0 } });
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(15_000);
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, error: { code: 'TIMEOUT' } });
    await on.clock.advance(1_000);
    await until(on.clock, () => held.started.length === 2);
    held.end(id, 'second');
    expect(await finished(on, id)).toMatchObject({ state: 'completed', result: 'second', error: null, attempts: 2 });
  });

  it('with an exclusiveKey the job keeps its key and its claim while its code runs', async () => {
    await using on = await bench(engine);
    const code = gate<unknown>();
    const ran: unknown[] = [];
    const type = jobType(
      'keyed',
      ({ input }) => {
        ran.push(input);
        return input === 'stuck' ? code.passed : 'ran';
      },
      { timeout: '10s', exclusiveKey: 'site', attempts: 1 },
    );
    await on.queue.work([type], { concurrency: 5 });
    const other = await on.another();
    await other.queue.work([type], { concurrency: 5 });
    const stuck = await on.queue.enqueue(type, 'stuck');
    await until(on.clock, () => ran.length === 1);
    const behind = await on.queue.enqueue(type, 'behind');
    await on.clock.advance(120_000);
    expect(ran).toEqual(['stuck']);
    expect(await on.queue.get(stuck.id)).toMatchObject({ state: 'processing', stalls: 0, attempts: 1 });
    expect(await stateOf(on.queue, behind.id)).toBe('pending');
    const told = [...(await healthOf(on.queue)).warnings, ...(await healthOf(other.queue)).warnings];
    expect(told).toEqual([{ code: 'STUCK_HANDLER', message: expect.stringContaining(stuck.id) }]);
    expect(warnings([...on.logs, ...other.logs])).toEqual([
      'Handler ignores its abort signal and holds its exclusive key',
    ]);
    code.open(rejected(new Error('gave up at last')));
    expect(await finished(on, stuck.id)).toMatchObject({ state: 'failed', error: { code: 'TIMEOUT' } });
    await on.clock.advance(1_000);
    expect(await finished(on, behind.id)).toMatchObject({ state: 'completed', result: 'ran' });
    expect((await healthOf(on.queue)).warnings).toEqual([]);
  });
});
