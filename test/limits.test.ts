// Limits of a queue across all processes, as a caller meets them: refusals, waiting workers, and what stats says.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, test } from 'vitest';
import { readLimits } from '../src/core/limits.js';
import { type Code, defineJob, type LastoutError, open, type OpenOptions } from '../src/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { connect, newJob, openStore } from './stores/sqlite-support.js';
import { eachStore, expectCode, refusalOf, temporaryFolder } from './support.js';
import { bench, claimRequest, engines, holding, jobType, until } from './worker-support.js';

const leaseMs = 30_000;

describe('bad limits are refused, and nothing is opened', () => {
  const bad: [string, unknown, Code, RegExp][] = [
    ['no object', 5, 'UNKNOWN_OPTION', /queues is 5/],
    ['a list', [], 'UNKNOWN_OPTION', /queues is an array/],
    ['null', null, 'UNKNOWN_OPTION', /queues is null/],
    ['a queue name that is none', { 'my mail': {} }, 'INVALID_NAME', /"my mail"/],
    ["the library's own queue", { lastout: { concurrency: 1 } }, 'INVALID_NAME', /kept for the library/],
    ['limits that are no object', { mail: 5 }, 'UNKNOWN_OPTION', /queue "mail": got 5/],
    ['limits that are null', { mail: null }, 'UNKNOWN_OPTION', /queue "mail": got null/],
    ['a wrong word', { mail: { concurency: 5 } }, 'UNKNOWN_OPTION', /Did you mean concurrency\?/],
    ["another library's word", { mail: { limiter: {} } }, 'UNKNOWN_OPTION', /rate: \{ max, per \}/],
    ['maxPending 0', { mail: { maxPending: 0 } }, 'INVALID_LIMIT', /mail\.maxPending is 0/],
    ['maxPending null', { mail: { maxPending: null } }, 'INVALID_LIMIT', /mail\.maxPending is null/],
    ['maxPending as text', { mail: { maxPending: '10' } }, 'INVALID_LIMIT', /mail\.maxPending is "10"/],
    ['maxPending without end', { mail: { maxPending: Infinity } }, 'INVALID_LIMIT', /leave it out for no limit/],
    ['concurrency 0', { mail: { concurrency: 0 } }, 'INVALID_LIMIT', /pause the queue/],
    ['concurrency below 0', { mail: { concurrency: -1 } }, 'INVALID_LIMIT', /mail\.concurrency is -1/],
    ['half a job at once', { mail: { concurrency: 1.5 } }, 'INVALID_LIMIT', /mail\.concurrency is 1\.5/],
    ['a rate that is a number', { mail: { rate: 5 } }, 'UNKNOWN_OPTION', /mail\.rate: got 5/],
    ['a rate that is null', { mail: { rate: null } }, 'UNKNOWN_OPTION', /mail\.rate: got null/],
    ['a rate of a wrong word', { mail: { rate: { max: 1, pre: '1s' } } }, 'UNKNOWN_OPTION', /Did you mean per\?/],
    ['a rate without max', { mail: { rate: { per: '1s' } } }, 'INVALID_LIMIT', /rate\.max is undefined/],
    ['a rate of 0', { mail: { rate: { max: 0, per: '1s' } } }, 'INVALID_LIMIT', /rate\.max is 0/],
    ['a rate without per', { mail: { rate: { max: 1 } } }, 'INVALID_DURATION', /rate\.per is undefined/],
    [
      'a rate per nothing',
      { mail: { rate: { max: 1, per: 0 } } },
      'INVALID_DURATION',
      /per is 0; .*, from 1ms to 3650d/,
    ],
    ['a rate per wish', { mail: { rate: { max: 1, per: 'second' } } }, 'INVALID_DURATION', /rate\.per is "second"/],
  ];

  it.each(bad)('%s', async (_what, queues, code, message) => {
    const file = join(temporaryFolder(), 'jobs.db');
    const refusal = await expectCode(code, () => open(`sqlite:${file}`, { queues } as OpenOptions));
    expect(refusal.message).toMatch(message);
    expect(existsSync(file)).toBe(false);
  });
});

test('the limits of docs/limits.md are taken as printed', async () => {
  const page = readFileSync(new URL('../docs/limits.md', import.meta.url), 'utf8');
  const [, options = ''] = /open\('sqlite:jobs\.db', (\{[\s\S]*?\n\})\);/.exec(page)!;
  const printed = `data:text/javascript,export default ${encodeURIComponent(options)}`;
  const { queues } = ((await import(printed)) as { default: OpenOptions }).default;
  expect(Object.keys(queues!)).toEqual(['mail', 'reports']);
  expect(readLimits(queues).get('mail')).toEqual({
    maxPending: 10_000,
    concurrency: 5,
    rate: { max: 100, perMs: 60_000 },
  });
});

