// The reconciler: what is ours and unknown goes, what is known and gone is closed, and a list that fails changes nothing.
import { describe, expect, it } from 'vitest';
import { noFilter, type StoreFactory } from '../src/core/store.js';
import { createSystem } from '../src/system.js';
import type { FakeClock } from '../src/testing/index.js';
import { processesOn } from './engines.js';
import { formerName, found, provider, stateOf, strangerOf } from './leases-support.js';
import { newJob } from './stores/new-job.js';
import { eachStore, recordingLogger } from './support.js';

const room = { size: 2 };

/** A lease as 0.1.0 has stored it: without an identity in its name, which is returned. */
async function storedBy010(where: StoreFactory, clock: FakeClock, delay: number): Promise<string> {
  const system = createSystem(clock);
  const store = await where.open({ system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY });
  const id = system.id();
  const key = `lastout.room.${id}`;
  const lease = { id, key, type: 'lastout.lease.room', queue: 'lastout', maxAttempts: 1_000_000_000 };
  await store.insert([newJob({ ...lease, when: { inMs: delay } })], { atomic: false });
  await store.move({
    filter: { ...noFilter, ids: [id] },
    move: { kind: 'confirm', memo: '{"info":null}', when: { inMs: delay }, under: null },
    ...{ dryRun: false, cursor: null, limit: 1 },
  });
  await store.close();
  return key;
}

