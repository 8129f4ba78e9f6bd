import { setImmediate } from 'node:timers/promises';
import { BackpressureError, cancel, fail, LastoutError, type Logger, type Outcome, type Slots, snooze } from 'lastout';
import type { StopReport, Worker } from 'lastout';
import type { Cache } from './cache.js';
import type { Config } from './config.js';
import { contentTypes, type Diagram } from './diagram.js';
import type { ClaimedJob, JobStore, Rendered, RenderJob } from './job-store.js';
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

/** Takes pending jobs, waits for a slot, renders, stores the output. Whatever happens to one job, it goes on. */
export class JobProcessor implements AsyncDisposable {
  private worker: Worker | null = null;
  /** Places in the slots that callers have taken for their jobs, oldest first: that one has its slot first. */
  private readonly kept: Promise<() => void>[] = [];
  /** Jobs of callers that have begun, each with one of those places. */
  private readonly begun = new Set<string>();
  /** What renders in this process, by input; null in the end if it failed. */
  private readonly underWay = new Map<string, Promise<string | null>>();

  constructor(private readonly parts: Parts) {}

  async start(): Promise<void> {
    if (this.worker) return;
    const { jobStore, config, logger } = this.parts;
    // What would only stand in this line stays pending, for any server that has a slot.
    const concurrency = config.queueMaxConcurrent;
    this.worker = await jobStore.work((job) => this.process(job), concurrency);
    logger.info('Job processor started', { pollIntervalMs: config.jobPollIntervalMs, concurrency });
  }

  /**
   * Renders for a caller who waits: takes a place in the slots first, or rejects with BackpressureError, and then makes
   * the job that uses it. It is this server's own, so that for each place that is taken one job less is claimed.
   */
  async renderNow(diagram: Diagram): Promise<RenderJob> {
    const { queue, jobStore } = this.parts;
    const place = queue.acquire();
    // Full slots refuse at once. Who got a place waits for its turn as a job.
    await Promise.race([place, setImmediate()]).catch((error: unknown) => this.turnAway({}, error));
    const refused = place.then(() => new Promise<never>(() => undefined));
    refused.catch(() => undefined);
    this.kept.push(place);
    let id = '';
    try {
      id = (await jobStore.createHere(diagram)).id;
      return await Promise.race([jobStore.wait(id), refused]);
    } finally {
      // Without a handler nobody gives the place back: the job was not made, or was removed before its turn.
      if (!this.begun.delete(id))
        void this.kept
          .pop()
          ?.then((release) => release())
          .catch(() => undefined);
    }
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
      if (error instanceof LastoutError && error.code === 'SLOTS_CLOSED')
        return job.here ? cancel('The server shuts down') : snooze(0, 'The server shuts down');
      const described = describe(error);
      logger.error('Job failed', { jobId: job.id, error: described.message });
      return fail(described);
    }
  }

  private async render(job: ClaimedJob): Promise<Rendered> {
    const { queue, cache } = this.parts;
    const place = this.placeOf(job);
    // The same diagram may have been rendered while this job stood behind the one that did.
    const known = place ? null : await cache.find(job.inputHash);
    if (known !== null) return { shortlink: known };

    const release = await (place ?? queue.acquire(job.signal)).catch((error: unknown) =>
      this.turnAway({ jobId: job.id }, error),
    );
    try {
      return { shortlink: await this.renderOnce(job) };
    } finally {
      release();
    }
  }

  /** The place that its caller has taken; null for a job that has none. */
  private placeOf(job: ClaimedJob): Promise<() => void> | null {
    if (!job.here || this.begun.has(job.id)) return null;
    this.begun.add(job.id);
    return this.kept.shift() ?? null;
  }

  /** Of those that have a slot for the same diagram one renders, and the others have its output. */
  private async renderOnce(job: ClaimedJob): Promise<string> {
    const { underWay } = this;
    for (let other = underWay.get(job.inputHash); other; other = underWay.get(job.inputHash)) {
      const shortlink = await other;
      if (shortlink !== null) return shortlink;
    }
    const rendering = this.findOrRender(job);
    underWay.set(
      job.inputHash,
      rendering.catch(() => null),
    );
    try {
      return await rendering;
    } finally {
      underWay.delete(job.inputHash);
    }
  }

  private async findOrRender(job: ClaimedJob): Promise<string> {
    const { renderer, cache } = this.parts;
    const { source, format, outputType } = job.diagram;
    const known = await cache.find(job.inputHash);
    if (known !== null) return known;
    const bytes = await renderer.render(source, format, outputType, job.signal);
    return cache.store(Buffer.from(bytes).toString('base64'), contentTypes[outputType], job);
  }

  private turnAway(whom: { readonly jobId?: string }, error: unknown): never {
    const { queue, config, logger } = this.parts;
    if (error instanceof BackpressureError)
      logger.warn('Queue is full', { ...whom, maxWaiting: config.queueMaxWaiting, waiting: queue.waiting });
    throw error;
  }
}

/** The message of the renderer as it is; of the slots with its name, because "Queue is full" alone says too little. */
export function describe(error: unknown): { message: string; code?: string } {
  if (!(error instanceof Error)) return { message: `Thrown: ${String(error)}` };
  const message = error instanceof BackpressureError ? `${error.name}: ${error.message}` : error.message;
  const { code } = error as { code?: unknown };
  return { message, ...(typeof code === 'string' && { code }) };
}
