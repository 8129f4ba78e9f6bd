// A plan says what a sweep would remove, by the same selection: plan and run agree, whatever is stored.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chunksOf } from '../src/artifacts/chunks.js';
import { policyText } from '../src/core/options.js';
import { checkKeep } from '../src/core/policy.js';
import type { Finalizer } from '../src/core/owned.js';
import { type JobFilter, type Move, type NewJob, noFilter, type Store, type Swept } from '../src/core/store.js';
import {
  defineJob,
  type FinishedState,
  type Keep,
  LastoutError,
  open,
  type OpenOptions,
  type Plan,
  type Queue,
} from '../src/index.js';
import { planOn } from '../src/lifecycle/plan.js';
import { createSystem } from '../src/system.js';
import { withStore } from './engines.js';
import {
  byHand,
  completes,
  contextFor,
  day,
  type HandClock,
  handClock,
  hour,
  idsIn,
  t0,
  things,
  watchedBlobs,
} from './lifecycle-support.js';
import { eachStore, expectCode, tapped } from './support.js';
import { newJob } from './stores/new-job.js';

const countsOf = ({ removes }: Plan): { [kind: string]: number } =>
  Object.fromEntries(Object.entries(removes).map(([kind, { count }]) => [kind, count]));

async function ended(queue: Queue, type: string, n: number, keep?: Keep): Promise<string[]> {
  const jobs = Array.from({ length: n }, () => ({ type, input: 'x', options: keep === undefined ? {} : { keep } }));
  const ids = (await queue.enqueueMany(jobs)).map(({ id }) => id);
  await queue.cancel({ id: ids });
  return ids;
}

