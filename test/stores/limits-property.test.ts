// Whatever happens to jobs of a limited queue, never more of them run or start than may, and none waits for nothing.
import fc from 'fast-check';
import { afterEach, describe, expect, test } from 'vitest';
import type { Ending } from '../../src/core/ending.js';
import type { QueueLimits } from '../../src/core/limits.js';
import {
  type ClaimRequest,
  type Inserted,
  type NewJob,
  noFilter,
  type Store,
  type StoredJob,
} from '../../src/core/store.js';
import type { StoreHarness } from '../../src/testing/index.js';
import { engines, type EngineName } from '../engines.js';
import { harnessOf } from './harness.js';
import { newJob } from './sqlite-support.js';

const leaseMs = 10_000;
/** How many runs of a property: fewer where every call is a round trip. */
const some = (engine: EngineName, memory: number, sqlite: number): number =>
  engine === 'memory' ? memory : engine === 'sqlite' ? sqlite : Math.ceil(sqlite / 3);

let opened: StoreHarness[] = [];
/** After each test, and before each run of a property: a failed one leaves its stores behind. */
async function closeAll(): Promise<void> {
  for (const harness of opened) await harness.dispose();
  opened = [];
}
afterEach(closeAll);

async function limited(engine: EngineName, limits: Partial<QueueLimits>): Promise<StoreHarness> {
  const harness = await harnessOf(engine);
  opened.push(harness);
  await harness.open(new Map([['tight', { maxPending: null, concurrency: null, rate: null, ...limits }]]));
  return harness;
}

interface Hold {
  readonly id: string;
  readonly epoch: number;
  readonly owner: string;
}

interface World {
  readonly store: Store;
  readonly advance: (ms: number) => void;
  readonly holds: Hold[];
}

type Act = (world: World) => Promise<unknown>;

function request(owner: string, slots: number, ahead = 0): ClaimRequest {
  return { owner, types: ['mail', 'sms'], queues: null, slots, ahead, leaseMs, maxStalls: 1_000 };
}

async function jobsIn(store: Store, state: 'pending' | 'processing'): Promise<StoredJob[]> {
  const filter = { ...noFilter, queues: ['tight'], states: [state] };
  const jobs: StoredJob[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Store['find']>> = await store.find({ filter, cursor, limit: 200 });
    jobs.push(...page.jobs);
    cursor = page.next;
  } while (cursor !== null);
  return jobs;
}

const owners = fc.constantFrom('one', 'two', 'three');
const which = fc.nat(50);
const pick = <T>(list: readonly T[], n: number): T | undefined => list[n % Math.max(1, list.length)];

const jobArb: fc.Arbitrary<Partial<NewJob>> = fc.record({
  type: fc.constantFrom('mail', 'sms'),
  queue: fc.constantFrom('tight', 'tight', 'free'),
  priority: fc.constantFrom(0, 0, 5),
  when: fc.constantFrom({ inMs: 0 }, { inMs: 0 }, { inMs: 3_000 }),
  ttlMs: fc.constantFrom(null, null, 5_000),
  exclusiveKey: fc.constantFrom(null, null, 'x', 'y'),
});
const endingArb: fc.Arbitrary<Ending> = fc.constantFrom<Ending>(
  { kind: 'complete', result: '1' },
  { kind: 'retry', inMs: 2_000, error: '{"message":"no"}' },
  { kind: 'exhaust', error: '{"message":"no"}' },
  { kind: 'snooze', when: { inMs: 500 } },
  { kind: 'cancel', error: '{"message":"no"}' },
  { kind: 'release' },
);

function hold(world: World, owner: string, claimed: { epoch: number; jobs: readonly StoredJob[] } | null): void {
  for (const { id } of claimed?.jobs ?? []) world.holds.push({ id, epoch: claimed!.epoch, owner });
}

