// Artifacts on their way out: what is held stays with its bytes, what goes is no longer seen before its bytes go, and no
// other act ends a record without them.
import { describe, expect, it } from 'vitest';
import { type Artifact, defineJob, type Queue } from '../src/index.js';
import { byHand, completes, hour, idsIn, readText, t0, things, watchedBlobs } from './lifecycle-support.js';
import { eachStore, gate } from './support.js';

const still = { at: t0, now: () => new Date(t0) };

describe('a name that is put again', () => {
  eachStore((on) => {
    it.each([
      ['the artifact', (queue: Queue, first: Artifact) => [first.id, queue.hold(first.id, 'evidence')]],
      ['its job', (queue: Queue, first: Artifact) => [first.jobId, queue.hold(first.jobId, 'evidence')]],
    ] as const)('while %s is held: both stay with their bytes, and the newest is the one', async (_what, hold) => {
      const watched = watchedBlobs(still);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs, maxBytesPerJob: 12 } });
      const puts: Artifact[] = [];
      const first = gate<Artifact>();
      const [held, kept, released] = [gate(), gate(), gate()];
      const type = defineJob<any, any>('puts', {
        attempts: 1,
        async run({ artifact }) {
          first.open(await artifact.put('a', '1234'));
          await held.opened;
          puts.push(await artifact.put('a', '5678'));
          // What is held counts, whatever its name.
          await expect(artifact.put('a', '123456789')).rejects.toMatchObject({ code: 'ARTIFACT_QUOTA' });
          kept.open();
          await released.opened;
          puts.push(await artifact.put('a', '9'));
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      const before = await first.opened;
      const [what, holding] = hold(queue, before);
      expect(await holding).toBe(1);
      held.open();
      await kept.opened;
      expect(await readText(queue, before.id)).toBe('1234');
      expect(await queue.artifacts.get(id, 'a')).toEqual(puts[0]);
      expect(await queue.artifacts.list(id)).toEqual([puts[0]]);
      expect(await queue.release(what as string)).toBe(1);
      released.open();
      await queue.wait(id);
      expect((await queue.get(id))!.error).toBeNull();
      expect(await things(queue)).toEqual([puts[1]!.id]);
      expect(await idsIn(watched.inner)).toEqual([puts[1]!.id]);
    });
  });
});

describe('a removal that breaks off', () => {
  eachStore((on) => {
    it.each([
      ['of the job', (queue: Queue, { jobId }: Artifact) => queue.remove(jobId)],
      ['of the artifact', (queue: Queue, { id }: Artifact) => queue.artifacts.remove(id)],
      ['of its record', (queue: Queue, { id }: Artifact) => queue.remove(id)],
    ] as const)('%s: what has lost its bytes is not seen, and the next sweep ends it', async (_what, remove) => {
      const watched = watchedBlobs(still);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      const id = await completes(queue, async ({ artifact }) => {
        await artifact.put('a', 'one', { shortLink: true });
        await artifact.put('b', 'two');
      });
      const found = (await queue.artifacts.get(id, 'a'))!;
      watched.fail(async (verb, blob) => {
        if (verb !== 'delete' || blob !== found.id) return;
        await watched.inner.delete(blob);
        throw new Error('connection reset');
      });
      await remove(queue, found).catch(() => undefined);
      expect(await queue.get(found.id)).not.toBeNull();
      expect(await queue.artifacts.get(id, 'a')).toBeNull();
      expect(await queue.artifacts.byLink(found.shortLink!)).toBeNull();
      expect((await queue.artifacts.list(id)).map(({ name }) => name)).not.toContain('a');
      watched.fail(async () => undefined);
      await queue.sweep();
      expect(await things(queue)).not.toContain(found.id);
      expect((await queue.audit()).clean).toBe(true);
    });

    it('of what was replaced: the next sweep ends it', async () => {
      const watched = watchedBlobs(still);
      const { queue } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      watched.fail(async (verb) => {
        if (verb === 'delete') throw new Error('device is busy');
      });
      const id = await completes(queue, async ({ artifact }) => {
        await artifact.put('a', 'one');
        await artifact.put('a', 'two');
      });
      expect(await things(queue)).toHaveLength(2);
      const newest = (await queue.artifacts.get(id, 'a'))!;
      expect(await readText(queue, newest.id)).toBe('two');
      watched.fail(async () => undefined);
      await queue.sweep();
      expect(await things(queue)).toEqual([newest.id]);
      expect(await idsIn(watched.inner)).toEqual([newest.id]);
    });
  });
});

describe('acts that are not for artifacts', () => {
  type Acts = (
    queue: Queue,
    ...ids: string[]
  ) => Promise<{
    readonly matched: number;
    readonly items: readonly { readonly id: string; readonly outcome: string }[];
  }>;
  const acts: { readonly [name: string]: Acts } = {
    'cancel by id': (queue, id) => queue.cancel(id),
    'cancel by force': (queue, id) => queue.cancel(id, { force: true }),
    'cancel by queue': (queue) => queue.cancel({ queue: 'lastout' }),
    'cancel by type': (queue) => queue.cancel({ type: ['lastout.artifact', 'waits'] }),
    'cancel by ids': (queue, ...id) => queue.cancel({ id }),
    'retry by id': (queue, id) => queue.retry(id),
    'retry by queue': (queue) => queue.retry({ queue: 'lastout', state: 'pending' }),
    'reschedule by id': (queue, id) => queue.reschedule(id, { delay: 0 }),
    'reschedule by queues': (queue) => queue.reschedule({ queue: ['lastout', 'default'] }, { delay: 0 }),
  };

  eachStore((on) => {
    it.each(Object.entries(acts))(
      '%s leaves an artifact as it is, and does what it says to others',
      async (name, act) => {
        const { queue } = await byHand(on);
        const job = await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'bytes')));
        const found = (await queue.artifacts.get(job, 'a'))!;
        const { id: other } = await queue.enqueue(defineJob<any, any>('waits', {}), null, { delay: '1h' });
        const { items, matched } = await act(queue, found.id, other);
        const others = /types?$|ids$|queues$/.test(name) ? [other] : [];
        expect(items.map(({ id }) => id)).toEqual(others);
        expect(matched).toBe(others.length);
        for (const { outcome } of items) expect(outcome).toBe(name.startsWith('cancel') ? 'cancelled' : 'moved');
        expect(await queue.artifacts.get(job, 'a')).toEqual(found);
        await queue.sweep();
        expect(await readText(queue, found.id)).toBe('bytes');
        expect((await queue.audit()).clean).toBe(true);
      },
    );
  });
});

describe('a ttl that is over', () => {
  eachStore((on) => {
    it('stays over, however long a hold keeps the artifact', async () => {
      const { queue, clock } = await byHand(on);
      let put!: Artifact;
      const id = await completes(queue, async ({ artifact }) => {
        put = await artifact.put('a', 'x', { ttl: '10m', shortLink: true });
      });
      await queue.hold(id, 'evidence');
      expect(await queue.artifacts.get(id, 'a')).toEqual(put);
      clock.at = put.expiresAt!.getTime();
      for (const next of [() => queue.sweep(), () => queue.release(id), () => queue.sweep()]) {
        expect(await queue.artifacts.get(id, 'a')).toBeNull();
        expect(await queue.artifacts.byLink(put.shortLink!)).toBeNull();
        expect(await queue.artifacts.list(id)).toEqual([]);
        expect(await things(queue)).toEqual([put.id]);
        await next();
      }
      clock.at += hour + 1;
      await queue.sweep();
      expect(await things(queue)).toEqual([]);
    });
  });
});
