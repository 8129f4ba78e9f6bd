import { mkdtemp, rm } from 'node:fs/promises';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { TripDispatch } from './app.js';
import { configFrom } from './config.js';
import { InMemoryDriverService } from './drivers.js';
import { createLogger } from './logger.js';
import { InMemoryNotificationService } from './notifications.js';
import { SwitchableTripService, tour } from './tour.js';

const say = (text: string): void => void process.stdout.write(`${text}\n`);
const ownWords = /^(?:Trip|Driver|Removed orphaned|A check of subjects)/;

// Before anything is made. A terminal and npm may both send one: the first counts, and none cuts the cleaning up short.
const told = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => told.abort(signal));

const folder = await mkdtemp(join(tmpdir(), 'lastout-trips-'));
try {
  await show(told.signal);
} catch (error) {
  if (error !== told.signal.reason) throw error;
} finally {
  await rm(folder, { recursive: true, force: true });
}
if (told.signal.aborted) process.exitCode = 128 + constants.signals[told.signal.reason as NodeJS.Signals];

async function show(signal: AbortSignal): Promise<void> {
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
  await tour({ app, trips, drivers, screens, say, signal });
}
