/** The cells: the same loops for every system. */
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Cell, Contender } from './contender.js';
import type { Stopwatch } from './stopwatch.js';

export interface Bench {
  readonly watch: Stopwatch;
  readonly seconds: number;
  /** A new, empty one; the last one is closed. */
  fresh(): Promise<Contender>;
  /** Most jobs that are added before a new one takes over: a heap of millions of jobs would measure the collector. */
  readonly passMax: number;
  /** What is due between loading and draining, such as fresh statistics of the tables. */
  settle(): Promise<void>;
}

/** Milliseconds from the call of add to the start of the handler. */
export type Samples = readonly number[];

const warmUpMs = 400;
const bulkSize = 1_000;
/** A drain that ends sooner than this says too little about the rate. */
const pilotMs = 250;
const pilotJobs = 400;

export async function measure(cell: Cell, bench: Bench): Promise<Samples> {
  switch (cell) {
    case 'enqueue100':
      await enqueue(bench, 100);
      return [];
    case 'enqueue1':
      await enqueue(bench, 1);
      return [];
    case 'bulk':
      await bulk(bench);
      return [];
    case 'drain1':
    case 'drain10':
    case 'drain100':
      await drain(bench, Number(cell.slice('drain'.length)));
      return [];
    case 'latency':
      return latency(bench);
  }
}

/** So many callers, each of whom awaits its last job before it adds the next one. */
async function enqueue(bench: Bench, callers: number): Promise<void> {
  let contender = await bench.fresh();
  await addFor(contender, callers, Math.min(warmUpMs, bench.seconds * 250), bench.passMax);
  for (let first = true; left(bench) > 0; first = false) {
    if (!first && bench.passMax < Number.POSITIVE_INFINITY) contender = await bench.fresh();
    bench.watch.start();
    bench.watch.stop(await addFor(contender, callers, left(bench), bench.passMax));
  }
}

async function addFor(contender: Contender, callers: number, ms: number, most: number): Promise<number> {
  const endAt = performance.now() + ms;
  let added = 0;
  let over = false;
  const caller = async (): Promise<void> => {
    while (!over) {
      await contender.add();
      added += 1;
      // Reading the clock each time would be a good part of what the fastest ones do.
      if (callers === 1 || added % 16 === 0) over = performance.now() >= endAt || added >= most;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return added;
}

async function bulk(bench: Bench): Promise<void> {
  let contender = await bench.fresh();
  const addUntil = async (ms: number): Promise<number> => {
    const endAt = performance.now() + ms;
    let added = 0;
    while (performance.now() < endAt && added < bench.passMax) {
      await contender.addMany(bulkSize);
      added += bulkSize;
    }
    return added;
  };
  await addUntil(Math.min(warmUpMs, bench.seconds * 250));
  for (let first = true; left(bench) > 0; first = false) {
    if (!first && bench.passMax < Number.POSITIVE_INFINITY) contender = await bench.fresh();
    bench.watch.start();
    bench.watch.stop(await addUntil(left(bench)));
  }
}

/** The pilot warms up and tells how many jobs fill the time. Loading is not timed. */
async function drain(bench: Bench, concurrency: number): Promise<void> {
  const contender = await bench.fresh();
  let jobs = pilotJobs;
  let took = await drainOnce(bench, contender, concurrency, jobs, false);
  while (took < Math.min(pilotMs, bench.seconds * 250) && jobs < bench.passMax) {
    jobs = Math.min(bench.passMax, jobs * 5);
    took = await drainOnce(bench, contender, concurrency, jobs, false);
  }
  let perMs = jobs / took;
  while (left(bench) > 0) {
    const enough = Math.ceil(perMs * Math.max(left(bench), bench.seconds * 100) * 1.1);
    jobs = Math.min(bench.passMax, enough);
    took = await drainOnce(bench, contender, concurrency, jobs, true);
    perMs = jobs / took;
  }
}

async function drainOnce(
  bench: Bench,
  contender: Contender,
  concurrency: number,
  jobs: number,
  timed: boolean,
): Promise<number> {
  for (let added = 0; added < jobs; added += bulkSize) await contender.addMany(Math.min(bulkSize, jobs - added));
  await bench.settle();
  let handled = 0;
  let finish: () => void = () => undefined;
  const finished = new Promise<void>((resolve) => (finish = resolve));
  const onJob = (): void => {
    handled += 1;
    if (handled === jobs) finish();
  };
  if (timed) bench.watch.start();
  const startedAt = performance.now();
  const working = await contender.work(concurrency, onJob);
  await finished;
  await working.settled?.();
  const took = performance.now() - startedAt;
  if (timed) bench.watch.stop(jobs);
  await working.stop();
  if (handled !== jobs) throw new Error(`${jobs} jobs were added and ${handled} handled.`);
  return took;
}

/** One job at a time on an idle queue, at moments that no rhythm of the worker can be in step with. */
async function latency(bench: Bench): Promise<Samples> {
  const contender = await bench.fresh();
  const samples: number[] = [];
  let started: () => void = () => undefined;
  const working = await contender.work(10, () => started());
  const once = async (): Promise<number> => {
    await sleep(2 + Math.random() * 10);
    const starting = new Promise<number>((resolve) => (started = () => resolve(performance.now())));
    const addedAt = performance.now();
    const adding = contender.add();
    const startedAt = await starting;
    await adding;
    return startedAt - addedAt;
  };
  const warmAt = performance.now() + warmUpMs;
  while (performance.now() < warmAt) await once();
  bench.watch.start();
  const endAt = performance.now() + bench.seconds * 1_000;
  while (performance.now() < endAt) samples.push(await once());
  bench.watch.stop(samples.length);
  await working.stop();
  return samples;
}

function left({ watch, seconds }: Bench): number {
  return seconds * 1_000 - watch.ms;
}