describe('a plan', () => {
  eachStore((on) => {
    it('says what goes by which rule, how large it is, and for example which', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 3 } });
      const aged = await ended(queue, 'aged', 12, '1h');
      clock.at += 1;
      const many = await ended(queue, 'many', 2, { count: 0 });
      clock.at += 1;
      const rest = await ended(queue, 'rest', 5);
      clock.at = t0 + hour + 1;
      const plan = await queue.plan();
      expect(plan.policy).toEqual({
        maxStoredJobs: 3,
        jobRetentionMs: day,
        cleanupIntervalMs: hour,
        useCompletedTime: true,
      });
      // Input, result and error as they are stored.
      const bytes = '"x"'.length + '{"code":"CANCELLED","message":"Cancelled"}'.length;
      expect(plan.removes).toEqual({
        age: { count: 12, bytes: 12 * bytes, sample: aged.slice(0, 10) },
        count: { count: 2, bytes: 2 * bytes, sample: expect.arrayContaining(many) as string[] },
        cap: { count: 2, bytes: 2 * bytes, sample: rest.slice(0, 2) },
      });
      expect(await queue.plan()).toEqual(plan);
      expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
      expect(countsOf(await queue.plan())).toEqual({ age: 0, count: 0, cap: 0 });
    });

    it('of another policy says what that would remove; what it leaves out stays as it is', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 10 } });
      await ended(queue, 'job', 4);
      clock.at = t0 + hour;
      expect(countsOf(await queue.plan())).toEqual({ age: 0, count: 0, cap: 0 });
      expect(countsOf(await queue.plan({ jobRetentionMs: hour - 1 }))).toEqual({ age: 4, count: 0, cap: 0 });
      const plan = await queue.plan({ maxStoredJobs: 1 });
      expect(countsOf(plan)).toEqual({ age: 0, count: 0, cap: 3 });
      expect(plan.policy).toMatchObject({ maxStoredJobs: 1, jobRetentionMs: day });
      expect((await queue.stats()).total.cancelled).toBe(4);
    });

    it('counts what goes with the jobs that own it, and what is due by itself, with their bytes', async () => {
      const { queue, clock } = await byHand(on);
      const put = (bytes: number, ttl?: '1h') =>
        completes(queue, async ({ artifact }) => {
          await artifact.put('a', Buffer.alloc(bytes), ttl === undefined ? {} : { ttl });
        });
      const artifactOf = async (job: string) => (await queue.artifacts.get(job, 'a'))!.id;
      const old = await artifactOf(await put(200_000));
      clock.at = t0 + day;
      const due = await artifactOf(await put(3_000, '1h'));
      const held = await put(500, '1h');
      await put(70);
      await queue.hold(held, 'an audit is under way');
      clock.at = t0 + day + hour + 1;
      const plan = await queue.plan();
      expect(plan.removes['thing']).toEqual({ count: 2, bytes: 203_000, sample: [old, due] });
      expect(countsOf(plan)).toEqual({ age: 1, count: 0, cap: 0, thing: 2 });
      expect(await queue.plan()).toEqual(plan);
      expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
      expect(await things(queue)).toHaveLength(2);
    });

    it('counts a thing once that is due and whose job goes', async () => {
      const { queue, clock } = await byHand(on);
      await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'x', { ttl: '1h' })));
      clock.at = t0 + day + 1;
      const plan = await queue.plan();
      expect(countsOf(plan)).toEqual({ age: 1, count: 0, cap: 0, thing: 1 });
      expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
    });

    it('leaves out a job that owns something held, and the cap takes another one', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 2 } });
      const ids: string[] = [];
      for (let n = 0; n < 4; n++) {
        ids.push(await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'four'))));
        clock.at += 1;
      }
      await queue.hold((await queue.artifacts.get(ids[0]!, 'a'))!.id, 'an audit is under way');
      const plan = await queue.plan();
      expect(plan.removes).toMatchObject({
        cap: { count: 2, sample: [ids[1], ids[2]] },
        thing: { count: 2, bytes: 8 },
      });
      expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
    });

    it('counts files that nobody owns, and touches none', async () => {
      const blobClock = handClock();
      const watched = watchedBlobs(blobClock);
      const { queue, clock } = await byHand(on, { artifacts: { blobs: watched.blobs } });
      await completes(queue, async ({ artifact }) => void (await artifact.put('a', 'owned')));
      const orphan = 'k'.repeat(20);
      await watched.inner.put(orphan, chunksOf('left behind'), { maxBytes: 100, signal: new AbortController().signal });
      clock.at = blobClock.at = t0 + 2 * hour;
      const plan = await queue.plan();
      expect(plan.removes['file']).toEqual({ count: 1, bytes: 'left behind'.length, sample: [orphan] });
      expect(await idsIn(watched.inner)).toHaveLength(2);
      expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
      expect(await queue.plan().then(countsOf)).toEqual({ age: 0, count: 0, cap: 0 });
    });

    it('says what stays only because it is held, whichever rule would take it', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 3 } });
      const [first] = await ended(queue, 'aged', 3, '1h');
      const some = await ended(queue, 'some', 2, { count: 0 });
      const { id: live } = await queue.enqueue('live', null);
      const soon = new Date(t0 + 2 * hour);
      await queue.hold({ id: [...some, live] }, 'an audit is under way');
      await queue.hold(first!, 'until the review', soon);
      clock.at = t0 + hour + 1;
      const bytes = '"x"'.length + '{"code":"CANCELLED","message":"Cancelled"}'.length;
      const plan = await queue.plan();
      expect(plan.held).toEqual({ count: 3, bytes: 3 * bytes, sample: [first, ...some] });
      expect(countsOf(plan)).toEqual({ age: 2, count: 0, cap: 0 });
      expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
      expect((await queue.plan()).held).toEqual(plan.held);
      clock.at = soon.getTime();
      expect((await queue.plan()).held).toEqual({ count: 2, bytes: 2 * bytes, sample: some });
      await queue.release({ id: some });
      expect((await queue.plan()).held).toEqual({ count: 0, bytes: 0, sample: [] });
      await queue.release(first!);
      expect(countsOf(await queue.plan())).toEqual({ age: 1, count: 2, cap: 0 });
    });

    it('takes up what no sweep has seen yet: a hold that is over, a ttl that has passed', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { jobRetentionMs: hour, maxStoredJobs: 6 } });
      const old = await ended(queue, 'old', 4);
      await queue.hold({ id: old.slice(0, 2) }, 'for a second', new Date(t0 + 1_000));
      clock.at = t0 + hour + 1;
      await ended(queue, 'new', 6);
      const lapsed = await queue.plan();
      expect(countsOf(lapsed)).toEqual({ age: 4, count: 0, cap: 0 });
      expect((await queue.sweep()).removedBy).toEqual(countsOf(lapsed));

      await queue.enqueueMany(Array.from({ length: 3 }, () => ({ type: 'late', input: 1, options: { ttl: '1s' } })));
      clock.at += 1_000;
      const expired = async () => (await queue.find({ state: 'expired' })).items.map(({ id }) => id);
      const before = await expired();
      expect(before).toHaveLength(3);
      const plan = await queue.plan({ maxStoredJobs: 0 });
      expect(countsOf(plan)).toEqual({ age: 0, count: 0, cap: 9 });
      expect(await expired()).toEqual(before);
      const capped = await queue.plan();
      expect(countsOf(capped)).toEqual({ age: 0, count: 0, cap: 3 });
      expect((await queue.sweep()).removedBy).toEqual(countsOf(capped));
    });

    it('sees all of them, however many', async () => {
      const { queue, clock } = await byHand(on);
      const many = Array.from({ length: 1_000 }, () => ({ type: 'late', input: 1, options: { ttl: '1s' } as const }));
      await queue.enqueueMany(many);
      await queue.enqueueMany(many.slice(0, 300));
      clock.at += 1_000;
      expect(countsOf(await queue.plan({ maxStoredJobs: 0 }))).toEqual({ age: 0, count: 0, cap: 1_300 });
    });

    it.each(['STORE_READONLY', 'STORE_FULL'] as const)('is read as it stands where the store says %s', async (code) => {
      let refused = 0;
      const factory = tapped(on.factory(), (store) => ({
        sweep: (request) => {
          if (request.cleanup !== null) return store.sweep(request);
          refused += 1;
          return Promise.reject(new LastoutError(code, 'no'));
        },
      }));
      const { queue } = await byHand(on, {}, factory);
      await ended(queue, 'job', 2);
      expect(countsOf(await queue.plan({ maxStoredJobs: 0 }))).toEqual({ age: 0, count: 0, cap: 2 });
      expect(refused).toBeGreaterThan(0);
    });

    it('asks once more for tending whose answer was lost, and ends where tending has no end', async () => {
      let lost = 0;
      const losing = tapped(on.factory(), (store) => ({
        async sweep(request) {
          const swept = await store.sweep(request);
          if (request.cleanup === null && lost++ === 0) throw new LastoutError('RESULT_UNKNOWN', 'lost');
          return swept;
        },
      }));
      const first = await byHand(on, {}, losing);
      await first.queue.enqueue('late', 1, { ttl: '1s' });
      first.clock.at += 1_000;
      expect(countsOf(await first.queue.plan({ maxStoredJobs: 0 }))).toMatchObject({ cap: 1 });

      const endless = tapped(on.factory(), (store) => {
        let answer: Promise<Swept> | null = null;
        return {
          async sweep(request) {
            if (request.cleanup !== null) return store.sweep(request);
            return { ...(await (answer ??= store.sweep(request))), more: true };
          },
        };
      });
      const second = await byHand(on, {}, endless);
      await ended(second.queue, 'job', 2);
      expect(countsOf(await second.queue.plan({ maxStoredJobs: 0 }))).toMatchObject({ cap: 2 });
    });

    it('goes on over more jobs than one page', async () => {
      const { queue, clock } = await byHand(on, { cleanup: { maxStoredJobs: 200 } });
      for (let i = 0; i < 3; i++) await ended(queue, 'job', 700, '1h');
      await ended(queue, 'stays', 300);
      clock.at = t0 + hour + 1;
      const plan = await queue.plan();
      expect(countsOf(plan)).toEqual({ age: 2_100, count: 0, cap: 100 });
      expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
    });

    it.each([
      [{ jobRetentionMs: -1 }, 'INVALID_RETENTION'],
      [{ maxStoredJobs: 1.5 }, 'INVALID_RETENTION'],
      [{ maxJobs: 5 }, 'UNKNOWN_OPTION'],
    ] as const)('of %j is refused', async (policy, code) => {
      const { queue } = await byHand(on);
      await expectCode(code, () => queue.plan(policy as OpenOptions['cleanup']));
    });
  });
});

