/** A codec may bind each text to its job and field: then whoever can write into the store cannot move a text elsewhere. */
import { describe, expect, it } from 'vitest';
import { codedStore } from '../src/codec/store.js';
import { noFilter, type Store, type StoredJob } from '../src/core/store.js';
import { type Codec, defineJob, fail, open, type Queue, type TextPlace } from '../src/index.js';
import { newJob } from '../src/testing/store-cases/bench.js';
import { aesGcm, newKey } from './codec/aes.js';
import { harnessOn } from './stores/harness.js';
import { closedAfterwards, eachStore, expectCode, recordingLogger, tapped, temporaryFolder } from './support.js';
import { populate } from './upgrade/populate.js';
import { viewOf } from './upgrade/view.js';

const aes = aesGcm({ k1: newKey() });

/** Opens a text only where it was made for, and remembers all that it was asked. */
function strict() {
  const made: TextPlace[] = [];
  const misplaced: string[] = [];
  const codec: Codec = {
    encode(text, of) {
      made.push(of);
      return JSON.stringify([of, text]);
    },
    decode(text, of) {
      const [place, plain] = JSON.parse(text) as [TextPlace, string];
      if (place.id === of.id && place.field === of.field) return plain;
      misplaced.push(`${place.field} of ${place.id} as ${of.field} of ${of.id}`);
      throw new Error('it stands elsewhere');
    },
    required: true,
  };
  return { codec, made, misplaced };
}

type Text = 'input' | 'result' | 'progress' | 'memo' | 'error' | 'heldReason';

/** What an attacker has done to the rows, seen by every verb that reads jobs. */
function tamperedWith(change: { of: ((job: StoredJob) => StoredJob) | null }) {
  const seen = (jobs: readonly StoredJob[]): StoredJob[] => jobs.map((job) => change.of?.(job) ?? job);
  return (store: Store): Partial<Store> => ({
    async find(request) {
      const page = await store.find(request);
      return { ...page, jobs: seen(page.jobs) };
    },
    async claim(request) {
      const claimed = await store.claim(request);
      return { ...claimed, jobs: seen(claimed.jobs) };
    },
  });
}

const talks = defineJob<any, any>('talks', {
  attempts: 1,
  run({ input, progress, log }) {
    progress({ percent: 10, message: `progress of ${input.name}` });
    log(`line of ${input.name}`);
    if (input.name.startsWith('bad')) return fail(`error of ${input.name}`);
    return `result of ${input.name}`;
  },
});

