// Reading: one job, pages of them, the numbers, the state of health, and the lines that handlers wrote.
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { defineJob, fail, type Filter, type Job, type JobOptions, type Json, open, type Queue } from '../src/index.js';
import { closedAfterwards, eachStore, expectCode, gate, healthOf, tapped, temporaryFolder } from './support.js';

const t0 = new Date('2030-01-01T00:00:00Z');
const after = (ms: number): Date => new Date(t0.getTime() + ms);

/** Runs the job that is given as input: what it returns, throws or waits for is in the hands of the test. */
const act = defineJob<string, string>('act', {
  attempts: 1,
  run: ({ input }) => {
    if (input === 'throw') throw new Error('no');
    return input === 'fail' ? fail('refused') : input;
  },
});

describe('get', () => {
  eachStore((on) => {
    it('answers null for an id that was never given', async () => {
      const { queue } = await on.still();
      expect(await queue.get('nobody')).toBeNull();
    });

    it('of a type answers its own jobs, null where there is none, and refuses the job of another type', async () => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue(act, 'fine');
      const { id: other } = await queue.enqueue('mail', 1);
      expect(await queue.get(act, id)).toEqual(await queue.get(id));
      expect(await queue.get(act, 'nobody')).toBeNull();
      const { message } = await expectCode('JOB_NOT_FOUND', () => queue.get(act, other));
      expect(message).toContain('mail');
      await expectCode('INVALID_ID', () => queue.get(act, undefined as never));
      await expectCode('TYPE_REQUIRED', () => queue.get({ name: 'act' }, id));
    });

    it('wait of a type answers its own jobs, and refuses at once what is not there or of another type', async () => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue(act, 'fine');
      const { id: other } = await queue.enqueue('mail', 1);
      await expectCode('JOB_NOT_FOUND', () => queue.wait(act, other));
      await expectCode('JOB_NOT_FOUND', () => queue.wait(act, 'nobody', { timeout: '1s' }));
      await expectCode('UNKNOWN_OPTION', () => queue.wait(act, id, { timout: '1s' } as never));
      await queue.work([act]);
      expect(await queue.wait(act, id, { timeout: '10s' })).toMatchObject({ state: 'completed', result: 'fine' });
    });

    it('shows a job in every state of its life', async () => {
      const { queue, clock } = await on.still();
      const begun = gate();
      const end = gate<string>();
      const type = defineJob('slow', {
        ttl: '1h',
        run: async () => {
          begun.open();
          return end.opened;
        },
      });
      const { id } = await queue.enqueue(type, { a: 1 }, { delay: '1s', priority: 4 });
      expect(await queue.get(id)).toMatchObject({ state: 'pending', dueAt: after(1_000), attempts: 0, epoch: 0 });
      await clock.advance(2_000);
      await queue.work([type]);
      await begun.opened;
      const processing = await queue.get(id);
      expect(processing).toMatchObject({
        state: 'processing',
        attempts: 1,
        startedAt: after(2_000),
        scheduledFor: after(1_000),
        completedAt: null,
        dueAt: after(32_000),
        input: { a: 1 },
        priority: 4,
      });
      expect(processing!.epoch).toBeGreaterThan(0);
      end.open('done');
      await queue.wait(id);
      expect(await queue.get(id)).toMatchObject({
        state: 'completed',
        result: 'done',
        error: null,
        attempts: 1,
        startedAt: after(2_000),
        completedAt: after(2_000),
        dueAt: after(2_000 + 86_400_000),
        epoch: processing!.epoch,
      });
    });

    it('a job past its ttl reads as expired at once, swept or not, and reads the same afterwards', async () => {
      const { queue, clock } = await on.still();
      const { id } = await queue.enqueue('mail', null, { ttl: '2s' });
      await clock.advance(1_999);
      expect(await queue.get(id)).toMatchObject({ state: 'pending' });
      await clock.advance(1);
      const unswept = await queue.get(id);
      expect(unswept).toMatchObject({ state: 'expired', completedAt: after(2_000), error: { code: 'EXPIRED' } });
      await clock.advance(1_000);
      await queue.sweep();
      expect(await queue.get(id)).toEqual(unswept);
    });

    it('hands out values of its own: changing them changes nothing stored', async () => {
      const { queue } = await on.still();
      const input = { list: [1] };
      const { id } = await queue.enqueue('mail', input);
      input.list.push(2);
      const job = (await queue.get(id)) as unknown as { input: { list: number[] }; metadata: Record<string, number> };
      job.input.list.push(3);
      job.metadata.x = 1;
      expect(await queue.get(id)).toMatchObject({ input: { list: [1] }, metadata: {} });
    });
  });
});

