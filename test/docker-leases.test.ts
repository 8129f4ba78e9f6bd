// Leases on containers of a real engine. What is there is asked of the engine itself.
import { randomBytes } from 'node:crypto';
import { describe, expect, it, onTestFinished } from 'vitest';
import { engineAt, startEngine } from '../scripts/services/engine.mjs';
import { prepareImages } from '../scripts/services/images.mjs';
import { cache, enginePrograms } from '../scripts/services/index.mjs';
import { defineJob, type Lease, open, type Queue } from '../src/index.js';
import { type ContainerSpec, dockerContainers, dockerEngine } from '../src/resources/docker.js';
import { fakeClock } from '../src/testing/index.js';
import { engineHost, isEngineThere } from './docker.js';
import { engines, newStore } from './engines.js';
import { strangerOf } from './leases-support.js';
import { eventually } from './worker-support.js';

const spec: ContainerSpec = {
  Image: 'alpine',
  Cmd: ['sh', '-c', 'trap "exit 0" TERM; sleep 1000 & wait'],
  HostConfig: { NetworkMode: 'none' },
};

const newNamespace = (): string => `docker-${randomBytes(6).toString('hex')}`;

async function openOn(engine: (typeof engines)[number]): Promise<Queue> {
  const queue = await open(newStore(engine), { namespace: newNamespace() });
  onTestFinished(async () => void (await queue.close({ grace: 0 })));
  return queue;
}

async function isThere(host: string, name: string): Promise<boolean> {
  const found = await (await engineAt(host)).listContainers({ all: true, filters: { name: [name] } });
  return found.length > 0;
}

const endedOf = async (queue: Queue, id: string): Promise<boolean> =>
  (await queue.leases.find({ state: 'ended' })).items.some((lease) => lease.id === id);

describe.skipIf(!isEngineThere).each(engines)('leases on containers, jobs on %s', (store) => {
  it('a container runs while its lease is held, and is gone when it was released or ran out', async () => {
    const queue = await openOn(store);
    const containers = dockerContainers({ host: engineHost() });
    const [released, short] = await Promise.all([
      queue.lease(containers, spec, { ttl: '10m' }),
      queue.lease(containers, spec, { ttl: '3s' }),
    ]);
    expect(released).toMatchObject({ state: 'held', info: { containerId: expect.any(String) as string } });
    expect(await isThere(engineHost(), released.name)).toBe(true);
    await released.release();
    for (const { id, name } of [released, short]) {
      await eventually(() => endedOf(queue, id), 'the end of a lease', 30_000);
      expect(await isThere(engineHost(), name)).toBe(false);
    }
  });

  it('a container of a handler carries its job and epoch, and is gone when the attempt has ended', async () => {
    const queue = await openOn(store);
    const containers = dockerContainers({ host: engineHost(), kind: 'scratch' });
    const seen: { lease: Lease; labels: Record<string, string> }[] = [];
    const build = defineJob<null>('build', {
      attempts: 2,
      backoff: { type: 'fixed', base: 0 },
      async run({ lease, job }) {
        const held = await lease(containers, spec);
        const { Config } = await (await engineAt(engineHost())).getContainer(held.name).inspect();
        seen.push({ lease: held, labels: Config.Labels });
        if (job.attempts === 1) throw new Error('once more');
        return null;
      },
    });
    await queue.work([build]);
    const { id } = await queue.enqueue(build, null);
    expect(await queue.wait(id)).toMatchObject({ state: 'completed', attempts: 2 });
    expect(seen.map(({ labels }) => labels['lastout.job'])).toEqual([id, id]);
    expect(new Set(seen.map(({ labels }) => labels['lastout.epoch'])).size).toBe(2);
    expect(seen[0]!.lease.name).not.toBe(seen[1]!.lease.name);
    for (const { lease } of seen) {
      await eventually(() => endedOf(queue, lease.id), 'the end of a lease', 30_000);
      expect(await isThere(engineHost(), lease.name)).toBe(false);
    }
  });
});

describe.skipIf(!isEngineThere)('the reconciler on an engine', () => {
  it('destroys a container that bears a name of ours and belongs to no lease, and spares all others', async () => {
    // An hour ahead: for this queue, what the engine has made just now is old.
    const clock = fakeClock(new Date(Date.now() + 3_600_000));
    const namespace = newNamespace();
    const containers = dockerContainers({ host: engineHost() });
    const queue = await open('memory:', { namespace, clock, resources: [containers] });
    const lease = await queue.lease(containers, spec, { ttl: '1d' });
    const engine = dockerEngine({ host: engineHost() });
    const nobodys = strangerOf(lease);
    const foreign = [
      nobodys.replace(namespace, newNamespace()),
      nobodys.replace(/\.[0-9a-z]{20}\./, `.${'x'.repeat(20)}.`), // another store, by the same namespace
      `${namespace}.container.${'0'.repeat(20)}`, // of 0.1.0, and no lease of this store
    ];
    for (const name of [nobodys, ...foreign]) {
      const [of = '', , ...rest] = name.split('.');
      const [lease = '', identity] = rest.reverse();
      const Labels = { 'lastout.namespace': of, 'lastout.kind': 'container', 'lastout.lease': lease };
      await engine.create(
        { ...spec, Labels: { ...Labels, ...(identity && { 'lastout.identity': identity }) } },
        { name },
      );
      onTestFinished(async () => void (await engine.remove(name)));
    }
    const isGone = async (): Promise<boolean> => {
      await clock.advance('1s');
      return !(await isThere(engineHost(), nobodys));
    };
    await eventually(isGone, 'the end of what is nobody’s', 60_000);
    for (const name of foreign) expect(await isThere(engineHost(), name)).toBe(true);
    expect(await isThere(engineHost(), lease.name)).toBe(true);
    await lease.release();
    await eventually(async () => {
      await clock.advance('1s');
      return endedOf(queue, lease.id);
    }, 'the end of the lease');
    const closing = queue.close({ grace: 0 });
    await clock.advance('1m');
    await closing;
  });
});

const found = await enginePrograms();

describe.skipIf('why' in found)('an engine that is down', () => {
  it('is asked again, and the container is gone once it is back', async () => {
    if ('why' in found) return;
    const engine = await startEngine(found.programs);
    onTestFinished(() => engine.dispose());
    await prepareImages(engine.url, cache);
    const queue = await openOn('memory');
    const lease = await queue.lease(dockerContainers({ host: engine.url }), spec, { ttl: '10m' });
    await engine.kill();
    await lease.release();
    const failed = async (): Promise<boolean> => (await queue.leases.find()).items.some(({ error }) => error !== null);
    await eventually(failed, 'a first failure');
    await engine.start();
    expect(await isThere(engine.url, lease.name)).toBe(true);
    await eventually(() => endedOf(queue, lease.id), 'the end of the lease', 60_000);
    expect(await isThere(engine.url, lease.name)).toBe(false);
  }, 120_000);
});
