import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { createSlots, type Logger, open, type OpenOptions, type Queue } from 'lastout';
import { createCache } from './cache.js';
import { type Config, slotWaitMs } from './config.js';
import { JobProcessor, type Parts } from './job-processor.js';
import { createJobStore } from './job-store.js';
import { createChildRenderer } from './renderer.js';
import { createRenderServer } from './server.js';

/** The server with everything it consists of; `replace` puts other parts in. */
export class App implements AsyncDisposable {
  readonly processor: JobProcessor;
  private readonly server: Server;
  private closed: Promise<void> | null = null;

  private constructor(
    readonly store: Queue,
    readonly parts: Parts,
  ) {
    this.processor = new JobProcessor(parts);
    this.server = createRenderServer(parts, this.processor);
  }

  static async open(config: Config, logger: Logger, replace: Partial<Parts> = {}): Promise<App> {
    const folder = dirname(config.jobDbPath);
    await mkdir(folder, { recursive: true });
    const store = await open(`sqlite:${config.jobDbPath}`, {
      ...storeOptions(config, logger),
      artifacts: { dir: join(folder, 'artifacts') },
    });
    return new App(store, { ...createParts(store, config, logger), ...replace });
  }

  /** Starts to take jobs and requests; answers where. */
  async start(): Promise<string> {
    const { host, port } = this.parts.config;
    await this.processor.start();
    this.server.listen(port, host);
    await once(this.server, 'listening');
    const address = this.server.address() as AddressInfo;
    return `http://${address.family === 'IPv6' ? `[${address.address}]` : address.address}:${address.port}`;
  }

  /** Takes nothing new, lets what renders finish and tell its callers, and then lets go of everything. */
  close(): Promise<void> {
    this.closed ??= (async () => {
      await this.processor.stop();
      if (this.server.listening) {
        const closed = once(this.server, 'close');
        this.server.close();
        this.server.closeIdleConnections();
        // Callers whose job is pending again wait for nothing.
        const patience = setTimeout(() => this.server.closeAllConnections(), 500);
        await closed;
        clearTimeout(patience);
      }
      await this.store.close();
    })();
    return this.closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

export function storeOptions(config: Config, logger: Logger): OpenOptions {
  const { jobRetentionMs, jobCleanupIntervalMs } = config;
  // One sweep removes old jobs and expired outputs.
  return { logger, cleanup: { jobRetentionMs, cleanupIntervalMs: jobCleanupIntervalMs } };
}

/** The parts as they are in production. */
export function createParts(store: Queue, config: Config, logger: Logger): Parts {
  const { queueMaxConcurrent, queueMaxWaiting } = config;
  return {
    jobStore: createJobStore(store, config),
    queue: createSlots({
      maxConcurrent: queueMaxConcurrent,
      maxWaiting: queueMaxWaiting,
      timeout: slotWaitMs(config),
    }),
    renderer: createChildRenderer(config),
    cache: createCache(store, config),
    config,
    logger,
  };
}
