import type { Logger, Queue } from 'lastout';
import type { Config } from './config.js';
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
