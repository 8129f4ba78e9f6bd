/** A codec on open: what is stored is not what was said, and nobody but the file notices. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { codedStore } from '../src/codec/store.js';
import { systemQueue } from '../src/core/names.js';
import { noFilter, type Store } from '../src/core/store.js';
import { cancel, type Codec, defineJob, fail, memoryStore, open, type Queue } from '../src/index.js';
import { storeCases } from '../src/testing/index.js';
import { newJob } from '../src/testing/store-cases/bench.js';
import { codedCases } from '../src/testing/store-cases/coded.js';
import { aesGcm, newKey } from './codec/aes.js';
import { harnessOn } from './stores/harness.js';
import { closedAfterwards, eachStore, expectCode, gate, recordingLogger, tapped } from './support.js';

const key = newKey();
const aes = aesGcm({ k1: key });
const quiet = recordingLogger().logger;

/** A codec that fails for the texts that contain a word, and repeats them in its complaint. */
function refusing(word: string, side: 'encode' | 'decode' = 'encode'): Codec {
  const check = (text: string): string => {
    if (text.includes(word)) throw new Error(`will not touch ${text}`);
    return text;
  };
  const plain = (text: string): string => text;
  return { encode: side === 'encode' ? check : plain, decode: side === 'decode' ? check : plain };
}

async function finished(queue: Queue, id: string) {
  return queue.wait(id, { timeout: '20s' });
}

describe('behind a codec', () => {
  const except: Readonly<Record<string, string>> = {
    'note: lines of 256 KiB are kept, then one that says truncated': 'coded lines are longer, so fewer of them fit',
    'insert: a job without a print is compared by its id, type and input': 'the store cannot read the input',
    'readPlan: a plan tells the first ids, and the length of the texts that go': 'coded texts are longer',
    'readPlan: an error counts for the length too': 'coded texts are longer',
    'readPlan: a plan names those that own something, by their rule, with the length of their texts':
      'coded texts are longer',
  };
  // Texts that carry the mark already are what a store meets below the codec, not above it.
  const plain = storeCases.filter(({ name }) => !(name in except) && !codedCases.some((coded) => coded.name === name));

  it('all but the few rules that speak of stored texts are held', () => {
    for (const name of Object.keys(except)) expect(storeCases.map((rule) => rule.name)).toContain(name);
    expect(plain.length).toBe(storeCases.length - codedCases.length - Object.keys(except).length);
  });

  it.each(plain.map(({ name, run }) => [name, run] as const))('a store keeps its rules: %s', async (_name, run) => {
    const harness = await harnessOn(memoryStore());
    await run({ ...harness, store: codedStore(harness.store, aes, quiet) });
    await harness.dispose();
  });
});

