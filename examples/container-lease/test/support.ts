import { memoryStore, type Queue } from 'lastout';
import { type FakeClock, fakeClock } from 'lastout/testing';
import { onTestFinished } from 'vitest';
import { App, type Outside } from '../src/app.js';
import type { CleanupClock, CleanupParts } from '../src/cleanup-worker.js';
import { type Config, readConfig } from '../src/config.js';
import type { ContainerView } from '../src/container-service.js';
import type { EngineApi } from '../src/docker.js';
import type { ContainerRepository, DockerClient, LeaseRepository } from '../src/domain.js';
import { type AppLogger, createLogger, type LogEntry } from '../src/logger.js';

const status = (statusCode: number, message: string): Error => Object.assign(new Error(message), { statusCode });

/** An engine in memory that answers as Docker does. `refuse` may answer a call with an error. */
export class FakeDocker implements EngineApi {
  readonly calls: string[] = [];
  readonly containers = new Map<string, { name: string; labels: { [label: string]: string }; running: boolean }>();
  refuse: (call: string) => Error | undefined = () => undefined;
  /** Called before each answer; a test may hold it up. */
  before: (call: string) => Promise<void> | void = () => undefined;
  private made = 0;

  private async said(call: string): Promise<void> {
    this.calls.push(call);
    await this.before(call);
    const error = this.refuse(call);
    if (error) throw error;
  }
  private find(id: string) {
    for (const [key, one] of this.containers) if (key === id || one.name === id) return [key, one] as const;
    throw status(404, `No such container: ${id}`);
  }

  async createContainer(options: object) {
    const { _query, _body } = options as { _query: { name: string }; _body: { Labels: { [label: string]: string } } };
    await this.said(`create ${_query.name}`);
    const id = `c${++this.made}`;
    this.containers.set(id, { name: _query.name, labels: _body.Labels, running: false });
    return this.getContainer(id);
  }
  getContainer(id: string) {
    return {
      id,
      start: async () => {
        await this.said(`start ${id}`);
        this.find(id)[1].running = true;
      },
      stop: async () => {
        await this.said(`stop ${id}`);
        const [, one] = this.find(id);
        if (!one.running) throw status(304, 'container already stopped');
        one.running = false;
      },
      remove: async () => {
        await this.said(`remove ${id}`);
        this.containers.delete(this.find(id)[0]);
      },
      wait: async () => undefined,
      logs: async () => {
        await this.said(`logs ${id}`);
        this.find(id);
        return Buffer.concat([Buffer.from([1, 0, 0, 0, 0, 0, 0, 6]), Buffer.from('ready\n')]);
      },
      inspect: async () => {
        const [Id, { labels }] = this.find(id);
        return { Id, Config: { Labels: labels } };
      },
    };
  }
  async listContainers() {
    await this.said('list');
    return [...this.containers].map(([Id, { name, labels, running }]) => ({
      Id,
      Names: [`/${name}`],
      Created: 0,
      Labels: labels,
      State: running ? 'running' : 'exited',
    }));
  }
  getImage(name: string) {
    return { inspect: () => this.said(`image ${name}`) };
  }
  async ping() {
    await this.said('ping');
  }
  /** The calls to end containers, by the ids of their own; lastout names them otherwise. */
  get endings(): string[] {
    return this.calls.filter((call) => /^(stop|remove) c\d+$/.test(call));
  }
}

export const unreachable = (): Error =>
  Object.assign(new Error('connect ENOENT /var/run/docker.sock'), { code: 'ENOENT' });

/** A fake clock whose sleeps hang on it, too. */
export function cleanupClock(): FakeClock & CleanupClock & { readonly slept: number[] } {
  const clock = fakeClock();
  const slept: number[] = [];
  const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      slept.push(ms);
      if (signal.aborted) return resolve();
      const callOff = clock.timer(ms, resolve);
      signal.addEventListener('abort', () => {
        callOff();
        resolve();
      });
    });
  return Object.assign(clock, { sleep, slept });
}

export function recordingLogger(now: () => Date): { logger: AppLogger; entries: LogEntry[] } {
  const entries: LogEntry[] = [];
  return { logger: createLogger('debug', (entry) => entries.push(entry), now), entries };
}

export interface Stage {
  readonly app: App;
  readonly queue: Queue;
  readonly docker: FakeDocker;
  readonly clock: ReturnType<typeof cleanupClock>;
  readonly config: Config;
  readonly entries: LogEntry[];
  /** What a cleanup said. */
  cleanups(): LogEntry[];
  said(message: string): LogEntry[];
  provision(durationMinutes?: number): Promise<ContainerView>;
}

export interface Given {
  readonly docker?: FakeDocker;
  readonly clock?: ReturnType<typeof cleanupClock>;
  readonly store?: Outside['store'];
  readonly view?: Outside['view'];
  readonly env?: { [name: string]: string };
  readonly wrap?: Outside['wrap'];
}

/** An app on a store in memory, an engine in memory and a clock that stands still. */
export async function stage(given: Given = {}): Promise<Stage> {
  const { docker = new FakeDocker(), clock = cleanupClock(), store = memoryStore(), env = {}, view, wrap } = given;
  const config = { ...readConfig(env), port: 0 };
  const { logger, entries } = recordingLogger(() => clock.now());
  const app = await App.open(config, logger, { docker, clock, store, ...(view && { view }), ...(wrap && { wrap }) });
  onTestFinished(async () => {
    let closed = false;
    const closing = app.close().finally(() => {
      closed = true;
    });
    while (!closed) await clock.advance(100);
    await closing;
  });
  return {
    app,
    queue: app.queue,
    docker,
    clock,
    config,
    entries,
    cleanups: () => entries.filter(({ action }) => action === 'cleanup'),
    said: (message) => entries.filter((entry) => entry.message === message),
    provision: (durationMinutes = 120) =>
      app.service.provision({ imageType: 'ubuntu', durationMinutes, cpuMilli: 500, memoryMB: 512, volumeSizeMB: 0 }),
  };
}

/** Records what is called on the three parts, in order. */
export function recorded(parts: CleanupParts, calls: string[]): CleanupParts {
  const record = <T extends object>(name: string, part: T): T =>
    new Proxy(part, {
      get(target, property, receiver) {
        const value: unknown = Reflect.get(target, property, receiver);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          calls.push(`${name}.${String(property)}`);
          return (value as (...given: unknown[]) => unknown).apply(target, args);
        };
      },
    });
  return {
    ...parts,
    leaseRepository: record<LeaseRepository>('leaseRepo', parts.leaseRepository),
    containerRepository: record<ContainerRepository>('containerRepo', parts.containerRepository),
    dockerClient: record<DockerClient>('docker', parts.dockerClient),
  };
}

/** Looks until it is so, or for two minutes. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 120_000;
  while (!(await isSo())) {
    if (performance.now() > deadline) throw new Error(`Waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
