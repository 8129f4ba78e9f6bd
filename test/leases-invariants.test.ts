// The invariants about what lives outside the queue, by number.
import { describe, expect, it } from 'vitest';
import { defineResource, open } from '../src/index.js';
import { found, hang, provider, stateOf } from './leases-support.js';
import { closeUnder, eachStore, gate } from './support.js';

const room = { size: 2 };

describe('outside the queue', () => {
  eachStore((on) => {
    it('S22: a name is stored before the provider hears of it, and at rest there is nothing of ours without a living lease', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider('room', () => clock.now());
      const live = async (): Promise<string[]> =>
        (await found(queue, { limit: 200 })).filter(({ state }) => state !== 'ended').map(({ name }) => name);
      const unknown: string[] = [];
      rooms.before = async (step, name) => {
        if (step === 'create' && !(await live()).includes(name)) unknown.push(name);
      };
      for (let n = 0; n < 6; n++) {
        rooms.after = async (step) => {
          if (step === 'create' && n % 2 === 1) throw new Error('the reply was lost');
        };
        await queue.lease(rooms.resource, room, { ttl: '10m' }).catch(() => undefined);
        expect((await live()).filter((name) => rooms.inventory.has(name))).toEqual(rooms.names().reverse());
      }
      expect(unknown).toEqual([]);
      await clock.settle();
      expect(rooms.names()).toHaveLength(3);
      expect(rooms.count('create')).toBe(6);
      await clock.advance('12m');
      expect(rooms.names()).toEqual([]);
    });

    it.each([
      ['404', true],
      ['200', true],
      ['401', false],
      ['403', false],
      ['500', false],
      ['no answer', false],
    ])('S23: after %s from the provider a lease has ended: %s', async (answer, isEnd) => {
      const { queue, clock } = await on.still();
      const site = defineResource<null>('site', {
        create: async () => null,
        async destroy({ signal }) {
          if (answer === 'no answer') await hang(signal);
          if (answer !== '404' && answer !== '200') throw new Error(`The provider answers ${answer}`);
        },
        list: async () => [],
      });
      const lease = await queue.lease(site, null, { ttl: '10m' });
      await lease.release();
      await clock.advance('31s');
      expect((await stateOf(queue, lease.id)) === 'ended').toBe(isEnd);
      const [shown] = await found(queue);
      if (!isEnd) expect(shown!.error?.message).toMatch(answer === 'no answer' ? 'Timed out' : answer);
    });

    it('S25: a finalizer that two instances run at once, and that is run again, leaves the same end', async () => {
      const where = on.factory();
      const { queue, clock } = await on.still({}, where);
      const silent = gate();
      const rooms = provider();
      const lease = await queue.lease(rooms.resource, room, { ttl: '1m' });
      rooms.before = async (step) => {
        if (step === 'destroy') await silent.opened;
      };
      await lease.release();
      await clock.settle();
      const others = provider();
      others.inventory.set(lease.name, clock.now());
      const second = await open(where, { clock, resources: [others.resource] });
      // The first one ignores its time limit and is given up; who is next starts from the beginning.
      await clock.advance('50s');
      silent.open();
      await clock.advance('10s');
      expect(rooms.count('destroy') + others.count('destroy')).toBeGreaterThanOrEqual(2);
      expect(await stateOf(queue, lease.id)).toBe('ended');
      expect((await queue.audit()).kinds['leases']).toEqual({ created: 1, released: 1, live: 0, attention: [] });
      await closeUnder(clock, second);
    });

    it('L10: an expired lease is tried within a tending, ends or needs attention, and is in nobody’s way', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      const stuck = await queue.lease(rooms.resource, room, { ttl: '1m' });
      rooms.before = async (step, name, signal) => {
        if (step === 'destroy' && name === stuck.name) await hang(signal);
      };
      await clock.advance('60s');
      const sibling = await queue.lease(rooms.resource, room, { ttl: '1m' });
      await clock.advance('5s');
      expect(rooms.calls).toContain(`destroy ${stuck.name}`);
      await clock.advance('61s');
      expect(await stateOf(queue, sibling.id)).toBe('ended');
      await clock.advance('2m');
      expect(await stateOf(queue, stuck.id)).toBe('needs_attention');
      const tries = rooms.count('destroy');
      await clock.advance('17m');
      expect(rooms.count('destroy')).toBeGreaterThan(tries);
      await queue.leases.force(stuck.id, 'there is no such room');
      expect((await queue.stats()).leftBehind).toBe(0);
    });
  });
});