eachStore((on) => {
  it('input, result, progress and log lines come back as they went in', async () => {
    const queue = await on.open({ codec: aes });
    const type = defineJob<any, any>('echo', {
      run({ input, progress, log }) {
        progress({ percent: 40, step: 'half', message: 'ä \u{1f600}' });
        log('a line', { with: ['fields'] });
        log('a bare line');
        return { got: input };
      },
    });
    const events = queue.events({ type: 'echo' });
    await queue.work([type]);
    const input = { text: 'quoted "ä"\u2028', list: [1, null, { deep: true }] };
    const { id } = await queue.enqueue(type, input);
    const job = await finished(queue, id);
    expect(job).toMatchObject({ state: 'completed', input, result: { got: input }, error: null });
    expect(job.progress).toEqual({ percent: 40, step: 'half', message: 'ä \u{1f600}' });
    for await (const event of events) {
      if (event.name !== 'progress') continue;
      expect(event.progress).toEqual(job.progress);
      break;
    }
    const lines = await queue.logs(id);
    expect(lines.map(({ message, fields }) => [message, fields])).toEqual([
      ['a line', { with: ['fields'] }],
      ['a bare line', null],
    ]);
    expect((await queue.find({ type: 'echo' })).items[0]).toEqual(job);
  });

  it('errors come back whole: of each attempt, of fail and of cancel, in the job and in its events', async () => {
    const queue = await on.open({ codec: aes });
    const long = 'x'.repeat(500);
    const type = defineJob<any, any>('broken', {
      attempts: 1,
      run({ input }) {
        if (input === 'fail') return fail({ message: 'hopeless', code: 'NO_HOPE' });
        if (input === 'cancel') return cancel('not needed');
        throw Object.assign(new Error(long), { code: 'E_LONG' });
      },
    });
    const events: unknown[] = [];
    const all = gate();
    const hear = ({ error }: { error?: unknown }): void => {
      if (error) events.push(error);
      if (events.length === 3) all.open();
    };
    queue.on('failed', hear);
    queue.on('cancelled', hear);
    await queue.work([type], { concurrency: 1 });
    const ids: string[] = [];
    for (const input of ['throw', 'fail', 'cancel']) ids.push((await queue.enqueue(type, input)).id);
    const errors = await Promise.all(ids.map(async (id) => (await finished(queue, id)).error));
    expect(errors[0]).toMatchObject({ message: long, code: 'E_LONG', stack: expect.stringContaining('codec.test') });
    expect(errors.slice(1)).toEqual([
      { message: 'hopeless', code: 'NO_HOPE' },
      { message: 'not needed', code: 'CANCELLED' },
    ]);
    await all.opened;
    expect(events).toEqual([
      { message: `${'x'.repeat(200)}…`, code: 'E_LONG' },
      { message: 'hopeless', code: 'NO_HOPE' },
      { message: 'not needed', code: 'CANCELLED' },
    ]);
  });

  it('the reason of a cancel reaches the handler, the request, the job and its event', async () => {
    const queue = await on.open({ codec: aes });
    const started = gate();
    const reasons: unknown[] = [];
    const type = defineJob<any, any>('running', {
      run: ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => {
            reasons.push((signal.reason as Error).message);
            reject(signal.reason as Error);
          });
          started.open();
        }),
    });
    const told = gate<unknown>();
    queue.on('cancelled', ({ id, error }) => void (id === running.id && told.open(error)));
    const waiting = await queue.enqueue('waits', 1);
    await queue.cancel(waiting.id, { reason: 'the customer left' });
    expect((await queue.get(waiting.id))!.error).toEqual({ code: 'CANCELLED', message: 'the customer left' });
    const running = await queue.enqueue(type, 1);
    const worker = await queue.work([type]);
    await started.opened;
    await queue.cancel(running.id, { reason: 'the site is gone' });
    const job = await finished(queue, running.id);
    await worker.stop();
    expect(reasons).toEqual(['the site is gone']);
    expect(job).toMatchObject({
      state: 'cancelled',
      error: { code: 'CANCELLED', message: 'the site is gone' },
      cancelRequested: { reason: 'the site is gone' },
    });
    expect(await told.opened).toEqual({ code: 'CANCELLED', message: 'the site is gone' });
  });

  it('what the store itself says is plain, and reads the same', async () => {
    const { queue, clock } = await on.still({ codec: aes });
    const expired = await queue.enqueue('never', 1, { ttl: '1s' });
    const replaced = await queue.enqueue('newest', 1, { deduplication: 'replace' });
    await queue.enqueue('newest', 2, { deduplication: 'replace' });
    await clock.advance('2s');
    expect((await queue.get(expired.id))!.error).toMatchObject({ code: 'EXPIRED' });
    expect((await queue.get(replaced.id))!.error).toEqual({ code: 'REPLACED', message: 'Replaced by newer job' });
  });

  it('a retry by hand runs with the input of the old job', async () => {
    const queue = await on.open({ codec: aes });
    const inputs: unknown[] = [];
    const type = defineJob<any, any>('again', {
      attempts: 1,
      run({ input }) {
        inputs.push(input);
        if (inputs.length === 1) throw new Error('once');
      },
    });
    await queue.work([type]);
    const { id } = await queue.enqueue(type, { secret: 7 });
    await finished(queue, id);
    const { items } = await queue.retry(id);
    await finished(queue, items[0]!.newId!);
    expect(inputs).toEqual([{ secret: 7 }, { secret: 7 }]);
  });

  it('given ids are compared by what was said, although the coded text is another each time', async () => {
    const queue = await on.open({ codec: aes });
    const send = (input: unknown) => queue.enqueue('order', input, { id: 'order-7' });
    expect((await send({ a: 1, b: 2 })).outcome).toBe('created');
    expect((await send({ b: 2, a: 1 })).outcome).toBe('existing');
    await expectCode('IDEMPOTENCY_CONFLICT', () => send({ a: 1 }));
    await queue.remove('order-7');
    expect((await send({ a: 1, b: 2 })).outcome).toBe('existing');
    await expectCode('IDEMPOTENCY_CONFLICT', () => send({ a: 1 }));
  });

  it('a result whose acknowledgement was lost is the same result when it is sent again', async () => {
    let lost = 0;
    const { lines, logger } = recordingLogger();
    const losing = tapped(on.factory(), (store) => ({
      async settle(request) {
        const answer = await store.settle(request);
        if (lost++ > 0 || request.settlements.length === 0) return answer;
        throw new Error('the line is dead');
      },
    }));
    const queue = closedAfterwards(await open(losing, { codec: aes, logger }));
    const type = defineJob<any, any>('once', { run: ({ input }) => input });
    const { id } = await queue.enqueue(type, 'said once');
    expect(await queue.runUntilIdle([type])).toEqual({ ran: 1, left: 0 });
    expect(await queue.get(id)).toMatchObject({ state: 'completed', result: 'said once', attempts: 1 });
    expect(lost).toBeGreaterThan(1);
    expect(lines.filter(({ message }) => message === 'Late result refused')).toEqual([]);
  });

  it('a schedule and the jobs of its ticks go through it too', async () => {
    const factory = on.factory();
    const { queue, clock } = await on.still({ codec: aes }, factory);
    const inputs: unknown[] = [];
    const type = defineJob<any, any>('ticks', { run: ({ input }) => void inputs.push(input) });
    await queue.schedule('often', type, { secret: 'of the tick' }, { every: '1m' });
    for (let tick = 0; tick < 3; tick++) await clock.advance('1m');
    expect(await queue.runUntilIdle([type])).toEqual({ ran: 3, left: 0 });
    expect(inputs).toEqual(Array(3).fill({ secret: 'of the tick' }));
    const [schedule] = await queue.schedules();
    expect(schedule).toMatchObject({ name: 'often', type: 'ticks', last: clock.now() });
    const { queue: outside } = await on.still({}, factory);
    const seen = await outside.find({ type: ['ticks', 'lastout.schedule'] });
    expect(seen.items.map(({ input }) => input)).toEqual(Array(4).fill(null));
  });

  it('rows from before the codec stay readable, and new ones are coded', async () => {
    const factory = on.factory();
    const before = closedAfterwards(await open(factory));
    const old = await before.enqueue('mail', { from: 'before' });
    await before.cancel((await before.enqueue('mail', 0)).id, { reason: '~/.config is missing' });
    const queue = closedAfterwards(await open(factory, { codec: aes }));
    const fresh = await queue.enqueue('mail', { from: 'after' });
    expect((await queue.get(old.id))!.input).toEqual({ from: 'before' });
    expect((await queue.find({ state: 'cancelled' })).items[0]!.error!.message).toBe('~/.config is missing');
    const inputs: unknown[] = [];
    const type = defineJob<any, any>('mail', { run: ({ input }) => void inputs.push(input) });
    expect(await queue.runUntilIdle([type])).toEqual({ ran: 2, left: 0 });
    expect(inputs).toEqual([{ from: 'before' }, { from: 'after' }]);
    expect((await before.get(fresh.id))!.input).toBeNull();
  });

  it('keys are rotated: the new one encodes, the old one still decodes', async () => {
    const factory = on.factory();
    const old = closedAfterwards(await open(factory, { codec: aes }));
    const a = await old.enqueue('mail', 'by the old key');
    const queue = closedAfterwards(await open(factory, { codec: aesGcm({ k2: newKey(), k1: key }) }));
    const b = await queue.enqueue('mail', 'by the new key');
    expect((await queue.get(a.id))!.input).toBe('by the old key');
    expect((await queue.get(b.id))!.input).toBe('by the new key');
    const { input, error } = (await old.get(b.id))!;
    expect(input).toBeNull();
    expect(error).toMatchObject({ code: 'UNSERIALIZABLE', message: expect.stringContaining('there is no key "k2"') });
  });
});