describe('find', () => {
  /** One job of each kind; the names say what is special about them. */
  async function populate(queue: Queue, clock: { advance(ms: number): Promise<void> }) {
    const ids: Record<string, string> = {};
    const add = async (name: string, type: string | typeof act, input: Json, options?: JobOptions) => {
      const added =
        typeof type === 'string' ? queue.enqueue(type, input, options) : queue.enqueue(type, input as string, options);
      ids[name] = (await added).id;
      await clock.advance(1);
    };
    await queue.work([act]);
    await add('completed', act, 'fine');
    await add('failed', act, 'throw');
    await add('cancelled', 'mail', 1);
    await queue.cancel(ids.cancelled!);
    await add('expired', 'mail', 2, { ttl: 1 });
    await add('delayed', 'mail', 3, { delay: '1h', subject: 'trip:1', source: 'cli' });
    await add('queued', 'mail', 4, { queue: 'slow', deduplicationKey: 'k', subject: 'trip:2' });
    await add('other', 'letter', 5, { subject: 'trip:1', source: 'http' });
    return ids;
  }

  eachStore((on) => {
    const cases: [string, Filter, string[]][] = [
      ['nothing asked: all, newest first', {}, ['other', 'queued', 'delayed', 'expired', 'cancelled', 'failed', 'completed']],
      ['a state', { state: 'completed' }, ['completed']],
      ['pending, which has both due and delayed ones', { state: 'pending' }, ['other', 'queued', 'delayed']],
      ['expired, swept or not', { state: 'expired' }, ['expired']],
      ['several states', { state: ['failed', 'cancelled'] }, ['cancelled', 'failed']],
      ['no state at all', { state: [] }, []],
      ['a type', { type: 'letter' }, ['other']],
      ['several types', { type: ['letter', 'act'] }, ['other', 'failed', 'completed']],
      ['a queue', { queue: 'slow' }, ['queued']],
      ['several queues', { queue: ['slow', 'nowhere'] }, ['queued']],
      ['a subject', { subject: 'trip:1' }, ['other', 'delayed']],
      ['a key', { key: 'k' }, ['queued']],
      ['a source', { source: 'http' }, ['other']],
      ['everything together', { state: 'pending', type: 'mail', queue: 'default', subject: 'trip:1' }, ['delayed']],
      ['a contradiction', { state: 'completed', type: 'mail' }, []],
      ['a subject that no job has', { subject: 'trip:3' }, []],
    ]; // biome-ignore format: one case a line
    it.each(cases)('%s', async (_what, filter, names) => {
      const { queue, clock } = await on.still();
      const ids = await populate(queue, clock);
      const page = await queue.find(filter);
      const nameOf = (job: Job) => Object.keys(ids).find((name) => ids[name] === job.id);
      expect(page.items.map(nameOf)).toEqual(names);
      expect(page.next).toBeNull();
    });

    it('by id, by several ids, and by ids that do not exist', async () => {
      const { queue, clock } = await on.still();
      const { completed, queued } = await populate(queue, clock);
      const found = async (id: string | string[]) => (await queue.find({ id })).items.map((job) => job.id);
      expect(await found(completed!)).toEqual([completed]);
      expect(await found([completed!, 'nobody', queued!, queued!])).toEqual([queued, completed]);
      expect(await found('nobody')).toEqual([]);
      expect((await queue.find({ id: [completed!, queued!], state: 'pending' })).items).toHaveLength(1);
    });

    it('by createdAt: before and after are exclusive', async () => {
      const { queue, clock } = await on.still();
      const ids: string[] = [];
      for (let i = 0; i < 4; i++) {
        ids.push((await queue.enqueue('mail', i)).id);
        await clock.advance(1_000);
      }
      const found = async (filter: Filter) => (await queue.find(filter)).items.map((job) => ids.indexOf(job.id));
      expect(await found({ after: after(1_000) })).toEqual([3, 2]);
      expect(await found({ before: after(2_000) })).toEqual([1, 0]);
      expect(await found({ after: t0, before: after(3_000) })).toEqual([2, 1]);
      expect(await found({ after: after(3_000) })).toEqual([]);
    });

    it('gives 50 at most unless told otherwise, 200 at the very most, and goes on at the cursor', async () => {
      const { queue } = await on.still();
      const answers = await queue.enqueueMany(Array.from({ length: 450 }, (_, n) => ({ type: 'mail', input: n })));
      const ids = answers.map(({ id }) => id).reverse();
      const first = await queue.find();
      expect(first.items.map((job) => job.id)).toEqual(ids.slice(0, 50));
      const second = await queue.find({ limit: 200, cursor: first.next! });
      expect(second.items.map((job) => job.id)).toEqual(ids.slice(50, 250));
      const last = await queue.find({ limit: 200, cursor: second.next! });
      expect(last.items.map((job) => job.id)).toEqual(ids.slice(250));
      expect(last.next).toBeNull();
    });

    it('the pages of every size hold every match once, also while jobs are added and removed', async () => {
      const { queue } = await on.still();
      for (let n = 0; n < 23; n++) await queue.enqueue(n % 3 === 0 ? 'letter' : 'mail', n);
      for (const limit of [1, 2, 5, 7, 8, 9, 50]) {
        const seen: unknown[] = [];
        let cursor: string | null = null;
        do {
          const page = await queue.find({ type: 'letter', limit, ...(cursor && { cursor }) });
          seen.push(...page.items.map((job) => job.input));
          cursor = page.next;
        } while (cursor);
        expect(seen).toEqual([21, 18, 15, 12, 9, 6, 3, 0]);
      }
      const first = await queue.find({ type: 'letter', limit: 3 });
      await queue.enqueue('letter', 'new');
      await queue.remove(first.items[2]!.id);
      const rest = await queue.find({ type: 'letter', cursor: first.next! });
      expect(rest.items.map((job) => job.input)).toEqual([12, 9, 6, 3, 0]);
    });
  });
});

