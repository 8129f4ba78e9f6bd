// Of each rule, how its trouble is made and mended: alerts.test.ts goes through the table of rules and asks for one each.
import { expect } from 'vitest';
import type { Store, StoreFactory } from '../../src/core/store.js';
import { defineJob, defineResource, fail, type JobType, open, type OpenOptions, type Queue } from '../../src/index.js';
import type { RuleName } from '../../src/observe/rules.js';
import { createSystem } from '../../src/system.js';
import type { FakeClock } from '../../src/testing/index.js';
import { closeUnder, tapped } from '../support.js';

export interface World {
  readonly queue: Queue;
  readonly clock: FakeClock;
  /** The store itself, past what is made to fail. */
  readonly store: Store;
  /** What fails of the queue's store while it is set. */
  readonly failing: { tally: boolean; cleanup: boolean; tending: boolean; destroy: boolean };
}

export interface Case {
  readonly options?: OpenOptions;
  /** The id of the alert. */
  readonly id: string;
  make(world: World): Promise<void>;
  mend(world: World): Promise<void>;
  /** What the alert says when it fires. */
  readonly says: RegExp;
  /** It names ids of jobs, or of leases. */
  readonly ids?: true;
}

const quick = { cleanupIntervalMs: 60_000, jobRetentionMs: 60_000 };
const done = defineJob('job', { run: () => undefined });

/** Runs what is due; the clock moves for it. */
async function runAll({ queue, clock }: World, type: JobType<any, any> = done): Promise<void> {
  const worker = await queue.work([type]);
  await clock.advance('1s');
  await worker.stop();
}

