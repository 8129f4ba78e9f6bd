import { handle, type Logger, open, type OpenOptions, type Queue, type StoreFactory } from 'lastout';
import { type Config, readConfig } from './config.js';
import { InMemoryDriverService } from './drivers.js';
import { FailedCleanups } from './failed-cleanups.js';
import { InMemoryNotificationService } from './notifications.js';
import { OrphanedJobCleanupService } from './orphaned-job-cleanup-service.js';
import type { Parts } from './parts.js';
import { TripCancellationService } from './trip-cancellation-service.js';
import { TripDispatcher } from './trip-dispatcher.js';
import { TripJobs } from './trip-jobs.js';
import { processTripRequest, timeoutTripRequest, toTripRequestJob } from './trip-request-job.js';
import { TripRequestProcessor } from './trip-request-processor.js';
import { TripTimeoutProcessor } from './trip-timeout-processor.js';
import { InMemoryTripService } from './trips.js';

/** Finished jobs that are too many go with the next pass. */
const cleanupIntervalMs = 120_000;

export type AppOptions = {
  readonly logger: Logger;
  readonly config?: Partial<Config>;
  readonly clock?: NonNullable<OpenOptions['clock']>;
} & Partial<Pick<Parts, 'tripService' | 'driverService' | 'notifications'>>;

/** Everything that the dispatch of trips consists of, on one store. */
export class TripDispatch implements AsyncDisposable {
  readonly dispatcher: TripDispatcher;
  readonly cancellation: TripCancellationService;
  readonly cleanup: OrphanedJobCleanupService;
  readonly jobs: TripJobs;

  private constructor(readonly parts: Parts) {
    this.jobs = new TripJobs(parts);
    this.cancellation = new TripCancellationService(parts, this.jobs);
    this.dispatcher = new TripDispatcher(parts, this.jobs, this.cancellation);
    this.cleanup = new OrphanedJobCleanupService(parts);
  }

  static async open(where: string | StoreFactory, options: AppOptions): Promise<TripDispatch> {
    const { logger, clock, ...given } = options;
    const config = readConfig(options.config ?? {});
    const queue = await open(where, {
      logger,
      cleanup: { cleanupIntervalMs },
      metrics: true,
      alerts: { rules: { manyOrphans: { above: config.highOrphanCount } } },
      ...(clock && { clock }),
    });
    const now = (): Date => clock?.now() ?? new Date();
    return new TripDispatch({
      queue,
      tripService: new InMemoryTripService(),
      driverService: new InMemoryDriverService(),
      notifications: new InMemoryNotificationService(),
      logger,
      now,
      failedCleanups: new FailedCleanups(now),
      ...given,
      config,
    });
  }

  get queue(): Queue {
    return this.parts.queue;
  }

  async start(): Promise<void> {
    const requests = new TripRequestProcessor(this.parts);
    const timeouts = new TripTimeoutProcessor(this.parts, this.dispatcher);
    await this.cleanup.start();
    await this.queue.work([
      this.cleanup.handler,
      handle(processTripRequest, ({ job }) => requests.handleTripRequest(toTripRequestJob(job), job)),
      handle(timeoutTripRequest, (context) => timeouts.handleTimeout(context)),
    ]);
  }

  async close(): Promise<void> {
    await this.queue.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}
