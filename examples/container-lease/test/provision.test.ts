// Provisioning: the order of its steps, the record of the lease, and what happens when a step fails.
import { Redis } from 'ioredis';
import { afterAll, describe, expect, test } from 'vitest';
import { findService } from '../../../scripts/services/index.mjs';
import { createNumbers } from '../../../test/services/redis.js';
import { recorded, stage, unreachable } from './support.js';

test('002-20 lastout’s intent, then the container, then the repository, then the lease', async () => {
  const calls: string[] = [];
  const it = await stage({ wrap: (parts) => recorded(parts, calls) });
  it.docker.before = async (call) => {
    if (!call.startsWith('create')) return;
    const [intent] = (await it.queue.leases.find({ state: 'creating' })).items;
    expect(call).toBe(`create ${intent!.name}`);
    calls.push('intent', 'docker.create');
  };
  await it.provision(120);
  expect(calls).toEqual(['intent', 'docker.create', 'containerRepo.save', 'leaseRepo.createLease']);
});

test('002-25 002-26 the record is found under lease:{containerID}, and has four fields', async () => {
  const it = await stage();
  const { id } = await it.provision(120);
  const record = await it.queue.get(`lease:${id}`);
  expect(record?.input).toEqual({
    containerID: id,
    expiryTime: '2030-01-01T02:00:00.000Z',
    imageType: 'ubuntu',
    durationMinutes: 120,
  });
});

test('002-27 002-28 its time is that of the lease, and when it is over the record is still there to be found', async () => {
  const it = await stage();
  const { id } = await it.provision(120);
  expect((await it.queue.get(`lease:${id}`))?.scheduledFor).toEqual(new Date('2030-01-01T02:00:00Z'));
  // Days without any worker, and with lastout's own cleanup every hour.
  it.docker.refuse = (call) => (call.startsWith('stop') ? unreachable() : undefined);
  await it.clock.advance('30h');
  expect(await it.app.parts.leaseRepository.getExpiredLeases()).toEqual([id]);
});

test('002-39 whatever becomes of the worker, lastout itself ends the container a little later', async () => {
  const it = await stage();
  const { id } = await it.provision(5); // no worker is ever started
  await it.clock.advance('15m');
  expect(it.docker.containers.has(id)).toBe(true);
  await it.clock.advance('10m');
  expect(it.docker.containers.has(id)).toBe(false);
  // A worker that comes back finds the records and clears them.
  await it.app.cleanupWorker.start();
  await it.clock.advance('2m');
  expect(await it.queue.get(`lease:${id}`)).toBeNull();
});

describe('what fails on the way is undone', () => {
  test.each(['containerRepo.save', 'leaseRepo.createLease'])('%s', async (step) => {
    const it = await stage({
      wrap: (parts) => ({
        ...parts,
        containerRepository: {
          ...parts.containerRepository,
          save: (record) =>
            step === 'containerRepo.save'
              ? Promise.reject(new Error('store down'))
              : parts.containerRepository.save(record),
        },
        leaseRepository: {
          ...parts.leaseRepository,
          createLease: (record, guard) =>
            step === 'leaseRepo.createLease'
              ? Promise.reject(new Error('store down'))
              : parts.leaseRepository.createLease(record, guard),
        },
      }),
    });
    await expect(it.provision()).rejects.toThrow('store down');
    await it.clock.advance('5s');
    expect(it.docker.containers.size).toBe(0);
    expect((await it.app.service.list()).filter(({ status }) => status !== 'terminated')).toEqual([]);
    expect((await it.queue.stats()).queues.leases?.delayed ?? 0).toBe(0);
  });

  test('a process that dies in the middle: its container is gone two minutes later', async () => {
    const it = await stage({
      wrap: (parts) => ({
        ...parts,
        containerRepository: { ...parts.containerRepository, save: () => new Promise(() => undefined) },
      }),
    });
    void it.provision();
    await it.clock.advance('1m');
    expect(it.docker.containers.size).toBe(1);
    await it.clock.advance('2m');
    expect(it.docker.containers.size).toBe(0);
  });

  test('a container that the engine refuses leaves nothing', async () => {
    const it = await stage();
    it.docker.refuse = (call) => (call.startsWith('create') ? unreachable() : undefined);
    await expect(it.provision()).rejects.toThrow();
    await it.clock.advance('2m');
    expect(await it.app.service.list()).toEqual([]);
    expect((await it.queue.leases.find({ state: 'held' })).items).toEqual([]);
  });
});

const service = await findService('redis');
afterAll(async () => {
  if ('stop' in service) await service.stop();
});

describe.skipIf('why' in service)('on Redis', () => {
  test('002-21 002-25 002-27 the literal key is there too, with a TTL of 7200 s for 120 minutes', async () => {
    if ('why' in service) return;
    const numbers = createNumbers(service.url);
    const { url } = await numbers.take();
    const redis = new Redis(url);
    try {
      const it = await stage({ store: url, view: redis });
      const { id, expiryAt } = await it.provision(120);
      expect(JSON.parse((await redis.get(`lease:${id}`)) ?? 'null')).toEqual({
        containerID: id,
        expiryTime: expiryAt,
        imageType: 'ubuntu',
        durationMinutes: 120,
      });
      const ttl = await redis.ttl(`lease:${id}`);
      expect(ttl).toBeGreaterThan(7_190);
      expect(ttl).toBeLessThanOrEqual(7_200);
      // The key is a view: when Redis has dropped it, the lease is found all the same.
      await redis.del(`lease:${id}`);
      await it.clock.advance('121m');
      expect(await it.app.parts.leaseRepository.getExpiredLeases()).toEqual([id]);
      const again = await it.provision(5);
      await it.app.service.delete(again.id, new AbortController().signal);
      expect(await redis.exists(`lease:${again.id}`)).toBe(0);
    } finally {
      redis.disconnect();
      numbers.close();
    }
  });
});