describe('plan and run', () => {
  const rule = fc.oneof(
    fc.constant(undefined),
    fc.constant('forever' as const),
    fc.integer({ min: 0, max: 4 }).map((hours) => hours * hour),
    fc.record({ age: fc.integer({ min: 1, max: 4 }).map((hours) => hours * hour), count: fc.nat(3) }),
    fc.record({ count: fc.nat(3) }),
  );
  const job = fc.record({
    type: fc.constantFrom('a', 'b'),
    state: fc.constantFrom<FinishedState | 'pending' | 'processing'>(
      'completed',
      'completed',
      'failed',
      'cancelled',
      'pending',
      'processing',
    ),
    keep: rule,
    owns: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 1, max: 2 }) }),
    // What it owns goes with it, is due by itself, or is held.
    ownsWhat: fc.constantFrom<'owned' | 'due' | 'held'>('owned', 'due', 'held'),
    held: fc.integer({ min: 0, max: 5 }).map((n) => n === 0),
    wait: fc.nat(2).map((hours) => hours * hour),
  });
  const world = fc.record({
    jobs: fc.array(job, { maxLength: 25 }),
    cleanup: fc.record({
      maxStoredJobs: fc.oneof(fc.nat(25), fc.constant(Number.POSITIVE_INFINITY)),
      jobRetentionMs: fc.nat(6).map((hours) => hours * hour),
      useCompletedTime: fc.boolean(),
    }),
    limit: fc.integer({ min: 1, max: 7 }),
  });

  eachStore((on) => {
    it('agree: counts and bytes, and never a live or held job, nor one that still owns something; what is held is told', {
      timeout: 240_000,
    }, async () => {
      const runs = on.engine === 'memory' ? 150 : on.engine === 'sqlite' ? 40 : 15;
      await fc.assert(
        fc.asyncProperty(world, async ({ jobs, cleanup, limit }) => {
          await withStore(on.engine, async (connect) => {
            const clock = handClock();
            const store = await connect().open(contextFor(clock));
            const kept = new Set<string>();
            const staying: string[] = [];
            let n = 0;
            for (const { type, state, keep, held, wait } of jobs) {
              const id = `job-${n++}`;
              await store.insert([keptJob(id, type, keep)], { atomic: false });
              if (state !== 'pending') await bring(store, id, type, state);
              const move = { kind: 'hold', reason: 'x', until: null } as const;
              if (held) await store.move({ filter: { ...noFilter, ids: [id] }, move, ...once });
              if (held || state === 'pending' || state === 'processing') kept.add(id);
              if (held && state !== 'pending' && state !== 'processing') staying.push(id);
              clock.at += wait;
            }
            for (const [index, sketch] of jobs.entries())
              if (await own(store, `job-${index}`, sketch)) kept.add(`job-${index}`);
            const policy = { ...cleanup, cleanupIntervalMs: hour };
            const plan = await planOn({ store, system: createSystem(clock), finalizer }, policy);
            expect(plan.removes['thing']?.bytes).toBe(sizeOf(plan.removes['thing']?.count));
            expect([plan.held.count, plan.held.sample]).toEqual([staying.length, staying.slice(0, 10)]);
            const removedBy: { [kind: string]: number } = { age: 0, count: 0, cap: 0 };
            for (let more = true; more; ) {
              const part = await store.sweep({ limit, cleanup: policy });
              for (const [kind, count] of Object.entries(part.removedBy)) removedBy[kind]! += count;
              const ended = await end(store, part);
              if (ended > 0) removedBy['thing'] = (removedBy['thing'] ?? 0) + ended;
              more = part.more || part.owing.length + part.dueThings.length > 0;
            }
            expect(removedBy).toEqual(countsOf(plan));
            const left = await store.find({ filter: noFilter, cursor: null, limit: 1_000 });
            const ids = new Set(left.jobs.flatMap(({ id, ownedBy }) => (ownedBy === null ? id : [])));
            for (const { ownedBy } of left.jobs) if (ownedBy !== null) expect(ids).toContain(ownedBy);
            expect([...kept].filter((id) => !ids.has(id))).toEqual([]);
            expect(ids.size).toBe(jobs.length - removedBy['age']! - removedBy['count']! - removedBy['cap']!);
            await store.close();
          });
        }),
        { numRuns: runs },
      );
    });

    it('of a queue agree, whatever has lapsed and nobody tended: holds, ttls, claims', {
      timeout: 240_000,
    }, async () => {
      const runs = on.engine === 'memory' ? 100 : on.engine === 'sqlite' ? 30 : 12;
      await fc.assert(
        fc.asyncProperty(lapsing, async ({ jobs, cleanup, later }) => {
          await withStore(on.engine, async (connect) => {
            let store!: Store;
            const factory = tapped(connect(), (opened) => {
              store = opened;
              return {};
            });
            const clock = handClock();
            const queue = await open(factory, { artifacts: 'memory', cleanup, clock });
            await queue.stopPeriodicCleanup();
            for (const sketch of jobs) await leave(queue, store, clock, sketch);
            clock.at += later;
            const seen = await statesIn(queue);
            const plan = await queue.plan();
            expect(await statesIn(queue)).toEqual(seen);
            expect((await queue.sweep()).removedBy).toEqual(countsOf(plan));
            const left = await statesIn(queue);
            const went = plan.removes.age!.count + plan.removes.count!.count + plan.removes.cap!.count;
            expect(left.size).toBe(seen.size - went);
            for (const { sample } of Object.values(plan.removes))
              expect(sample.filter((id) => left.has(id))).toEqual([]);
            expect(plan.held.sample.filter((id) => !left.has(id))).toEqual([]);
            expect(plan.removes['thing']?.bytes).toBe(sizeOf(plan.removes['thing']?.count));
            expect((await queue.plan()).held).toEqual(plan.held);
            await queue.close({ grace: 0 });
          });
        }),
        { numRuns: runs },
      );
    });
  });

  interface Lapsing {
    readonly type: string;
    readonly end: 'cancelled' | 'ttl' | 'stalled' | 'pending' | 'completed';
    readonly keep: Keep | undefined;
    /** In hours; null: for good. */
    readonly held: number | null | undefined;
    /** Of one that completed: an artifact that goes with it, is due after an hour, or is held. */
    readonly owns: 'owned' | 'due' | 'held';
    readonly wait: number;
  }
  const lapsing = fc.record({
    jobs: fc.array(
      fc.record<Lapsing>({
        type: fc.constantFrom('a', 'b'),
        end: fc.constantFrom('cancelled', 'completed', 'completed', 'ttl', 'ttl', 'stalled', 'pending'),
        keep: rule,
        held: fc.constantFrom(undefined, undefined, undefined, 1, 2, 4, null),
        owns: fc.constantFrom('owned', 'due', 'held'),
        wait: fc.nat(2).map((hours) => hours * hour),
      }),
      { maxLength: 15 },
    ),
    cleanup: fc.record({
      maxStoredJobs: fc.oneof(fc.nat(12), fc.constant(Number.POSITIVE_INFINITY)),
      jobRetentionMs: fc.nat(6).map((hours) => hours * hour),
      useCompletedTime: fc.boolean(),
    }),
    later: fc.nat(4).map((hours) => hours * hour + 1),
  });

  async function leave(queue: Queue, store: Store, clock: HandClock, sketch: Lapsing): Promise<void> {
    const { end, keep, held, wait } = sketch;
    const type = end === 'stalled' ? 'stalled' : sketch.type;
    if (end === 'completed') return complete(queue, clock, sketch);
    const { id } = await queue.enqueue(type, end, {
      ...(keep !== undefined && { keep }),
      ...(end === 'ttl' && { ttl: hour }),
    });
    if (end === 'cancelled') await queue.cancel(id);
    const claim = { owner: 'gone', types: [type], queues: null, slots: 1, ahead: 0, leaseMs: hour, maxStalls: 0 };
    if (end === 'stalled') await store.claim(claim);
    if (held !== undefined) await queue.hold(id, 'x', held === null ? undefined : new Date(clock.at + held * hour));
    clock.at += wait;
  }

  async function complete(queue: Queue, clock: HandClock, sketch: Lapsing): Promise<void> {
    const { keep, held, owns, wait } = sketch;
    const type = defineJob<any, any>('makes', {
      async run({ artifact }) {
        await artifact.put('a', Buffer.alloc(thingBytes), owns === 'due' ? { ttl: hour } : {});
      },
    });
    const worker = await queue.work([type]);
    const { id } = await queue.enqueue(type, null, keep === undefined ? {} : { keep });
    await queue.wait(id);
    await worker.stop();
    if (owns === 'held' && !hasCount(keep)) await queue.hold((await queue.artifacts.get(id, 'a'))!.id, 'x');
    if (held !== undefined) await queue.hold(id, 'x', held === null ? undefined : new Date(clock.at + held * hour));
    clock.at += wait;
  }

  async function statesIn(queue: Queue): Promise<Map<string, string>> {
    const { items } = await queue.find({ limit: 200 });
    // Who lost its claim is pending or failed when that was tended, and processing before.
    return new Map(items.map(({ id, type, state }) => [id, type === 'stalled' ? '' : state]));
  }
});

