// Leases: the record comes before the thing and goes after it; what is due is destroyed once, by whoever is first.
import { describe, expect, it, vi } from 'vitest';
import { defineJob, defineResource, LastoutError, type Lease, memoryStore, open } from '../src/index.js';
import { fakeClock } from '../src/testing/index.js';
import { found, hang, provider, stateOf } from './leases-support.js';
import { closedAfterwards, closeUnder, eachStore, expectCode, gate, recordingLogger } from './support.js';

const room = { size: 2 };

describe('a lease', () => {
  eachStore((on) => {
    it('is made under its own name, held for its ttl, and destroyed once when that is over', async () => {
      const { queue, clock } = await on.still();
      const { resource, inventory, destroyed, names } = provider();
      const lease = await queue.lease(resource, room, { ttl: '10m', subject: 'guest:1' });
      expect(lease).toMatchObject({
        ...{ kind: 'room', state: 'held', jobId: null, subject: 'guest:1', error: null },
        info: { size: 2, epoch: 0, jobId: null },
        name: expect.stringMatching(new RegExp(`^lastout\\.room\\.[0-9a-z]{20}\\.${lease.id}$`)) as string,
        expiresAt: new Date(clock.now().getTime() + 600_000),
      });
      expect(names()).toEqual([lease.name]);
      await clock.advance('9m');
      expect(await stateOf(queue, lease.id)).toBe('held');
      expect(inventory.size).toBe(1);
      await clock.advance('2m');
      expect(destroyed).toEqual([{ name: lease.name, info: lease.info, attempt: 1 }]);
      expect(await stateOf(queue, lease.id)).toBe('ended');
      await clock.advance('20m');
      expect(destroyed).toHaveLength(1);
    });

    it('has its record before the thing is made', async () => {
      const { queue } = await on.still();
      const rooms = provider();
      let seen: readonly Lease[] = [];
      rooms.before = async (step) => {
        if (step === 'create') seen = await found(queue);
      };
      const lease = await queue.lease(rooms.resource, room, { ttl: '1m' });
      expect(seen).toHaveLength(1);
      expect(seen[0]).toMatchObject({ id: lease.id, name: lease.name, state: 'creating', info: null });
    });

    it('renew: lasts from now on for the new ttl', async () => {
      const { queue, clock } = await on.still();
      const { resource, inventory } = provider();
      const lease = await queue.lease(resource, room, { ttl: '1m' });
      await clock.advance('50s');
      const until = await lease.renew('1m');
      expect(until).toEqual(new Date(clock.now().getTime() + 60_000));
      expect(lease.expiresAt).toEqual(until);
      await clock.advance('50s');
      expect(inventory.size).toBe(1);
      const [again] = await found(queue, { state: 'held' });
      await again!.renew('30s');
      expect(again!.info).toEqual(lease.info);
      await clock.advance('40s');
      expect(inventory.size).toBe(0);
    });

    it('renew: after its end it is lost, destroyed or not', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      rooms.before = async (step) => {
        if (step === 'destroy') throw new Error('not now');
      };
      const lease = await queue.lease(rooms.resource, room, { ttl: '1m' });
      await clock.advance('61s');
      expect(await stateOf(queue, lease.id)).toBe('ending'); // it waits for its second try
      await expectCode('LEASE_LOST', () => lease.renew('1m'));
      rooms.before = async () => undefined;
      await clock.advance('10s');
      expect(await stateOf(queue, lease.id)).toBe('ended');
      await expectCode('LEASE_LOST', () => lease.renew('1m'));
    });

    it('release: it is destroyed at once; a second release, or a dispose, changes nothing', async () => {
      const { queue, clock } = await on.still();
      const { resource, destroyed } = provider();
      {
        await using lease = await queue.lease(resource, room, { ttl: '1h' });
        await lease.release();
        expect(lease.state).toBe('ending');
        await clock.settle();
        expect(destroyed).toHaveLength(1);
        await expectCode('LEASE_LOST', () => lease.renew('1m'));
      }
      await clock.advance('1s');
      expect(destroyed).toHaveLength(1);
    });

    it('that cannot be ended is tried after 1, 4 and 9 seconds, needs attention after three failures, and is never dropped', async () => {
      const { logger, lines } = recordingLogger();
      const { queue, clock } = await on.still({ logger });
      const rooms = provider();
      rooms.before = async (step) => {
        if (step === 'destroy') throw new Error('the door is locked');
      };
      const lease = await queue.lease(rooms.resource, room, { ttl: '1m' });
      await lease.release();
      const tries: number[] = [];
      const began = clock.now().getTime();
      let before = 0;
      for (let second = 0; second <= 20; second++) {
        await (second === 0 ? clock.settle() : clock.advance('1s'));
        const n = rooms.count('destroy');
        if (n > before) tries.push(Math.round((clock.now().getTime() - began) / 1_000));
        before = n;
        if (n < 3) expect(await stateOf(queue, lease.id)).toBe('ending');
        else expect(await stateOf(queue, lease.id)).toBe('needs_attention');
      }
      expect(tries).toEqual([0, 1, 5, 14]);
      const [stuck] = await found(queue, { state: 'needs_attention' });
      expect(stuck).toMatchObject({ id: lease.id, error: { message: 'the door is locked' } });
      expect((await queue.stats()).leftBehind).toBe(1);
      await clock.advance('14m');
      expect(rooms.count('destroy')).toBe(4);
      await clock.advance('1m');
      expect(rooms.count('destroy')).toBe(5);
      await clock.advance('15m');
      expect(rooms.count('destroy')).toBe(6);
      expect(lines.filter(({ message }) => message.startsWith('A lease could not be ended'))).toHaveLength(6);
      await clock.advance('45m');
      rooms.before = async () => undefined;
      await clock.advance('15m');
      expect(await found(queue, { state: 'needs_attention' })).toEqual([]);
      expect(rooms.inventory.size).toBe(0);
      expect((await queue.stats()).leftBehind).toBe(0);
    });

    it('leases.retry: what needs attention is tried at once', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      rooms.before = async (step) => {
        if (step === 'destroy') throw new Error('the door is locked');
      };
      const lease = await queue.lease(rooms.resource, room, { ttl: '1m' });
      await expectCode('INVALID_FILTER', () => queue.leases.retry(lease.id));
      await lease.release();
      await clock.advance('20s');
      rooms.before = async () => undefined;
      await queue.leases.retry(lease.id);
      await clock.settle();
      expect(await stateOf(queue, lease.id)).toBe('ended');
      expect(rooms.destroyed.map(({ attempt }) => attempt)).toEqual([5]);
      await expectCode('JOB_NOT_FOUND', () => queue.leases.retry('nobody'));
    });

    it('leases.force: closes the record, destroys nothing, and keeps the reason', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      rooms.before = async (step) => {
        if (step === 'destroy') throw new Error('the door is locked');
      };
      const lease = await queue.lease(rooms.resource, room, { ttl: '1m' });
      await lease.release();
      await clock.advance('20s');
      await expectCode('INVALID_FILTER', () => queue.leases.force(lease.id, ' '));
      rooms.inventory.delete(lease.name);
      await queue.leases.force(lease.id, 'pulled down by hand');
      const [closed] = await found(queue, { state: 'ended' });
      expect(closed).toMatchObject({ id: lease.id, error: { code: 'CANCELLED', message: 'pulled down by hand' } });
      expect((await queue.stats()).leftBehind).toBe(0);
      await clock.advance('20m');
      expect(rooms.count('destroy')).toBe(4);
    });

    it('leases.find: by state and by subject, in pages', async () => {
      const { queue, clock } = await on.still();
      const { resource } = provider();
      const other = provider('desk');
      const ids: string[] = [];
      for (const subject of ['guest:1', 'guest:2', 'guest:1'])
        ids.push((await queue.lease(resource, room, { ttl: '1m', subject })).id);
      ids.push((await queue.lease(other.resource, room, { ttl: '2m' })).id);
      const first = await queue.leases.find({ limit: 3 });
      const second = await queue.leases.find({ limit: 3, cursor: first.next! });
      expect([...first.items, ...second.items].map(({ id }) => id)).toEqual([...ids].reverse());
      expect(second.next).toBeNull();
      expect((await found(queue, { subject: 'guest:1' })).map(({ id }) => id)).toEqual([ids[2], ids[0]]);
      await clock.advance('90s');
      expect((await found(queue, { state: 'held' })).map(({ id }) => id)).toEqual([ids[3]]);
      expect((await found(queue, { state: 'ended' })).map(({ id }) => id)).toEqual([ids[2], ids[1], ids[0]]);
    });

    it('one that hangs holds up no other, and is tried again when its time is over', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      const slow = await queue.lease(rooms.resource, room, { ttl: '1m' });
      rooms.before = async (step, name, signal) => {
        if (step === 'destroy' && name === slow.name) await hang(signal);
      };
      const others = await Promise.all(
        Array.from({ length: 20 }, () => queue.lease(rooms.resource, room, { ttl: '1m' })),
      );
      await clock.advance('61s');
      expect(rooms.names()).toEqual([slow.name]);
      expect(others).toHaveLength(20);
      await clock.advance('30s');
      expect(await stateOf(queue, slow.id)).toBe('ending');
      rooms.before = async () => undefined;
      await clock.advance('40s'); // a second try had begun
      expect(rooms.inventory.size).toBe(0);
    });

    it('close: what is being destroyed is called off, and handed back without a used attempt', async () => {
      const where = on.factory();
      const first = await on.still({}, where);
      const rooms = provider();
      const lease = await first.queue.lease(rooms.resource, room, { ttl: '1m' });
      const begun = gate();
      rooms.before = async (_step, _name, signal) => {
        begun.open();
        await hang(signal);
      };
      await lease.release();
      await begun.opened;
      const closing = first.queue.close({ grace: '10m' });
      await first.clock.advance('1s');
      await closing;
      rooms.before = async () => undefined;
      const second = await open(where, { clock: first.clock, resources: [rooms.resource] });
      await first.clock.advance('1s');
      expect(rooms.destroyed).toEqual([{ name: lease.name, info: lease.info, attempt: 1 }]);
      const closed = second.close();
      await first.clock.advance('1s');
      await closed;
    });
  });
});

