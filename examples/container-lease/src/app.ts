import { once } from 'node:events';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { open, type OpenOptions, type Queue } from 'lastout';
import { type CleanupClock, type CleanupParts, CleanupWorker } from './cleanup-worker.js';
import type { Config } from './config.js';
import { createContainerRepository } from './container-repository.js';
import { ContainerService } from './container-service.js';
import { createEngine, type Engine, type EngineApi } from './docker.js';
import { Unavailable } from './domain.js';
import { createLeaseRepository, type RedisView } from './lease-repository.js';
import type { AppLogger } from './logger.js';
import { createMetrics } from './metrics.js';
import { createLeaseServer } from './server.js';

/** What lies outside; `wrap` puts other parts in. */
export interface Outside {
  readonly docker: EngineApi;
  /** Instead of the store that the configuration names. */
  readonly store?: Parameters<typeof open>[0];
  readonly clock?: NonNullable<OpenOptions['clock']> & CleanupClock;
  readonly view?: RedisView;
  readonly wrap?: (parts: CleanupParts) => CleanupParts;
}

const httpGraceMs = 30_000;

const realClock: CleanupClock = {
  now: () => new Date(),
  sleep: (ms, signal) => delay(ms, undefined, { signal }).catch(() => undefined),
};

/** The HTTP server and, beside it, the cleanup worker. */
export class App implements AsyncDisposable {
  readonly cleanupWorker: CleanupWorker;
  readonly service: ContainerService;
  private readonly server: Server;
  private closed: Promise<void> | null = null;

  private constructor(
    private readonly config: Config,
    readonly parts: CleanupParts,
    readonly engine: Engine,
    private readonly redis: Redis | null,
  ) {
    const { queue, leaseRepository, logger, metrics } = parts;
    const cleanupWorker = new CleanupWorker(parts);
    // A few ticks may fail; then lastout itself ends the container, whatever has become of the worker.
    const graceMs = Math.max(15 * 60_000, 3 * config.cleanupIntervalMs);
    const service = new ContainerService({ ...parts, engine, cleanupWorker, graceMs });
    const askStore = async (): Promise<void> => {
      const { ok, warnings } = await queue.health();
      if (!ok) throw new Unavailable(warnings.map(({ message }) => message).join(' '));
    };
    this.server = createLeaseServer({ config, service, engine, leaseRepository, logger, metrics, askStore });
    this.service = service;
    this.cleanupWorker = cleanupWorker;
  }

  static async open(config: Config, logger: AppLogger, outside: Outside): Promise<App> {
    const { docker, store = config.storeUrl, clock, wrap = (given) => given } = outside;
    const engine = createEngine(docker, config.namespace);
    const queue = await open(store, {
      logger,
      namespace: config.namespace,
      // Each instance can end what any of them has leased.
      resources: [engine.containers],
      ...(clock && { clock }),
    });
    const redis = outside.view || !isRedis(store) ? null : connect(store, logger);
    const own = clock ?? realClock;
    const parts = wrap({
      queue,
      leaseRepository: createLeaseRepository(queue, outside.view ?? redis, own.now),
      containerRepository: createContainerRepository(queue),
      dockerClient: engine,
      logger,
      metrics: createMetrics(),
      intervalMs: config.cleanupIntervalMs,
      lockMs: config.cleanupLockMs,
      clock: own,
    });
    return new App(config, parts, engine, redis);
  }

  get queue(): Queue {
    return this.parts.queue;
  }

  /** Starts the worker, and beside it the server; answers where. */
  async start(): Promise<string> {
    await this.cleanupWorker.start();
    this.server.listen(this.config.port, this.config.host);
    await once(this.server, 'listening');
    const { address, family, port } = this.server.address() as AddressInfo;
    return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
  }

  /** First no more requests, then no more cleanup, then the rest. */
  close(): Promise<void> {
    this.closed ??= (async () => {
      if (this.server.listening) {
        const closed = once(this.server, 'close');
        this.server.close();
        this.server.closeIdleConnections();
        const patience = setTimeout(() => this.server.closeAllConnections(), httpGraceMs);
        await closed;
        clearTimeout(patience);
      }
      await this.cleanupWorker.stop();
      await this.queue.close();
      this.redis?.disconnect();
    })();
    return this.closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

const isRedis = (store: unknown): store is string => typeof store === 'string' && /^(redis|rediss|valkey):/.test(store);

function connect(url: string, logger: AppLogger): Redis {
  const redis = new Redis(url, { maxRetriesPerRequest: 1, commandTimeout: 2_000 });
  redis.on('error', (error: Error) => logger.warn('redis', { error: error.message }));
  return redis;
}
