// lastout/docker: what it asks of an engine, and what it makes of each answer. On a real engine, and on one that is made up
// for answers that a healthy engine does not give.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type Docker from 'dockerode';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { stepsOf } from '../src/core/resource.js';
import { connect } from '../src/resources/docker-client.js';
import {
  type ContainerSpec,
  type DockerClient,
  type DockerContainer,
  dockerContainers,
  dockerEngine,
} from '../src/resources/docker.js';
import { engine, engineHost, isEngineThere } from './docker.js';

const signal = new AbortController().signal;
/** Ends at once when it is asked to. */
const patient: ContainerSpec = {
  Image: 'alpine',
  Cmd: ['sh', '-c', 'trap "exit 0" TERM; sleep 1000 & wait'],
  HostConfig: { NetworkMode: 'none' },
};

let unique = 0;
const newName = (): string => `lastout.box.${'s'.repeat(20)}.t${process.pid}x${++unique}`;

describe.skipIf(!isEngineThere)('lastout/docker on a Docker Engine', () => {
  let docker: Docker;
  beforeAll(async () => {
    docker = await engine();
  });
  const steps = (options = {}) => stepsOf(dockerContainers({ host: engineHost(), kind: 'box', ...options }));

  async function create(spec: ContainerSpec = patient, name = newName()): Promise<string> {
    onTestFinished(
      async () =>
        void (await docker
          .getContainer(name)
          .remove({ v: true, force: true })
          .catch(() => {})),
    );
    await steps().create(spec, { name, epoch: 7, jobId: 'job-1', signal });
    return name;
  }
  const isThere = (name: string) =>
    docker
      .getContainer(name)
      .inspect()
      .then(
        () => true,
        ({ statusCode }: { statusCode?: number }) => statusCode !== 404,
      );

  it('create: runs under the name of the lease, and its labels say namespace, store, lease, job and epoch', async () => {
    const name = await create({ ...patient, Labels: { team: 'red' } });
    const { State, Config } = await docker.getContainer(name).inspect();
    expect(State.Running).toBe(true);
    expect(Config.Labels).toMatchObject({
      team: 'red',
      'lastout.namespace': 'lastout',
      'lastout.kind': 'box',
      'lastout.identity': name.split('.')[2],
      'lastout.lease': name.split('.')[3],
      'lastout.job': 'job-1',
      'lastout.epoch': '7',
    });
  });

  it('create: sent again for the same lease makes no second one', async () => {
    const name = await create();
    const { Id } = await docker.getContainer(name).inspect();
    const at = { name, epoch: 7, jobId: 'job-1', signal };
    expect(await steps().create(patient, at)).toEqual({ containerId: Id });
    // A name that somebody else has taken is not ours to use, nor to start.
    await expect(steps().create(patient, { ...at, epoch: 8 })).rejects.toMatchObject({ statusCode: 409 });
  });

  it('destroy: leaves alone what somebody else has put under the name of a lease', async () => {
    const at = { info: null, attempt: 1, signal };
    const mine = await create();
    const Labels = { ...(await docker.getContainer(mine).inspect()).Config.Labels };
    for (const strange of [{}, { ...Labels, 'lastout.lease': 'x' }, { ...Labels, 'lastout.kind': 'x' }]) {
      const name = newName();
      await taken(name, strange);
      await expect(steps().create(patient, { name, epoch: 7, jobId: 'job-1', signal })).rejects.toMatchObject({
        statusCode: 409,
      });
      await steps().destroy({ ...at, name });
      expect(await isThere(name)).toBe(true);
    }
    const identity = await taken(newName(), { ...Labels, 'lastout.identity': 'x' });
    await steps().destroy({ ...at, name: identity });
    expect(await isThere(identity)).toBe(true);
  });

  it('destroy: ends what 0.1.0 has made, whose labels have no identity', async () => {
    const [id, name] = ['0'.repeat(20), `lastout.box.${'0'.repeat(20)}`];
    await taken(name, { 'lastout.namespace': 'lastout', 'lastout.kind': 'box', 'lastout.lease': id });
    await steps().destroy({ name, info: null, attempt: 1, signal });
    expect(await isThere(name)).toBe(false);
  });

  it('create: without labels, a container that is there already is somebody else’s, and is neither started nor removed', async () => {
    const name = await taken(newName(), {});
    const bare = dockerEngine({ host: engineHost() });
    await expect(bare.create({ ...patient, Cmd: ['/nowhere'] }, { name })).rejects.toMatchObject({ statusCode: 409 });
    expect((await docker.getContainer(name).inspect()).State.Running).toBe(false);
  });

  async function taken(name: string, Labels: { [label: string]: string }): Promise<string> {
    const made = await docker.createContainer({ Image: 'alpine', Cmd: ['true'], name, Labels });
    onTestFinished(async () => void (await made.remove({ v: true, force: true }).catch(() => {})));
    return name;
  }

  it('create: what cannot be started is not left there', async () => {
    const name = newName();
    await expect(create({ ...patient, Cmd: ['/nowhere'] }, name)).rejects.toThrow('/nowhere');
    expect(await isThere(name)).toBe(false);
    await expect(create({ Image: 'no-such-image' })).rejects.toMatchObject({ statusCode: 404 });
  });

  it('destroy: stops, removes, and takes the volumes along', async () => {
    const name = await create({
      ...patient,
      HostConfig: { NetworkMode: 'none', Mounts: [{ Type: 'volume', Target: '/data' }] },
    });
    const { Mounts } = await docker.getContainer(name).inspect();
    const volume = docker.getVolume(Mounts[0]?.Name ?? '');
    await volume.inspect();
    await steps().destroy({ name, info: null, attempt: 1, signal });
    expect(await isThere(name)).toBe(false);
    await expect(volume.inspect()).rejects.toMatchObject({ statusCode: 404 });
  });

  it('destroy: is fine with what is stopped already, gone already, and never was', async () => {
    const stopped = await create();
    await docker.getContainer(stopped).stop();
    await steps().destroy({ name: stopped, info: null, attempt: 1, signal });
    await steps().destroy({ name: stopped, info: null, attempt: 2, signal });
    await steps().destroy({ name: newName(), info: null, attempt: 1, signal });
    expect(await isThere(stopped)).toBe(false);
  });

  it('destroy: of several at once all are fine, and it is gone when they are', async () => {
    const name = await create();
    await Promise.all(
      [1, 2, 3].map(async (attempt) => {
        await steps().destroy({ name, info: null, attempt, signal });
        expect(await isThere(name)).toBe(false);
      }),
    );
  });

  it('destroy: kills what does not end by itself in time', async () => {
    const stubborn = await create({ ...patient, Cmd: ['sh', '-c', 'trap "" TERM; while :; do sleep 1; done'] });
    await steps({ stopTimeout: '1s' }).destroy({ name: stubborn, info: null, attempt: 1, signal });
    expect(await isThere(stubborn)).toBe(false);
  });

  it('list: those of its kind, running or not, and nobody else’s', async () => {
    const [running, stopped] = [await create(), await create()];
    await docker.getContainer(stopped).stop();
    const foreign = await docker.createContainer({ Image: 'alpine', Cmd: ['true'], name: `foreign-${process.pid}` });
    onTestFinished(() => foreign.remove({ force: true }));
    const listed = await steps().list(signal);
    expect(listed.map(({ name }) => name)).toEqual(expect.arrayContaining([running, stopped]));
    expect(listed.every(({ name }) => name.startsWith('lastout.box.'))).toBe(true);
    const { Created } = await docker.getContainer(running).inspect();
    const ageMs = listed.find(({ name }) => name === running)!.createdAt.getTime() - Date.parse(Created);
    expect(Math.abs(ageMs)).toBeLessThan(1_000);
  });
});

