// Leases and the jobs that own them: a lease goes before its job, its artifacts after it, and none is forgotten.
import { describe, expect, it, vi } from 'vitest';
import { noFilter } from '../src/core/store.js';
import { defineJob, type Lease, memoryStore, open } from '../src/index.js';
import { found, hang, provider, stateOf } from './leases-support.js';
import { handClock, minute, watchedBlobs } from './lifecycle-support.js';
import { closedAfterwards, closeUnder, eachStore, expectCode, tapped } from './support.js';

const room = { size: 2 };
/** Every ten minutes what has ended five minutes ago goes. */
const quick = { jobRetentionMs: 5 * minute, cleanupIntervalMs: 10 * minute };
const locked = async (step: string): Promise<void> => {
  if (step === 'destroy') throw new Error('the door is locked');
};

describe('a job that holds a lease', () => {
  eachStore((on) => {
    /** A job that has ended, and whose lease cannot be destroyed. */
    async function stuck() {
      const world = await on.still({ cleanup: quick, artifacts: 'memory' });
      const rooms = provider();
      rooms.before = locked;
      const type = defineJob('stay', {
        async run({ lease, artifact }) {
          await lease(rooms.resource, room);
          await artifact.put('bill', 'ten');
        },
      });
      const worker = await world.queue.work([type]);
      const { id } = await world.queue.enqueue(type, null);
      await world.clock.advance('20s');
      await worker.stop();
      const [lease] = await found(world.queue);
      expect(lease).toMatchObject({ jobId: id, state: 'needs_attention' });
      return { ...world, rooms, id, lease: lease! };
    }

    it('is not removed before the lease has ended, and says so; then it goes', async () => {
      const { queue, clock, rooms, id, lease } = await stuck();
      await clock.advance('25m');
      expect((await queue.get(id))!.state).toBe('completed');
      expect((await queue.explain(id)).because).toContain(
        `Its lease ${lease.id} could not be ended yet: the door is locked.`,
      );
      expect(await queue.artifacts.get(id, 'bill')).not.toBeNull();
      rooms.before = async () => undefined;
      await clock.advance('25m');
      expect(rooms.inventory.size).toBe(0);
      expect(await queue.get(id)).toBeNull();
    });

    it('remove: the lease is ended first; where that fails, nothing else of the job goes', async () => {
      const { queue, clock, rooms, id, lease } = await stuck();
      const refused = queue.remove(id);
      await clock.advance('10s');
      expect((await refused).items).toEqual([{ id, outcome: 'held' }]);
      expect(await queue.artifacts.get(id, 'bill')).not.toBeNull();
      rooms.before = async () => undefined;
      const removed = queue.remove(id);
      await clock.advance('10s');
      expect((await removed).items).toEqual([{ id, outcome: 'removed' }]);
      expect(rooms.inventory.size).toBe(0);
      expect(await queue.get(id)).toBeNull();
      expect(await stateOf(queue, lease.id)).toBeUndefined();
      expect((await queue.audit()).clean).toBe(true);
    });

    it('the order is always the same: leases, bytes, records, job', async () => {
      const happened: string[] = [];
      const kinds = new Map<string, string>();
      const where = tapped(on.factory(), (store) => ({
        async move(request) {
          const moved = await store.move(request);
          if (request.move.kind === 'remove')
            for (const { id, outcome } of moved.items)
              if (outcome === 'removed') happened.push(`record of ${kinds.get(id)}`);
          return moved;
        },
        async sweepInTerm(term, request) {
          const swept = await store.sweepInTerm(term, request);
          const { jobs } = await store.find({ filter: { ...noFilter, types: ['stay'] }, cursor: null, limit: 1 });
          if (swept.removedBy.age > 0 && jobs.length === 0) happened.push('job');
          return swept;
        },
      }));
      const { blobs, fail } = watchedBlobs(handClock());
      fail(async (verb) => void (verb === 'delete' && happened.push('bytes')));
      const { queue, clock } = await on.still({ cleanup: quick, artifacts: { blobs } }, where);
      const rooms = provider();
      rooms.before = locked;
      rooms.after = async (step) => void (step === 'destroy' && happened.push('lease'));
      const type = defineJob('stay', {
        async run({ lease, artifact }) {
          kinds.set((await lease(rooms.resource, room)).id, 'lease');
          kinds.set((await artifact.put('bill', 'ten')).id, 'artifact');
        },
      });
      const worker = await queue.work([type], { poll: '5s' });
      await queue.enqueue(type, null);
      await clock.advance('25m');
      await worker.stop();
      expect(happened).toEqual([]);
      rooms.before = async () => undefined;
      await clock.advance('25m');
      const order = ['lease', 'bytes', 'record of artifact', 'job'];
      expect(happened.filter((what) => order.includes(what)).slice(0, order.length)).toEqual(order);
      expect(await found(queue)).toEqual([]);
    });

    it('remove by force while it runs ends its lease', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      const type = defineJob('stay', {
        async run({ lease, signal }) {
          await lease(rooms.resource, room);
          await hang(signal);
        },
      });
      await queue.work([type]);
      const { id } = await queue.enqueue(type, null);
      await clock.settle();
      expect(rooms.inventory.size).toBe(1);
      const removed = queue.remove(id, { force: true });
      await clock.advance('10s');
      expect((await removed).items).toEqual([{ id, outcome: 'removed' }]);
      expect(rooms.inventory.size).toBe(0);
    });

    it('the lease record itself is never removed, cancelled or moved as if it were a job', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      const lease = await queue.lease(rooms.resource, room, { ttl: '1h' });
      expect((await queue.cancel(lease.id)).matched).toBe(0);
      expect((await queue.reschedule(lease.id, { delay: '2h' })).matched).toBe(0);
      expect(await stateOf(queue, lease.id)).toBe('held');
      const removed = queue.remove(lease.id);
      await clock.advance('1s');
      expect((await removed).items).toEqual([{ id: lease.id, outcome: 'removed' }]);
      expect(rooms.inventory.size).toBe(0);
    });
  });
});

