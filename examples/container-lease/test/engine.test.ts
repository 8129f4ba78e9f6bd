// On a real Docker Engine and real stores, with processes that are killed. What there is, the engine itself says.
import { type ChildProcess, spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type Docker from 'dockerode';
import { afterAll, describe, expect, onTestFinished, test } from 'vitest';
import { findService } from '../../../scripts/services/index.mjs';
import { engine, engineHost, isEngineThere } from '../../../test/docker.js';
import { databaseUrl, onServer } from '../../../test/services/postgres.js';
import { createNumbers } from '../../../test/services/redis.js';
import { App } from '../src/app.js';
import { type Config, readConfig } from '../src/config.js';
import { createLogger, type LogEntry } from '../src/logger.js';
import { until } from './support.js';

const [postgres, redis] = await Promise.all([findService('postgres'), findService('redis')]);
afterAll(async () => {
  for (const service of [postgres, redis]) if ('stop' in service) await service.stop();
});

/** The URL of an empty store, which goes after the test. */
const stores: { readonly [name: string]: () => Promise<string> } = {
  async sqlite() {
    const folder = await mkdtemp(join(tmpdir(), 'lastout-containers-'));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    return `sqlite:${join(folder, 'jobs.db')}`;
  },
  ...('url' in postgres && {
    async postgres() {
      const name = `containers_${randomUUID().replaceAll('-', '')}`;
      await onServer(postgres.url, `create database ${name}`);
      onTestFinished(() => onServer(postgres.url, `drop database ${name} with (force)`));
      return databaseUrl(postgres.url, name);
    },
  }),
  ...('url' in redis && {
    async redis() {
      const numbers = createNumbers(redis.url);
      onTestFinished(() => numbers.close());
      return (await numbers.take()).url;
    },
  }),
};

const request = { imageType: 'ubuntu', durationMinutes: 5, cpuMilli: 100, memoryMB: 32, volumeSizeMB: 0 };

interface World {
  readonly docker: Docker;
  readonly config: Config;
  /** The ids of our containers, as the engine has them. */
  left(): Promise<string[]>;
  /** The ids of those that it has destroyed, in order. */
  readonly destroyed: string[];
}

/** A namespace of its own on the engine, emptied after the test. */
async function world(storeUrl: string): Promise<World> {
  const docker = await engine();
  const namespace = `cl-${randomUUID().slice(0, 8)}`;
  const label = [`lastout.namespace=${namespace}`];
  const left = async () => (await docker.listContainers({ all: true, filters: { label } })).map(({ Id }) => Id);
  const destroyed: string[] = [];
  const events = await docker.getEvents({ filters: { label, type: ['container'], event: ['destroy'] } });
  events.on('data', (data: Buffer) => {
    for (const line of data.toString().trim().split('\n'))
      destroyed.push((JSON.parse(line) as { Actor: { ID: string } }).Actor.ID);
  });
  onTestFinished(async () => {
    (events as unknown as { destroy(): void }).destroy();
    for (const id of await left()) await docker.getContainer(id).remove({ force: true, v: true });
  });
  const config = { ...readConfig({ DOCKER_HOST: engineHost(), STORE_URL: storeUrl }), namespace, port: 0 };
  return { docker, config, left, destroyed };
}

async function openApp({ docker, config }: World, stubborn = false): Promise<App> {
  const asked = docker.createContainer.bind(docker);
  if (stubborn)
    docker.createContainer = ((options: { _body: object }) => {
      const _body = { ...options._body, Cmd: ['sh', '-c', 'trap "" TERM; while :; do sleep 1; done'] };
      return asked({ ...options, _body } as never);
    }) as never;
  const app = await App.open(
    config,
    createLogger('error', () => undefined),
    { docker },
  );
  onTestFinished(() => app.close());
  return app;
}

/** A process with a worker; `entries` is its log so far. */
function instance({ config }: World): { child: ChildProcess; entries: LogEntry[] } {
  const { namespace: NAMESPACE, storeUrl: STORE_URL, dockerHost: DOCKER_HOST } = config;
  const child = spawn(process.execPath, ['--import', 'tsx', 'test/instance.ts'], {
    cwd: join(import.meta.dirname, '..'),
    env: { ...process.env, NAMESPACE, STORE_URL, DOCKER_HOST },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const entries: LogEntry[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => entries.push(JSON.parse(line) as LogEntry));
  return { child, entries };
}
const has = (entries: readonly LogEntry[], message: string): boolean => entries.some((one) => one.message === message);

describe.skipIf(!isEngineThere)('on a Docker Engine', () => {
  test('002-19 a container is provisioned under its limits, seen, read from, and deleted with its volume', async () => {
    const it = await world(await stores.sqlite!());
    const address = await (await openApp(it)).start();
    const headers = { 'Content-Type': 'application/json' };
    const body = JSON.stringify({ ...request, volumeSizeMB: 10 });
    const answer = await fetch(`${address}/api/provision`, { method: 'POST', headers, body });
    expect(answer.status).toBe(201);
    const { id } = (await answer.json()) as { id: string };
    const { HostConfig, State, Mounts } = await it.docker.getContainer(id).inspect();
    expect(State.Running).toBe(true);
    expect(HostConfig).toMatchObject({ NanoCpus: 100_000_000, Memory: 32 * 2 ** 20 });
    const logs = async () => (await fetch(`${address}/api/logs?container=${id}`)).text();
    await until('its first line', async () => (await logs()) === 'container ready\n');
    expect((await fetch(`${address}/api/containers/${id}`, { method: 'DELETE' })).status).toBe(204);
    expect(await it.left()).toEqual([]);
    await expect(it.docker.getVolume(Mounts[0]!.Name!).inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  test('an image that is missing is 422; the logs of a stranger’s container, and other addresses of the engine, are 404', async () => {
    const it = await world(await stores.sqlite!());
    const stranger = await it.docker.createContainer({ Image: 'alpine', Cmd: ['echo', 'secret'] });
    onTestFinished(() => stranger.remove({ force: true }));
    await stranger.start();
    await stranger.wait();
    const app = await openApp({ ...it, config: { ...it.config, allowedImages: ['lastout-no-such-image'] } });
    const address = await app.start();
    const headers = { 'Content-Type': 'application/json' };
    const body = JSON.stringify({ ...request, imageType: 'lastout-no-such-image' });
    const answer = await fetch(`${address}/api/provision`, { method: 'POST', headers, body });
    expect(answer.status).toBe(422);
    expect(await answer.text()).toContain('No such image: lastout-no-such-image');
    for (const id of [stranger.id, '../images/json?a=', `../containers/${stranger.id}/json?a=`, '..%2f..%2finfo?a='])
      expect((await fetch(`${address}/api/logs?container=${encodeURIComponent(id)}`)).status, id).toBe(404);
  });

  test.each(Object.keys(stores))(
    '002-37 002-38 002-39 three processes on %s, one killed while it cleans: each container goes once, none stays',
    async (store) => {
      const it = await world(await stores[store]!());
      const lasting = 3 / 60;
      const app = await openApp(it);
      const quick = [];
      for (let i = 0; i < 6; i++) quick.push(await app.service.provision({ ...request, durationMinutes: lasting }));
      // These do not end when they are asked to, so that their cleanup takes ten seconds.
      const slow = await (await openApp(it, true)).service.provision({ ...request, durationMinutes: lasting });
      const ids = [...quick, slow].map(({ id }) => id).toSorted();
      expect((await it.left()).toSorted()).toEqual(ids);
      const { leaseRepository } = app.parts;
      await until(
        'the end of all leases',
        async () => (await leaseRepository.getExpiredLeases()).length === ids.length,
      );

      const all = [instance(it), instance(it), instance(it)];
      const cleaning = () => all.filter(({ entries }) => has(entries, 'cleaning up expired containers'));
      await until('an instance that cleans', () => cleaning().length > 0 && it.destroyed.length > 0);
      expect(cleaning()).toHaveLength(1); // the others skip the tick
      const [holder] = cleaning();
      holder!.child.kill('SIGKILL');
      expect(await it.left()).toContain(slow.id); // it was in the middle

      await until('the last container', async () => (await it.left()).length === 0);
      const others = all.filter((one) => one !== holder);
      await until('the word of another instance', () =>
        others.some(({ entries }) => entries.some((one) => one.container_id === slow.id && one.status === 'success')),
      );
      expect(it.destroyed.toSorted()).toEqual(ids);
      for (const id of ids) expect(await app.queue.get(`lease:${id}`)).toBeNull();
      expect((await app.queue.find({ queue: 'leases' })).items).toEqual([]);
    },
    240_000,
  );
});