describe('a create', () => {
  eachStore((on) => {
    it('that fails is told as it is, and its name is destroyed now and after the deadline', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      rooms.before = async (step) => {
        if (step === 'create') throw new Error('no rooms left');
      };
      await expect(queue.lease(rooms.resource, room, { ttl: '1h' })).rejects.toThrow('no rooms left');
      await clock.settle();
      expect(rooms.count('destroy')).toBe(1);
      const [left] = await found(queue);
      expect(left!.state).toBe('ending');
      await clock.advance('59s');
      expect(await found(queue, { state: 'ended' })).toEqual([]);
      await clock.advance('7s');
      expect(rooms.count('create')).toBe(1);
      expect(rooms.count('destroy')).toBe(2);
      expect(await found(queue, { state: 'ended' })).toHaveLength(1);
    });

    it('whose reply is lost is uncertain: never made again, but destroyed', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      rooms.after = async (step) => {
        if (step === 'create') throw new Error('connection reset');
      };
      const error = await expectCode('LEASE_UNCERTAIN', () => queue.lease(rooms.resource, room, { ttl: '1h' }));
      expect(error.details).toMatchObject({ name: expect.stringMatching(/^lastout\.room\./) });
      expect(error.message).toContain('it ends by itself');
      await clock.settle();
      expect(rooms.inventory.size).toBe(0);
      expect(rooms.count('create')).toBe(1);
    });

    it('whose driver is missing says so, and not that nobody knows', async () => {
      const { queue } = await on.still();
      const fail = () => Promise.reject(new LastoutError('DRIVER_MISSING', 'run "npm install it"'));
      const resource = defineResource<null>('driven', { create: fail, destroy: fail, list: fail });
      await expectCode('DRIVER_MISSING', () => queue.lease(resource, null, { ttl: '1h' }));
    });

    it('that hangs is called off in time, and what it makes later is destroyed at the deadline', async () => {
      const { queue, clock } = await on.still();
      const rooms = provider();
      const late = gate();
      rooms.before = async (step) => {
        if (step === 'create') await late.opened;
      };
      rooms.listed = () => {
        throw new Error('no answer');
      };
      const taking = expectCode('LEASE_UNCERTAIN', () => queue.lease(rooms.resource, room, { ttl: '1h' }));
      await clock.advance('51s');
      await taking;
      late.open();
      await clock.settle();
      expect(rooms.inventory.size).toBe(1);
      await clock.advance('15s');
      expect(rooms.inventory.size).toBe(0);
    });

    it('of a process that died is undone by another one that knows the kind', async () => {
      const where = on.factory();
      const rooms = provider();
      const first = await on.still({}, where);
      rooms.after = (step) => (step === 'create' ? new Promise(() => undefined) : Promise.resolve());
      void first.queue.lease(rooms.resource, room, { ttl: '1h' }).catch(() => undefined);
      await first.clock.settle();
      expect(rooms.inventory.size).toBe(1);
      await on.still({ resources: [rooms.resource] }, where);
      await first.clock.advance('66s');
      expect(rooms.inventory.size).toBe(0);
    });
  });
});