function keptJob(id: string, type: string, keep: Keep | undefined): NewJob {
  const policy = policyText(keep === undefined ? {} : { keep: checkKeep(keep) });
  return newJob({ id, idGiven: true, type, maxAttempts: 1, policy, input: JSON.stringify(id) });
}

const once = { dryRun: false, cursor: null, limit: 1_000 } as const;

const thingBytes = 100;
/** As in a report, none at all are not told. */
const sizeOf = (count: number | undefined) => (count === undefined ? undefined : count * thingBytes);

const finalizer: Finalizer = {
  knows: (type) => type === 'lastout.artifact',
  end: () => Promise.resolve(),
  isElsewhere: () => false,
  isInUse: () => false,
  sizeOf: () => thingBytes,
  async *list() {
    yield* [];
  },
};

/**
 * Which jobs of one type go by count is a question of how many of them are not held; so one that such a rule takes, and that is
 * then kept by what it owns, could keep an older one with a larger count of its own.
 */
const hasCount = (keep: Keep | undefined): boolean => typeof keep === 'object' && 'count' in keep;

const hold = { kind: 'hold', reason: 'x', until: null } as const;

interface Owner {
  readonly keep: Keep | undefined;
  readonly owns: number;
  readonly ownsWhat: 'owned' | 'due' | 'held';
}

