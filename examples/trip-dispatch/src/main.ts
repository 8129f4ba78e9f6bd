import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TripDispatch } from './app.js';
import { configFrom } from './config.js';
import { InMemoryDriverService } from './drivers.js';
import { createLogger } from './logger.js';
import { InMemoryNotificationService } from './notifications.js';
import { SwitchableTripService, tour } from './tour.js';

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const ownWords = /^(?:Trip|Driver|Removed orphaned|A check of subjects)/;

const folder = await mkdtemp(join(tmpdir(), 'lastout-trips-'));
try {
  const trips = new SwitchableTripService();
  const drivers = new InMemoryDriverService();
  const screens = new InMemoryNotificationService(({ to, tripId, text }) => say(`   → ${to}: ${text} (${tripId})`));
  await using app = await TripDispatch.open(`sqlite:${join(folder, 'jobs.db')}`, {
    logger: createLogger('debug', ({ message }) => ownWords.test(message) && say(`   [log] ${message}`)),
    tripService: trips,
    driverService: drivers,
    notifications: screens,
    // A second instead of twenty, so that nobody has to wait.
    config: configFrom(process.env, { driverResponseMs: 1_000 }),
  });
  await app.start();
  await tour({ app, trips, drivers, screens, say });
} finally {
  await rm(folder, { recursive: true, force: true });
}