describe('a lease in a handler', () => {
  eachStore((on) => {
    /** One job whose handler takes a room and does what it is told. */
    async function worked(run: (lease: Lease, signal: AbortSignal) => Promise<unknown>, ttl?: '1m') {
      const world = await on.still();
      const rooms = provider();
      const leases: Lease[] = [];
      const type = defineJob('stay', {
        attempts: 2,
        backoff: { type: 'fixed', base: 1_000 },
        subject: 'guest:7',
        async run({ lease, signal }) {
          const mine = await lease(rooms.resource, room, ttl === undefined ? {} : { ttl });
          leases.push(mine);
          return (await run(mine, signal)) as null;
        },
      });
      const worker = await world.queue.work([type]);
      const { id } = await world.queue.enqueue(type, null);
      await world.clock.settle();
      return { ...world, ...rooms, rooms, leases, worker, id };
    }

    it('belongs to its job, and is released when the handler returns', async () => {
      const { leases, destroyed, id, clock, queue } = await worked(async () => null);
      await clock.settle();
      expect(leases).toHaveLength(1);
      expect(leases[0]).toMatchObject({ jobId: id, subject: 'guest:7', info: { jobId: id } });
      expect(destroyed).toHaveLength(1);
      expect((await queue.get(id))!.state).toBe('completed');
    });

    it('a throw releases it, and the next attempt takes a new one', async () => {
      const { leases, destroyed, clock } = await worked(async () => {
        throw new Error('no');
      });
      await clock.advance('2s');
      expect(leases).toHaveLength(2);
      expect(leases[0]!.name).not.toBe(leases[1]!.name);
      expect(destroyed.map(({ name }) => name)).toEqual(leases.map(({ name }) => name));
    });

    it('is extended by the heartbeats of the claim', async () => {
      const done = gate();
      const { clock, inventory } = await worked(() => done.opened);
      await clock.advance('5m');
      expect(inventory.size).toBe(1);
      done.open();
      await clock.advance('1s');
      expect(inventory.size).toBe(0);
    });

    it('whose own ttl is over aborts the handler with LEASE_LOST', async () => {
      let reason: unknown;
      const { clock, inventory } = await worked(async (_lease, signal) => {
        await hang(signal).catch((error: unknown) => {
          reason = error;
        });
      }, '1m');
      await clock.advance('59s');
      expect(reason).toBeUndefined();
      expect(inventory.size).toBe(1);
      await clock.advance('6s');
      expect(reason).toMatchObject({ code: 'LEASE_LOST' });
      expect(inventory.size).toBe(0);
    });

    it('renew in the handler puts its own end off', async () => {
      const done = gate();
      const { clock, leases, inventory } = await worked(() => done.opened, '1m');
      await clock.advance('50s');
      await leases[0]!.renew('2m');
      await clock.advance('110s');
      expect(inventory.size).toBe(1);
      await clock.advance('20s');
      expect(inventory.size).toBe(0);
      await expectCode('LEASE_LOST', () => leases[0]!.renew('1m'));
      done.open();
    });

    it('renew by anybody else is refused: it would outlive the attempt', async () => {
      const done = gate();
      const { queue } = await worked(() => done.opened);
      const [seen] = await found(queue, { state: 'held' });
      await expectCode('INVALID_LEASE', () => seen!.renew('2h'));
      done.open();
    });

    it('is released when the handler ignores its time limit', async () => {
      const world = await on.still();
      const rooms = provider();
      const type = defineJob('stay', {
        timeout: '10s',
        attempts: 1,
        async run({ lease }) {
          await lease(rooms.resource, room);
          await new Promise(() => undefined);
        },
      });
      await world.queue.work([type]);
      const { id } = await world.queue.enqueue(type, null);
      await world.clock.advance('14s');
      expect(rooms.inventory.size).toBe(1);
      await world.clock.advance('2s');
      expect(rooms.inventory.size).toBe(0);
      expect((await world.queue.get(id))!.state).toBe('failed');
    });

    it('stop and cancel release it', async () => {
      const stopped = await worked((_lease, signal) => hang(signal));
      const stopping = stopped.worker.stop({ grace: 0 });
      await stopped.clock.advance('2s');
      expect((await stopping).handedBack).toEqual([stopped.id]);
      expect(stopped.inventory.size).toBe(0);
      const cancelled = await worked((_lease, signal) => hang(signal));
      await cancelled.queue.cancel(cancelled.id);
      await cancelled.clock.advance('11s');
      expect(cancelled.inventory.size).toBe(0);
      expect((await cancelled.queue.get(cancelled.id))!.state).toBe('cancelled');
    });

    it('lapses with a worker that is never heard of again', async () => {
      const where = on.factory();
      const dead = await on.still({}, where);
      const rooms = provider();
      const type = defineJob('stay', {
        async run({ lease }) {
          await lease(rooms.resource, room, { ttl: '1h' });
          await new Promise(() => undefined);
        },
      });
      await dead.queue.work([type]);
      await dead.queue.enqueue(type, null);
      await dead.clock.settle();
      const [name] = rooms.names();
      // Its clock stands still from here on: no heartbeat any more. The other one's goes on.
      const other = await on.still({ resources: [rooms.resource] }, where);
      await other.clock.advance('29s');
      expect(rooms.inventory.size).toBe(1);
      // Whichever of the two hears of it first destroys it; and the first one, which is not quite dead, may take its job anew.
      const isDestroyed = (): boolean => rooms.destroyed.some((one) => one.name === name);
      await vi.waitFor(async () => {
        await other.clock.advance('1s');
        expect(isDestroyed()).toBe(true);
      }, 10_000);
    });
  });
});