eachStore((on) => {
  describe('a codec that cannot encode', () => {
    it('an input: refused with UNSERIALIZABLE, nothing stored, its neighbours in the batch untouched', async () => {
      const queue = await on.open({ codec: refusing('poison') });
      const sent = await Promise.allSettled(['a', 'poison', 'b'].map((input) => queue.enqueue('mail', input)));
      expect(sent.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
      await expectCode('UNSERIALIZABLE', () => queue.enqueue('mail', 'poison'));
      await expectCode('UNSERIALIZABLE', () => queue.enqueue('mail', 'poison', { id: 'given' }));
      expect((await queue.find()).items.map(({ input }) => input)).toEqual(['b', 'a']);
      expect((await queue.stats()).total.pending).toBe(2);
    });

    it('an input of enqueueMany: none is stored, and the index is named', async () => {
      const queue = await on.open({ codec: refusing('poison') });
      const jobs = ['a', 'poison', 'b'].map((input) => ({ type: 'mail', input }));
      const refusal = await expectCode('UNSERIALIZABLE', () => queue.enqueueMany(jobs));
      expect(refusal.details).toMatchObject({ index: 1 });
      expect((await queue.find()).items).toEqual([]);
    });

    it.each([
      ['a number', () => 5],
      ['a promise', async () => 'later'],
      ['nothing', () => undefined],
      ['a NUL character', () => 'a\0b'],
      ['a lone surrogate', () => '\ud800'],
    ])('and gives %s: UNSERIALIZABLE', async (_what, encode) => {
      const queue = await on.open({ codec: { encode: encode as () => string, decode: (text) => text } });
      await expectCode('UNSERIALIZABLE', () => queue.enqueue('mail', 1));
      expect((await queue.find()).items).toEqual([]);
    });

    it('a result: the job ends failed, RESULT_INVALID, without a word of it', async () => {
      const { lines, logger } = recordingLogger();
      const queue = await on.open({ codec: refusing('poison'), logger });
      const type = defineJob<any, any>('mail', { run: () => 'poison and secret' });
      const { id } = await queue.enqueue(type, 1);
      expect(await queue.runUntilIdle([type])).toEqual({ ran: 1, left: 0 });
      const job = (await queue.get(id))!;
      expect(job).toMatchObject({ state: 'failed', result: null, error: { code: 'RESULT_INVALID' }, attempts: 1 });
      expect(job.error!.message).not.toContain('poison');
      expect(lines).toContainEqual({
        level: 'error',
        message: 'The codec failed',
        fields: { what: 'a result', error: expect.stringContaining('will not touch') },
      });
    });

    it('an error: the attempt fails, is tried again and ends, without a word of it', async () => {
      const { queue, clock } = await on.still({ codec: refusing('poison') });
      let runs = 0;
      const type = defineJob<any, any>('mail', {
        attempts: 2,
        backoff: { type: 'fixed', base: '1s', jitter: 0 },
        run() {
          runs += 1;
          throw new Error('poison and secret');
        },
      });
      const { id } = await queue.enqueue(type, 1);
      await queue.runUntilIdle([type]);
      expect(await queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, error: { code: 'UNSERIALIZABLE' } });
      await clock.advance('1s');
      await queue.runUntilIdle([type]);
      const job = (await queue.get(id))!;
      expect(job).toMatchObject({ state: 'failed', attempts: 2, error: { code: 'UNSERIALIZABLE' } });
      expect(JSON.stringify(job.error)).not.toContain('poison');
      expect(runs).toBe(2);
    });

    it('progress or a log line: the job goes on, and the line says so', async () => {
      const queue = await on.open({ codec: refusing('poison') });
      const type = defineJob<any, any>('mail', {
        run({ progress, log }) {
          progress({ percent: 5, message: 'poison' });
          log('poison');
          log('fine');
          return 'done';
        },
      });
      const { id } = await queue.enqueue(type, 1);
      await queue.runUntilIdle([type]);
      expect(await queue.get(id)).toMatchObject({ state: 'completed', result: 'done', progress: null });
      const lines = await queue.logs(id);
      expect(lines.map(({ message }) => message)).toEqual(['The codec could not encode this line', 'fine']);
    });

    it('the reason of a cancel: refused, and the job stays', async () => {
      const queue = await on.open({ codec: refusing('poison') });
      const { id } = await queue.enqueue('mail', 1);
      await expectCode('UNSERIALIZABLE', () => queue.cancel(id, { reason: 'poison' }));
      expect(await queue.get(id)).toMatchObject({ state: 'pending' });
    });
  });

  describe('a text that cannot be decoded', () => {
    /** Three jobs, of which the second was written with another key. */
    async function withStranger(codec: Codec | null = aes) {
      const factory = on.factory();
      const stranger = closedAfterwards(await open(factory, { codec: aesGcm({ k1: newKey() }) }));
      const queue = closedAfterwards(await open(factory, codec ? { codec } : {}));
      const a = await queue.enqueue('mail', 'a');
      const lost = await stranger.enqueue('mail', 'lost');
      const b = await queue.enqueue('mail', 'b');
      return { factory, queue, stranger, ids: [a.id, lost.id, b.id] as const };
    }

    it('at the claim: that job alone fails its attempt and says why, its neighbours run', async () => {
      const { queue, ids } = await withStranger();
      const inputs: unknown[] = [];
      const type = defineJob<any, any>('mail', { run: ({ input }) => void inputs.push(input) });
      expect(await queue.runUntilIdle([type])).toEqual({ ran: 3, left: 0 });
      expect(inputs).toEqual(['a', 'b']);
      const lost = (await queue.get(ids[1]))!;
      expect(lost).toMatchObject({ state: 'pending', attempts: 1, input: null, error: { code: 'UNSERIALIZABLE' } });
      expect(lost.error!.message).toContain('cannot be read: the codec could not decode it');
    });

    it('it can still be run once the key is there', async () => {
      const { queue, stranger, ids } = await withStranger();
      const inputs: unknown[] = [];
      const type = defineJob<any, any>('mail', { attempts: 1, run: ({ input }) => void inputs.push(input) });
      await queue.runUntilIdle([type]);
      await stranger.reschedule(ids[1], { delay: 0 });
      expect(await stranger.runUntilIdle([type])).toEqual({ ran: 1, left: 0 });
      expect(inputs).toEqual(['a', 'b', 'lost']);
      expect(await stranger.get(ids[1])).toMatchObject({ state: 'completed', input: 'lost' });
    });

    it('get and find show the job with a null in its place, and why', async () => {
      const { queue, ids } = await withStranger();
      const page = await queue.find({ type: 'mail' });
      expect(page.items.map(({ input, error }) => [input, error?.code])).toEqual([
        ['b', undefined],
        [null, 'UNSERIALIZABLE'],
        ['a', undefined],
      ]);
      expect(await queue.get(ids[1])).toEqual(page.items[1]);
    });

    it('without a codec, coded rows are shown in the same way, and no handler gets one', async () => {
      const { queue, stranger, ids } = await withStranger(null);
      const inputs: unknown[] = [];
      const type = defineJob<any, any>('mail', { run: ({ input }) => void inputs.push(input) });
      await stranger.cancel((await stranger.enqueue('mail', 1)).id, { reason: 'hidden' });
      await queue.runUntilIdle([type]);
      expect(inputs).toEqual(['a', 'b']);
      expect((await queue.get(ids[1]))!.error!.message).toContain('opened without one');
      const [cancelled] = (await queue.find({ state: 'cancelled' })).items;
      expect(cancelled!.error).toEqual({ code: 'CANCELLED', message: expect.stringContaining('cannot be read') });
    });

    it('results, errors, progress, lines and events of it harm no reader', async () => {
      const { queue, stranger } = await withStranger();
      const type = defineJob<any, any>('work', {
        attempts: 1,
        run({ input, log, progress }) {
          log('hidden', { also: 'hidden' });
          progress({ percent: 1, message: 'hidden' });
          if (input === 'throw') throw new Error('hidden');
          return 'hidden';
        },
      });
      const told = gate<unknown>();
      queue.on('failed', ({ error }) => told.open(error));
      const done = await stranger.enqueue(type, 'return');
      const failed = await stranger.enqueue(type, 'throw');
      await stranger.runUntilIdle([type]);
      expect(await queue.get(done.id)).toMatchObject({
        state: 'completed',
        result: null,
        progress: null,
        error: { code: 'UNSERIALIZABLE' },
      });
      expect((await queue.get(failed.id))!.error!.message).toContain('This text cannot be read');
      expect(await queue.logs(done.id)).toMatchObject([
        { message: expect.stringContaining('This text cannot be read'), fields: null },
      ]);
      expect(await told.opened).toMatchObject({ message: expect.stringContaining('This text cannot be read') });
    });

    it('a codec that decodes to noise is found out', async () => {
      const noise: Codec = { encode: (text) => text, decode: () => '\u0001\u0002 noise' };
      const { queue, ids } = await withStranger(noise);
      const type = defineJob<any, any>('mail', { run: () => 'never' });
      expect(await queue.runUntilIdle([type])).toEqual({ ran: 3, left: 0 });
      const states = await Promise.all(ids.map(async (id) => (await queue.get(id))!));
      expect(states.map(({ state, input }) => [state, input])).toEqual(ids.map(() => ['pending', null]));
    });
  });
});