eachStore((on) => {
  describe('maxPending', () => {
    it('refuses with QUEUE_FULL, which says all that is needed to try again', async () => {
      const queue = await on.open({ queues: { mail: { maxPending: 2 } } });
      for (let n = 0; n < 2; n++) await queue.enqueue('letter', n, { queue: 'mail' });
      const refusal = await expectCode('QUEUE_FULL', () => queue.enqueue('letter', 2, { queue: 'mail' }));
      expect(refusal.details).toMatchObject({ queue: 'mail', maxPending: 2, pending: 2, retryAfterMs: 1_000 });
      expect(refusal.message).toContain('"mail"');
      expect((await queue.stats()).queues.mail).toMatchObject({ pending: 2, full: true });
      await queue.enqueue('letter', 2, { queue: 'other' });
    });

    it('refuses each of many concurrent calls for itself', async () => {
      const queue = await on.open({ queues: { mail: { maxPending: 30 } } });
      const calls = Array.from({ length: 100 }, (_, n) => queue.enqueue('letter', n, { queue: 'mail' }));
      const answers = await Promise.allSettled(calls);
      const refused = answers
        .filter((answer) => answer.status === 'rejected')
        .map(({ reason }) => reason as LastoutError);
      expect(answers.length - refused.length).toBe(30);
      expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['QUEUE_FULL']));
      expect((await queue.find({ limit: 200 })).items).toHaveLength(30);
    });

    it('refuses enqueueMany as a whole, and names the first job without room', async () => {
      const queue = await on.open({ queues: { mail: { maxPending: 3 } } });
      const batch = (n: number) =>
        Array.from({ length: n }, (_, input) => ({ type: 'letter', input, options: { queue: 'mail' } }));
      const refusal = await expectCode('QUEUE_FULL', () => queue.enqueueMany(batch(5)));
      expect(refusal.details).toEqual({ queue: 'mail', maxPending: 3, pending: 0, retryAfterMs: 1_000, index: 3 });
      expect((await queue.find()).items).toEqual([]);
      expect(await queue.enqueueMany(batch(3))).toHaveLength(3);
    });

    it('leaves no count, no event and no slot behind what it refuses', async () => {
      const { queue, clock } = await on.still({ queues: { mail: { maxPending: 1 } } });
      const type = defineJob('letter', {
        queue: 'mail',
        deduplication: 'skip',
        deduplicationKey: (n: number) => `${n}`,
      });
      await queue.enqueue(type, 1);
      const created: unknown[] = [];
      queue.on('created', ({ id }) => created.push(id));
      await clock.settle(); // it listens from here on
      await refusalOf(() => queue.enqueue(type, 2));
      expect(await queue.enqueue(type, 1)).toMatchObject({ outcome: 'skipped' });
      await queue.remove({ all: true });
      const { id, outcome } = await queue.enqueue(type, 2);
      expect(outcome).toBe('created');
      await clock.settle();
      // On PostgreSQL a step of somebody else that is under way may hold events back until the next look.
      if (on.engine === 'postgres') await clock.advance(200);
      expect(created).toEqual([id]);
      expect((await queue.stats()).total.pending).toBe(1);
    });

    it('is no obstacle to retrying by hand', async () => {
      const { queue, clock } = await on.still({ queues: { mail: { maxPending: 1 } } });
      const { id } = await queue.enqueue('letter', 1, { queue: 'mail' });
      await queue.cancel(id);
      await queue.enqueue('letter', 2, { queue: 'mail' });
      expect((await queue.retry(id)).items[0]).toMatchObject({ outcome: 'retried' });
      expect((await queue.stats()).queues.mail).toMatchObject({ pending: 2, full: true });
      await clock.settle();
    });
  });

  describe('what is kept', () => {
    it('holds for a queue that is opened without a word about limits', async () => {
      const factory = on.factory();
      const first = await on.still({ queues: { mail: { maxPending: 1 } } }, factory);
      const second = await on.still({}, factory);
      await first.queue.enqueue('letter', 1, { queue: 'mail' });
      await expectCode('QUEUE_FULL', () => second.queue.enqueue('letter', 2, { queue: 'mail' }));
      await on.still({ queues: { other: { maxPending: 1 } } }, factory);
      await expectCode('QUEUE_FULL', () => second.queue.enqueue('letter', 2, { queue: 'mail' }));
    });

    it('is what was said last, and {} says none', async () => {
      const factory = on.factory();
      const { queue } = await on.still({ queues: { mail: { maxPending: 1 } } }, factory);
      const add = (): Promise<unknown> => queue.enqueue('letter', null, { queue: 'mail' });
      await add();
      await on.still({ queues: { mail: { maxPending: 2 } } }, factory);
      await add();
      await expectCode('QUEUE_FULL', add);
      await on.still({ queues: { mail: {} } }, factory);
      await add();
      expect((await queue.stats()).queues.mail).toMatchObject({ pending: 3, full: false });
    });
  });
});