const acts: fc.Arbitrary<Act> = fc.oneof(
  fc.array(jobArb, { minLength: 1, maxLength: 6, size: 'max' }).map<Act>(
    (jobs) =>
      ({ store }) =>
        store.insert(jobs.map(newJob), { atomic: false }),
  ),
  fc.tuple(owners, fc.integer({ min: 1, max: 4 }), fc.constantFrom(0, 3)).map<Act>(
    ([owner, slots, ahead]) =>
      async (world) =>
        hold(world, owner, await world.store.claim(request(owner, slots, ahead))),
  ),
  // Also of claims that are over: a late word gives nothing back a second time.
  fc.tuple(which, endingArb, fc.boolean()).map<Act>(([n, ending, next]) => async (world) => {
    const held = pick(world.holds, n);
    if (!held) return;
    const { owner, id, epoch } = held;
    const settlements = [{ id, epoch, ending }];
    const asked = next ? request(owner, 2) : null;
    hold(world, owner, (await world.store.settle({ owner, settlements, started: [], next: asked })).claimed);
  }),
  fc.tuple(which, fc.constantFrom('cancel', 'remove'), fc.boolean()).map<Act>(([n, kind, force]) => async (world) => {
    const held = pick(world.holds, n);
    if (!held) return;
    const move = kind === 'cancel' ? ({ kind, reason: 'stop', force } as const) : ({ kind: 'remove', force } as const);
    await world.store.move({ filter: { ...noFilter, ids: [held.id] }, move, dryRun: false, cursor: null, limit: 5 });
  }),
  which.map<Act>((n) => async ({ store, holds }) => {
    const held = pick(holds, n);
    if (!held) return;
    await store.extend({
      owner: held.owner,
      leaseMs,
      claims: [{ epoch: held.epoch, ids: [held.id], started: [held.id] }],
      card: null,
    });
  }),
  fc.constantFrom(1, 700, 4_000, leaseMs).map<Act>(
    (ms) =>
      async ({ advance }) =>
        advance(ms),
  ),
  fc.constant<Act>(({ store }) => store.sweep({ limit: 500, cleanup: null })),
);