it.each([
  ['text', 'rot13'],
  ['null', null],
  ['half of it', { encode: (text: string) => text }],
])('open refuses %s as a codec', async (_what, codec) => {
  const refusal = await expectCode('UNKNOWN_OPTION', () => open('memory:', { codec: codec as unknown as Codec }));
  expect(refusal.message).toContain('encode(text, of), decode(text, of)');
});

it('what a settlement remembers and brings along goes through it, and comes back', async () => {
  await using on = await bareAndCoded();
  const job = newJob({ type: 'lasting' });
  await on.coded.insert([job], { atomic: false });
  const request = { owner: 'w', types: ['lasting'], queues: null, slots: 1, ahead: 0, leaseMs: 1_000, maxStalls: 3 };
  const { epoch } = await on.coded.claim(request);
  const settlement = {
    id: job.id,
    epoch,
    ending: { kind: 'snooze', when: { inMs: 0 } },
    memo: '{"last":1}',
    then: [newJob({ id: 'child', input: '"brought along"' })],
  } as const;
  await on.coded.settle({ owner: 'w', settlements: [settlement], started: [], next: null });
  const look = async (store: Store) => {
    const { jobs } = await store.find({ filter: noFilter, cursor: null, limit: 10 });
    return jobs.map(({ id, memo, input }) => [id, memo, input]);
  };
  expect(await look(on.coded)).toEqual([
    ['child', null, '"brought along"'],
    [job.id, '{"last":1}', job.input],
  ]);
  const coded: unknown = expect.stringMatching(/^~:/);
  expect(await look(on.bare)).toEqual([
    ['child', null, coded],
    [job.id, coded, coded],
  ]);
  expect((await on.coded.claim(request)).jobs[0]!.memo).toBe('{"last":1}');
});

