/**
 * What PostgreSQL loses while somebody holds a snapshot open: dead rows cannot be cleared away, and a claim that passed
 * over all of them each time would get slower and slower.
 *
 *   npm run bench -- snapshot
 */
import pg from 'pg';
import type { Store } from '../src/core/store.js';
import { postgresStore } from '../src/stores/postgres/index.js';
import { createSystem } from '../src/system.js';
import { newJob } from '../src/testing/store-cases/bench.js';
import { quantileOf } from './quantile.js';
import { type Server, serverFor, type ServerOptions } from './servers.js';
import { Stopwatch } from './stopwatch.js';

/** At least so much of the rate without a snapshot must be left. */
const atLeast = 0.6;
const batch = 500;
const system = createSystem();

interface SnapshotOptions {
  readonly jobs: number;
  readonly rounds: number;
}

/** Whether enough of the rate is left, for a worker of one type and for one of several. */
export async function compareSnapshot({ jobs, rounds }: SnapshotOptions, settings: ServerOptions): Promise<boolean> {
  const server = await serverFor('postgres', settings);
  let enough = true;
  try {
    console.log(`${jobs.toLocaleString('en')} jobs a time are added, claimed and completed, ${batch} a call.`);
    for (const types of [['mail'], ['mail', 'sms']]) {
      const ratios: number[] = [];
      console.log(`Types of the worker: ${types.join(', ')}`);
      for (let round = 1; round <= rounds; round++) {
        // Each is first in every other round.
        const order = round % 2 === 1 ? [false, true] : [true, false];
        const rates = new Map<boolean, number>();
        for (const held of order) rates.set(held, await once(server, types, jobs, held));
        ratios.push(rates.get(true)! / rates.get(false)!);
      }
      const ratio = quantileOf(ratios, 0.5);
      console.log(
        `Under a held snapshot ${(ratio * 100).toFixed(0)} % of the rate is left; ${atLeast * 100} % must be.`,
      );
      enough &&= ratio >= atLeast;
    }
  } finally {
    await server.stop();
  }
  return enough;
}

/** Jobs per second. */
async function once(server: Server, types: readonly string[], jobs: number, held: boolean): Promise<number> {
  const url = await server.empty();
  const store = await postgresStore({ url }, { listen: false }).open({
    system,
    namespace: 'lastout',
    maxStoredJobs: Number.POSITIVE_INFINITY,
  });
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  await holder.query(
    held ? 'begin isolation level repeatable read; select count(*) from lastout.jobs' : 'begin; select 1',
  );
  const watch = new Stopwatch(server.pid);
  watch.start();
  await work(store, types, jobs);
  watch.stop(jobs);
  await holder.end();
  await store.close();
  const rate = (watch.jobs / watch.ms) * 1_000;
  const cpu = watch.serverMicroseconds / watch.jobs;
  const name = held ? 'held snapshot' : 'free';
  console.log(
    `  ${name.padEnd(14)} ${Math.round(rate).toLocaleString('en').padStart(8)}/s  ${cpu.toFixed(1)} µs of the server`,
  );
  return rate;
}

/** Adds as many as it ends, so that there is always something to claim. */
async function work(store: Store, types: readonly string[], jobs: number): Promise<void> {
  const owner = system.id();
  const next = { owner, types, queues: null, slots: batch, ahead: 0, leaseMs: 60_000, maxStalls: 3 };
  await add(store, types, batch * 2);
  let claimed = await store.claim(next);
  for (let done = 0; done < jobs; done += batch) {
    await add(store, types, batch);
    const { epoch } = claimed;
    const ending = { kind: 'complete', result: '"sent"' } as const;
    const settlements = claimed.jobs.map(({ id }) => ({ id, epoch, ending }));
    const settled = await store.settle({ owner, settlements, started: [], next });
    if (settled.answers.some((answer) => answer !== 'ok')) throw new Error('An ending was refused.');
    claimed = settled.claimed!;
  }
}

async function add(store: Store, types: readonly string[], count: number): Promise<void> {
  const jobs = Array.from({ length: count }, (_, n) => newJob({ id: system.id(), type: types[n % types.length]! }));
  await store.insert(jobs, { atomic: false });
}
