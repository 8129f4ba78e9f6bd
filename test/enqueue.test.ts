// Enqueueing: by definition and by name, with every option, alone and together, and what each call is told.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StoreFactory } from '../src/core/store.js';
import { defineJob, type JobOptions, LastoutError, open, type Queue } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { closedAfterwards, eachStore, expectCode, recordingLogger, tapped } from './support.js';

const t0 = new Date('2030-01-01T00:00:00Z');
const after = (ms: number): Date => new Date(t0.getTime() + ms);

/** Ids of all stored jobs, in the order of insertion. */
async function inOrder(queue: Queue): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Queue['find']>> = await queue.find({ limit: 200, ...(cursor && { cursor }) });
    ids.push(...page.items.map((job) => job.id));
    cursor = page.next;
  } while (cursor);
  return ids.reverse();
}

function countingInserts(factory: StoreFactory): { factory: StoreFactory; batches: number[] } {
  const batches: number[] = [];
  return {
    batches,
    factory: tapped(factory, (store) => ({
      insert(jobs, options) {
        batches.push(jobs.length);
        return store.insert(jobs, options);
      },
    })),
  };
}

describe('enqueue: the type', () => {
  eachStore((on) => {
    it('a definition gives the name, and its options are the defaults of its jobs', async () => {
      const { queue } = await on.still();
      const build = defineJob('build', { queue: 'slow', priority: 5, attempts: 9, ttl: '1h', source: 'cli' });
      const { id, outcome } = await queue.enqueue(build, { site: 'docs' });
      expect(outcome).toBe('created');
      expect(await queue.get(id)).toMatchObject({
        type: 'build',
        queue: 'slow',
        priority: 5,
        maxAttempts: 9,
        expiresAt: after(3_600_000),
        source: 'cli',
      });
    });

    it('the options of a call outrank those of the definition, one by one', async () => {
      const { queue } = await on.still();
      const build = defineJob('build', {
        queue: 'slow',
        priority: 5,
        delay: '1m',
        ttl: '2h',
        attempts: 9,
        subject: 'site:a',
        exclusiveKey: 'a',
        deduplicationKey: 'a',
        source: 'cli',
        metadata: { from: 'definition' },
      });
      const { id } = await queue.enqueue(build, null, {
        queue: 'fast',
        priority: -5,
        delay: 0,
        ttl: '1h',
        attempts: 1,
        subject: 'site:b',
        exclusiveKey: 'b',
        deduplicationKey: 'b',
        source: 'http',
        metadata: { from: 'call' },
      });
      expect(await queue.get(id)).toMatchObject({
        queue: 'fast',
        priority: -5,
        scheduledFor: t0,
        expiresAt: after(3_600_000),
        maxAttempts: 1,
        subject: 'site:b',
        exclusiveKey: 'b',
        deduplicationKey: 'b',
        source: 'http',
        metadata: { from: 'call' },
      });
    });

    it('without types, any well-formed name is taken, with the default options', async () => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue('anything.at-all_1', { a: 1 });
      expect(await queue.get(id)).toEqual({
        id,
        type: 'anything.at-all_1',
        queue: 'default',
        state: 'pending',
        input: { a: 1 },
        result: null,
        error: null,
        attempts: 0,
        maxAttempts: 3,
        stalls: 0,
        priority: 0,
        subject: null,
        deduplicationKey: null,
        exclusiveKey: null,
        source: null,
        metadata: {},
        progress: null,
        retryOf: null,
        cancelRequested: null,
        createdAt: t0,
        scheduledFor: t0,
        startedAt: null,
        completedAt: null,
        expiresAt: null,
        dueAt: t0,
        epoch: 0,
      });
    });

    it('with types, a listed name uses its definition and an unlisted one is UNKNOWN_TYPE', async () => {
      const build = defineJob('build', { attempts: 8, subject: (input: { site: string }) => `site:${input.site}` });
      const { queue } = await on.still({ types: [build] });
      const { id } = await queue.enqueue('build', { site: 'docs' });
      expect(await queue.get(id)).toMatchObject({ maxAttempts: 8, subject: 'site:docs' });
      const { message } = await expectCode('UNKNOWN_TYPE', () => queue.enqueue('biuld', {}));
      expect(message).toContain('"biuld"');
      expect(message).toContain('build');
      await expectCode('UNKNOWN_TYPE', () => queue.enqueue(defineJob('other', {}), {}));
    });

    it('a name that a worker of this queue handles uses that definition', async () => {
      const { queue } = await on.still();
      await queue.pause();
      await queue.work([defineJob('build', { attempts: 8, run: () => 1 })]);
      const { id } = await queue.enqueue('build', {});
      expect(await queue.get(id)).toMatchObject({ maxAttempts: 8 });
    });
  });
});