/** An engine that gives one answer to everything. */
function answering(answer: () => Promise<never>): DockerClient {
  const container: DockerContainer = {
    id: 'c1',
    start: answer,
    stop: answer,
    remove: answer,
    wait: answer,
    inspect: answer,
  };
  return { createContainer: answer, getContainer: () => container, listContainers: answer };
}

const status = (statusCode: number) => () =>
  Promise.reject(Object.assign(new Error(`(HTTP code ${statusCode})`), { statusCode }));

describe('lastout/docker: what the engine answers', () => {
  const at = { name: 'lastout.container.x', info: null, attempt: 1, signal };

  it.each([401, 403, 500, 503])('destroy: %i is no success', async (code) => {
    const { destroy } = stepsOf(dockerContainers({ docker: answering(status(code)) }));
    await expect(destroy(at)).rejects.toMatchObject({ statusCode: code });
  });

  it('destroy: no answer is no success', async () => {
    const docker = answering(() => Promise.reject(Object.assign(new Error('connect ENOENT'), { code: 'ENOENT' })));
    await expect(stepsOf(dockerContainers({ docker })).destroy(at)).rejects.toThrow('ENOENT');
  });

  it('remove: a removal that is under way is waited for', async () => {
    const calls: string[] = [];
    const docker = answering(status(409));
    const container: DockerContainer = {
      ...docker.getContainer('x'),
      stop: status(304),
      wait: async (options) => void calls.push(JSON.stringify(options)),
    };
    const engine = dockerEngine({ docker: { ...docker, getContainer: () => container } });
    expect(await engine.stop('x')).toBe(false);
    expect(await engine.remove('x')).toBe(false);
    expect(calls).toEqual(['{"condition":"removed"}']);
  });

  it('list: fails as a whole rather than answering too few', async () => {
    const { list } = stepsOf(dockerContainers({ docker: answering(status(500)) }));
    await expect(list(signal)).rejects.toMatchObject({ statusCode: 500 });
  });

  it('create: a start without an answer leaves the container to whoever can tell', async () => {
    const calls: string[] = [];
    const container: DockerContainer = {
      ...answering(status(500)).getContainer('x'),
      start: () => Promise.reject(new Error('socket hang up')),
      remove: async () => void calls.push('remove'),
    };
    const docker = { ...answering(status(500)), createContainer: async () => container };
    await expect(dockerEngine({ docker }).create({ Image: 'alpine' }, { name: 'x' })).rejects.toThrow('hang up');
    expect(calls).toEqual([]);
  });
});