describe('stats', () => {
  eachStore((on) => {
    const zero = {
      blockedBy: null,
      blockedUntil: null,
      full: false,
      pending: 0,
      delayed: 0,
      processing: 0,
      stalled: 0,
      completed: 0,
      failed: 0,
      replaced: 0,
      cancelled: 0,
      expired: 0,
      paused: false,
      oldestDueAgeMs: null,
    };

    it('of an empty store are zero', async () => {
      const { queue } = await on.still();
      expect(await queue.stats()).toEqual({ total: zero, queues: {}, leftBehind: 0 });
    });

    it('count by state and queue; delayed is a part of pending', async () => {
      const { queue, clock } = await on.still();
      await queue.work([act], { queues: ['default'] });
      await queue.enqueue(act, 'fine');
      await queue.enqueue(act, 'throw');
      await queue.enqueue(act, 'fail');
      await clock.settle();
      await queue.enqueue('mail', 1, { queue: 'slow', delay: '1m' });
      await queue.enqueue('mail', 2, { queue: 'slow' });
      await queue.cancel((await queue.enqueue('mail', 3, { queue: 'slow' })).id);
      await queue.enqueue('mail', 4, { queue: 'slow', ttl: '1s' });
      await clock.advance(1_000);
      const { total, queues, leftBehind } = await queue.stats();
      expect(queues.default).toEqual({ ...zero, completed: 1, failed: 2 });
      expect(queues.slow).toEqual({ ...zero, pending: 2, delayed: 1, cancelled: 1, expired: 1, oldestDueAgeMs: 1_000 });
      expect(total).toEqual({
        ...zero,
        pending: 2,
        delayed: 1,
        completed: 1,
        failed: 2,
        cancelled: 1,
        expired: 1,
        oldestDueAgeMs: 1_000,
      });
      expect(leftBehind).toBe(0);
    });

    it('a delayed job that became due is delayed no more and has an age, swept or not', async () => {
      const { queue, clock } = await on.still();
      await queue.enqueue('mail', 1, { delay: '1s' });
      expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 1, oldestDueAgeMs: null });
      await clock.advance(1_000);
      expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 0, oldestDueAgeMs: 0 });
      await clock.advance(2_000);
      const unswept = await queue.stats();
      expect(unswept.total).toMatchObject({ pending: 1, delayed: 0, oldestDueAgeMs: 2_000 });
      await queue.sweep();
      expect(await queue.stats()).toEqual(unswept);
    });

    it('a job past its ttl is expired and not due, swept or not', async () => {
      const { queue, clock } = await on.still();
      await queue.enqueue('mail', 1, { ttl: '1s' });
      await queue.enqueue('mail', 2, { ttl: '2s', delay: '1s' });
      await clock.advance(2_000);
      const unswept = await queue.stats();
      expect(unswept.total).toEqual({ ...zero, expired: 2 });
      await queue.sweep();
      expect(await queue.stats()).toEqual(unswept);
    });

    it('oldestDueAgeMs is the age of the one that has been due longest, over all queues and priorities', async () => {
      const { queue, clock } = await on.still();
      await queue.enqueue('mail', 1, { priority: 9, queue: 'slow' });
      await clock.advance(1_000);
      await queue.enqueue('letter', 2, { priority: -9 });
      await clock.advance(500);
      const { total, queues } = await queue.stats();
      expect([total.oldestDueAgeMs, queues.slow!.oldestDueAgeMs, queues.default!.oldestDueAgeMs]).toEqual([
        1_500, 1_500, 500,
      ]);
    });

    it('processing counts claimed jobs; stalled is the part whose worker went silent, and is left behind', async () => {
      const store = on.factory();
      let silent = false;
      const never = new Promise<never>(() => undefined);
      const muted = tapped(store, (real) => ({
        extend: (request) => (silent ? never : real.extend(request)),
      }));
      const { queue, clock } = await on.still({}, muted);
      const begun = gate();
      const stuck = defineJob('stuck', {
        run: () => {
          begun.open();
          return never;
        },
      });
      await queue.enqueue(stuck, null);
      await queue.work([stuck], { lease: '2s', poll: '10m' });
      await begun.opened;
      expect((await queue.stats()).total).toMatchObject({ pending: 0, processing: 1, stalled: 0 });
      silent = true;
      await clock.advance(2_001);
      const stats = await queue.stats();
      expect(stats.total).toMatchObject({ processing: 1, stalled: 1 });
      expect(stats.leftBehind).toBe(1);
      await queue.pause();
      await queue.sweep();
      expect(await queue.stats()).toMatchObject({ total: { pending: 1, processing: 0, stalled: 0 }, leftBehind: 0 });
    });

    it('leftBehind counts finished jobs that are past retention by more than one cleanup interval', async () => {
      const clock = { at: t0.getTime(), now: () => new Date(clock.at) };
      const queue = closedAfterwards(await open(await on.url(), { clock }));
      await queue.stopPeriodicCleanup();
      await queue.cancel((await queue.enqueue('mail', 1)).id);
      await queue.cancel((await queue.enqueue('mail', 2, { keep: '1h' })).id);
      await queue.cancel((await queue.enqueue('mail', 3, { keep: 'forever' })).id);
      const hour = 3_600_000;
      clock.at = t0.getTime() + 2 * hour;
      expect((await queue.stats()).leftBehind).toBe(0);
      clock.at += 1;
      expect((await queue.stats()).leftBehind).toBe(1);
      clock.at = t0.getTime() + 25 * hour + 1;
      expect((await queue.stats()).leftBehind).toBe(2);
      await queue.sweep();
      expect((await queue.stats()).leftBehind).toBe(0);
    });

    it('paused shows per queue, and in total once every queue is', async () => {
      const { queue } = await on.still();
      await queue.enqueue('mail', 1);
      await queue.enqueue('mail', 2, { queue: 'slow' });
      await queue.pause('slow');
      const paused = async () => {
        const { total, queues } = await queue.stats();
        return [total.paused, queues.default?.paused, queues.slow?.paused];
      };
      expect(await paused()).toEqual([false, false, true]);
      await queue.pause();
      expect(await paused()).toEqual([true, true, true]);
      await queue.resume();
      expect(await paused()).toEqual([false, false, false]);
    });

    it('paused as a whole shows on an empty store too, and a queue paused by name shows without jobs', async () => {
      const { queue } = await on.still();
      await queue.pause();
      expect((await queue.stats()).total.paused).toBe(true);
      await queue.resume();
      expect((await queue.stats()).total.paused).toBe(false);
      await queue.pause('slow');
      expect((await queue.stats()).queues).toEqual({ slow: { ...zero, paused: true, blockedBy: 'paused' } });
    });
  });
});