describe('enqueue: each option shows on the job', () => {
  const cases: [string, JobOptions, object][] = [
    ['queue', { queue: 'mails.fast-1' }, { queue: 'mails.fast-1' }],
    ['priority', { priority: -1000 }, { priority: -1000 }],
    ['priority at its other end', { priority: 1000 }, { priority: 1000 }],
    ['delay', { delay: '5s' }, { scheduledFor: after(5_000), dueAt: after(5_000) }],
    ['delay in milliseconds', { delay: 1 }, { scheduledFor: after(1) }],
    ['delay of ten years', { delay: 3650 * 86_400_000 }, { scheduledFor: after(3650 * 86_400_000) }],
    ['runAt', { runAt: after(90_000) }, { scheduledFor: after(90_000), dueAt: after(90_000) }],
    ['ttl', { ttl: '5m' }, { expiresAt: after(300_000) }],
    ['ttl of a year', { ttl: 365 * 86_400_000 }, { expiresAt: after(365 * 86_400_000) }],
    ['attempts', { attempts: 10_000 }, { maxAttempts: 10_000 }],
    ['subject', { subject: 'trip:42:b' }, { subject: 'trip:42:b' }],
    ['subject of 256 bytes', { subject: `trip:${'x'.repeat(251)}` }, { subject: `trip:${'x'.repeat(251)}` }],
    ['exclusiveKey', { exclusiveKey: 'dépôt 7' }, { exclusiveKey: 'dépôt 7' }],
    ['deduplicationKey', { deduplicationKey: 'k' }, { deduplicationKey: 'k' }],
    ['an empty deduplicationKey, which is no key', { deduplicationKey: '' }, { deduplicationKey: null }],
    ['source', { source: 'POST /trips' }, { source: 'POST /trips' }],
    ['metadata', { metadata: { a: [1, { b: null }] } }, { metadata: { a: [1, { b: null }] } }],
    ['id', { id: 'order-17:mail' }, { id: 'order-17:mail' }],
  ];
  eachStore((on) => {
    it.each(cases)('%s', async (_name, options, seen) => {
      const { queue } = await on.still();
      const { id, outcome } = await queue.enqueue('mail', null, options);
      expect(outcome).toBe('created');
      expect(await queue.get(id)).toMatchObject(seen);
    });

    it('runAt in the past is due now, and a line at debug says by how much it was late', async () => {
      const { logger, lines } = recordingLogger();
      const { queue } = await on.still({ logger });
      const { id } = await queue.enqueue('mail', null, { runAt: after(-60_000) });
      expect(await queue.get(id)).toMatchObject({ state: 'pending', scheduledFor: t0, dueAt: t0 });
      expect(lines).toContainEqual({
        level: 'debug',
        message: 'runAt is in the past: due now',
        fields: { type: 'mail', lateByMs: 60_000 },
      });
    });

    it('timeout, backoff and keep act on the job they were given with', async () => {
      const { queue, clock } = await on.still();
      const slow = defineJob('slow', {
        run: ({ signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      });
      await queue.work([slow]);
      const { id } = await queue.enqueue(slow, null, {
        timeout: '2s',
        attempts: 2,
        backoff: { type: 'fixed', base: '7s' },
        keep: { failed: '3h' },
      });
      await clock.advance(2_000);
      expect(await queue.get(id)).toMatchObject({
        state: 'pending',
        attempts: 1,
        error: { code: 'TIMEOUT' },
        scheduledFor: after(2_000 + 7_000),
      });
      await clock.advance(9_000);
      const failedAt = after(2_000 + 7_000 + 2_000);
      expect(await queue.get(id)).toMatchObject({
        state: 'failed',
        completedAt: failedAt,
        dueAt: new Date(failedAt.getTime() + 3 * 3_600_000),
      });
    });

    it('a delay in the definition holds for its jobs', async () => {
      const { queue } = await on.still();
      const { id } = await queue.enqueue(defineJob('mail', { delay: '10s' }), null);
      expect(await queue.get(id)).toMatchObject({ scheduledFor: after(10_000) });
    });

    it('the clock given to open is the one that createdAt is read from', async () => {
      const at = new Date('2031-05-06T07:08:09.123Z');
      const queue = closedAfterwards(await open(await on.url(), { clock: { now: () => at } }));
      const { id } = await queue.enqueue('mail', null, { delay: '1s' });
      const job = await queue.get(id);
      expect(job?.createdAt).toEqual(at);
      expect(job?.scheduledFor).toEqual(new Date(at.getTime() + 1_000));
      expect(job?.createdAt).toBeInstanceOf(Date);
    });

    it('no clock given means the time of day', async () => {
      const before = Date.now();
      const queue = await on.open();
      const job = await queue.get((await queue.enqueue('mail', null)).id);
      expect(job!.createdAt.getTime()).toBeGreaterThanOrEqual(before);
      expect(job!.createdAt.getTime()).toBeLessThanOrEqual(Date.now());
    });
  });
});

describe('enqueue: per-input functions', () => {
  eachStore((on) => {
    it('subject, deduplicationKey and exclusiveKey are made from the input', async () => {
      const { queue } = await on.still();
      const build = defineJob<{ site: string; page: number }>('build', {
        subject: (input) => `site:${input.site}`,
        deduplicationKey: (input) => `${input.site}/${input.page}`,
        exclusiveKey: (input) => input.site,
      });
      const { id } = await queue.enqueue(build, { site: 'docs', page: 3 });
      expect(await queue.get(id)).toMatchObject({
        subject: 'site:docs',
        deduplicationKey: 'docs/3',
        exclusiveKey: 'docs',
      });
    });

    it('an option of the call outranks them', async () => {
      const { queue } = await on.still();
      const build = defineJob<{ site: string }>('build', {
        subject: (input) => `site:${input.site}`,
        deduplicationKey: (input) => input.site,
        exclusiveKey: (input) => input.site,
      });
      const options = { subject: 'other:1', deduplicationKey: '', exclusiveKey: 'mine' };
      const { id } = await queue.enqueue(build, { site: 'docs' }, options);
      expect(await queue.get(id)).toMatchObject({ subject: 'other:1', deduplicationKey: null, exclusiveKey: 'mine' });
    });

    it('an empty deduplicationKey from a function is no key', async () => {
      const { queue } = await on.still();
      const build = defineJob('build', { deduplication: 'skip', deduplicationKey: () => '' });
      const first = await queue.enqueue(build, 1);
      expect(await queue.get(first.id)).toMatchObject({ deduplicationKey: null });
      expect(await queue.enqueue(build, 2)).toEqual({ id: first.id, outcome: 'skipped' });
    });

    it.each(['subject', 'exclusiveKey', 'deduplicationKey'] as const)(
      'a wrong %s from a function is refused, and one that throws says its own words',
      async (name) => {
        const { queue } = await on.still();
        const wrong = defineJob('build', { [name]: () => 'a\0b' });
        await expectCode('INVALID_KEY', () => queue.enqueue(wrong, 1));
        const throwing = defineJob('build', {
          [name]: () => {
            throw new Error('no site');
          },
        });
        await expect(queue.enqueue(throwing, 1)).rejects.toThrow('no site');
        expect((await queue.stats()).total.pending).toBe(0);
      },
    );
  });
});

describe('enqueue: what a duplicate is told', () => {
  eachStore((on) => {
    it('each strategy answers with a typed verdict and an id, never with null', async () => {
      const { queue } = await on.still();
      const enqueue = (deduplication: JobOptions['deduplication'], key: string) =>
        queue.enqueue('build', 1, { deduplication: deduplication!, deduplicationKey: key });
      const first = { skip: await enqueue('skip', 'a'), replace: await enqueue('replace', 'b') };
      const coalesced = await enqueue('coalesce', 'c');
      expect(await enqueue('none', 'a')).toMatchObject({ outcome: 'created', id: expect.any(String) });
      expect((await enqueue('skip', 'a')).outcome).toBe('skipped');
      const replacing = await enqueue('replace', 'b');
      expect(replacing).toEqual({ id: expect.any(String), outcome: 'replaced', replaced: first.replace.id });
      expect(replacing.id).not.toBe(first.replace.id);
      expect(await enqueue('coalesce', 'c')).toEqual({ id: coalesced.id, outcome: 'coalesced' });
      expect(await queue.enqueue('build', 1, { id: first.skip.id })).toEqual({
        id: first.skip.id,
        outcome: 'existing',
      });
    });

    it('a skip logs "Skipping duplicate job" at debug with the type and the existing id, and nothing else does', async () => {
      const { logger, lines } = recordingLogger();
      const { queue } = await on.still({ logger });
      const build = defineJob('build', { deduplication: 'skip' });
      const { id } = await queue.enqueue(build, 1);
      await queue.enqueue('other', 1);
      const said = () => lines.filter((line) => line.message === 'Skipping duplicate job');
      expect(said()).toEqual([]);
      const expected = {
        level: 'debug',
        message: 'Skipping duplicate job',
        fields: { type: 'build', existingJobId: id },
      };
      expect(await queue.enqueue(build, 2)).toEqual({ id, outcome: 'skipped' });
      expect(said()).toEqual([expected]);
      expect(await queue.enqueue('build', 2, { deduplication: 'skip' })).toEqual({ id, outcome: 'skipped' });
      expect(said()).toEqual([expected, expected]);
      await queue.enqueueMany([{ type: build, input: 3 }]);
      expect(said()).toEqual([expected, expected, expected]);
    });

    it('twenty concurrent calls with one key make one job, and nineteen are told its id', async () => {
      const { queue } = await on.still();
      const build = defineJob('build', { deduplication: 'skip', deduplicationKey: 'docs' });
      const answers = await Promise.all(Array.from({ length: 20 }, (_, n) => queue.enqueue(build, n)));
      expect(answers.map(({ outcome }) => outcome)).toEqual(['created', ...Array<string>(19).fill('skipped')]);
      expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
      expect(await queue.get(answers[0]!.id)).toMatchObject({ input: 0 });
      expect((await queue.stats()).total.pending).toBe(1);
    });

    it('a given id is idempotent: the same input exists, whatever the order of its keys, another one conflicts', async () => {
      const { queue } = await on.still();
      await queue.enqueue('mail', { a: 1, b: { c: 2, d: 3 } }, { id: 'order-1' });
      expect(await queue.enqueue('mail', { b: { d: 3, c: 2 }, a: 1 }, { id: 'order-1' })).toEqual({
        id: 'order-1',
        outcome: 'existing',
      });
      await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueue('mail', { a: 2 }, { id: 'order-1' }));
      await expectCode('IDEMPOTENCY_CONFLICT', () =>
        queue.enqueue('letter', { a: 1, b: { c: 2, d: 3 } }, { id: 'order-1' }),
      );
      expect((await queue.stats()).total.pending).toBe(1);
    });
  });
});

describe('enqueueMany', () => {
  eachStore((on) => {
    it('inserts all jobs in the order of the list and answers in the same order', async () => {
      const { queue } = await on.still();
      const build = defineJob('build', { attempts: 7 });
      const answers = await queue.enqueueMany([
        { type: build, input: 0 },
        { type: 'mail', input: 1, options: { priority: 3 } },
        { type: build, input: 2 },
      ]);
      expect(answers.map(({ outcome }) => outcome)).toEqual(['created', 'created', 'created']);
      const ids = answers.map(({ id }) => id);
      expect(await inOrder(queue)).toEqual(ids);
      const jobs = await Promise.all(ids.map((id) => queue.get(id)));
      expect(jobs.map((job) => [job!.type, job!.input, job!.priority, job!.maxAttempts])).toEqual([
        ['build', 0, 0, 7],
        ['mail', 1, 3, 3],
        ['build', 2, 0, 7],
      ]);
    });

    it('takes 1,000 jobs in one batch', async () => {
      const counting = countingInserts(on.factory());
      const { queue } = await on.still({}, counting.factory);
      const answers = await queue.enqueueMany(Array.from({ length: 1_000 }, (_, n) => ({ type: 'mail', input: n })));
      expect(counting.batches).toEqual([1_000]);
      expect(await inOrder(queue)).toEqual(answers.map(({ id }) => id));
    });

    it('decides duplicates inside the list in its order', async () => {
      const { queue } = await on.still();
      const options = { deduplication: 'skip', deduplicationKey: 'a' } as const;
      const [first, second, third] = await queue.enqueueMany([
        { type: 'build', input: 1, options },
        { type: 'build', input: 2, options },
        { type: 'build', input: 3, options: { ...options, deduplication: 'replace' } },
      ]);
      expect(second).toEqual({ id: first.id, outcome: 'skipped' });
      expect(third).toMatchObject({ outcome: 'replaced', replaced: first.id });
      expect(await queue.get(third.id)).toMatchObject({ input: 3, state: 'pending' });
      expect(await queue.get(first.id)).toMatchObject({
        state: 'failed',
        error: { message: 'Replaced by newer job' },
      });
    });

    it('a conflict that only the store can see refuses all, with the index', async () => {
      const { queue } = await on.still();
      await queue.enqueue('mail', 1, { id: 'order-1' });
      const { details } = await expectCode('IDEMPOTENCY_CONFLICT', () =>
        queue.enqueueMany([
          { type: 'mail', input: 'new' },
          { type: 'mail', input: 2, options: { id: 'order-1' } },
        ]),
      );
      expect(details).toMatchObject({ index: 1 });
      expect(await inOrder(queue)).toEqual(['order-1']);
    });

    it('an id given twice in one list with two inputs refuses all; with one input it exists', async () => {
      const { queue } = await on.still();
      const item = (input: number) => ({ type: 'mail', input, options: { id: 'order-1' } });
      await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueueMany([item(1), item(2)]));
      expect(await inOrder(queue)).toEqual([]);
      expect(await queue.enqueueMany([item(1), item(1)])).toEqual([
        { id: 'order-1', outcome: 'created' },
        { id: 'order-1', outcome: 'existing' },
      ]);
    });
  });
});