describe('lastout/docker: what it is given', () => {
  it.each([
    [{ hots: 'unix:///x' }, 'UNKNOWN_OPTION'],
    [{ host: 'ftp://x' }, 'INVALID_URL'],
    [{ host: 'unix://' }, 'INVALID_URL'],
    [{ stopTimeout: 'soon' }, 'INVALID_DURATION'],
    [{ stopTimeout: '21s' }, 'INVALID_DURATION'],
    [{ kind: 'a.b' }, 'INVALID_NAME'],
  ])('%j is refused with %s', (options, code) => {
    expect(() => dockerContainers(options as never)).toThrow(expect.objectContaining({ code }));
  });

  it('what is said of a container travels in the body of the request alone, and not in its address', async () => {
    const seen: { url: string; body: string }[] = [];
    const server = createServer((request, response) => {
      let body = '';
      request.on('data', (part) => (body += String(part)));
      request.on('end', () => {
        seen.push({ url: request.url!, body });
        const isStart = request.url!.endsWith('/start');
        response.writeHead(isStart ? 204 : 201, { 'content-type': 'application/json' });
        response.end(isStart ? undefined : '{"Id":"abc"}');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const host = `tcp://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const spec = { Image: 'alpine', Env: ['TOKEN=s3cret'], platform: 'linux/arm64', HostConfig: { Memory: 5 } };
    const made = dockerEngine({ host }).create(spec, { name: 'box', signal });
    expect(await made).toBe('abc');
    const { platform: _, ...sent } = spec;
    expect(seen[0]!.url).toBe('/containers/create?name=box&platform=linux%2Farm64');
    expect(JSON.parse(seen[0]!.body)).toEqual(sent);
    expect(seen.map(({ url }) => url).join()).not.toContain('s3cret');
  });

  it.each(['_query', '_body', 'authconfig', 'abortSignal'])('a spec with %s is refused', async (field) => {
    let asked = 0;
    const docker = answering(() => {
      asked += 1;
      return status(500)();
    });
    const spec = { Image: 'alpine', [field]: { name: 'another' } };
    const at = { name: 'lastout.container.x', epoch: 0, jobId: null, signal };
    await expect(stepsOf(dockerContainers({ docker })).create(spec, at)).rejects.toMatchObject({
      code: 'INVALID_INPUT',
      message: expect.stringContaining(`"${field}"`) as string,
    });
    expect(asked).toBe(0);
  });

  it('a spec without an image is refused', async () => {
    const { create } = stepsOf(dockerContainers({ docker: answering(status(500)) }));
    const at = { name: 'lastout.container.x', epoch: 0, jobId: null, signal };
    await expect(create({}, at)).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('without dockerode the message says what to install', async () => {
    const client = connect(undefined, 'unix:///x', { installed: () => Promise.reject(new Error('not found')) });
    await expect(client()).rejects.toMatchObject({
      code: 'DRIVER_MISSING',
      message: expect.stringContaining('npm install dockerode') as string,
    });
  });

  it('an address is used as it is given, whatever DOCKER_HOST says', async () => {
    class Recorded {
      constructor(readonly options?: object) {}
    }
    const installed = async () => ({ default: Recorded });
    const to = (host: string) => connect(undefined, host, { installed })();
    expect(await to('unix:///a/b.sock')).toMatchObject({ options: { socketPath: '/a/b.sock', host: undefined } });
    expect(await to('tcp://example.org:2375')).toMatchObject({ options: { host: 'example.org', port: 2375 } });
  });
});
