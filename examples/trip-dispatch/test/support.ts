import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Job, memoryStore, type StoreFactory } from 'lastout';
import { type FakeClock, fakeClock } from 'lastout/testing';
import { afterAll, onTestFinished } from 'vitest';
import { createDatabases } from '../../../test/services/postgres.js';
import { createNumbers } from '../../../test/services/redis.js';
import { type AppOptions, TripDispatch } from '../src/app.js';
import { InMemoryDriverService } from '../src/drivers.js';
import { createLogger, type LogLine } from '../src/logger.js';
import { InMemoryNotificationService, type Message } from '../src/notifications.js';
import { requestId, timeoutId } from '../src/trip-request-job.js';
import { InMemoryTripService } from '../src/trips.js';

const { LASTOUT_TEST_POSTGRES_URL, LASTOUT_TEST_REDIS_URL } = process.env;
const databases = LASTOUT_TEST_POSTGRES_URL ? createDatabases(LASTOUT_TEST_POSTGRES_URL) : null;
const numbers = LASTOUT_TEST_REDIS_URL ? createNumbers(LASTOUT_TEST_REDIS_URL) : null;
afterAll(async () => {
  await databases?.close();
  numbers?.close();
});

export type Engine = 'memory' | 'sqlite' | 'postgres' | 'redis';

/** Those that there are: `npm test` brings both servers up. */
export const engines: readonly Engine[] = [
  'memory',
  'sqlite',
  ...(databases ? (['postgres'] as const) : []),
  ...(numbers ? (['redis'] as const) : []),
];

/** An empty store, which goes when the test ends. */
export async function newStore(engine: Engine): Promise<string | StoreFactory> {
  if (engine === 'memory') return memoryStore();
  if (engine === 'sqlite') return `sqlite:${join(await temporaryFolder(), 'jobs.db')}?synchronous=normal`;
  const taken = await (engine === 'postgres' ? databases! : numbers!).take();
  onTestFinished(() => void (engine === 'postgres' ? databases! : numbers!).giveBack(taken as never));
  return taken.url;
}

export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lastout-trips-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export interface Stage {
  readonly where: string | StoreFactory;
  readonly app: TripDispatch;
  readonly queue: TripDispatch['queue'];
  readonly clock: FakeClock;
  readonly trips: InMemoryTripService;
  readonly drivers: InMemoryDriverService;
  readonly screens: InMemoryNotificationService;
  readonly messages: Message[];
  readonly lines: LogLine[];
  /** What was logged on this level, since the start. */
  said(level: LogLine['level']): readonly string[];
  /** Requests a trip of these drivers, all at work, and lets everything run that can. */
  request(tripId: string, ...driverIds: string[]): Promise<void>;
  requestJob(tripId: string, driverId: string): Promise<Job | null>;
  timeoutJob(tripId: string, driverId: string): Promise<Job | null>;
  /** Ids of the pending and processing jobs of both queues, in order. */
  live(): Promise<readonly string[]>;
}

/**
 * The whole dispatch on a clock that is moved by hand, closed when the test ends. It works unless `idle`. `beside`: another
 * process on the same store, and with the same world around it.
 */
export async function stage(
  options: Omit<Partial<AppOptions>, 'clock'> & {
    readonly engine?: Engine;
    readonly idle?: true;
    readonly beside?: Stage;
  } = {},
): Promise<Stage> {
  const { engine = 'memory', idle, beside, ...given } = options;
  const where = beside?.where ?? (await newStore(engine));
  const clock = beside?.clock ?? fakeClock();
  const lines: LogLine[] = [];
  const messages: Message[] = [];
  const trips = new InMemoryTripService();
  const drivers = new InMemoryDriverService();
  const screens = new InMemoryNotificationService((message) => messages.push(message));
  const app = await TripDispatch.open(where, {
    logger: createLogger('debug', (line) => lines.push(line)),
    tripService: trips,
    driverService: drivers,
    notifications: screens,
    clock,
    ...(beside && worldOf(beside)),
    ...given,
  });
  onTestFinished(() => close(app, clock));
  if (!idle) await app.start();
  await clock.settle();
  const { queue } = app;
  return {
    where,
    app,
    queue,
    clock,
    trips,
    drivers,
    screens,
    messages,
    lines,
    said: (level) => lines.filter((line) => line.level === level).map(({ message }) => message),
    async request(tripId, ...driverIds) {
      drivers.setAvailable(...driverIds);
      await app.dispatcher.requestTrip(trip(tripId, ...driverIds));
      await clock.settle();
    },
    requestJob: (tripId, driverId) => queue.get(requestId({ tripId, driverId })),
    timeoutJob: (tripId, driverId) => queue.get(timeoutId({ tripId, driverId })),
    async live() {
      const { items } = await queue.find({ state: ['pending', 'processing'], limit: 200 });
      return items.map(({ id }) => id).sort();
    },
  };
}

export function trip(id: string, ...drivers: string[]) {
  return { id, customerId: `customer-of-${id}`, tripData: { pickup: 'Harbour', dropoff: 'Airport' }, drivers };
}

function worldOf({ app }: Stage): Pick<AppOptions, 'tripService' | 'driverService' | 'notifications'> {
  const { tripService, driverService, notifications } = app.parts;
  return { tripService, driverService, notifications };
}

/** Closing waits by the clock, which nobody else moves any more. */
async function close(app: TripDispatch, clock: FakeClock): Promise<void> {
  let closed = false;
  const closing = app.queue.close({ grace: 0 }).finally(() => {
    closed = true;
  });
  while (!closed) await clock.advance(100);
  await closing;
}

/** A door that a call waits at; it opens by itself when so many have come. Better than any sleep. */
export class Door {
  readonly arrived: Promise<void>;
  open!: () => void;
  private arrive!: () => void;
  private readonly opened: Promise<void>;
  private comers = 0;

  constructor(private readonly opensAt = Number.POSITIVE_INFINITY) {
    this.arrived = new Promise((resolve) => {
      this.arrive = resolve;
    });
    this.opened = new Promise((resolve) => {
      this.open = resolve;
    });
  }
  async pass(): Promise<void> {
    this.arrive();
    this.comers += 1;
    if (this.comers >= this.opensAt) this.open();
    await this.opened;
  }
}

/** Look-ups of some trips, or of all, fail. */
export class TroubledTrips extends InMemoryTripService {
  readonly troubled = new Set<string>();
  override async findById(tripId: string) {
    if (this.troubled.has('all') || this.troubled.has(tripId)) throw new Error('The database is away');
    return super.findById(tripId);
  }
  override async findByIds(tripIds: readonly string[]) {
    return Promise.all(tripIds.map((tripId) => this.findById(tripId)));
  }
}