describe('a lease on its way', () => {
  it('is called off when the queue is closed, and its create told so at once', async () => {
    const queue = await open('memory:');
    const rooms = provider();
    const told = gate();
    rooms.before = (step, _name, signal) => {
      if (step !== 'create') return Promise.resolve();
      signal.addEventListener('abort', () => told.open(), { once: true });
      return hang(signal);
    };
    const taking = queue.lease(rooms.resource, room, { ttl: '1m' }).catch((error: unknown) => error);
    await vi.waitFor(() => expect(rooms.count('create')).toBe(1));
    await queue.close({ grace: 0 });
    await told.opened;
    expect(await taking).toMatchObject({ code: 'LEASE_UNCERTAIN' });
  });

  it('that nobody comes to end, because no process knows its kind, is left behind', async () => {
    const where = memoryStore();
    const clock = fakeClock();
    const first = await open(where, { clock });
    const { id } = await first.lease(provider().resource, room, { ttl: '1m' });
    await closeUnder(clock, first);
    const second = await open(where, { clock });
    await clock.advance('15m');
    expect((await second.stats()).leftBehind).toBe(0);
    await clock.advance('2m');
    expect((await second.stats()).leftBehind).toBe(1);
    expect(await stateOf(second, id)).toBe('ending');
    await closeUnder(clock, second);
  });

  it('in a copy of a store that got its own identity is let go: the thing is that of the other store', async () => {
    const where = memoryStore();
    const clock = fakeClock();
    const { logger, lines } = recordingLogger();
    const rooms = provider();
    const first = await open(where, { clock });
    const before = await first.lease(rooms.resource, room, { ttl: '1m' });
    await closeUnder(clock, first);
    const copy = await open(where, { clock, logger, identity: 'new', resources: [rooms.resource] });
    const after = await copy.lease(rooms.resource, room, { ttl: '1m' });
    await clock.advance('10m');
    expect(rooms.names()).toEqual([before.name]);
    expect(rooms.destroyed).toMatchObject([{ name: after.name }]);
    for (const { id } of [before, after]) expect(await stateOf(copy, id)).toBe('ended');
    expect(lines).toContainEqual(
      expect.objectContaining({ level: 'warn', message: 'A lease of another store was let go' }),
    );
    await closeUnder(clock, copy);
  });

  it('ends also by a process that cannot read what a codec sealed: the name must do', async () => {
    const where = memoryStore();
    const clock = fakeClock();
    const codec = { encode: (text: string) => `secret ${text}`, decode: (text: string) => text.slice(7) };
    const rooms = provider();
    const first = await open(where, { clock, codec });
    const lease = await first.lease(rooms.resource, room, { ttl: '1m' });
    await closeUnder(clock, first);
    const second = await open(where, { clock, resources: [rooms.resource] });
    await clock.advance('2m');
    expect(rooms.destroyed).toEqual([{ name: lease.name, info: null, attempt: 1 }]);
    await closeUnder(clock, second);
  });
});