describe('enqueue: concurrent calls are gathered', () => {
  eachStore((on) => {
    it('100 concurrent calls travel in a few batches, in the order of the calls', async () => {
      const counting = countingInserts(on.factory());
      const { queue } = await on.still({}, counting.factory);
      const answers = await Promise.all(Array.from({ length: 100 }, (_, n) => queue.enqueue('mail', n)));
      expect(counting.batches.reduce((sum, n) => sum + n, 0)).toBe(100);
      expect(counting.batches.length).toBeLessThanOrEqual(3);
      expect(await inOrder(queue)).toEqual(answers.map(({ id }) => id));
    });

    it('2,500 concurrent calls travel in batches of at most 1,000', async () => {
      const counting = countingInserts(on.factory());
      const { queue } = await on.still({}, counting.factory);
      const answers = await Promise.all(Array.from({ length: 2_500 }, (_, n) => queue.enqueue('mail', n)));
      expect(Math.max(...counting.batches)).toBeLessThanOrEqual(1_000);
      expect(counting.batches.length).toBeLessThanOrEqual(5);
      expect(await inOrder(queue)).toEqual(answers.map(({ id }) => id));
    });

    it('single calls and lists keep the order of the calls among one another', async () => {
      const { queue } = await on.still();
      const calls: Promise<readonly { id: string }[]>[] = [];
      const one = (n: number) => queue.enqueue('mail', n).then((answer) => [answer]);
      for (let n = 0; n < 30; n++) {
        calls.push(one(n));
        if (n % 3 === 0)
          calls.push(
            queue.enqueueMany([
              { type: 'mail', input: `${n}a` },
              { type: 'mail', input: `${n}b` },
            ]),
          );
        // Some calls come while a batch is already under way.
        if (n % 10 === 9) await Promise.resolve();
      }
      const ids = (await Promise.all(calls)).flat().map(({ id }) => id);
      expect(ids).toHaveLength(50);
      expect(await inOrder(queue)).toEqual(ids);
    });

    it('one refused job fails its own caller alone', async () => {
      const counting = countingInserts(on.factory());
      const { queue } = await on.still({}, counting.factory);
      await queue.enqueue('mail', 'original', { id: 'taken' });
      const answers = await Promise.allSettled([
        queue.enqueue('mail', 1),
        queue.enqueue('mail', 'other', { id: 'taken' }),
        queue.enqueue('mail', 2),
        queue.enqueue('mail', undefined as never),
        queue.enqueue('mail', 3),
      ]);
      expect(answers.map(({ status }) => status)).toEqual([
        'fulfilled',
        'rejected',
        'fulfilled',
        'rejected',
        'fulfilled',
      ]);
      const reasons = answers.flatMap((answer) =>
        answer.status === 'rejected' ? [answer.reason as LastoutError] : [],
      );
      expect(reasons.map(({ code }) => code)).toEqual(['IDEMPOTENCY_CONFLICT', 'UNSERIALIZABLE']);
      expect((await queue.stats()).total.pending).toBe(4);
      expect(counting.batches).toEqual([1, 4]);
    });

    it('a list that is refused does not hurt the single calls around it', async () => {
      const { queue } = await on.still();
      await queue.enqueue('mail', 'original', { id: 'taken' });
      const answers = await Promise.allSettled([
        queue.enqueue('mail', 1),
        queue.enqueueMany([
          { type: 'mail', input: 2 },
          { type: 'mail', input: 'other', options: { id: 'taken' } },
        ]),
        queue.enqueue('mail', 3),
      ]);
      expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
      const inputs = (await queue.find()).items.map((job) => job.input);
      expect(inputs).toEqual([3, 1, 'original']);
    });

    it('a store that fails a batch fails its callers, and the next batch goes through', async () => {
      let failing = true;
      const factory = tapped(on.factory(), (store) => ({
        insert: (jobs, options) =>
          failing ? Promise.reject(new LastoutError('STORE_UNAVAILABLE', 'down')) : store.insert(jobs, options),
      }));
      const { queue } = await on.still({}, factory);
      const answers = await Promise.allSettled([
        queue.enqueue('mail', 1),
        queue.enqueueMany([{ type: 'mail', input: 2 }]),
      ]);
      for (const answer of answers) expect(answer).toMatchObject({ reason: { code: 'STORE_UNAVAILABLE' } });
      failing = false;
      expect((await queue.enqueue('mail', 3)).outcome).toBe('created');
      expect((await queue.find()).items.map((job) => job.input)).toEqual([3]);
    });
  });
});

