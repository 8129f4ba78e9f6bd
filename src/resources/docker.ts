/** lastout/docker: containers of a Docker Engine as a resource. Each step may be repeated: what is done already is fine. */
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { identityPattern } from '../core/identity.js';
import { defineResource, type Resource } from '../core/resource.js';
import { ownOptions } from '../core/own-options.js';
import { reading } from '../core/reading.js';
import { connect, type DockerClient } from './docker-client.js';

export type { DockerClient, DockerContainer, ListedContainer } from './docker-client.js';

/** The body of the Engine API's `POST /containers/create`: `Image`, `Cmd`, `Env`, `HostConfig`, …; `platform` besides. */
export interface ContainerSpec {
  readonly Image: string;
  readonly Labels?: { readonly [label: string]: string };
  readonly [field: string]: unknown;
}

export interface EngineOptions {
  /** A client of dockerode 4 or 5. Without it one is made for `host`. */
  docker?: DockerClient;
  /** `unix:///…` or `tcp://host:port`; else what DOCKER_HOST says, else the engine of this machine. */
  host?: string;
  /** What a container gets to end by itself before it is killed: 10 s, at most 20 s. */
  stopTimeout?: Duration;
}

export interface ContainerInfo {
  readonly name: string;
  readonly id: string;
  readonly createdAt: Date;
  readonly labels: { readonly [label: string]: string };
}

/** What can be done with containers, by name or id. */
export interface Containers {
  /** Made and started under this name. One that is there already is taken for ours if it has the same labels, at least one. */
  create(spec: ContainerSpec, at: { name: string; signal?: AbortSignal }): Promise<string>;
  /** False: it was not running, or is gone. */
  stop(name: string, signal?: AbortSignal): Promise<boolean>;
  /** With its anonymous volumes; resolves when it is gone. False: it was gone already. */
  remove(name: string, signal?: AbortSignal): Promise<boolean>;
  /** Those that carry all of these labels, running or not. */
  list(labels: { readonly [label: string]: string }, signal?: AbortSignal): Promise<readonly ContainerInfo[]>;
}

/** A try to destroy something gets half a minute: stopping must leave time for the rest. */
const stopMaxMs = 20_000;

/** The label under which a container says what it is. Its values: {@link labelsOf}. */
const label = (name: string): string => `lastout.${name}`;

export function dockerEngine(options: EngineOptions = {}): Containers {
  const { create, stop, remove, list } = engineOf(options);
  return { create, stop, remove, list };
}

/** Fields that dockerode takes for itself: they would replace what is sent, or go elsewhere than into the body. */
const notOfTheBody = ['_query', '_body', 'authconfig', 'abortSignal'];

interface Engine extends Containers {
  /** The id of what bears this name and all of these labels; null: it is not there, or is somebody else's. */
  idOf(name: string, labels: Labels, signal?: AbortSignal): Promise<string | null>;
}

type Labels = { readonly [label: string]: string };