export const cases: { readonly [rule in RuleName]: Case } = {
  oldJobs: {
    id: 'oldJobs:default',
    async make({ queue, clock }) {
      await queue.enqueue(done, null);
      await clock.advance('10m');
      expect(await queue.alerts()).not.toContainEqual(expect.objectContaining({ rule: 'oldJobs' }));
      await clock.advance(1);
    },
    mend: (world) => runAll(world),
    says: /^Jobs older than 10 minutes: the oldest due job of queue "default" has waited 10 minutes; stalled: no living worker/,
    ids: true,
  },
  manyOrphans: {
    id: 'manyOrphans',
    async make({ queue, clock }) {
      for (let n = 0; n < 21; n++) await queue.enqueue(done, null, { subject: `trip:${n}` });
      const check = async (ids: readonly string[]) => ids.map(() => 'absent' as const);
      queue.defineSubject('trip', { check, every: '10s', confirm: 1, brake: { share: 1, atLeast: 20 } });
      await clock.advance('1m');
    },
    mend: ({ clock }) => clock.advance('10m'),
    says: /^High orphaned job count: jobs of 0 subjects wait that are gone or over, and sweeps cancelled 21 such jobs/,
  },
  cleanupFailing: {
    id: 'cleanupFailing',
    async make({ queue, failing }) {
      failing.cleanup = true;
      await expect(queue.sweep()).rejects.toThrow('The store broke off "sweep"');
    },
    async mend({ queue, failing }) {
      failing.cleanup = false;
      await queue.sweep(); // its entry tells of the failure before it
      await queue.sweep();
    },
    says: /^Cleanup service failures: 1 since the last pass that went well/,
  },
  cleanupSilent: {
    id: 'cleanupSilent',
    options: { cleanup: { cleanupIntervalMs: 60_000 } },
    async make({ queue, clock }) {
      await queue.stopPeriodicCleanup();
      await clock.advance('3m');
      expect(await queue.alerts()).toEqual([]);
      await clock.advance('1s');
    },
    mend: async ({ queue }) => void (await queue.sweep()),
    says: /^No process has cleaned up for 3 minutes; once every 1 minute is usual/,
  },
  leasesNeedAttention: {
    id: 'leasesNeedAttention',
    async make({ queue, clock, failing }) {
      failing.destroy = true;
      const box = defineResource<null>('box', {
        create: async () => null,
        async destroy() {
          if (failing.destroy) throw new Error('the engine is away');
        },
        list: async () => [],
      });
      await queue.lease(box, null, { ttl: '1s' });
      await clock.advance('1m');
    },
    async mend({ queue, clock, failing }) {
      failing.destroy = false;
      const { items } = await queue.leases.find({ state: 'needs_attention' });
      await queue.leases.retry(items[0]!.id);
      await clock.advance('1s');
    },
    says: /^1 lease needs attention/,
    ids: true,
  },
  noWorkers: {
    id: 'noWorkers:default',
    make: async ({ queue }) => void (await queue.enqueue(done, null)),
    mend: (world) => runAll(world),
    says: /^1 job of queue "default" is due, and no living worker takes it\./,
  },
  nobodyTakes: {
    id: 'nobodyTakes:forgotten',
    async make({ queue, clock }) {
      await queue.work([done], { poll: '10s' });
      await queue.enqueue('forgotten', null);
      await clock.advance('1m');
      await queue.enqueue('forgotten', null);
      expect(await queue.alerts()).not.toContainEqual(expect.objectContaining({ rule: 'nobodyTakes' }));
      await clock.advance(1);
    },
    mend: (world) => runAll(world, defineJob('forgotten', { run: () => undefined })),
    says: /^Nobody takes type "forgotten": 2 jobs are due in queue "default", the oldest for more than a minute/,
    ids: true,
  },
  stalledClaims: {
    id: 'stalledClaims:default',
    async make({ queue, store, clock, failing }) {
      await queue.enqueue(done, null);
      const request = { owner: 'dead', types: ['job'], queues: null, slots: 1, ahead: 0, leaseMs: 1_000, maxStalls: 3 };
      await store.claim(request);
      failing.tending = true;
      await clock.advance('2s');
    },
    async mend({ clock, failing }) {
      failing.tending = false;
      await clock.advance('10s');
    },
    says: /^Claims that lapsed hold 1 job of queue "default"/,
    ids: true,
  },
  failureRate: {
    id: 'failureRate:default',
    async make(world) {
      await world.queue.alerts(); // counts from here on
      const broken = defineJob('job', { run: () => fail('no') });
      for (let n = 0; n < 12; n++) await world.queue.enqueue(n < 3 ? defineJob('fine', {}) : broken, null);
      await runAll(world, broken);
      await runAll(world, defineJob('fine', { run: () => undefined }));
    },
    mend: ({ clock }) => clock.advance('5m'),
    says: /^9 of the last 12 jobs of queue "default" failed/,
    ids: true,
  },
  backpressure: {
    id: 'backpressure:default',
    options: { queues: { default: { maxPending: 1 } } },
    make: async ({ queue }) => void (await queue.enqueue(done, null)),
    mend: (world) => runAll(world),
    says: /^Queue "default" is full: it refuses jobs, 1 is pending/,
  },
  retentionLag: {
    id: 'retentionLag',
    options: { cleanup: quick, alerts: { rules: { cleanupSilent: false } } },
    async make(world) {
      await world.queue.stopPeriodicCleanup();
      await world.queue.enqueue(done, null);
      await runAll(world);
      await world.clock.advance('2m');
    },
    mend: async ({ queue }) => void (await queue.sweep()),
    says: /^1 finished job is past its retention by more than one cleanup interval/,
    ids: true,
  },
  storeUnreachable: {
    id: 'storeUnreachable',
    make: async ({ failing }) => void (failing.tally = true),
    mend: async ({ failing }) => void (failing.tally = false),
    says: /^The store does not answer: The store broke off "tally"/,
  },
};

/** A queue on this store, and the way past it. */
export async function worldOn(factory: StoreFactory, clock: FakeClock, options: OpenOptions = {}): Promise<World> {
  const failing = { tally: false, cleanup: false, tending: false, destroy: false };
  const taps = tapped(factory, (store) => ({
    async tally(cleanup) {
      if (failing.tally) throw new Error('disk full');
      return store.tally(cleanup);
    },
    sweep: async (request) => (failing.tending ? nothingSwept : store.sweep(request)),
    async sweepInTerm(term, request) {
      if (failing.cleanup) throw new Error('disk full');
      return failing.tending ? { ...nothingSwept, term: 1 } : store.sweepInTerm(term, request);
    },
    async claim(request) {
      return failing.tending ? nothingClaimed : store.claim(request);
    },
  }));
  const queue = await open(taps, { ...options, clock });
  const context = { system: createSystem(clock), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
  const store = await factory.open(context);
  await clock.settle();
  return { queue, clock, store, failing };
}

export async function endWorld({ queue, clock, store }: World): Promise<void> {
  await closeUnder(clock, queue);
  await store.close();
}

const nothingClaimed = { epoch: 0, at: 0, jobs: [], nextDueInMs: null, more: false };
const nothingSwept = {
  examined: 0,
  lapsed: 0,
  expired: 0,
  fenced: 0,
  removedBy: { age: 0, count: 0, cap: 0 },
  owing: [],
  dueThings: [],
  more: false,
};
