// What a job owns and nobody here can end, or only later: it is in nobody's way, it is told, and it goes once it can.
import { describe, expect, it } from 'vitest';
import { noMeters } from '../src/core/meters.js';
import { noFilter, type Store } from '../src/core/store.js';
import { type Artifact, defineJob, type Queue } from '../src/index.js';
import { lifecycleOn } from '../src/open-lifecycle.js';
import { cleanupOf } from '../src/testing/store-cases/bench.js';
import { byHand, completes, contextFor, day, type HandClock, hour, idsIn, minute, t0, things, watchedBlobs } from './lifecycle-support.js'; // biome-ignore format: one list
import { eachStore, gate, recordingLogger } from './support.js';

const still = { at: t0, now: () => new Date(t0) };

/** Another process on the same store, which was given no place for artifacts. */
function withoutPlace(store: Store, clock: HandClock) {
  const { system } = contextFor(clock);
  const cleanup = cleanupOf({ jobRetentionMs: day });
  const { logger } = recordingLogger();
  const leases = { knows: () => false, end: () => Promise.reject(new Error('not asked for')) };
  return lifecycleOn({ store, system, logger, cleanup, place: null, leases, meters: noMeters }, async () => undefined);
}

async function putsThree(queue: Queue): Promise<string> {
  return completes(queue, async ({ artifact }) => {
    for (const name of ['a', 'b', 'c']) await artifact.put(name, name);
  });
}

const removals: { readonly [how: string]: (queue: Queue, id: string) => Promise<unknown> } = {
  sweep: (queue) => queue.sweep(),
  remove: (queue, id) => queue.remove(id),
};

describe('a process that cannot end what a job owns', () => {
  eachStore((on) => {
    it('leaves it to one that can, at once, and removes the others meanwhile', async () => {
      const factory = on.factory();
      const { queue, clock } = await byHand(on, {}, factory);
      const store = await factory.open(contextFor(clock));
      const ids = [await putsThree(queue), await putsThree(queue)];
      const plain = await completes(queue, () => undefined);
      clock.at = t0 + day + 1;
      const other = withoutPlace(store, clock);
      expect(await other.sweeper.sweep()).toMatchObject({ removed: 1, failures: 0 });
      expect(await queue.get(plain)).toBeNull();
      expect((await queue.stats()).leftBehind).toBe(0);
      const { jobs } = await store.find({ filter: { ...noFilter, ids }, cursor: null, limit: 2 });
      expect(jobs.map(({ heldUntil }) => heldUntil)).toEqual([null, null]);
      expect(await queue.remove(ids[0]!)).toMatchObject({ items: [{ outcome: 'removed' }] });
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
      expect(await things(queue)).toEqual([]);
      await other.sweeper.stop();
      await store.close();
    });

    it('and dies while it cleans up, hides it for half a minute from a sweep, and from nobody else', async () => {
      const factory = on.factory();
      const { queue, clock } = await byHand(on, {}, factory);
      const store = await factory.open(contextFor(clock));
      const [first, second] = [await putsThree(queue), await putsThree(queue)];
      clock.at = t0 + day + 1;
      const filter = { ...noFilter, ids: [first, second] };
      const move = { kind: 'defer', forMs: 30_000 } as const;
      await store.move({ filter, move, dryRun: false, cursor: null, limit: 2 });
      expect(await queue.sweep()).toMatchObject({ removed: 0 });
      expect((await queue.explain(second)).because).not.toContain('held');
      expect(await queue.remove(first)).toMatchObject({ items: [{ outcome: 'removed' }] });
      clock.at += 30_000;
      expect(await queue.sweep()).toMatchObject({ removed: 1 });
      await store.close();
    });
  });
});

describe('a hold that comes while a job is removed', () => {
  eachStore((on) => {
    it.each(Object.entries(removals))('by %s is refused, and says so', async (_how, remove) => {
      const watched = watchedBlobs(still);
      const { queue, clock } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const id = await putsThree(queue);
      const answers: number[] = [];
      watched.fail(async (verb, blob) => {
        if (verb !== 'delete' || answers.length > 0) return;
        answers.push(0);
        answers.push(await queue.hold(id, 'evidence'), await queue.hold(blob!, 'evidence'));
      });
      clock.at = t0 + day + 1;
      await remove(queue, id);
      expect(answers).toEqual([0, 0, 0]);
      expect([await queue.get(id), await idsIn(watched.inner), await things(queue)]).toEqual([null, [], []]);
    });

    it.each(Object.entries(removals))(
      'by %s, but before its first byte goes, keeps everything',
      async (_how, remove) => {
        const watched = watchedBlobs(still);
        const { queue, clock } = await byHand(on, { artifacts: { blobs: watched.blobs } });
        const id = await putsThree(queue);
        expect(await queue.hold(id, 'evidence')).toBe(1);
        clock.at = t0 + day + 1;
        await remove(queue, id);
        expect([(await idsIn(watched.inner)).length, (await queue.artifacts.list(id)).length]).toEqual([3, 3]);
        clock.at += day;
        await queue.sweep();
        expect((await queue.explain(id)).because).toContain('evidence');
      },
    );
  });
});

