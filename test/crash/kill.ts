/** Many processes on one store, killed, stopped and blocked at any moment. What they saw is judged afterwards. */
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { partingMs } from '../../src/core/policy.js';
import type { Store } from '../../src/core/store.js';
import { open, type Queue } from '../../src/index.js';
import { createSystem } from '../../src/system.js';
import { expectNothingLeft } from '../../src/testing/index.js';
import { emptyStore, type EngineName, temporaryFolder } from '../engines.js';
import { drain, everyJob, expectTrueCounts } from './afterwards.js';
import { compilePrograms, type Programs } from '../programs.js';
import { Fleet, pause, until } from './fleet.js';
import { blocking, plain, poison } from './jobs.js';
import { judge } from './judge.js';
import { readLedgers } from './ledger.js';
import type { WorkerOrder } from './worker.js';

/** `npm run crash` asks for more. */
const kills = Number(process.env.LASTOUT_KILLS ?? 100);
/** Work keeps pace with the kills, however slow the machine is. */
const jobsPerKill = 15;
const stops = Math.ceil(kills / 10);
const blocks = Math.ceil(kills / 20);
/** Longer than the lease of the workers, which is a second. */
const blockMs = 1_600;
const workers = 8;
const seed = 20_300_101;

let programs: Programs;

interface Place {
  readonly fleet: Fleet;
  readonly queue: Queue;
  readonly store: Store;
}

