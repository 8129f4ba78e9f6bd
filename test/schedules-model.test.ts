// Schedules against an oracle that knows nothing but arithmetic: random sequences of setting, changing, removing, pausing,
// nobody being there, and time going by. After each act the jobs of all ticks and the list of schedules are compared.
// A failure prints its seed and path; LASTOUT_SEED, LASTOUT_PATH run it again, LASTOUT_RUNS runs more.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { StoreFactory } from '../src/core/store.js';
import { open, type Queue } from '../src/index.js';
import { type FakeClock, fakeClock } from '../src/testing/index.js';
import { engines, type EngineName, withStore } from './engines.js';
import { closeUnder } from './support.js';

const runsOn: { readonly [engine in EngineName]: number } = { memory: 200, sqlite: 50, postgres: 15, redis: 20 };
const seed = Number(process.env.LASTOUT_SEED ?? 20_300_102);
const path = process.env.LASTOUT_PATH;

const second = 1_000;
const minute = 60 * second;

/** A rhythm by its period: `every` counts from the start, a cron expression from the full hour. */
interface Rhythm {
  readonly when: { readonly cron: string } | { readonly every: number };
  readonly periodMs: number;
}
const rhythms: readonly Rhythm[] = [
  { when: { every: 7 * second }, periodMs: 7 * second },
  { when: { every: 90 * second }, periodMs: 90 * second },
  { when: { every: 10 * minute }, periodMs: 10 * minute },
  { when: { cron: '*/20 * * * * *' }, periodMs: 20 * second },
  { when: { cron: '* * * * *' }, periodMs: minute },
  { when: { cron: '*/5 * * * *' }, periodMs: 5 * minute },
];
type Missed = 'skip' | 'once' | 'all';

interface Known {
  readonly rhythm: Rhythm;
  readonly missed: Missed;
  readonly input: number;
  /** Ticks up to here are dealt with. */
  readonly seen: number;
  readonly last: number | null;
}

function nextTick({ when, periodMs }: Rhythm, after: number): number {
  return 'every' in when ? after + periodMs : (Math.floor(after / periodMs) + 1) * periodMs;
}

/** What must be there. */
class Oracle {
  readonly schedules = new Map<string, Known>();
  readonly ticks: string[] = [];
  paused = false;
  /** Processes that are there. */
  up = 1;

  set(name: string, rhythm: Rhythm, missed: Missed, input: number, now: number): void {
    const known = this.schedules.get(name);
    const seen = known?.rhythm === rhythm ? known.seen : now;
    this.schedules.set(name, { rhythm, missed, input, seen, last: known?.last ?? null });
  }

  /** Time goes by until `now`: whoever is there fires each tick as it comes. */
  pass(now: number): void {
    if (this.paused || this.up === 0) return;
    for (const [name, known] of this.schedules)
      for (let at = nextTick(known.rhythm, known.seen); at <= now; at = nextTick(known.rhythm, at))
        this.#fire(name, at);
  }

  /** Somebody is there again: what came meanwhile is due at once. */
  catchUp(now: number): void {
    if (this.paused || this.up === 0) return;
    for (const [name, { rhythm, missed, seen }] of this.schedules) {
      const due: number[] = [];
      for (let at = nextTick(rhythm, seen); at <= now; at = nextTick(rhythm, at)) due.push(at);
      const newest = due.at(-1);
      if (newest === undefined) continue;
      if (missed === 'all') for (const at of due.slice(-100)) this.#fire(name, at);
      else if (missed === 'once' || now - newest <= minute) this.#fire(name, newest);
      this.schedules.set(name, { ...this.schedules.get(name)!, seen: newest });
    }
  }

  #fire(name: string, at: number): void {
    const known = this.schedules.get(name)!;
    this.ticks.push(tickText(name, at, known.input));
    this.schedules.set(name, { ...known, seen: at, last: at });
  }

  view() {
    const names = [...this.schedules].sort(([a], [b]) => (a < b ? -1 : 1));
    return names.map(([name, { rhythm, missed, input, seen, last }]) => ({
      name,
      type: 'report',
      ...{ cron: null, timeZone: 'cron' in rhythm.when ? 'UTC' : null, every: null, ...rhythm.when },
      missed,
      input,
      next: new Date(nextTick(rhythm, seen)),
      last: last === null ? null : new Date(last),
      paused: this.paused,
    }));
  }
}

const tickText = (name: string, at: number, input: number): string => `${name} ${new Date(at).toISOString()} ${input}`;