describe('what is refused', () => {
  it('names the culprit', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const { resource } = provider();
    await expectCode('INVALID_NAME', () => defineResource('a.b', {} as never));
    await expectCode('UNKNOWN_OPTION', () => defineResource('room', { create: 1 } as never));
    await expectCode('UNKNOWN_OPTION', () => defineResource('room', { make: 1 } as never));
    await expectCode('TYPE_REQUIRED', () => queue.lease({ kind: 'room' }, room, { ttl: '1m' }));
    await expectCode('INVALID_TTL', () => queue.lease(resource, room, { ttl: 0 }));
    await expectCode('INVALID_TTL', () => queue.lease(resource, room, {} as never));
    const none = await expectCode('INVALID_TTL', () => queue.lease(resource, room, undefined as never));
    expect(none.message).toMatch(/^ttl is undefined; .*, from 1ms to 365d\.$/);
    await expectCode('UNKNOWN_OPTION', () => queue.lease(resource, room, { ttl: '1m', size: 1 } as never));
    await expectCode('INVALID_KEY', () => queue.lease(resource, room, { ttl: '1m', subject: 'x' }));
    await expectCode('INVALID_FILTER', () => queue.leases.find({ state: 'gone' as never }));
    await expectCode('INVALID_LIMIT', () => queue.leases.find({ limit: 201 }));
    await expectCode('TYPE_REQUIRED', () => open('memory:', { resources: [{ kind: 'room' }] }));
    await queue.lease(resource, room, { ttl: '1m' });
    await expectCode('INVALID_NAME', () => queue.lease(provider().resource, room, { ttl: '1m' }));
  });
});
