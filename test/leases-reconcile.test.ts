// The reconciler: what is ours and unknown goes, what is known and gone is closed, and a list that fails changes nothing.
import { describe, expect, it } from 'vitest';
import { processesOn } from './engines.js';
import { found, provider, stateOf } from './leases-support.js';
import { eachStore, recordingLogger } from './support.js';

const room = { size: 2 };
const nobody = 'lastout.room.00000000000000000000';

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
      const others = ['lastout.desk.00000000000000000000', 'other.room.00000000000000000000', 'lastout.room.x', 'db'];
      for (const name of [nobody, ...others]) rooms.inventory.set(name, clock.now());
      await clock.advance('59s');
      const young = 'lastout.room.00000000000000000001';
      rooms.inventory.set(young, clock.now());
      await clock.advance('6s');
      expect(rooms.names()).toEqual([lease.name, ...others, young]);
      await clock.advance('2m');
      expect(rooms.names()).toEqual([lease.name, ...others]);
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
