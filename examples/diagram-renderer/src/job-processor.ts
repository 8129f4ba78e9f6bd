import { BackpressureError, fail, LastoutError, type Logger, type Outcome, type Slots, snooze } from 'lastout';
import type { StopReport, Worker } from 'lastout';
import type { Cache } from './cache.js';
import type { Config } from './config.js';
import { contentTypes } from './diagram.js';
import type { ClaimedJob, JobStore, Rendered } from './job-store.js';
import type { Renderer } from './renderer.js';

/** The six parts. Each may be another one, as long as it keeps the interface. */
export interface Parts {
  readonly jobStore: JobStore;
  readonly queue: Slots;
  readonly renderer: Renderer;
  readonly cache: Cache;
  readonly config: Config;
  readonly logger: Logger;
}

/**
 * With as many handlers as slots and waiting places, the slots would never be full. These few more make sure that
 * there is somebody to be turned away.
 */
const handlersToTurnAway = 10;

/** Takes pending jobs, waits for a slot, renders, stores the output. Whatever happens to one job, it goes on. */
export class JobProcessor implements AsyncDisposable {
  private worker: Worker | null = null;

  constructor(private readonly parts: Parts) {}

  async start(): Promise<void> {
    if (this.worker) return;
    const { jobStore, config, logger } = this.parts;
    const concurrency = config.queueMaxConcurrent + config.queueMaxWaiting + handlersToTurnAway;
    this.worker = await jobStore.work((job) => this.process(job), concurrency);
    logger.info('Job processor started', { pollIntervalMs: config.jobPollIntervalMs, concurrency });
  }

  isRunning(): boolean {
    return this.worker !== null;
  }

  /** No new job is taken, those that render finish, those that only wait for a slot are pending again. */
  async stop(): Promise<StopReport | null> {
    const { worker } = this;
    if (!worker) return null;
    this.worker = null;
    const stopped = worker.stop({ grace: this.parts.config.renderTimeoutMs + 5_000 });
    this.parts.queue[Symbol.dispose]();
    const report = await stopped;
    this.parts.logger.info('Job processor stopped', { finished: report.finished });
    return report;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  /** The job is `rendering` when this is called. What it answers becomes its status. */
  private async process(job: ClaimedJob): Promise<Rendered | Outcome> {
    const { logger } = this.parts;
    try {
      const rendered = await this.render(job);
      logger.info('Job completed', { jobId: job.id, ...rendered });
      return rendered;
    } catch (error) {
      // Cancelled, removed or handed back: the store knows already what becomes of it.
      if (job.signal.aborted) throw error;
      if (error instanceof LastoutError && error.code === 'SLOTS_CLOSED') return snooze(0, 'The server shuts down');
      const described = describe(error);
      logger.error('Job failed', { jobId: job.id, error: described.message });
      return fail(described);
    }
  }

  private async render(job: ClaimedJob): Promise<Rendered> {
    const { queue, renderer, cache } = this.parts;
    const { source, format, outputType } = job.diagram;
    // The same diagram may have been rendered while this job stood behind the one that did.
    const known = await cache.find(job.inputHash);
    if (known !== null) return { shortlink: known };

    const release = await queue.acquire(job.signal).catch((error: unknown) => this.turnAway(job, error));
    try {
      const bytes = await renderer.render(source, format, outputType, job.signal);
      const data = Buffer.from(bytes).toString('base64');
      return { shortlink: await cache.store(data, contentTypes[outputType], job) };
    } finally {
      release();
    }
  }

  private turnAway(job: ClaimedJob, error: unknown): never {
    const { queue, config, logger } = this.parts;
    if (error instanceof BackpressureError)
      logger.warn('Queue is full', { jobId: job.id, maxWaiting: config.queueMaxWaiting, waiting: queue.waiting });
    throw error;
  }
}

/** The message of the renderer as it is; of the slots with its name, because "Queue is full" alone says too little. */
function describe(error: unknown): { message: string; code?: string } {
  if (!(error instanceof Error)) return { message: `Thrown: ${String(error)}` };
  const message = error instanceof BackpressureError ? `${error.name}: ${error.message}` : error.message;
  const { code } = error as { code?: unknown };
  return { message, ...(typeof code === 'string' && { code }) };
}
