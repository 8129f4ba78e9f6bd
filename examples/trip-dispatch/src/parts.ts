import type { Logger, Queue } from 'lastout';
import type { DriverService } from './drivers.js';
import type { FailedCleanups } from './failed-cleanups.js';
import type { NotificationService } from './notifications.js';
import type { TripService } from './trips.js';

/** What the services are made of. Each may be another one, as long as it keeps the interface. */
export interface Parts {
  readonly queue: Queue;
  readonly tripService: TripService;
  readonly driverService: DriverService;
  readonly notifications: NotificationService;
  readonly logger: Logger;
  readonly config: Config;
  readonly now: () => Date;
  readonly failedCleanups: FailedCleanups;
}

export interface Config {
  /** How many drivers are asked for one trip at the same time. */
  readonly driversAtOnce: number;
  /** How long a driver may take to answer a request that he sees. */
  readonly driverResponseMs: number;
  /** More orphaned jobs than this within ten minutes are an alert. */
  readonly highOrphanCount: number;
}

export const defaultConfig: Config = { driversAtOnce: 2, driverResponseMs: 20_000, highOrphanCount: 20 };
