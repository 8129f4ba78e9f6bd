import type { TripDispatch } from './app.js';
import type { InMemoryDriverService } from './drivers.js';
import type { InMemoryNotificationService } from './notifications.js';
import { dashboard } from './orphaned-job-metrics.js';
import { InMemoryTripService, type Trip } from './trips.js';

/** Trips whose database can be switched off. */
export class SwitchableTripService extends InMemoryTripService {
  isAway = false;

  override async findById(tripId: string): Promise<Trip | null> {
    this.checkThere();
    return super.findById(tripId);
  }

  override async findByIds(tripIds: readonly string[]): Promise<readonly (Trip | null)[]> {
    this.checkThere();
    return super.findByIds(tripIds);
  }

  private checkThere(): void {
    if (this.isAway) throw new Error('The database of trips is away');
  }
}

export interface Stage {
  readonly app: TripDispatch;
  readonly trips: SwitchableTripService;
  readonly drivers: InMemoryDriverService;
  readonly screens: InMemoryNotificationService;
  say(text: string): void;
  /** Aborts where the tour is to end; its reason is what is thrown. */
  readonly signal: AbortSignal;
}

const patienceMs = 30_000;

/** Shows trips from request to end, and that nothing of them stays behind. */
export async function tour(stage: Stage): Promise<void> {
  const { app, drivers, say } = stage;
  drivers.setAvailable('ann', 'bob', 'cem', 'dora');
  await showTimeoutAndAcceptance(stage);
  await showCancellation(stage);
  await showOrphans(stage);
  await showOutage(stage);
  await showCompletion(stage);

  say('\n6. What the dashboard shows');
  await app.queue.sweep(); // what the sweeps above have done is in the ledger from here on
  for (const line of (await dashboard(app)).split('\n')) say(`   ${line}`);
  const { total, leftBehind } = await app.queue.stats();
  const left = total.pending + total.processing + leftBehind;
  say(left === 0 ? '\nNothing left behind.' : `\n${left} jobs are left behind.`);
}

async function showTimeoutAndAcceptance(stage: Stage): Promise<void> {
  const { app, trips, say } = stage;
  say('1. A trip is put to two drivers. Neither answers, so the next one is asked');
  await request(stage, 'trip-1', 'ann', 'bob', 'cem');
  await until(
    stage,
    'both are passed over',
    async () => (await trips.findById('trip-1'))?.rejectedDrivers.length === 2,
  );
  await seenBy(stage, 'cem', 'trip-1');
  await app.dispatcher.acceptTrip('trip-1', 'cem');
  say(`   trip-1 is ${(await trips.findById('trip-1'))?.status} with cem, ${await jobsOf(stage, 'trip-1')}`);
}

async function showCancellation(stage: Stage): Promise<void> {
  const { app, trips, screens, say } = stage;
  say('\n2. A trip is cancelled while two drivers look at it');
  await request(stage, 'trip-2', 'ann', 'bob');
  await seenBy(stage, 'ann', 'trip-2');
  await seenBy(stage, 'bob', 'trip-2');
  await app.cancellation.cancelTrip('trip-2', 'changed my mind');
  const visible = [...screens.visibleTo('ann'), ...screens.visibleTo('bob')].length;
  say(
    `   trip-2 is ${(await trips.findById('trip-2'))?.status}, ${await jobsOf(stage, 'trip-2')}, ${visible} requests visible`,
  );
}

async function showOrphans(stage: Stage): Promise<void> {
  const { app, trips, say } = stage;
  say('\n3. A trip disappears while its driver is under way: its jobs wait for nothing, and the sweep finds them');
  await request(stage, 'trip-3', 'cem');
  await delayed(stage, 'trip-3');
  trips.delete('trip-3');
  say(`   before the sweep: ${await jobsOf(stage, 'trip-3')}`);
  const cleaned = await app.cleanup.cleanupOrphanedJobs();
  say(`   the sweep removed ${cleaned?.removed ?? 0}: ${await jobsOf(stage, 'trip-3')}`);
}

async function showOutage(stage: Stage): Promise<void> {
  const { app, trips, say } = stage;
  say('\n4. The database of trips is away: the sweep cannot know, and removes nothing');
  await request(stage, 'trip-4', 'cem');
  await delayed(stage, 'trip-4');
  trips.isAway = true;
  const cleaned = await app.cleanup.cleanupOrphanedJobs();
  trips.isAway = false;
  say(`   the sweep removed ${cleaned?.removed ?? 0}: ${await jobsOf(stage, 'trip-4')}`);
  await app.cancellation.cancelTrip('trip-4', 'took the tram');
}

async function showCompletion(stage: Stage): Promise<void> {
  const { app, trips, say } = stage;
  say('\n5. The first trip has been driven: its driver is free, and the next one is put to him');
  await app.dispatcher.completeTrip('trip-1', 'cem');
  await request(stage, 'trip-5', 'cem');
  await seenBy(stage, 'cem', 'trip-5');
  say(`   trip-1 is ${(await trips.findById('trip-1'))?.status}, and cem sees trip-5`);
  await app.dispatcher.acceptTrip('trip-5', 'cem');
  await app.dispatcher.completeTrip('trip-5', 'cem');
}

async function request({ app, say, signal }: Stage, id: string, ...drivers: string[]): Promise<void> {
  signal.throwIfAborted();
  say(`   ${id} is requested, drivers: ${drivers.join(', ')}`);
  await app.dispatcher.requestTrip({
    id,
    customerId: `customer-${id}`,
    tripData: { pickup: 'Harbour', dropoff: 'Airport' },
    drivers,
  });
}

/** What still runs is let finish first. */
async function jobsOf(stage: Stage, tripId: string): Promise<string> {
  const subject = `trip:${tripId}`;
  const count = async (state: 'pending' | 'processing') =>
    (await stage.app.queue.find({ subject, state })).items.length;
  await until(stage, `no job of ${tripId} runs`, async () => (await count('processing')) === 0);
  return `${await count('pending')} jobs in the queues`;
}

async function seenBy(stage: Stage, driverId: string, tripId: string): Promise<void> {
  await until(stage, `${driverId} sees ${tripId}`, async () => stage.screens.visibleTo(driverId).includes(tripId));
}

/** The driver is under way: the request has been looked at and put off. */
async function delayed(stage: Stage, tripId: string): Promise<void> {
  await until(stage, `${tripId} is put off`, async () => {
    const { items } = await stage.app.queue.find({
      subject: `trip:${tripId}`,
      queue: 'trip-requests',
      state: 'pending',
    });
    return items.some(({ createdAt, scheduledFor }) => scheduledFor > createdAt);
  });
}

async function until({ signal }: Stage, what: string, isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + patienceMs;
  while (!(await isSo())) {
    signal.throwIfAborted();
    if (performance.now() > deadline) throw new Error(`Waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