describe.each(engines)('workers on %s', (engine) => {
  it('of all processes together run no more jobs of a queue than its concurrency', async () => {
    await using on = await bench(engine, { queues: { mail: { concurrency: 3 } } });
    const other = await on.another();
    let running = 0;
    let most = 0;
    const type = jobType(
      'letter',
      async () => {
        most = Math.max(most, ++running);
        await on.clock.settle();
        running -= 1;
      },
      { queue: 'mail' },
    );
    await on.queue.enqueueMany(Array.from({ length: 60 }, (_, input) => ({ type, input })));
    for (const { queue } of [on, other, on]) await queue.work([type], { concurrency: 10 });
    for (let n = 0; n < 100 && (await on.queue.stats()).total.completed < 60; n++) await on.clock.advance(100);
    expect((await on.queue.stats()).total.completed).toBe(60);
    expect(most).toBe(3);
  });

  it('that wait for a slot are woken in the process that gives it back', async () => {
    await using on = await bench(engine, { queues: { mail: { concurrency: 1 } } });
    const [letter, parcel] = [holding('letter', { queue: 'mail' }), holding('parcel', { queue: 'mail' })];
    const first = await on.queue.enqueue(letter.type, 1);
    const second = await on.queue.enqueue(parcel.type, 2);
    await on.queue.work([letter.type], { poll: '1h' });
    await until(on.clock, () => letter.started.length === 1);
    await on.queue.work([parcel.type], { poll: '1h' });
    await on.clock.settle();
    expect(parcel.started).toEqual([]);
    letter.end(first.id);
    await until(on.clock, () => parcel.started.length === 1, 'the other job, while the clock stands still');
    parcel.end(second.id);
  });

  it('that wait for a slot are woken when the limit is raised in their process', async () => {
    await using on = await bench(engine, { queues: { mail: { concurrency: 1 } } });
    const letter = holding('letter', { queue: 'mail' });
    for (let n = 0; n < 2; n++) await on.queue.enqueue(letter.type, n);
    await on.queue.work([letter.type], { poll: 100 });
    await until(on.clock, () => letter.started.length === 1);
    await on.another({ queues: { mail: { concurrency: 2 } } });
    // Another connection to the file is another process: there the poll notices.
    if (engine === 'sqlite') await on.clock.advance(100);
    await until(on.clock, () => letter.started.length === 2);
    letter.endAll();
  });

  it('get the slots of a dead one back when its claim lapses', async () => {
    await using on = await bench(engine, { queues: { mail: { concurrency: 2 } } });
    const letter = holding('letter', { queue: 'mail' });
    for (let n = 0; n < 2; n++) await on.queue.enqueue(letter.type, n);
    await on.store.claim(claimRequest(['letter'], { slots: 2 }));
    await on.queue.work([letter.type]);
    await on.clock.advance(leaseMs - 200);
    expect(letter.started).toEqual([]);
    expect((await on.queue.stats()).queues.mail).toMatchObject({ blockedBy: 'concurrency', blockedUntil: null });
    await on.clock.advance(400);
    expect(letter.started).toHaveLength(2);
    letter.endAll();
  });

  it('start jobs at the instant at which the rate lets them, however long their poll', async () => {
    await using on = await bench(engine, { queues: { mail: { rate: { max: 2, per: '10s' } } } });
    const begun = on.clock.monotonic();
    const starts: number[] = [];
    const type = jobType('letter', () => void starts.push(on.clock.monotonic() - begun), { queue: 'mail' });
    await on.queue.enqueueMany(Array.from({ length: 6 }, (_, input) => ({ type, input })));
    await on.queue.work([type], { poll: '1h' });
    await on.clock.advance(4_000);
    const { blockedBy, blockedUntil } = (await on.queue.stats()).queues.mail!;
    expect({ blockedBy, inMs: blockedUntil!.getTime() - on.clock.now().getTime() }).toEqual({
      blockedBy: 'rate',
      inMs: 6_000,
    });
    await on.clock.advance(30_000);
    expect(starts).toEqual([0, 0, 10_000, 10_000, 20_000, 20_000]);
  });

  it.each([
    ['concurrency', { concurrency: 1 }],
    ['rate', { rate: { max: 1, per: '1h' } }],
  ] as const)('that a %s holds back ask no oftener than an idle one', async (_what, limits) => {
    await using on = await bench(engine, { queues: { mail: limits } });
    const letter = holding('letter', { queue: 'mail' });
    for (let n = 0; n < 5; n++) await on.queue.enqueue(letter.type, n);
    await on.queue.work([letter.type], { poll: 100 });
    await until(on.clock, () => letter.started.length === 1);
    await on.clock.advance(100);
    const before = on.wire.of('claim').length;
    await on.clock.advance(5_000);
    expect(on.wire.of('claim').length - before).toBeLessThanOrEqual(51);
    expect(letter.started).toHaveLength(1);
    letter.endAll();
  });

  it('run other queues while one is exhausted, in strict order', async () => {
    await using on = await bench(engine, { queues: { mail: { concurrency: 1 } } });
    const letter = holding('letter');
    const enqueue = async (queue: string, priority: number): Promise<string> =>
      (await on.queue.enqueue(letter.type, null, { queue, priority })).id;
    const ids = [
      await enqueue('mail', 0),
      await enqueue('mail', 1),
      await enqueue('post', 3),
      await enqueue('post', 2),
    ];
    await on.queue.work([letter.type], { concurrency: 10 });
    await until(on.clock, () => letter.started.length === 3);
    expect(letter.started).toEqual([ids[0], ids[3], ids[2]]);
    letter.endAll();
    await until(on.clock, () => letter.started.length === 4);
    letter.endAll();
  });
});