describe('leases in the books', () => {
  eachStore((on) => {
    it('audit: created = released + live + attention', async () => {
      const { queue, clock } = await on.still({ cleanup: quick });
      const rooms = provider();
      const desks = provider('desk');
      const leases: Lease[] = [];
      for (let n = 0; n < 4; n++) leases.push(await queue.lease(rooms.resource, room, { ttl: '1h' }));
      leases.push(await queue.lease(desks.resource, room, { ttl: '1h' }));
      rooms.before = async (step, name) => {
        if (name === leases[0]!.name) await locked(step);
      };
      for (const lease of leases.slice(0, 3)) await lease.release();
      await clock.advance('20s');
      const { clean, kinds } = await queue.audit();
      expect(clean).toBe(false);
      expect(kinds['leases']).toEqual({ created: 5, released: 2, live: 2, attention: [leases[0]!.id] });
      expect((await queue.stats()).leftBehind).toBe(1);
      rooms.before = async () => undefined;
      for (const lease of leases.slice(3)) await lease.release();
      await queue.leases.retry(leases[0]!.id);
      await clock.settle();
      const after = await queue.audit();
      expect(after.clean).toBe(true);
      expect(after.kinds['leases']).toEqual({ created: 5, released: 5, live: 0, attention: [] });
      await clock.advance('75m');
      expect((await queue.audit()).kinds['leases']).toEqual({ created: 5, released: 5, live: 0, attention: [] });
      expect(await found(queue)).toEqual([]);
    });

    it('explain: each state in a sentence', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      const lease = await queue.lease(rooms.resource, room, { ttl: '1h' });
      const told = async (): Promise<string> => (await queue.explain(lease.id)).because;
      expect(await told()).toBe(
        `It is a lease on room "${lease.name}", and is held until 2030-01-01T01:00:00.000Z. Then it is destroyed, unless it is renewed.`,
      );
      rooms.before = locked;
      await lease.release();
      await clock.settle();
      expect(await told()).toContain('and is being ended; the last try failed: the door is locked.');
      await clock.advance('20s');
      expect(await told()).toContain(
        'and could not be ended: the door is locked. It is tried again 2030-01-01T00:15:14',
      );
      expect(await queue.explain(lease.id)).toMatchObject({ blockedBy: 'attention' });
      await queue.leases.force(lease.id, 'burnt down');
      expect(await told()).toContain('and ended 2030-01-01T00:00:20.000Z: burnt down.');
    });

    it('explain: nobody here knows the kind of a lease whose time is over', async () => {
      const where = on.factory();
      const taker = await on.still({}, where);
      const lease = await taker.queue.lease(provider().resource, room, { ttl: '1h' });
      await closeUnder(taker.clock, taker.queue);
      const { queue, clock } = await on.still({}, where);
      await clock.advance('65m');
      expect(await queue.explain(lease.id)).toMatchObject({
        because:
          `It is a lease on room "${lease.name}". Its time was over at 2030-01-01T01:00:00.000Z. ` +
          'This process does not know the kind room: whoever opened the store with resources: [room] ends it.',
        until: null,
        blockedBy: 'resource',
      });
    });
  });

  it('a lease of a kind that only others know is shown, and may be released; they destroy it', async () => {
    const where = memoryStore();
    const taker = await open(where);
    const rooms = provider();
    const lease = await taker.lease(rooms.resource, room, { ttl: '1h' });
    const other = closedAfterwards(await open(where));
    closedAfterwards(taker);
    const [seen] = await found(other);
    expect(seen).toMatchObject({ id: lease.id, kind: 'room', info: lease.info, state: 'held' });
    await seen!.release();
    await vi.waitFor(() => expect(rooms.inventory.size).toBe(0));
    await expectCode('JOB_NOT_FOUND', () => other.leases.force('nobody', 'why not'));
  });
});