eachStore((on) => {
  it('each text is opened at the place that it was made for, in a life with everything in it', async () => {
    const { codec, made, misplaced } = strict();
    const url = await on.url();
    const { queue, clock, close } = await populate({ url, dir: temporaryFolder(), namespace: 'lastout', codec });
    const view = await viewOf(queue);
    expect(view.jobs.filter(({ input }) => input === null)).toEqual([]);
    expect(misplaced).toEqual([]);
    const fields = new Set(made.map(({ field }) => field));
    expect([...fields].sort()).toEqual(['error', 'input', 'log', 'memo', 'progress', 'reason', 'result']);
    expect(made.filter(({ id, field }) => (id === '') !== (field === 'reason'))).toEqual([]);
    await clock.advance('1m');
    await close();
    expect(misplaced).toEqual([]);
  });

  it('a retry is coded anew, by id and by filter, and so is a tick', async () => {
    const { codec, misplaced } = strict();
    const { queue, clock } = await on.still({ codec });
    const { id } = await queue.enqueue(talks, { name: 'bad one' });
    for (let n = 0; n < 5; n++) await queue.enqueue(talks, { name: `bad ${n}` });
    await queue.runUntilIdle([talks]);
    const [one] = (await queue.retry(id)).items;
    expect(await queue.get(one!.newId!)).toMatchObject({ input: { name: 'bad one' }, retryOf: id, state: 'pending' });
    await queue.remove(one!.newId!);
    const { items } = await queue.retry({ type: 'talks', state: 'failed' }, { dryRun: true });
    const ofOthers = items.filter((item) => item.id !== id);
    expect(ofOthers.every(({ outcome, newId }) => outcome === 'retried' && newId === undefined)).toBe(true);
    const retried = await queue.retry({ type: 'talks', state: 'failed' });
    expect(retried.items.map(({ outcome }) => outcome)).toContain('retried');
    for (const { id: old, newId } of retried.items.filter(({ outcome }) => outcome === 'retried'))
      expect((await queue.get(newId!))!.input).toEqual((await queue.get(old))!.input);
    await queue.schedule('often', talks, { name: 'bad tick' }, { every: '1m' });
    await clock.advance('2m');
    await queue.runUntilIdle([talks]);
    expect((await queue.find({ state: 'failed' })).items.map(({ error }) => error!.message)).toContain(
      'error of bad tick',
    );
    expect(misplaced).toEqual([]);
  });

  it('a long page is retried in parts, and each job once', async () => {
    const queue = await on.open({ codec: strict().codec });
    const input = 'x'.repeat(200 * 1024);
    const ids = [];
    for (let n = 0; n < 50; n++) ids.push((await queue.enqueue('big', input)).id);
    for (const id of ids) await queue.cancel(id);
    const items = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page = await queue.retry({ type: 'big', state: 'cancelled' }, cursor === undefined ? {} : { cursor });
      items.push(...page.items);
      cursor = page.next;
    }
    expect(items.map(({ id }) => id).sort()).toEqual(ids.sort());
    expect(new Set(items.map(({ newId }) => newId)).size).toBe(50);
  });

  it('a job whose input cannot be read is not retried: its copy could not run', async () => {
    const factory = on.factory();
    const stranger = closedAfterwards(await open(factory, { codec: aesGcm({ k1: newKey() }) }));
    const { lines, logger } = recordingLogger();
    const queue = closedAfterwards(await open(factory, { codec: aes, logger }));
    const { id: lost } = await stranger.enqueue('mail', 'lost');
    const { id: good } = await queue.enqueue('mail', 'good');
    const { id: waits } = await queue.enqueue('mail', 'waits');
    for (const id of [lost, good]) await queue.cancel(id);
    const { items } = await queue.retry({ type: 'mail', state: ['cancelled', 'pending'] });
    const outcomes = new Map(items.map(({ id, outcome }) => [id, outcome]));
    expect([lost, good, waits].map((id) => outcomes.get(id))).toEqual(['skipped', 'retried', 'not_finished']);
    expect(lines.filter(({ message }) => message === 'The codec failed')).toHaveLength(1);
  });

  it('an ending that several jobs share is coded for each of them', async () => {
    const { codec, misplaced } = strict();
    const { store, dispose } = await harnessOn(on.factory());
    const behind = codedStore(store, codec, recordingLogger().logger);
    const jobs = [newJob(), newJob(), newJob()];
    await behind.insert(jobs, { atomic: false });
    const request = { types: ['mail'], queues: null, slots: 3, ahead: 0, leaseMs: 30_000, maxStalls: 1 };
    const { epoch } = await behind.claim({ owner: 'w', ...request });
    const ending = { kind: 'complete', result: '"done"' } as const;
    const settlements = jobs.map(({ id }) => ({ id, epoch, ending }));
    await behind.settle({ owner: 'w', settlements, started: [], next: null });
    const { jobs: done } = await behind.find({ filter: noFilter, cursor: null, limit: 10 });
    expect(done.map(({ state, result }) => [state, result])).toEqual(Array(3).fill(['completed', '"done"']));
    expect(misplaced).toEqual([]);
    await dispose();
  });

  describe('with AES-256-GCM and the place as authenticated data', () => {
    /** Two finished jobs of each kind, held, and the stored row of each. */
    async function jobsToSwap() {
      const change: { of: ((job: StoredJob) => StoredJob) | null } = { of: null };
      const rows = new Map<string, StoredJob>();
      const factory = tapped(on.factory(), (store) => {
        const tap = tamperedWith(change);
        stored.look = async () => {
          for (const job of (await store.find({ filter: noFilter, cursor: null, limit: 100 })).jobs)
            rows.set((await queue.get(job.id))!.metadata.name as string, job);
        };
        return tap(store);
      });
      const stored = { look: async (): Promise<void> => undefined };
      const queue: Queue = closedAfterwards(await open(factory, { codec: aes }));
      for (const name of ['a', 'b', 'bad a', 'bad b']) await queue.enqueue(talks, { name }, { metadata: { name } });
      await queue.runUntilIdle([talks]);
      await queue.hold({ type: 'talks' }, 'held');
      await stored.look();
      return { queue, change, rows };
    }

    const swapped = (job: StoredJob, field: Text, text: string | null): StoredJob => ({ ...job, [field]: text });

    it('a text of another job is refused, in each field', async () => {
      const { queue, change, rows } = await jobsToSwap();
      for (const [field, to, from] of [
        ['input', 'a', 'b'],
        ['result', 'a', 'b'],
        ['progress', 'a', 'b'],
        ['error', 'bad a', 'bad b'],
      ] as const) {
        const mine = rows.get(to)!;
        const theirs = rows.get(from)![field]!;
        expect(theirs).toContain('~:');
        change.of = null;
        expect((await queue.get(mine.id))![field]).not.toBeNull();
        change.of = (job) => (job.id === mine.id ? swapped(job, field, theirs) : job);
        const job = (await queue.get(mine.id))!;
        expect(JSON.stringify(job)).not.toContain(from.startsWith('bad') ? 'error of bad b' : `${field} of b`);
        if (field !== 'progress') expect(job.error!.message).toContain('could not decode');
        if (field !== 'error') expect(job[field]).toBeNull();
      }
    });

    it('a text of another field of the same job is refused', async () => {
      const { queue, change, rows } = await jobsToSwap();
      const { id, result, heldReason } = rows.get('a')!;
      for (const text of [result!, heldReason!]) {
        change.of = (job) => (job.id === id ? swapped(job, 'input', text) : job);
        const job = (await queue.get(id))!;
        expect(job.input).toBeNull();
        expect(job.error!.code).toBe('UNSERIALIZABLE');
      }
    });

    it('a mark that says less of where a text stands opens nothing', async () => {
      const { queue, change, rows } = await jobsToSwap();
      const mine = rows.get('a')!;
      const theirs = rows.get('b')!.input;
      for (const mark of ['~:', '~:~*', '~:~=']) {
        const text = mark + theirs.replace(/^~:~=/, '');
        change.of = (job) => (job.id === mine.id ? swapped(job, 'input', text) : job);
        expect((await queue.get(mine.id))!.input).toBeNull();
        change.of = (job) =>
          job.id === mine.id ? { ...job, error: JSON.stringify({ code: 'CANCELLED', message: text }) } : job;
        expect((await queue.get(mine.id))!.error!.message).toContain('cannot be read');
      }
    });

    it('no handler gets the input of another job', async () => {
      const change: { of: ((job: StoredJob) => StoredJob) | null } = { of: null };
      const texts: string[] = [];
      const factory = tapped(on.factory(), (store) => ({
        ...tamperedWith(change)(store),
        insert: (jobs, options) => {
          texts.push(...jobs.map(({ input }) => input));
          return store.insert(jobs, options);
        },
      }));
      const queue = closedAfterwards(await open(factory, { codec: aes }));
      const inputs: unknown[] = [];
      const type = defineJob<any, any>('mail', { attempts: 1, run: ({ input }) => void inputs.push(input) });
      await queue.enqueue(type, 'pay 5 to ann');
      const { id } = await queue.enqueue(type, 'pay 5,000 to bob');
      change.of = (job) => (job.queue === 'default' ? swapped(job, 'input', texts[0]!) : job);
      await queue.runUntilIdle([type]);
      expect(inputs).toEqual(['pay 5 to ann']);
      expect(await queue.get(id)).toMatchObject({ state: 'failed', error: { code: 'UNSERIALIZABLE' } });
    });

    it('plain texts are read, unless the codec is required', async () => {
      const factory = on.factory();
      const before = closedAfterwards(await open(factory));
      const { id } = await before.enqueue('mail', { from: 'before' }, { attempts: 1 });
      const cancelled = await before.enqueue('mail', 0);
      await before.cancel(cancelled.id, { reason: 'in clear' });
      const lenient = closedAfterwards(await open(factory, { codec: aes }));
      expect((await lenient.get(id))!.input).toEqual({ from: 'before' });
      const queue = closedAfterwards(await open(factory, { codec: { ...aes, required: true } }));
      expect(await queue.get(id)).toMatchObject({
        input: null,
        error: { code: 'UNSERIALIZABLE', message: expect.stringContaining('did not go through the codec') },
      });
      expect(JSON.stringify(await queue.get(cancelled.id))).not.toContain('in clear');
      const inputs: unknown[] = [];
      const type = defineJob<any, any>('mail', { run: ({ input }) => void inputs.push(input) });
      const fresh = await queue.enqueue(type, 'fresh');
      await queue.runUntilIdle([type]);
      expect(inputs).toEqual(['fresh']);
      expect(await queue.get(id)).toMatchObject({ state: 'failed', error: { code: 'UNSERIALIZABLE' } });
      expect((await queue.get(fresh.id))!.input).toBe('fresh');
    });

    it('a required codec still shows what the store itself says, and no other plain text in its place', async () => {
      const change: { of: ((job: StoredJob) => StoredJob) | null } = { of: null };
      const codec = { ...aes, required: true };
      const { queue, clock } = await on.still({ codec }, tapped(on.factory(), tamperedWith(change)));
      const expired = await queue.enqueue('never', 1, { ttl: '1s' });
      const replaced = await queue.enqueue('newest', 1, { deduplication: 'replace' });
      await queue.enqueue('newest', 2, { deduplication: 'replace' });
      await clock.advance('2s');
      expect((await queue.get(expired.id))!.error).toEqual({
        code: 'EXPIRED',
        message: 'Not started within its ttl of 1000 ms',
      });
      expect((await queue.get(replaced.id))!.error).toEqual({ code: 'REPLACED', message: 'Replaced by newer job' });
      const forged = JSON.stringify({ code: 'EXPIRED', message: 'call 555-0100 to get your job back' });
      change.of = (job) => (job.id === expired.id ? { ...job, error: forged } : job);
      expect((await queue.get(expired.id))!.error!.message).toContain('cannot be read');
    });
  });
});

it('required is true or false', async () => {
  for (const required of [1, 'yes', null, {}])
    await expectCode('UNKNOWN_OPTION', () => open('memory:', { codec: { ...aes, required: required as never } }));
});