/** True: it stays because of what it owns. */
async function own(store: Store, owner: string, { keep, owns, ownsWhat }: Owner): Promise<boolean> {
  const isHeld = ownsWhat === 'held' && !hasCount(keep) && owns > 0;
  for (let i = 0; i < owns; i++) {
    const id = `${owner}-thing-${i}`;
    const thing = { queue: 'lastout', ownedBy: owner, when: { inMs: ownsWhat === 'due' ? 0 : 1_000 * day } };
    await store.insert([{ ...keptJob(id, 'lastout.artifact', 0), ...thing }], { atomic: false });
    if (isHeld) await store.move({ filter: { ...noFilter, ids: [id] }, move: hold, ...once });
  }
  return isHeld;
}

/** Owners stand in the way and are still there, with what they own; that ends now, and so does what is due, unless it is held. */
async function end(store: Store, { owing, dueThings }: Swept): Promise<number> {
  const find = async (filter: Partial<JobFilter>) =>
    (await store.find({ filter: { ...noFilter, ...filter }, cursor: null, limit: 1_000 })).jobs;
  const move = async (ids: readonly string[], how: Move) =>
    (await store.move({ filter: { ...noFilter, ids }, move: how, ...once })).items.length;
  expect((await find({ ids: owing })).map(({ id }) => id).sort()).toEqual([...owing].sort());
  let ended = 0;
  for (const id of owing) {
    const owned = await find({ ownedBy: id, types: ['lastout.artifact'] });
    expect(owned.length).toBeGreaterThan(0);
    const ids = owned.map((thing) => thing.id);
    if (owned.some(({ heldUntil }) => heldUntil !== null)) await move([id], hold);
    else ended += await move(ids, { kind: 'remove', force: false });
  }
  for (const { id, ownedBy } of await find({ ids: dueThings })) {
    const [owner] = await find({ ids: [ownedBy!] });
    if (owner!.heldUntil !== null) await move([id], { kind: 'reschedule', when: { inMs: day }, priority: null });
    else ended += await move([id], { kind: 'remove', force: false });
  }
  return ended;
}