describe('health', () => {
  eachStore((on) => {
    it('is well: which store, how durable, when it was last swept', async () => {
      const { queue, clock } = await on.still();
      await clock.settle();
      expect(await healthOf(queue)).toEqual({
        ok: true,
        store: on.engine,
        durability: on.engine === 'memory' ? 'process' : expect.stringMatching(/^(os|fsync)$/),
        warnings: [],
        lastSweepAt: t0,
      });
    });

    it('of a closed queue is not well, and says so instead of throwing', async () => {
      const { queue } = await on.still();
      await queue.close();
      expect(await healthOf(queue)).toMatchObject({ ok: false, store: on.engine, warnings: [{ code: 'CLOSED' }] });
    });

    it('of a store that does not answer is not well, with the reason', async () => {
      const broken = tapped(on.factory(), () => ({ check: () => Promise.reject(new Error('disk on fire')) }));
      const { queue } = await on.still({}, broken);
      expect(await healthOf(queue)).toMatchObject({
        ok: false,
        warnings: [{ code: 'STORE_UNAVAILABLE', message: 'The store broke off "check". (cause: disk on fire)' }],
      });
    });

    it('warns of what the store warns of, and stays well', async () => {
      const warnings = [{ code: 'ALMOST_FULL', message: '90 % of the disk is used.' }];
      const warning = tapped(on.factory(), () => ({ check: async () => warnings }));
      const { queue } = await on.still({}, warning);
      expect(await healthOf(queue)).toMatchObject({ ok: true, warnings });
    });

    it('a worker that gets no answer from the store is not well, until it does again', async () => {
      let down = true;
      const flaky = tapped(on.factory(), (store) => ({
        claim: (request) => (down ? Promise.reject(new Error('gone')) : store.claim(request)),
      }));
      const { queue, clock } = await on.still({}, flaky);
      const worker = await queue.work([act]);
      await clock.settle();
      expect(await healthOf(queue)).toMatchObject({
        ok: false,
        warnings: [{ code: 'WORKER_FAILING', message: expect.stringContaining(worker.id) }],
      });
      down = false;
      await clock.advance(5_000);
      expect(await healthOf(queue)).toMatchObject({ ok: true, warnings: [] });
    });

    it('L12: a handler that ignores its abort signal is shown as stuck until it returns', async () => {
      const { queue, clock } = await on.still();
      const begun = gate();
      const end = gate();
      const deaf = defineJob('deaf', {
        timeout: '1s',
        attempts: 1,
        run: async () => {
          begun.open();
          await end.opened;
        },
      });
      const { id } = await queue.enqueue(deaf, null);
      await queue.work([deaf]);
      await begun.opened;
      await clock.advance(6_000);
      expect(await queue.get(id)).toMatchObject({ state: 'failed', error: { code: 'TIMEOUT' } });
      expect(await healthOf(queue)).toMatchObject({
        ok: true,
        warnings: [{ code: 'STUCK_HANDLER', message: expect.stringContaining(id) }],
      });
      end.open();
      await clock.settle();
      expect(await healthOf(queue)).toMatchObject({ warnings: [] });
    });
  });

  it('warns when the SQLite file was moved away', async () => {
    const folder = temporaryFolder();
    const queue = closedAfterwards(await open(`sqlite:${join(folder, 'jobs.db')}`));
    await rename(join(folder, 'jobs.db'), join(folder, 'moved.db'));
    expect(await healthOf(queue)).toMatchObject({ ok: true, warnings: [{ code: 'FILE_GONE' }] });
  });
});