function engineOf(options: EngineOptions): Engine {
  const own = ownOptions(options, ['docker', 'host', 'stopTimeout'], 'The options of dockerEngine');
  const stopMs = toMs(own.stopTimeout ?? '10s', 'stopTimeout', 'INVALID_DURATION', { max: stopMaxMs });
  const client = connect(own.docker, own.host);

  async function create(spec: ContainerSpec, { name, signal }: { name: string; signal?: AbortSignal }) {
    const docker = await client();
    const { platform, ..._body } = bodyOf(spec, name);
    // Said apart, because dockerode puts everything into the address as well, which others may log, and `Env` has secrets.
    const _query = { name, ...(platform !== undefined && { platform }) };
    const made = await docker.createContainer({ _query, _body, ...aborted(signal) }).catch(async (error: unknown) => {
      if (statusOf(error) !== 409) throw error;
      // The answer to an earlier request got lost, or the name is somebody else's.
      const id = await idOf(name, _body.Labels ?? {}, signal);
      if (id === null) throw error;
      return docker.getContainer(id);
    });
    try {
      await unless([304], made.start(aborted(signal)));
    } catch (error) {
      // What the engine has refused to start is of no use. Without an answer it may have been started: that is not ours to judge.
      if (statusOf(error) !== undefined) await remove(made.id, signal).catch(() => undefined);
      throw error;
    }
    return made.id;
  }

  async function idOf(name: string, labels: Labels, signal?: AbortSignal): Promise<string | null> {
    const wanted = Object.entries(labels);
    try {
      const { Id, Config } = await (await client()).getContainer(name).inspect(aborted(signal));
      return wanted.length > 0 && wanted.every(([key, value]) => Config.Labels?.[key] === value) ? Id : null;
    } catch (error) {
      if (statusOf(error) === 404) return null;
      throw error;
    }
  }

  async function stop(name: string, signal?: AbortSignal) {
    const container = (await client()).getContainer(name);
    return unless([304, 404], container.stop({ t: Math.ceil(stopMs / 1_000), ...aborted(signal) }));
  }

  async function remove(name: string, signal?: AbortSignal) {
    const container = (await client()).getContainer(name);
    try {
      return await unless([404], container.remove({ v: true, force: true, ...aborted(signal) }));
    } catch (error) {
      if (statusOf(error) !== 409) throw error;
      // Somebody else is removing it. It is gone when the engine says so, and not before.
      await unless([404], container.wait({ condition: 'removed', ...aborted(signal) }));
      return false;
    }
  }

  async function list(labels: { readonly [label: string]: string }, signal?: AbortSignal) {
    const wanted = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
    const found = await (await client()).listContainers({ all: true, filters: { label: wanted }, ...aborted(signal) });
    return found.map(({ Id, Names, Created, Labels }) => ({
      name: Names[0]?.replace(/^\//, '') ?? Id,
      id: Id,
      createdAt: new Date(Created * 1_000),
      labels: Labels,
    }));
  }
  return { create, stop, remove, list, idOf };
}

/** Of a lease: the container that was made. */
export type LeasedContainer = { readonly containerId: string };

/**
 * Containers to lease: `queue.lease(dockerContainers(), { Image: 'alpine', Cmd: ['sleep', '600'] }, { ttl: '10m' })`. The
 * container has the name of its lease, `info` is `{ containerId }`, and labels tell namespace, store, lease, job and epoch.
 */
export function dockerContainers(
  options: EngineOptions & { kind?: string } = {},
): Resource<ContainerSpec, LeasedContainer> {
  const own = ownOptions(options, ['docker', 'host', 'stopTimeout', 'kind'], 'The options of dockerContainers');
  const { kind = 'container', ...rest } = own;
  const engine = engineOf(rest);
  return defineResource<ContainerSpec, LeasedContainer>(kind, {
    async create(spec, { name, epoch, jobId, signal }) {
      if (typeof spec?.Image !== 'string' || spec.Image === '')
        throw new LastoutError('INVALID_INPUT', `Image of container ${name} is ${show(spec?.Image)}; name an image.`);
      const about = { [label('epoch')]: String(epoch), ...(jobId !== null && { [label('job')]: jobId }) };
      const Labels = { ...spec.Labels, ...labelsOf(name, kind), ...about };
      return { containerId: await engine.create({ ...spec, Labels }, { name, signal }) };
    },
    async destroy({ name, signal }) {
      // Somebody else may have a container by this name: then there is none of ours.
      const id = await engine.idOf(name, labelsOf(name, kind), signal);
      if (id === null) return;
      await engine.stop(id, signal);
      await engine.remove(id, signal);
    },
    list: (signal) => engine.list({ [label('kind')]: kind }, signal),
  });
}

/** What a lease is told by. A name is `namespace.kind.identity.lease`; 0.1.0 had no identity, neither there nor among the labels. */
function labelsOf(name: string, kind: string): Labels {
  const parts = name.split('.');
  const lease = parts.pop() ?? '';
  const hasIdentity = parts.at(-2) === kind && identityPattern.test(parts.at(-1) ?? '');
  const identity = hasIdentity ? parts.pop() : undefined;
  return {
    [label('namespace')]: parts.slice(0, -1).join('.'),
    [label('kind')]: kind,
    ...(identity !== undefined && { [label('identity')]: identity }),
    [label('lease')]: lease,
  };
}

function bodyOf(spec: ContainerSpec, name: string): ContainerSpec & { readonly platform?: unknown } {
  const body = reading(`The spec of container ${name}`, 'INVALID_INPUT', () => ({ ...spec }));
  const strange = notOfTheBody.find((field) => field in body);
  if (strange === undefined) return body;
  throw new LastoutError('INVALID_INPUT', `The spec of container ${name} has "${strange}", which is no field of it.`);
}

const aborted = (signal?: AbortSignal): { abortSignal?: AbortSignal } => (signal ? { abortSignal: signal } : {});

/** The HTTP status of what dockerode rejects with; undefined: no answer came. */
function statusOf(error: unknown): unknown {
  return (error as { statusCode?: unknown } | null)?.statusCode;
}

/** False where the engine's answer is one of these, which say that there was nothing to do. */
async function unless(statuses: readonly number[], work: Promise<unknown>): Promise<boolean> {
  try {
    await work;
    return true;
  } catch (error) {
    if (statuses.includes(statusOf(error) as number)) return false;
    throw error;
  }
}
