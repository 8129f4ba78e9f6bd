// Artifacts: what a job leaves on purpose is whole, checked, bounded, found by name and link, and goes before its job.
import { createHash } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { BlobStore } from '../src/core/blobs.js';
import { type Artifact, type ArtifactBody, type Context, defineJob, LastoutError, open } from '../src/index.js';
import {
  byHand,
  completes,
  day,
  hour,
  idsIn,
  minute,
  readText,
  runJob,
  t0,
  textOf,
  things,
  watchedBlobs,
} from './lifecycle-support.js';
import { closedAfterwards, eachStore, expectCode, gate, recordingLogger, temporaryFolder } from './support.js';

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

async function* stream(...parts: string[]): AsyncIterable<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

/** What a handler is told when it puts this. */
async function refusal(run: (context: Context<any>) => Promise<unknown>, options: object = {}): Promise<LastoutError> {
  const queue = closedAfterwards(await open('memory:', options));
  let told: unknown;
  await completes(queue, async (context) => {
    told = await run(context).then<unknown, unknown>(
      () => 'nothing',
      (error: unknown) => error,
    );
  });
  expect(told).toBeInstanceOf(LastoutError);
  return told as LastoutError;
}

describe('putting an artifact', () => {
  eachStore((on) => {
    it.each<[string, () => ArtifactBody, string]>([
      ['bytes', () => new Uint8Array(Buffer.from('hello')), 'application/octet-stream'],
      ['a text', () => 'hello', 'text/plain; charset=utf-8'],
      ['a stream', () => stream('he', '', 'llo'), 'application/octet-stream'],
    ])('%s: what was put is read again, with its size and digest', async (_what, body, contentType) => {
      const { queue } = await byHand(on);
      let put!: Artifact;
      const id = await completes(queue, async ({ artifact }) => {
        put = await artifact.put('greeting', body());
      });
      expect(put).toEqual({
        id: expect.stringMatching(/^[0-9a-z]{20}$/),
        jobId: id,
        name: 'greeting',
        kind: 'artifact',
        contentType,
        bytes: 5,
        digest: sha256('hello'),
        shortLink: null,
        createdAt: new Date(t0),
        expiresAt: null,
      });
      expect(await queue.artifacts.get(id, 'greeting')).toEqual(put);
      expect(await queue.artifacts.list(id)).toEqual([put]);
      expect(await readText(queue, put.id)).toBe('hello');
    });

    it('a short link is 17 characters of chance, or as many as are asked for', async () => {
      const { queue } = await byHand(on);
      const links: string[] = [];
      await completes(queue, async ({ artifact }) => {
        for (const length of [8, 64])
          links.push((await artifact.put(`a${length}`, 'x', { shortLink: { length } })).shortLink!);
        links.push((await artifact.put('usual', 'x', { shortLink: true })).shortLink!);
        expect((await artifact.put('none', 'x', { shortLink: false })).shortLink).toBeNull();
      });
      expect(links.map((link) => link.length)).toEqual([8, 64, 17]);
      expect(Math.log2(62) * links[2]!.length).toBeGreaterThanOrEqual(96);
      for (const link of links) expect((await queue.artifacts.byLink(link))?.shortLink).toBe(link);
      for (const text of [links[2]!.slice(0, 16), `${links[2]}0`, 'link:x', '', 5])
        expect(await queue.artifacts.byLink(text as string)).toBeNull();
    });

    it('keeps what the options say: kind, content type, ttl and a short link', async () => {
      const { queue, clock } = await byHand(on);
      let put!: Artifact;
      const options = { kind: 'section', contentType: 'text/markdown', ttl: '5m', shortLink: true } as const;
      const id = await completes(queue, async ({ artifact }) => {
        put = await artifact.put('part 1', '# One', options);
      });
      expect(put).toMatchObject({
        kind: 'section',
        contentType: 'text/markdown',
        shortLink: expect.stringMatching(/^[0-9A-Za-z]{17}$/) as string,
        expiresAt: new Date(t0 + 5 * minute),
      });
      expect(await queue.artifacts.byLink(put.shortLink!)).toEqual(put);
      clock.at = t0 + 5 * minute - 1;
      expect(await queue.artifacts.byLink(put.shortLink!)).toEqual(put);
      clock.at += 1;
      expect(await queue.artifacts.byLink(put.shortLink!)).toBeNull();
      expect(await queue.artifacts.get(id, 'part 1')).toBeNull();
      expect(await queue.artifacts.list(id)).toEqual([]);
      await expectCode('JOB_NOT_FOUND', () => queue.artifacts.read(put.id));
      expect(await queue.sweep()).toMatchObject({ removed: 0, removedBy: { thing: 1 } });
      expect(await things(queue)).toEqual([]);
      expect(await queue.get(id)).not.toBeNull();
    });

    it('the same name again takes the place of the first, whose bytes go', async () => {
      const clockless = watchedBlobs({ at: t0, now: () => new Date(t0) });
      const { queue } = await byHand(on, { artifacts: { blobs: clockless.blobs } });
      const puts: Artifact[] = [];
      const id = await completes(queue, async ({ artifact }) => {
        puts.push(await artifact.put('out', 'first'), await artifact.put('out', 'second'));
      });
      expect(await queue.artifacts.list(id)).toEqual([puts[1]]);
      expect(await readText(queue, puts[1]!.id)).toBe('second');
      expect(await idsIn(clockless.inner)).toEqual([puts[1]!.id]);
      expect(await things(queue)).toEqual([puts[1]!.id]);
    });

    it('puts of one name at once go one after the other: the last one stays', async () => {
      const { queue } = await byHand(on);
      const id = await completes(queue, async ({ artifact }) => {
        await Promise.all(['1', '2', '3', '4'].map((text) => artifact.put('same', text)));
      });
      const [only, ...others] = await queue.artifacts.list(id);
      expect(others).toEqual([]);
      expect(await readText(queue, only!.id)).toBe('4');
      expect(await things(queue)).toHaveLength(1);
    });

    it('a second attempt overwrites what the first one put', async () => {
      const { queue } = await byHand(on);
      const type = defineJob<any, any>('twice', {
        attempts: 2,
        backoff: { type: 'fixed', base: 0 },
        async run({ artifact, job }) {
          await artifact.put('out', `attempt ${job.attempts}`);
          if (job.attempts === 1) throw new Error('once more');
        },
      });
      const worker = await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await queue.wait(id);
      await worker.stop();
      const [only, ...others] = await queue.artifacts.list(id);
      expect(others).toEqual([]);
      expect(await readText(queue, only!.id)).toBe('attempt 2');
    });

    it('lists one per name, oldest first', async () => {
      const { queue } = await byHand(on);
      const id = await completes(queue, async ({ artifact }) => {
        for (const name of ['b', 'a', 'c']) await artifact.put(name, name);
      });
      expect((await queue.artifacts.list(id)).map(({ name }) => name)).toEqual(['b', 'a', 'c']);
      expect(await queue.artifacts.list('unknown')).toEqual([]);
      expect(await queue.artifacts.get(id, 'd')).toBeNull();
      expect(await queue.artifacts.byLink('nothing!')).toBeNull();
      expect(await queue.artifacts.byLink('Nothing1')).toBeNull();
    });

    it('is not seen before it is whole', async () => {
      const { queue } = await byHand(on);
      const halfway = gate();
      const goOn = gate();
      async function* slow(): AsyncIterable<Uint8Array> {
        yield Buffer.from('half');
        halfway.open();
        await goOn.opened;
        yield Buffer.from(' whole');
      }
      const type = defineJob<any, any>('slow', {
        run: async ({ artifact }) => void (await artifact.put('out', slow(), { shortLink: true })),
      });
      const worker = await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await halfway.opened;
      expect(await things(queue)).toHaveLength(1);
      expect(await queue.artifacts.get(id, 'out')).toBeNull();
      expect(await queue.artifacts.list(id)).toEqual([]);
      const [intent] = await things(queue);
      await expectCode('JOB_NOT_FOUND', () => queue.artifacts.read(intent!));
      goOn.open();
      await queue.wait(id);
      await worker.stop();
      const whole = await queue.artifacts.get(id, 'out');
      expect(await readText(queue, whole!.id)).toBe('half whole');
    });

    it('after its claim is lost, a handler puts nothing: STALE_CLAIM, and no bytes stay', async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const begun = gate();
      const removed = gate();
      const told = gate<unknown>();
      const type = defineJob<any, any>('late', {
        async run({ artifact }) {
          begun.open();
          await removed.opened;
          await artifact.put('late', 'too late').then(
            () => told.open('accepted'),
            (error: unknown) => told.open(error),
          );
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await begun.opened;
      await queue.remove(id, { force: true });
      removed.open();
      expect(['STALE_CLAIM', 'JOB_NOT_FOUND']).toContain(((await told.opened) as LastoutError).code);
      expect(await idsIn(watched.inner)).toEqual([]);
      expect(await things(queue)).toEqual([]);
    });

    it('a job that is removed while it puts loses the artifact: no bytes and no record stay', async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const halfway = gate();
      const goOn = gate();
      const told = gate<unknown>();
      async function* slow(): AsyncIterable<Uint8Array> {
        yield Buffer.from('half');
        halfway.open();
        await goOn.opened;
      }
      const type = defineJob<any, any>('put', {
        async run({ artifact }) {
          await artifact.put('out', slow()).then(
            () => told.open('accepted'),
            (error: unknown) => told.open(error),
          );
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await halfway.opened;
      expect(await queue.remove(id, { force: true })).toMatchObject({ items: [{ id, outcome: 'removed' }] });
      goOn.open();
      expect(await told.opened).toMatchObject({ code: 'STALE_CLAIM' });
      expect(await idsIn(watched.inner)).toEqual([]);
      expect(await things(queue)).toEqual([]);
      expect((await queue.audit()).clean).toBe(true);
    });

    it('is removed by hand: bytes and record', async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const id = await completes(queue, async ({ artifact }) => void (await artifact.put('out', 'bytes')));
      const { id: artifact } = (await queue.artifacts.get(id, 'out'))!;
      expect(await queue.artifacts.remove(artifact)).toBe(true);
      expect(await queue.artifacts.remove(artifact)).toBe(false);
      expect(await queue.artifacts.remove(id)).toBe(false);
      expect(await queue.artifacts.get(id, 'out')).toBeNull();
      expect(await idsIn(watched.inner)).toEqual([]);
      expect(await queue.get(id)).not.toBeNull();
    });

    it.each([
      ['by its id', (queue: any, artifact: string) => queue.remove(artifact)],
      ['by its type', (queue: any) => queue.remove({ type: 'lastout.artifact' })],
      ['by its queue', (queue: any) => queue.remove({ queue: 'lastout' })],
    ] as const)('named %s like a job, it is removed with its bytes', async (_how, remove) => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const id = await completes(queue, async ({ artifact }) => void (await artifact.put('out', 'bytes')));
      const { id: artifact } = (await queue.artifacts.get(id, 'out'))!;
      expect(await remove(queue, artifact)).toEqual({
        matched: 1,
        items: [{ id: artifact, outcome: 'removed' }],
        next: null,
      });
      expect(await idsIn(watched.inner)).toEqual([]);
      expect(await things(queue)).toEqual([]);
    });

    it('removing a job by hand removes what it owns, also a pending and a running one', async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const finished = await completes(queue, async ({ artifact }) => void (await artifact.put('out', '1')));
      const failing = defineJob<any, any>('fails', {
        attempts: 2,
        backoff: { type: 'fixed', base: '1d' },
        async run({ artifact }) {
          await artifact.put('out', '2');
          throw new Error('later');
        },
      });
      const running = gate();
      const runs = defineJob<any, any>('runs', {
        async run({ artifact, signal }) {
          await artifact.put('out', '3');
          running.open();
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
        },
      });
      await queue.work([failing, runs]);
      const { id: pending } = await queue.enqueue(failing, null);
      const { id: processing } = await queue.enqueue(runs, null);
      await running.opened;
      await expect.poll(async () => (await queue.get(pending))!.attempts).toBe(1);
      await expect.poll(async () => (await queue.get(pending))!.state).toBe('pending');
      expect(await idsIn(watched.inner)).toHaveLength(3);
      expect(await queue.remove({ id: [finished, pending, processing] }, { dryRun: true })).toMatchObject({
        matched: 3,
      });
      expect(await idsIn(watched.inner)).toHaveLength(3);
      const { items } = await queue.remove({ id: [finished, pending, processing] });
      expect(new Map(items.map(({ id, outcome }) => [id, outcome]))).toEqual(
        new Map([
          [finished, 'removed'],
          [pending, 'removed'],
          [processing, 'not_finished'],
        ]),
      );
      expect(await queue.remove(processing, { force: true })).toMatchObject({ items: [{ outcome: 'removed' }] });
      expect(await idsIn(watched.inner)).toEqual([]);
      expect(await things(queue)).toEqual([]);
    });

    it('goes with its job: one sweep deletes the bytes, the record and the job, and leaves those of others', async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue, clock: own } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const old = await completes(queue, async ({ artifact }) => {
        await artifact.put('a', '1', { kind: 'section' });
        await artifact.put('b', '2', { kind: 'cache' });
      });
      own.at = clock.at = t0 + hour;
      const young = await completes(queue, async ({ artifact }) => void (await artifact.put('a', '3')));
      own.at = clock.at = t0 + day + 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1, removedBy: { age: 1 }, failures: 0 });
      expect(await queue.get(old)).toBeNull();
      expect(await readText(queue, (await queue.artifacts.get(young, 'a'))!.id)).toBe('3');
      expect(await idsIn(watched.inner)).toHaveLength(1);
      expect(await things(queue)).toHaveLength(1);
      expect(await queue.audit()).toMatchObject({
        clean: true,
        kinds: { artifact: { created: 3, released: 2, live: 1, attention: [] } },
      });
    });

    it('bytes that are missing already keep nobody: the job goes', async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue, clock: own } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const id = await completes(queue, async ({ artifact }) => void (await artifact.put('a', '1')));
      for (const blob of await idsIn(watched.inner)) await watched.inner.delete(blob);
      own.at = t0 + day + 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1, failures: 0 });
      expect(await queue.get(id)).toBeNull();
      expect(await things(queue)).toEqual([]);
    });

    it('bytes that cannot be deleted keep their job: it is told, counted and tried again, and others go', async () => {
      const { logger, lines } = recordingLogger();
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue, clock: own } = await byHand(on, { artifacts: { blobs: watched.blobs }, logger });
      const bad = await completes(queue, async ({ artifact }) => void (await artifact.put('a', '1')));
      const good = await completes(queue, async ({ artifact }) => void (await artifact.put('a', '2')));
      const { id: stuck } = (await queue.artifacts.get(bad, 'a'))!;
      watched.fail(async (verb, id) => {
        if (verb === 'delete' && id === stuck) throw new Error('device is busy');
      });
      own.at = t0 + day + 1;
      expect(await queue.sweep()).toMatchObject({ removed: 1, failures: 1 });
      expect(await queue.get(good)).toBeNull();
      expect((await queue.explain(bad)).because).toContain('artifact could not be deleted: device is busy');
      expect(lines).toContainEqual({
        level: 'warn',
        message: 'What a job owns could not be ended; the job stays, and it is tried again',
        fields: { id: bad, error: 'artifact could not be deleted: device is busy' },
      });
      // Who asks for a sweep asks for a try.
      expect(await queue.sweep()).toMatchObject({ removed: 0, failures: 1 });
      watched.fail(async () => undefined);
      expect(await queue.sweep()).toMatchObject({ removed: 1, failures: 0 });
      expect(await queue.get(bad)).toBeNull();
      expect(await idsIn(watched.inner)).toEqual([]);
    });

    it('of more than a thousand owners with artifacts, one sweep leaves none', { timeout: 120_000 }, async () => {
      const clock = { at: t0, now: () => new Date(clock.at) };
      const watched = watchedBlobs(clock);
      const { queue, clock: own } = await byHand(on, {
        artifacts: { blobs: watched.blobs },
        cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY },
      });
      const type = defineJob<any, any>('put', {
        run: async ({ artifact }) => void (await artifact.put('out', 'x')),
      });
      const jobs = Array.from({ length: 600 }, () => ({ type, input: null }));
      await queue.enqueueMany(jobs);
      await queue.runUntilIdle([type], { concurrency: 50 });
      expect(await idsIn(watched.inner)).toHaveLength(600);
      own.at = t0 + day + 1;
      expect(await queue.sweep()).toMatchObject({ removed: 600, removedBy: { age: 600 } });
      expect(await idsIn(watched.inner)).toEqual([]);
      expect((await queue.audit()).clean).toBe(true);
    });

    it('does not count as a stored job: a thousand jobs with artifacts stay', async () => {
      const { queue } = await byHand(on, { cleanup: { maxStoredJobs: 3 } });
      for (let i = 0; i < 3; i++)
        await completes(queue, async ({ artifact }) => {
          await artifact.put('a', '1');
          await artifact.put('b', '2');
        });
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect((await queue.stats()).total.completed).toBe(3);
    });

    it('passes a codec: nothing that was said about it is stored in clear but its name', async () => {
      const codec = {
        encode: (text: string) => Buffer.from(text).toString('base64'),
        decode: (text: string) => Buffer.from(text, 'base64').toString(),
      };
      const factory = on.factory();
      const { queue } = await byHand(on, { codec }, factory);
      const id = await completes(queue, async ({ artifact, tempDir }) => {
        await tempDir();
        await artifact.put('out', 'bytes', { kind: 'secret', contentType: 'secret/type', shortLink: true });
      });
      const [artifact] = await queue.artifacts.list(id);
      expect(artifact).toMatchObject({ kind: 'secret', contentType: 'secret/type', bytes: 5 });
      expect(await queue.artifacts.byLink(artifact!.shortLink!)).toEqual(artifact);
      const { queue: plain } = await byHand(on, {}, factory);
      const [record] = (await plain.find({ type: 'lastout.artifact' })).items;
      expect(JSON.stringify(record)).not.toContain('secret');
      await expectCode('UNSERIALIZABLE', () => plain.artifacts.get(id, 'out'));
    });
  });
});