async function startFleet(engine: EngineName, options: { selfKills?: boolean } = {}): Promise<Place> {
  const { url, connect } = await emptyStore[engine]();
  const context = { system: createSystem(), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
  const store = await connect().open(context);
  onTestFinished(() => store.close());
  const fleet = new Fleet({ programs, folder: temporaryFolder(), url, store, seed, ...options });
  onTestFinished(async () => {
    fleet[Symbol.dispose]();
    await Promise.all(fleet.members.map(({ exited }) => exited));
  });
  const queue = await open(url);
  onTestFinished(async () => void (await queue.close()));
  return { fleet, queue, store };
}

const stored = async (queue: Queue): Promise<number> => {
  const { total } = await queue.stats();
  return total.pending + total.processing + total.completed + total.failed + total.cancelled + total.expired;
};

async function killAtRandom(fleet: Fleet, queue: Queue): Promise<void> {
  let producer = fleet.startProducer();
  for (let done = 1; done <= kills; done++) {
    await until('half of the workers are ready', () => fleet.readyWorkers.length >= workers / 2);
    await until('there is new work', async () => (await stored(queue)) >= done * jobsPerKill, 60_000, fleet);
    const ready = fleet.readyWorkers;
    const victim = ready[fleet.random.below(ready.length)]!;
    fleet.kill(victim);
    fleet.startWorker(victim.order!);
    if (done % 20 === 0) {
      fleet.kill(producer);
      producer = fleet.startProducer();
    }
    await pause(fleet.random.below(200));
  }
  await until('the producer is ready', () => producer.state === 'ready');
  await fleet.close([producer]);
}

async function stopAtRandom(fleet: Fleet): Promise<void> {
  for (let done = 0; done < stops; ) {
    const ready = fleet.readyWorkers;
    const victim = ready[fleet.random.below(Math.max(1, ready.length))];
    if (victim && (await fleet.stopPastLease(victim))) done += 1;
    await pause(fleet.random.below(100));
  }
}

/** One after another, while the others are killed and stopped: whoever takes it stands still past its lease. */
async function blockAtRandom(fleet: Fleet, queue: Queue): Promise<void> {
  const lines = () => readLedgers(fleet.ledgers).flatMap((ledger) => ledger.lines);
  // One that is killed before its code begins blocks nothing, nor does whoever takes the job after it.
  while (lines().filter(({ line }) => line === 'block').length < blocks) {
    const { id } = await queue.enqueue(blocking, { ms: blockMs });
    const hasEnded = async () => (await queue.get(id))?.state === 'completed';
    await until('the blocking job has ended', hasEnded, 60_000, fleet);
    await pause(100);
  }
}

async function killed(engine: EngineName): Promise<void> {
  const { fleet, queue } = await startFleet(engine);
  const all: WorkerOrder = {
    types: ['plain', 'slow', 'flaky', 'keyed', 'skipped', 'blocking'],
    concurrency: 4,
    maxStalls: 1_000,
  };
  const ahead: WorkerOrder = { types: ['quick'], concurrency: 4, maxStalls: 1_000 };
  for (let i = 0; i < workers; i++) fleet.startWorker(i < 6 ? all : ahead);
  await until('all workers are ready', () => fleet.readyWorkers.length === workers);

  await Promise.all([killAtRandom(fleet, queue), stopAtRandom(fleet), blockAtRandom(fleet, queue)]);
  await drain(queue);
  await fleet.close(fleet.members);

  const jobs = await everyJob(queue);
  const { faults, figures } = judge({ ledgers: readLedgers(fleet.ledgers), jobs });
  console.log(`kill -9, SIGSTOP and blocked event loops on ${engine}: ${JSON.stringify(figures)}`);
  expect(faults).toEqual([]);
  expect(fleet.crashes).toEqual([]);
  expect(figures.kills).toBeGreaterThanOrEqual(kills);
  expect(figures.stops).toBe(stops);
  expect(figures.blocks).toBeGreaterThanOrEqual(blocks);
  // Workers that stood still past their lease spoke up afterwards, and were not heard.
  expect(figures.refused - figures.starved).toBeGreaterThan(0);
  expect(figures.duplicates).toBeGreaterThan(0);
  expect(figures.jobs).toBeGreaterThanOrEqual(kills * jobsPerKill);
  await expectNothingLeft(queue);
  await expectTrueCounts(queue, jobs);
}

/** Jobs part by their ids: the poison comes back soon after its second stall, its neighbours long after it. */
function idThatReturns(name: string, fits: (ms: number) => boolean): string {
  for (let n = 0; ; n++) {
    const id = `${name}-${String(n).padStart(18 - name.length - 1, '0')}`;
    if (fits(partingMs(id, 2))) return id;
  }
}

async function poisoned(engine: EngineName): Promise<void> {
  const { fleet, queue } = await startFleet(engine, { selfKills: true });
  const poisonId = idThatReturns('poison', (ms) => ms < 200);
  const neighbourIds = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => idThatReturns(name, (ms) => ms > 28_000));
  await queue.enqueueMany([
    { type: poison, input: { ms: 50 }, options: { id: poisonId } },
    ...neighbourIds.map((id) => ({ type: plain, input: { ms: 500 }, options: { id } })),
  ]);

  const order: WorkerOrder = { types: ['poison', 'plain'], concurrency: 8, maxStalls: 3 };
  await until('the poison has ended', async () => {
    const alive = fleet.members.filter(({ state }) => state === 'starting' || state === 'ready');
    if (alive.length < 2) fleet.startWorker(order);
    return (await queue.get(poisonId))?.state === 'failed';
  });
  await drain(queue);
  await until('the workers are ready', () => fleet.readyWorkers.length >= 1);
  await fleet.close(fleet.members);

  const jobs = await everyJob(queue);
  const { faults, figures } = judge({ ledgers: readLedgers(fleet.ledgers), jobs });
  console.log(`a poison job: ${JSON.stringify(figures)}`);
  expect(faults).toEqual([]);
  expect(fleet.crashes).toEqual([]);
  const ended = jobs.find(({ id }) => id === poisonId);
  expect(ended).toMatchObject({ state: 'failed', stalls: 3, attempts: 0, error: { code: 'STALLED' } });
  expect(figures.kills).toBe(3);
  for (const id of neighbourIds) {
    const neighbour = jobs.find((job) => job.id === id)!;
    expect(neighbour).toMatchObject({ state: 'completed', attempts: 1 });
    // They shared its fate at first, or they were no neighbours.
    expect(neighbour.stalls).toBeGreaterThan(0);
  }
  await expectNothingLeft(queue);
  await expectTrueCounts(queue, jobs);
}

export function killTests(engine: EngineName): void {
  beforeAll(() => {
    programs = compilePrograms();
  }, 60_000);

  const timeout = 240_000 + kills * 3_000;
  test(
    'no job is lost, settled twice or run beside another of its key while workers are killed, stopped and blocked',
    { timeout },
    () => killed(engine),
  );
  test(
    'a job that kills its worker again and again ends STALLED, and its neighbours complete',
    { timeout: 120_000 },
    () => poisoned(engine),
  );
}
