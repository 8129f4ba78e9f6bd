// Many processes on one SQLite file, killed and stopped at any moment. What they saw is judged afterwards.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { partingMs } from '../../src/core/policy.js';
import { type Job, open, type Queue } from '../../src/index.js';
import { loadDriver, single } from '../../src/stores/sqlite/driver.js';
import { expectNothingLeft } from '../../src/testing/index.js';
import { compilePrograms, type Programs } from './compile.js';
import { Fleet, pause, until } from './fleet.js';
import { plain, poison } from './jobs.js';
import { judge } from './judge.js';
import { readLedgers } from './ledger.js';
import type { WorkerOrder } from './worker.js';

const kills = 60;
/** Work keeps pace with the kills, however slow the machine is. */
const jobsPerKill = 15;
const stops = 12;
const workers = 8;
const seed = 20_300_101;

let programs: Programs;
beforeAll(() => {
  programs = compilePrograms();
}, 60_000);
afterAll(() => programs[Symbol.dispose]());

function startFleet(options: { selfKills?: boolean } = {}): Fleet {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-crash-'));
  const fleet = new Fleet({ programs, folder, seed, ...options });
  onTestFinished(async () => {
    fleet[Symbol.dispose]();
    await Promise.all(fleet.members.map(({ exited }) => exited));
    rmSync(folder, { recursive: true, force: true });
  });
  return fleet;
}

async function openOn(fleet: Fleet): Promise<Queue> {
  const queue = await open(fleet.url);
  onTestFinished(async () => void (await queue.close()));
  return queue;
}

async function everyJob(queue: Queue): Promise<Job[]> {
  const jobs: Job[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page = await queue.find({ limit: 200, ...(cursor !== '' && { cursor }) });
    jobs.push(...page.items);
    cursor = page.next;
  }
  return jobs;
}

async function expectSound(fleet: Fleet): Promise<void> {
  const { DatabaseSync } = await loadDriver();
  const db = new DatabaseSync(fleet.file);
  expect(single(db, 'pragma integrity_check')).toBe('ok');
  db.close();
}

const stored = async (queue: Queue): Promise<number> => {
  const { total } = await queue.stats();
  return total.pending + total.processing + total.completed + total.failed + total.cancelled + total.expired;
};

/** A job that has stalled twice comes back apart from its neighbours, up to half a minute later; nobody waits here. */
async function drain(queue: Queue): Promise<void> {
  await until('all jobs have ended', async () => {
    const { total } = await queue.stats();
    if (total.delayed > 0) await queue.reschedule({ state: 'pending' }, { delay: 0 });
    return total.pending + total.processing === 0;
  });
}

async function killAtRandom(fleet: Fleet, queue: Queue): Promise<void> {
  let producer = fleet.startProducer();
  for (let done = 1; done <= kills; done++) {
    await until('half of the workers are ready', () => fleet.readyWorkers.length >= workers / 2);
    await until('there is new work', async () => (await stored(queue)) >= done * jobsPerKill);
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

test('no job is lost, settled twice or run beside another of its key while workers are killed and stopped', async () => {
  const fleet = startFleet();
  const queue = await openOn(fleet);
  const all: WorkerOrder = { types: ['plain', 'slow', 'flaky', 'keyed', 'skipped'], concurrency: 4, maxStalls: 1_000 };
  const ahead: WorkerOrder = { types: ['quick'], concurrency: 4, maxStalls: 1_000 };
  for (let i = 0; i < workers; i++) fleet.startWorker(i < 6 ? all : ahead);
  await until('all workers are ready', () => fleet.readyWorkers.length === workers);

  await Promise.all([killAtRandom(fleet, queue), stopAtRandom(fleet)]);
  await drain(queue);
  await fleet.close(fleet.members);

  const { faults, figures } = judge({ ledgers: readLedgers(fleet.ledgers), jobs: await everyJob(queue) });
  console.log(`kill -9 and SIGSTOP on one SQLite file: ${JSON.stringify(figures)}`);
  expect(faults).toEqual([]);
  expect(fleet.crashes).toEqual([]);
  expect(figures.kills).toBeGreaterThanOrEqual(kills);
  expect(figures.stops).toBe(stops);
  // Workers that were stopped past their lease spoke up afterwards, and were not heard.
  expect(figures.refused - figures.starved).toBeGreaterThan(0);
  expect(figures.duplicates).toBeGreaterThan(0);
  expect(figures.jobs).toBeGreaterThanOrEqual(kills * jobsPerKill);
  await expectNothingLeft(queue);
  await expectSound(fleet);
}, 240_000);

/** Jobs part by their ids: the poison comes back soon after its second stall, its neighbours long after it. */
function idThatReturns(name: string, fits: (ms: number) => boolean): string {
  for (let n = 0; ; n++) {
    const id = `${name}-${String(n).padStart(18 - name.length - 1, '0')}`;
    if (fits(partingMs(id, 2))) return id;
  }
}

test('a job that kills its worker again and again ends STALLED, and its neighbours complete', async () => {
  const fleet = startFleet({ selfKills: true });
  const queue = await openOn(fleet);
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
  await expectSound(fleet);
}, 120_000);