describe('logs', () => {
  eachStore((on) => {
    it('are the lines of a job in their order, with fields and time, also after it ended', async () => {
      const { queue, clock } = await on.still();
      const next = gate();
      const talk = defineJob('talk', {
        run: async ({ log }) => {
          log('first', { n: 1 });
          await next.opened;
          log('second');
        },
      });
      const { id } = await queue.enqueue(talk, null);
      await queue.work([talk]);
      await clock.advance(1_000);
      expect(await queue.logs(id)).toEqual([{ at: after(100), message: 'first', fields: { n: 1 } }]);
      next.open();
      await queue.wait(id);
      expect(await queue.logs(id)).toEqual([
        { at: after(100), message: 'first', fields: { n: 1 } },
        { at: after(1_000), message: 'second', fields: null },
      ]);
    });

    it('of a job without lines, and of no job, are empty', async () => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue('mail', 1);
      expect(await queue.logs(id)).toEqual([]);
      expect(await queue.logs('nobody')).toEqual([]);
    });

    it('go with their job when it is removed', async () => {
      const { queue } = await on.still();
      const talk = defineJob('talk', { run: ({ log }) => log('said') });
      const { id } = await queue.enqueue(talk, null);
      await queue.work([talk]);
      await queue.wait(id);
      expect(await queue.logs(id)).toHaveLength(1);
      await queue.remove(id);
      expect(await queue.logs(id)).toEqual([]);
    });
  });
});

describe('reading a closed queue', () => {
  eachStore((on) => {
    it('is refused', async () => {
      const { queue } = await on.still();
      await queue.close();
      await expectCode('CLOSED', () => queue.stats());
    });
  });
});