eachStore((on) => {
  it('a hint is given for a slot that stays free, and none for one that is taken again in the same step', async () => {
    const limits = new Map([['default', { maxPending: null, concurrency: 1, rate: null }]]);
    const store = await openStore(on.factory(), { limits });
    onTestFinished(() => store.close());
    const hinted: string[] = [];
    store.subscribe((hint) => void (hint.kind === 'ready' && hinted.push(...hint.types)));
    // Once it listens to others, a networked store says that it may have missed something.
    if (on.engine === 'postgres' || on.engine === 'redis') await expect.poll(() => hinted).toEqual(['*']);
    const request = claimRequest(['letter']);
    await store.insert([newJob({ type: 'letter' }), newJob({ type: 'letter' })], { atomic: false });
    const first = await store.claim(request);
    hinted.length = 0;
    const end = (epoch: number, id: string, next: typeof request | null) =>
      store.settle({
        owner: request.owner,
        settlements: [{ id, epoch, ending: { kind: 'complete', result: '1' } }],
        started: [],
        next,
      });
    const { claimed } = await end(first.epoch, first.jobs[0]!.id, request);
    expect(claimed?.jobs).toHaveLength(1);
    expect(hinted).toEqual([]);
    await end(claimed!.epoch, claimed!.jobs[0]!.id, null);
    expect(hinted).toEqual(['*']);
  });
});

describe('on sqlite', () => {
  it.each([
    ['concurrency', { concurrency: 1, maxPending: null, rate: null }],
    ['rate', { concurrency: null, maxPending: null, rate: { max: 1, perMs: 60_000 } }],
  ])('a worker that a %s holds back takes no lock', async (_what, limits) => {
    const file = join(temporaryFolder(), 'jobs.db');
    const store = await openStore(sqliteStore({ file }, { lockWaitMs: 50 }), { limits: new Map([['mail', limits]]) });
    onTestFinished(() => store.close());
    const request = claimRequest(['letter']);
    await store.insert([newJob({ type: 'letter', queue: 'mail' }), newJob({ type: 'letter', queue: 'mail' })], {
      atomic: false,
    });
    expect((await store.claim(request)).jobs).toHaveLength(1);
    const writer = await connect(file);
    writer.exec('begin immediate');
    try {
      const held = await store.claim(request);
      expect(held).toMatchObject({ jobs: [], more: false });
      expect(held.nextDueInMs === null).toBe(limits.rate === null);
    } finally {
      writer.exec('rollback');
      writer.close();
    }
  });
});