describe('a pending job that owns something', () => {
  eachStore((on) => {
    it('is cancelled before what it owns goes: nobody takes it meanwhile', async () => {
      const watched = watchedBlobs(still);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const put = gate<Artifact>();
      let attempts = 0;
      const type = defineJob<any, any>('twice', {
        attempts: 2,
        backoff: { type: 'fixed', base: hour },
        async run({ artifact }) {
          attempts += 1;
          put.open(await artifact.put('a', 'x'));
          throw new Error('again');
        },
      });
      const worker = await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await put.opened;
      await expect.poll(async () => (await queue.get(id))!.state).toBe('pending');
      const seen: unknown[] = [];
      watched.fail(async (verb) => {
        if (verb !== 'delete') return;
        const { state, error } = (await queue.get(id))!;
        const { items } = await queue.reschedule(id, { delay: 0 });
        seen.push(state, error?.message, items[0]?.outcome);
      });
      expect(await queue.remove(id, { reason: 'no longer wanted' })).toMatchObject({
        items: [{ id, outcome: 'removed' }],
      });
      expect(seen).toEqual(['cancelled', 'no longer wanted', 'not_pending']);
      expect([attempts, await queue.get(id), await idsIn(watched.inner)]).toEqual([1, null, []]);
      await worker.stop();
    });
  });
});

describe('bytes that cannot be deleted for hours', () => {
  eachStore((on) => {
    async function broken() {
      const watched = watchedBlobs(still);
      const { queue, clock } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const id = await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'x')));
      const { id: artifact } = (await queue.artifacts.get(id, 'a'))!;
      watched.fail(async (verb) => {
        if (verb === 'delete') throw new Error('disk is read-only');
      });
      clock.at = t0 + day + 1;
      for (let hours = 0; hours < 3; hours++) {
        clock.at += hour;
        expect(await queue.sweep()).toMatchObject({ removed: 0, failures: 1 });
      }
      return { queue, watched, id, artifact };
    }

    it('are told: their job is left behind, the books are not clean, and explain says why', async () => {
      const { queue, id, artifact } = await broken();
      expect((await queue.stats()).leftBehind).toBe(1);
      expect(await queue.audit()).toEqual({
        clean: false,
        counts: [],
        kinds: expect.objectContaining({
          job: { created: 1, released: 0, live: 0, attention: [id] },
          artifact: { created: 1, released: 0, live: 0, attention: [artifact] },
        }),
      });
      for (const stuck of [id, artifact])
        expect((await queue.explain(stuck)).because).toContain(
          'It could not go yet: artifact could not be deleted: disk is read-only.',
        );
      expect((await queue.plan()).removes).toMatchObject({ age: { count: 1, sample: [id] } });
    });

    it.each(Object.entries(removals))('go with the next %s once they can', async (_how, remove) => {
      const { queue, watched, id } = await broken();
      expect(await queue.remove(id, { force: true })).toMatchObject({ items: [{ outcome: 'held' }] });
      watched.fail(async () => undefined);
      await remove(queue, id);
      expect([await queue.get(id), await idsIn(watched.inner), await things(queue)]).toEqual([null, [], []]);
      expect((await queue.audit()).clean).toBe(true);
    });

    it('are tried by the rhythm after a minute, then after twice as long each time', async () => {
      const watched = watchedBlobs(still);
      const cleanup = { jobRetentionMs: minute, cleanupIntervalMs: 10_000 };
      const { queue, clock } = await on.still({ artifacts: { blobs: watched.blobs }, cleanup });
      const type = defineJob<any, any>('puts', { run: async ({ artifact }) => void (await artifact.put('a', 'x')) });
      const { id } = await queue.enqueue(type, null);
      const worker = await queue.work([type]);
      while ((await queue.get(id))!.state !== 'completed') await clock.advance(10);
      await worker.stop();
      const tries: number[] = [];
      watched.fail(async (verb) => {
        if (verb !== 'delete') return;
        tries.push(clock.now().getTime());
        throw new Error('disk is busy');
      });
      for (let i = 0; i < 60; i++) await clock.advance(10_000);
      const waits = tries.slice(1).map((at, i) => (at - tries[i]!) / minute);
      expect(waits.slice(0, 3).map(Math.round)).toEqual([1, 2, 4]);
      expect((await queue.get(id))!.state).toBe('completed');
    });
  });
});

describe('a job that was removed by hand', () => {
  eachStore((on) => {
    it('is explained with the reason that was given', async () => {
      const { queue } = await byHand(on);
      const [told, plain] = [await putsThree(queue), await completes(queue, () => undefined)];
      const { id: waiting } = await queue.enqueue('waits', null);
      for (const id of [told, waiting]) await queue.remove(id, { reason: 'request 77\nof Tuesday' });
      await queue.remove(plain);
      for (const id of [told, waiting])
        expect((await queue.explain(id)).because).toMatch(/: somebody removed it by hand: request 77\.$/);
      expect((await queue.explain(plain)).because).toMatch(/: somebody removed it by hand\.$/);
    });

    it('keeps that reason behind the codec', async () => {
      const codec = {
        encode: (text: string) => Buffer.from(text).toString('base64'),
        decode: (text: string) => Buffer.from(text, 'base64').toString(),
      };
      const factory = on.factory();
      const { queue } = await byHand(on, { codec }, factory);
      const { id } = await queue.enqueue('job', null);
      await queue.remove(id, { reason: 'patient 7' });
      expect((await queue.explain(id)).because).toContain('patient 7');
      const { queue: plain } = await byHand(on, {}, factory);
      expect((await plain.explain(id)).because).not.toContain('patient 7');
    });
  });
});