interface World {
  readonly factory: StoreFactory;
  readonly clock: FakeClock;
  readonly queues: Queue[];
  readonly oracle: Oracle;
}
const nowOf = ({ clock }: World): number => clock.now().getTime();

/** While nobody is there, nothing can be seen, and nothing happens. */
async function compare({ queues, oracle }: World): Promise<void> {
  const queue = queues[0];
  if (!queue) return;
  const ticks: string[] = [];
  for (let cursor: string | null = null, more = true; more; more = cursor !== null) {
    const page: Awaited<ReturnType<Queue['find']>> = await queue.find({
      type: 'report',
      limit: 200,
      ...(cursor !== null && { cursor }),
    });
    for (const { metadata, input } of page.items)
      ticks.push(tickText(metadata.schedule as string, Date.parse(metadata.tick as string), input as number));
    cursor = page.next;
  }
  expect(ticks.sort()).toEqual([...oracle.ticks].sort());
  expect(await queue.schedules()).toEqual(oracle.view());
}

interface Act {
  toString(): string;
  run(world: World): Promise<void>;
}
function act(label: string, run: (world: World) => Promise<void>): Act {
  return { toString: () => label, run };
}

const names = fc.constantFrom('a', 'b');
const acts: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(names, fc.constantFrom(...rhythms), fc.constantFrom<Missed>('skip', 'once', 'all'), fc.nat(1))
      .map(([name, rhythm, missed, input]) =>
        act(`schedule(${name}, ${JSON.stringify(rhythm.when)}, ${missed}, ${input})`, async (world) => {
          const queue = world.queues.at(-1);
          if (!queue) return;
          await queue.schedule(name, 'report', input, { ...rhythm.when, missed });
          world.oracle.set(name, rhythm, missed, input, nowOf(world));
        }),
      ),
  },
  {
    weight: 1,
    arbitrary: names.map((name) =>
      act(`unschedule(${name})`, async ({ queues, oracle }) => {
        if (queues[0]) expect(await queues[0].unschedule(name)).toBe(oracle.schedules.delete(name));
      }),
    ),
  },
  {
    weight: 5,
    arbitrary: fc.constantFrom(second, 19 * second, 61 * second, 5 * minute, 11 * minute, 25 * minute).map((ms) =>
      act(`advance(${ms})`, async (world) => {
        await world.clock.advance(ms);
        world.oracle.pass(nowOf(world));
      }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(true, false).map((paused) =>
      act(paused ? 'pause()' : 'resume()', async (world) => {
        const queue = world.queues[0];
        if (!queue) return;
        await (paused ? queue.pause('lastout') : queue.resume('lastout'));
        await world.clock.settle();
        world.oracle.paused = paused;
        world.oracle.catchUp(nowOf(world));
      }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.constant(
      act('open()', async (world) => {
        if (world.queues.length < 2) await openIn(world);
      }),
    ),
  },
  { weight: 2, arbitrary: fc.constant(act('close()', (world) => closeIn(world))) },
);

async function openIn(world: World): Promise<void> {
  const queue = await open(world.factory, { clock: world.clock });
  world.queues.push(queue);
  world.oracle.up = world.queues.length;
  await queue.sweep();
  world.oracle.catchUp(nowOf(world));
}

async function closeIn(world: World): Promise<void> {
  const queue = world.queues.shift();
  if (!queue) return;
  await queue.close();
  world.oracle.up = world.queues.length;
}

async function agree(engine: EngineName): Promise<void> {
  const numRuns = Number(process.env.LASTOUT_RUNS ?? runsOn[engine]);
  let sequences = 0;
  let ticks = 0;
  const sequence = fc.array(acts, { minLength: 3, maxLength: 15, size: 'max' });
  await fc.assert(
    fc.asyncProperty(sequence, (list) =>
      withStore(engine, async (connect) => {
        const world: World = { factory: connect(), clock: fakeClock(), queues: [], oracle: new Oracle() };
        await openIn(world);
        try {
          for (const one of list) {
            await one.run(world);
            await compare(world);
          }
          if (world.queues.length === 0) await openIn(world);
          await compare(world);
        } finally {
          for (const queue of world.queues) await closeUnder(world.clock, queue);
        }
        sequences += 1;
        ticks += world.oracle.ticks.length;
      }),
    ),
    { seed, numRuns, ...(path !== undefined && { path }) },
  );
  console.log(`schedules on ${engine}: ${sequences} sequences with ${ticks} ticks, seed ${seed}`);
  expect(ticks).toBeGreaterThan(0);
}

describe('schedules do what the oracle says', () => {
  it.each(engines)('on %s', { timeout: 300_000 }, agree);
});