describe('the reconciler', () => {
  eachStore((on) => {
    async function world(options: Parameters<typeof on.still>[0] = {}) {
      const { logger, lines } = recordingLogger();
      const { queue, clock } = await on.still({ logger, ...options });
      const rooms = provider('room', () => clock.now());
      const lease = await queue.lease(rooms.resource, room, { ttl: '1d' });
      return { queue, clock, rooms, lease, lines };
    }

    it('destroys what bears a name of ours, belongs to no lease and is older than the grace; nothing else', async () => {
      const { clock, rooms, lease } = await world();
      const nobody = strangerOf(lease);
      const others = [
        ...[nobody.replace('room', 'desk'), nobody.replace('lastout', 'other'), 'lastout.room.x', 'db'],
        ...[`x${nobody}`, `${nobody}.x`, nobody.replace(/[0-9a-z]{20}/, 'x'.repeat(20))],
      ];
      for (const name of [nobody, ...others]) rooms.inventory.set(name, clock.now());
      await clock.advance('59s');
      const young = strangerOf(lease, 1);
      rooms.inventory.set(young, clock.now());
      await clock.advance('6s');
      expect(rooms.names()).toEqual([lease.name, ...others, young]);
      await clock.advance('2m');
      expect(rooms.names()).toEqual([lease.name, ...others]);
    });

    it('leaves alone what another store has leased, with the same namespace and kind of the same provider', async () => {
      const { clock, rooms, lease } = await world();
      const other = await on.still();
      const theirs = await other.queue.lease(rooms.resource, room, { ttl: '1d' });
      await clock.advance('10m');
      await other.clock.advance('10m');
      expect(rooms.names()).toEqual([lease.name, theirs.name]);
      const [ours, others] = [strangerOf(lease), strangerOf(theirs)];
      for (const name of [ours, others]) rooms.inventory.set(name, clock.now());
      await clock.advance('3m');
      expect(rooms.names()).toEqual([lease.name, theirs.name, others]);
    });

    it('destroys what 0.1.0 has named if a lease of it was stored here and has ended, and nothing else by such a name', async () => {
      const where = on.factory();
      const { queue, clock } = await on.still({}, where);
      const rooms = provider('room', () => clock.now());
      const [over, held] = [await storedBy010(where, clock, 1_000), await storedBy010(where, clock, 86_400_000)];
      const unknown = 'lastout.room.00000000000000000000';
      for (const name of [over, held, unknown]) rooms.inventory.set(name, clock.now());
      const lease = await queue.lease(rooms.resource, room, { ttl: '1d' });
      await clock.advance('10s');
      expect(rooms.names()).toEqual([held, unknown, lease.name]);
      // It comes again, as what is made too late does; and what is called like a lease of ours without its store is not that lease.
      for (const name of [over, formerName(lease)]) rooms.inventory.set(name, clock.now());
      await clock.advance('3m');
      expect(rooms.names()).toEqual([held, unknown, lease.name, formerName(lease)]);
    });

    it('destroys what a create made after its deadline', async () => {
      const { queue, clock, rooms } = await world();
      rooms.before = async (step) => {
        if (step === 'create') throw new Error('time-out');
      };
      await queue.lease(rooms.resource, room, { ttl: '1d' }).catch(() => undefined);
      await clock.advance('70s');
      const [late] = (await found(queue, { state: 'ended' })).map(({ name }) => name);
      rooms.inventory.set(late!, clock.now());
      await clock.advance('3m');
      expect(rooms.names()).not.toContain(late);
      expect(rooms.inventory.size).toBe(1);
    });

    it('closes a lease whose thing has gone, after it was not seen for a while: by its name, should it be there after all', async () => {
      const { queue, clock, rooms, lease } = await world();
      rooms.inventory.delete(lease.name);
      await clock.advance('190s');
      expect(await stateOf(queue, lease.id)).toBe('held');
      await clock.advance('60s');
      expect(await stateOf(queue, lease.id)).toBe('ended');
      expect(rooms.count('destroy')).toBe(1);
    });

    it('a list that is late, forgets, fails or cannot be read changes nothing', async () => {
      const { queue, clock, rooms, lease, lines } = await world();
      const truth = rooms.listed;
      const nobody = strangerOf(lease);
      rooms.inventory.set(nobody, clock.now());
      const lies: (() => unknown)[] = [
        () => {
          throw new Error('503');
        },
        () => null,
        () => [{ name: 5 }],
        () => [...truth(), null],
      ];
      for (const lie of lies) {
        rooms.listed = lie as never;
        await clock.advance('61s');
      }
      expect(rooms.names()).toEqual([lease.name, nobody]);
      expect(lines.filter(({ message }) => message.startsWith('Leases could not be compared'))).toHaveLength(
        lies.length,
      );
      // It forgets for three looks, and shows it again at the last moment.
      let looks = 0;
      rooms.listed = () => (++looks % 5 === 0 ? truth() : []);
      await clock.advance('10m');
      expect(await stateOf(queue, lease.id)).toBe('held');
    });

    it.each([
      ['everything', 2, 2],
      ['everything', 13, 13],
      ['some', 13, 4],
    ])('a list that has lost %s of %i is not believed', async (_, leases, lost) => {
      const { queue, clock, rooms, lines } = await world();
      while (rooms.inventory.size < leases) await queue.lease(rooms.resource, room, { ttl: '1d' });
      const truth = rooms.listed;
      rooms.listed = () => truth().slice(lost);
      await clock.advance('10m');
      rooms.listed = truth;
      await clock.advance('3m');
      expect(await found(queue, { state: 'held' })).toHaveLength(leases);
      expect(rooms.count('destroy')).toBe(0);
      expect(lines.some(({ message }) => message.startsWith('Many things on lease are not listed'))).toBe(true);
    });

    it('leaves alone what is being made', async () => {
      const { queue, clock, rooms } = await world();
      await clock.advance('50s');
      rooms.after = (step) => (step === 'create' ? new Promise(() => undefined) : Promise.resolve());
      const old = new Date(clock.now().getTime() - 3_600_000);
      rooms.before = async (step, name) => {
        if (step === 'create') setImmediate(() => rooms.inventory.set(name, old)); // its clock is wrong
      };
      void queue.lease(rooms.resource, room, { ttl: '1d' }).catch(() => undefined);
      await clock.advance('20s');
      expect(rooms.count('list')).toBeGreaterThan(0);
      expect(rooms.count('destroy')).toBe(0);
    });

    it('is one for all processes that know the kind', async () => {
      const where = on.factory();
      const first = await on.still({}, where);
      const rooms = provider('room', () => first.clock.now());
      await first.queue.lease(rooms.resource, room, { ttl: '1d' });
      const more = provider('room', () => first.clock.now());
      const second = await on.still({ resources: [more.resource] }, where);
      await first.clock.advance('61s');
      await second.clock.advance('61s');
      expect(rooms.count('list') + more.count('list')).toBe(1);
    });

    it('ends that of 0.1.0, which does not know the names of now', async () => {
      const where = on.factory();
      const first = await on.still({}, where);
      const store = await where.open({
        ...{ system: createSystem(first.clock), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY },
      });
      const former = { type: 'lastout.reconcile.room', key: 'room', queue: 'lastout', when: { inMs: 60_000 } };
      await store.insert([newJob(former)], { atomic: false });
      await store.close();
      await first.queue.lease(provider().resource, room, { ttl: '1d' });
      await first.clock.settle();
      const { items } = await first.queue.find({ queue: 'lastout', state: 'pending' });
      expect(items.map(({ type }) => type).sort()).toEqual(['lastout.compare.room', 'lastout.lease.room']);
    });

    it('comes back with the next process when somebody has cancelled it', async () => {
      const process = processesOn(on.engine);
      const first = await on.still({}, process());
      const rooms = provider('room', () => first.clock.now());
      await first.queue.lease(rooms.resource, room, { ttl: '1d' });
      await first.clock.settle();
      expect((await first.queue.cancel({ queue: 'lastout' })).items).toMatchObject([{ outcome: 'cancelled' }]);
      const second = await on.still({ resources: [rooms.resource] }, process());
      await second.clock.advance('2m');
      expect(rooms.count('list')).toBeGreaterThan(0);
    });
  });
});