describe('ids', () => {
  it('have 16 to 20 characters and grow with every call, whatever the clock does', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ step: fc.integer({ min: -5, max: 5 }), calls: fc.integer({ min: 1, max: 50 }) }), {
          minLength: 1,
          maxLength: 20,
        }),
        (script) => {
          let now = t0.getTime();
          const system = createSystem({ now: () => new Date(now) });
          const ids: string[] = [];
          for (const { step, calls } of script) {
            now += step;
            for (let i = 0; i < calls; i++) ids.push(system.id());
          }
          expect(ids).toEqual([...new Set(ids)].sort());
          for (const id of ids) expect(id).toMatch(/^[0-9a-z]{16,20}$/);
        },
      ),
    );
  });

  it('of later times sort after those of earlier times, also across processes', () => {
    fc.assert(
      fc.property(fc.nat(2 ** 43), fc.integer({ min: 1, max: 2 ** 40 }), (at, later) => {
        const idAt = (ms: number) => createSystem({ now: () => new Date(ms) }).id();
        expect(idAt(at) < idAt(at + later)).toBe(true);
      }),
    );
  });

  eachStore((on) => {
    it('made within one millisecond are in the order of the calls, and none is given twice', async () => {
      const { queue } = await on.still();
      const answers = await Promise.all(Array.from({ length: 500 }, (_, n) => queue.enqueue('mail', n)));
      const ids = answers.map(({ id }) => id);
      expect(ids).toEqual([...new Set(ids)].sort());
    });
  });
});