it('the reason of a hold and the memo of a confirmed job go through it, and come back', async () => {
  await using on = await bareAndCoded();
  const owner = newJob({ id: 'owner' });
  await on.coded.insert([owner], { atomic: false });
  const owned = newJob({ id: 'owned', queue: systemQueue, ownedBy: 'owner', when: { inMs: 60_000 } });
  await on.coded.insert([owned], { atomic: false });
  const moves = [
    ['owner', { kind: 'hold', reason: 'for the auditor', until: null }],
    ['owned', { kind: 'confirm', memo: '{"bytes":3}', when: null, under: null }],
  ] as const;
  for (const [id, move] of moves)
    await on.coded.move({ filter: { ...noFilter, ids: [id] }, move, dryRun: false, cursor: null, limit: 1 });
  const look = async (store: Store) => {
    const whys = [await store.readWhy('owner'), await store.readWhy('owned')];
    return [whys[0]!.job!.heldReason, whys[1]!.job!.memo, whys[0]!.job!.input];
  };
  expect(await look(on.coded)).toEqual(['for the auditor', '{"bytes":3}', owner.input]);
  const coded: unknown = expect.stringMatching(/^~:/);
  expect(await look(on.bare)).toEqual([coded, coded, coded]);
});

it('a settlement whose memo or jobs cannot be encoded is left out alone, and its claim goes on', async () => {
  const { lines, logger } = recordingLogger();
  const { store: bare, dispose } = await harnessOn(memoryStore());
  const coded = codedStore(bare, refusing('poison'), logger);
  await coded.insert(
    ['a', 'b', 'c', 'd'].map((id) => newJob({ id })),
    { atomic: true },
  );
  const request = { owner: 'w', types: ['mail'], queues: null, slots: 4, ahead: 0, leaseMs: 1_000, maxStalls: 3 };
  const { epoch } = await coded.claim(request);
  const ending = { kind: 'snooze', when: { inMs: 0 } } as const;
  const settlements = [
    { id: 'a', epoch, ending },
    { id: 'b', epoch, ending, memo: '"poison"' },
    { id: 'c', epoch, ending, memo: '1', then: [newJob({ id: 'child' })] },
    { id: 'd', epoch, ending, memo: '2', then: [newJob({ id: 'fine' }), newJob({ id: 'bad', input: '"poison"' })] },
    { id: 'nobody', epoch, ending },
  ];
  const { answers } = await coded.settle({ owner: 'w', settlements, started: [], next: null });
  expect(answers).toEqual(['ok', 'UNSERIALIZABLE', 'ok', 'UNSERIALIZABLE', 'STALE_CLAIM']);
  expect(await bare.readClaims('w')).toEqual([{ epoch, ids: ['b', 'd'] }]);
  const { jobs } = await coded.find({ filter: noFilter, cursor: null, limit: 10 });
  expect(jobs.map(({ id, state, memo }) => [id, state, memo]).sort()).toEqual([
    ['a', 'pending', null],
    ['b', 'processing', null],
    ['c', 'pending', '1'],
    ['child', 'pending', null],
    ['d', 'processing', null],
  ]);
  expect(lines.filter(({ message }) => message === 'The codec failed')).toHaveLength(2);
  await dispose();
});