describe('a queue without a place for artifacts', () => {
  eachStore((on) => {
    const missing = {
      state: 'failed',
      attempts: 1,
      error: { code: 'ARTIFACTS_MISSING', message: expect.stringContaining('open(…, { artifacts: { dir } })') },
    };
    it.each<[string, (context: Context<any>) => Promise<unknown>]>([
      ['artifact.put', ({ artifact }) => artifact.put('a.txt', 'a')],
      ['tempDir', ({ tempDir }) => tempDir()],
    ])('%s fails the job, without another attempt: none could do better', async (_what, run) => {
      const queue = await on.open({ logger: false });
      const type = defineJob('writing', {
        attempts: 3,
        backoff: { type: 'fixed', base: 0 },
        run: async (context) => void (await run(context)),
      });
      const { id } = await queue.enqueue(type, null);
      await queue.runUntilIdle([type]);
      // In memory there is one, unless another is named.
      expect(await queue.get(id)).toMatchObject(on.engine === 'memory' ? { state: 'completed' } : missing);
    });
  });
});

describe('the bounds of artifacts', () => {
  it.each([
    '../../etc/passwd',
    '..\\..\\boot.ini',
    '%2e%2e%2f%2e%2e%2fetc',
    '%252e%252e%252f',
    '/etc/passwd',
    'C:\\windows',
    'NUL',
    'a#b?c',
    'trailing.',
    ' ',
    'ünï/cødé🦊',
    'x'.repeat(255),
  ])('a name such as %j is kept as a name and never becomes a path', async (name) => {
    const dir = temporaryFolder();
    const queue = closedAfterwards(await open('memory:', { artifacts: { dir } }));
    const id = await completes(queue, async ({ artifact }) => void (await artifact.put(name, 'x')));
    const artifact = await queue.artifacts.get(id, name);
    expect(artifact!.name).toBe(name);
    const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
    expect(files.map((file) => file.name).sort()).toEqual([artifact!.id, 'store.json']);
    expect(readdirSync(dir)).toEqual(['ns-lastout']);
    expect(readdirSync(join(dir, 'ns-lastout')).sort()).toEqual(['blobs', 'store.json']);
  });

  it.each([
    ['an empty name', ''],
    ['more than 255 bytes', 'ü'.repeat(128)],
    ['a NUL', 'a\0b'],
    ['a line feed', 'a\nb'],
    ['an escape', 'a\u001b[31m'],
    ['a C1 control', 'a\u0085b'],
    ['a lone surrogate', 'a\ud800'],
    ['no text', 7 as unknown as string],
  ])('refuses %s as a name: INVALID_ARTIFACT_NAME', async (_what, name) => {
    expect((await refusal(({ artifact }) => artifact.put(name, 'x'))).code).toBe('INVALID_ARTIFACT_NAME');
  });

  it.each([
    ['a number as the body', 7, {}, 'UNSERIALIZABLE'],
    ['nothing as the body', undefined, {}, 'UNSERIALIZABLE'],
    ['a stream of texts', stringsOnly(), {}, 'UNSERIALIZABLE'],
    ['an unknown option', 'x', { tll: '5m' }, 'UNKNOWN_OPTION'],
    ['a kind that is no name', 'x', { kind: 'a b' }, 'INVALID_NAME'],
    ['a content type with a line feed', 'x', { contentType: 'text/plain\nX: y' }, 'INVALID_NAME'],
    ['a ttl of nothing', 'x', { ttl: 0 }, 'INVALID_TTL'],
    ['a ttl of two years', 'x', { ttl: '730d' }, 'INVALID_TTL'],
    ['a short link of one’s own', 'x', { shortLink: 'mine' }, 'UNKNOWN_OPTION'],
    ['a short link of 7 characters', 'x', { shortLink: { length: 7 } }, 'INVALID_LIMIT'],
    ['a short link of 65 characters', 'x', { shortLink: { length: 65 } }, 'INVALID_LIMIT'],
    ['a short link of half a character more', 'x', { shortLink: { length: 8.5 } }, 'INVALID_LIMIT'],
    ['a short link without a length', 'x', { shortLink: {} }, 'INVALID_LIMIT'],
    ['a short link with another option', 'x', { shortLink: { length: 8, prefix: 'd' } }, 'UNKNOWN_OPTION'],
  ])('refuses %s, and keeps nothing', async (_what, body, options, code) => {
    const blobs = watchedBlobs({ at: t0, now: () => new Date(t0) });
    const { code: told } = await refusal(({ artifact }) => artifact.put('a', body as never, options as never), {
      artifacts: { blobs: blobs.blobs },
    });
    expect(told).toBe(code);
    expect(await idsIn(blobs.inner)).toEqual([]);
  });

  async function* stringsOnly(): AsyncIterable<unknown> {
    yield 'text';
  }

  it('a job may have so many bytes, those of the name that is replaced not counted', async () => {
    const blobs = watchedBlobs({ at: t0, now: () => new Date(t0) });
    const queue = closedAfterwards(await open('memory:', { artifacts: { blobs: blobs.blobs, maxBytesPerJob: 10 } }));
    const codes: unknown[] = [];
    const code = (put: Promise<unknown>): Promise<void> =>
      put.then(
        () => void codes.push('ok'),
        (error: LastoutError) => void codes.push(error.code),
      );
    const id = await completes(queue, async ({ artifact }) => {
      await code(artifact.put('a', '123456'));
      await code(artifact.put('b', '12345'));
      await code(artifact.put('b', '1234'));
      await code(artifact.put('a', '654321'));
      await code(artifact.put('a', stream('1234', '567')));
    });
    expect(codes).toEqual(['ok', 'ARTIFACT_QUOTA', 'ok', 'ok', 'ARTIFACT_QUOTA']);
    expect(await readText(queue, (await queue.artifacts.get(id, 'a'))!.id)).toBe('654321');
    expect(await idsIn(blobs.inner)).toHaveLength(2);
    expect(await things(queue)).toHaveLength(2);
  });

  it('all jobs together may have so many bytes, also of puts at once', async () => {
    const blobs = watchedBlobs({ at: t0, now: () => new Date(t0) });
    const queue = closedAfterwards(await open('memory:', { artifacts: { blobs: blobs.blobs, maxBytes: 10 } }));
    const codes: unknown[] = [];
    await completes(queue, async ({ artifact }) => {
      const puts = ['a', 'b', 'c'].map((name) => artifact.put(name, stream('12', '34')));
      for (const put of await Promise.allSettled(puts))
        codes.push(put.status === 'fulfilled' ? 'ok' : (put.reason as LastoutError).code);
    });
    expect(codes.sort()).toEqual(['ARTIFACT_QUOTA', 'ok', 'ok']);
    expect(await blobs.inner.used()).toBe(8);
    const error = await runJob(queue, async ({ artifact }) => artifact.put('d', '123'));
    expect((await queue.get(error))!.error).toMatchObject({ code: 'ARTIFACT_QUOTA' });
    expect(await blobs.inner.used()).toBe(8);
  });

  it.each(['maxBytes', 'maxBytesPerJob'])(
    '%s holds for puts that overlap and end one after the other',
    async (limit) => {
      const dir = temporaryFolder();
      const queue = closedAfterwards(await open('memory:', { artifacts: { dir, [limit]: 1_000 } }));
      const codes: unknown[] = [];
      const id = await completes(queue, async ({ artifact }) => {
        const names = ['a', 'b', 'c', 'd'];
        const gates = names.map(() => gate());
        const begun = names.map(() => gate());
        async function* slow(i: number): AsyncIterable<Uint8Array> {
          yield new Uint8Array(1);
          begun[i]!.open();
          await gates[i]!.opened;
          yield new Uint8Array(499);
          yield new Uint8Array(490);
        }
        const puts = names.map((name, i) => artifact.put(name, slow(i)));
        const ended = Promise.allSettled(puts);
        for (const { opened } of begun) await opened;
        for (const [i, { open: goOn }] of gates.entries()) {
          goOn();
          await puts[i]!.then(
            () => codes.push('ok'),
            (error: LastoutError) => codes.push(error.code),
          );
        }
        await ended;
      });
      expect(codes).toEqual(['ok', 'ARTIFACT_QUOTA', 'ARTIFACT_QUOTA', 'ARTIFACT_QUOTA']);
      expect((await queue.artifacts.list(id)).map(({ bytes }) => bytes)).toEqual([990]);
    },
  );

  it('a store that keeps other bytes than it was given is found out: DIGEST_MISMATCH, and they go again', async () => {
    const watched = watchedBlobs({ at: t0, now: () => new Date(t0) });
    const lying: BlobStore = {
      ...watched.blobs,
      async put(id, chunks, options) {
        const info = await watched.blobs.put(id, chunks, options);
        return { ...info, digest: sha256('other') };
      },
    };
    const error = await refusal(({ artifact }) => artifact.put('a', 'bytes'), { artifacts: { blobs: lying } });
    expect(error.code).toBe('DIGEST_MISMATCH');
    expect(await idsIn(watched.inner)).toEqual([]);
  });

  it.each([
    ['changed', (blobs: BlobStore, id: string) => blobs.put(id, stream('bytez'), anySize)],
    ['shortened', (blobs: BlobStore, id: string) => blobs.put(id, stream('byte'), anySize)],
    ['lengthened', (blobs: BlobStore, id: string) => blobs.put(id, stream('bytess'), anySize)],
    ['lost', (blobs: BlobStore, id: string) => blobs.delete(id)],
  ] as const)('bytes that were %s are not served: ARTIFACT_CORRUPT', async (_how, harm) => {
    const watched = watchedBlobs({ at: t0, now: () => new Date(t0) });
    const queue = closedAfterwards(await open('memory:', { artifacts: { blobs: watched.blobs } }));
    const id = await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'bytes')));
    const { id: artifact } = (await queue.artifacts.get(id, 'a'))!;
    await watched.inner.delete(artifact);
    await harm(watched.inner, artifact);
    await expectCode('ARTIFACT_CORRUPT', async () => textOf(await queue.artifacts.read(artifact)));
  });

  const anySize = { maxBytes: Number.POSITIVE_INFINITY, signal: new AbortController().signal };

  it('a source that fails fails the put, and leaves nothing', async () => {
    const watched = watchedBlobs({ at: t0, now: () => new Date(t0) });
    async function* broken(): AsyncIterable<Uint8Array> {
      yield Buffer.from('some');
      throw new LastoutError('INVALID_INPUT', 'the source broke');
    }
    const error = await refusal(({ artifact }) => artifact.put('a', broken()), { artifacts: { blobs: watched.blobs } });
    expect(error.message).toBe('the source broke');
    expect(await idsIn(watched.inner)).toEqual([]);
  });

  it.each([
    ['dir is no text', { dir: 7 }],
    ['dir is empty', { dir: '' }],
    ['both', { dir: '/tmp', blobs: watchedBlobs({ at: t0, now: () => new Date(t0) }).blobs }],
    ['neither', {}],
    ['half a store', { blobs: { put: () => undefined } }],
    ['an unknown option', { dir: '/tmp', max: 3 }],
    ['a word', 'files'],
  ])('open refuses artifacts where %s', async (_what, artifacts) => {
    await expectCode('UNKNOWN_OPTION', () => open('memory:', { artifacts: artifacts as never }));
  });

  it.each([-1, 1.5, '10'])('open refuses a quota of %j bytes', async (maxBytes) => {
    await expectCode('INVALID_LIMIT', () =>
      open('memory:', { artifacts: { dir: temporaryFolder(), maxBytes: maxBytes as never } }),
    );
  });

  it('a store that outlives the process needs to be told where artifacts go', async () => {
    const file = `${temporaryFolder()}/jobs.db`;
    const queue = closedAfterwards(await open(`sqlite:${file}`));
    const id = await runJob(queue, ({ artifact }) => artifact.put('a', 'x'));
    expect((await queue.get(id))!.error).toMatchObject({
      code: 'ARTIFACTS_MISSING',
      message: expect.stringContaining('artifacts: { dir }') as string,
    });
    const other = await runJob(queue, ({ tempDir }) => tempDir());
    expect((await queue.get(other))!.error).toMatchObject({ code: 'ARTIFACTS_MISSING' });
    expect(await things(queue)).toEqual([]);
  });

  it('a process without a place for artifacts leaves jobs that own some to others', async () => {
    const dir = temporaryFolder();
    const file = `${temporaryFolder()}/jobs.db`;
    const clock = { at: t0, now: () => new Date(clock.at) };
    const here = closedAfterwards(await open(`sqlite:${file}`, { artifacts: { dir }, clock }));
    const id = await completes(here, async ({ artifact }) => void (await artifact.put('a', 'x')));
    const bare = await completes(here, () => undefined);
    const elsewhere = closedAfterwards(await open(`sqlite:${file}`, { clock }));
    await elsewhere.stopPeriodicCleanup();
    clock.at = t0 + day + 1;
    expect(await elsewhere.sweep()).toMatchObject({ removed: 1, failures: 0 });
    expect(await elsewhere.get(bare)).toBeNull();
    expect(await elsewhere.get(id)).not.toBeNull();
    clock.at += minute + 1;
    expect(await here.sweep()).toMatchObject({ removed: 1 });
    expect(await here.get(id)).toBeNull();
  });

  it('queues that share a store in memory share its artifacts', async () => {
    const { memoryStore } = await import('../src/index.js');
    const factory = memoryStore();
    const one = closedAfterwards(await open(factory));
    const other = closedAfterwards(await open(factory));
    const id = await completes(one, async ({ artifact }) => void (await artifact.put('a', 'shared')));
    expect(await readText(other, (await other.artifacts.get(id, 'a'))!.id)).toBe('shared');
  });
});