describe.each(engines)('on %s', (engine) => {
  test('no act on the jobs of a queue makes more of them run than its concurrency, or leaves a slot empty', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.array(acts, { maxLength: 60, size: 'max' }),
        async (concurrency, script) => {
          await closeAll();
          const { store, advance, now } = await limited(engine, { concurrency });
          const world: World = { store, advance, holds: [] };
          for (const act of script) {
            await act(world);
            const running = (await jobsIn(store, 'processing')).length;
            expect(running).toBeLessThanOrEqual(concurrency);
            const { queues } = await store.tally(cleanup);
            expect(queues.find(({ queue }) => queue === 'tight')?.processing ?? 0).toBe(running);
          }
          hold(world, 'last', await store.claim(request('last', 500)));
          const running = await jobsIn(store, 'processing');
          const keys = new Set(running.map(({ type, exclusiveKey }) => exclusiveKey && `${type} ${exclusiveKey}`));
          const waiting = (await jobsIn(store, 'pending')).filter(
            ({ dueAt, type, exclusiveKey }) =>
              dueAt! <= now() && !(exclusiveKey && keys.has(`${type} ${exclusiveKey}`)),
          );
          expect(running.length === concurrency || waiting.length === 0).toBe(true);
        },
      ),
      { numRuns: some(engine, 120, 120) },
    );
  }, 120_000);

  test('no sequence of claims starts more jobs in any window than the rate, and none waits longer than it must', async () => {
    const rate = fc.record({ max: fc.constantFrom(1, 3, 50, 51, 120), perMs: fc.constantFrom(1, 100, 1_000) });
    const claims = fc.array(
      fc.record({ slots: fc.integer({ min: 1, max: 90 }), waitMs: fc.constantFrom(0, 1, 7, 19, 130) }),
      { maxLength: 60, size: 'max' },
    );
    await fc.assert(
      fc.asyncProperty(rate, claims, async ({ max, perMs }, script) => {
        await closeAll();
        const { store, advance, now } = await limited(engine, { rate: { max, perMs } });
        const starts: number[] = [];
        const since = (from: number): number => starts.filter((at) => at > from).length;
        const graceMs = max > 50 ? perMs / 50 : 0;
        await store.insert(
          Array.from({ length: 500 }, () => newJob({ queue: 'tight' })),
          { atomic: false },
        );
        let left = 500;
        for (const { slots, waitMs } of script) {
          advance(waitMs);
          const { jobs, epoch } = await store.claim(request('one', slots));
          expect(jobs.length).toBeGreaterThanOrEqual(Math.min(slots, left, max - since(now() - perMs - graceMs)));
          for (let n = 0; n < jobs.length; n++) starts.push(now());
          expect(since(now() - perMs)).toBeLessThanOrEqual(max);
          const settlements = jobs.map(({ id }) => ({ id, epoch, ending: { kind: 'complete', result: '1' } as const }));
          await store.settle({ owner: 'one', settlements, started: [], next: null });
          left -= jobs.length;
        }
        for (const from of starts)
          expect(starts.filter((at) => at >= from && at < from + perMs).length).toBeLessThanOrEqual(max);
      }),
      { numRuns: some(engine, 40, 40) },
    );
  }, 120_000);

  test('a batch is refused exactly where its jobs, one after the other, would have met a full queue', async () => {
    const job = fc.record({
      type: fc.constantFrom('mail', 'sms'),
      queue: fc.constantFrom('tight', 'tight', 'free'),
      key: fc.constantFrom(null, 'a', 'b'),
      deduplication: fc.constantFrom('none', 'skip', 'replace', 'coalesce'),
      ttlMs: fc.constantFrom(null, null, 1_000),
    } as const);
    const batch = fc.array(job, { minLength: 1, maxLength: 6, size: 'max' });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        batch,
        fc.nat(3),
        batch,
        async (maxPending, before, run, jobs) => {
          await closeAll();
          const [whole, single] = [await limited(engine, { maxPending }), await limited(engine, { maxPending })];
          const gathered = await limited(engine, { maxPending });
          let n = 0;
          const named = (list: readonly Partial<NewJob>[]): NewJob[] =>
            list.map((one) => newJob({ ...one, id: `job${n++}` }));
          const [first, second] = [named(before), named(jobs)];
          for (const { store, advance } of [whole, single, gathered]) {
            await store.insert(first, { atomic: false });
            await store.claim(request('one', run));
            advance(1_000);
          }
          // Epochs are numbers that grow; where they begin is each store's own business.
          const pictured = async ({ store }: StoreHarness): Promise<unknown> => {
            const { jobs: found } = await store.find({ filter: noFilter, cursor: null, limit: 50 });
            return found.map((one) => ({ ...one, epoch: Math.sign(one.epoch) }));
          };
          const untouched = await pictured(whole);
          const answers: Inserted[] = [];
          for (const one of second) answers.push(...(await single.store.insert([one], { atomic: false })));
          expect(await gathered.store.insert(second, { atomic: false })).toEqual(answers);
          expect(await pictured(gathered)).toEqual(await pictured(single));
          const refused = answers.find(({ outcome }) => outcome === 'refused');
          const atomic = await whole.store.insert(second, { atomic: true }).catch((error: unknown) => error);
          if (refused) {
            expect(atomic).toMatchObject({ code: 'QUEUE_FULL', details: { index: answers.indexOf(refused) } });
            expect(await pictured(whole)).toEqual(untouched);
          } else {
            expect(atomic).toEqual(answers);
            expect(await pictured(whole)).toEqual(await pictured(single));
          }
        },
      ),
      { numRuns: some(engine, 500, 150) },
    );
  }, 120_000);
});

const cleanup = { maxStoredJobs: 1_000, jobRetentionMs: 1e9, cleanupIntervalMs: 1e9, useCompletedTime: true };