async function bareAndCoded() {
  const { store, dispose } = await harnessOn(memoryStore());
  return { bare: store, coded: codedStore(store, aes, quiet), [Symbol.asyncDispose]: dispose };
}

it('the codec of docs/codec.md is the one that is tested here', () => {
  const read = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8');
  const tested = /export (function aesGcm[\s\S]*?\n})\n/.exec(read('./codec/aes.ts'))?.[1];
  expect(tested).toContain('createDecipheriv');
  expect(read('../docs/codec.md')).toContain(tested);
});

it('a codec is called as a method of its own', async () => {
  class Counting implements Codec {
    calls = 0;
    encode(text: string): string {
      this.calls += 1;
      return text;
    }
    decode(text: string): string {
      this.calls += 1;
      return text;
    }
  }
  const codec = new Counting();
  const queue = closedAfterwards(await open('memory:', { codec }));
  const { id } = await queue.enqueue('mail', 'x');
  expect((await queue.get(id))!.input).toBe('x');
  expect(codec.calls).toBe(2);
});

it('an insert reaches the store in the turn of the call, as a transaction needs', () => {
  const seen: unknown[] = [];
  const store = { insert: async (jobs: unknown) => void seen.push(jobs) } as unknown as Store;
  void codedStore(store, aes, quiet).insert([{ input: '1' } as never], { atomic: false });
  expect(seen).toHaveLength(1);
});