/** Only this job is ready. */
async function bring(store: Store, id: string, type: string, state: FinishedState | 'processing'): Promise<void> {
  if (state === 'cancelled') {
    const move = { kind: 'cancel', reason: 'x', force: false } as const;
    await store.move({ filter: { ...noFilter, ids: [id] }, move, dryRun: false, cursor: null, limit: 1 });
    return;
  }
  const others = { kind: 'reschedule', when: { inMs: 100 * day }, priority: null } as const;
  const { jobs } = await store.find({ filter: { ...noFilter, states: ['pending'] }, cursor: null, limit: 1_000 });
  const ids = jobs.flatMap((job) => (job.id === id ? [] : job.id));
  if (ids.length > 0)
    await store.move({ filter: { ...noFilter, ids }, move: others, dryRun: false, cursor: null, limit: 1_000 });
  const request = { owner: 'w', types: [type], queues: null, slots: 1, ahead: 0, leaseMs: 100 * day, maxStalls: 3 };
  const { epoch } = await store.claim(request);
  if (state === 'processing') return;
  const ending =
    state === 'completed'
      ? ({ kind: 'complete', result: '"r"' } as const)
      : ({ kind: 'fail', error: '{"message":"no"}' } as const);
  await store.settle({ owner: 'w', settlements: [{ id, epoch, ending }], started: [], next: null });
}
