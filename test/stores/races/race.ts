/**
 * Many connections at once, doing everything that gets in each other's way: producers with every strategy and exclusive
 * keys, transactions of callers, workers that lapse, repeat themselves and lie, moves by hand, sweeps. After each round
 * the store is audited, and at the end nothing is lost and nothing is left.
 */
import { expect, it, onTestFinished } from 'vitest';
import { states } from '../../../src/core/job.js';
import { everyPage } from '../../../src/core/pages.js';
import type { CleanupPolicy } from '../../../src/core/policy.js';
import { noFilter, type Store, type StoreFactory } from '../../../src/core/store.js';
import { auditOn } from '../../../src/lifecycle/audit.js';
import { describeOn, type EngineName } from '../../engines.js';
import { openStore, system } from '../sqlite-support.js';
import {
  type Caller,
  cleanupAfter,
  meddle,
  pause,
  produce,
  quietMs,
  request,
  tend,
  transact,
  work,
  type World,
} from './acts.js';
import { Ledger } from './ledger.js';

/** LASTOUT_RACES runs more. */
const rounds = Number(process.env.LASTOUT_RACES ?? 3);
const roundMs = 1_300;

/** An empty store, and what only its engine can tell of it. */
export interface Arena {
  /** The way of one more process to it. */
  connect(): StoreFactory;
  /** Fails where what is kept beside the jobs does not say the same as they do. */
  audit(store: Store): Promise<void>;
  /** The audit sees one snapshot: it may go on while others act. */
  readonly isSnapshot: boolean;
  /** Names of what is there although it should be empty, once the last job is gone. */
  leftovers(): Promise<readonly string[]>;
  /** Where callers have transactions. */
  call?(): Promise<Caller>;
}

export function races(engine: EngineName, enter: () => Promise<Arena>, title = `races on ${engine}`): void {
  describeOn(engine, title, () => {
    const timeout = rounds * 10_000 + 120_000;
    it('lose nothing, double nothing and leave nothing, whoever meets whom', { timeout }, async () => {
      const arena = await enter();
      const stores = await Promise.all(Array.from({ length: 5 }, () => opened(arena)));
      const world = { ledger: new Ledger(), given: Array.from({ length: 40 }, (_, n) => `given-${n}`) };
      const acts = await actsOf(arena, stores);
      for (let round = 0; round < rounds; round++) {
        const end = Date.now() + roundMs;
        await all(acts, world, () => Date.now() > end);
        await auditInQuiet(arena, stores[0]!, world.ledger);
      }
      await finishAll(arena, stores, world);
      await judge(stores[0]!, world.ledger);
      expectVariety(arena, world.ledger);
      console.log(`${title}: ${world.ledger.summary()}`);
      await sweepAll(stores[0]!, cleanupAfter(-1));
      expect(await arena.leftovers()).toEqual([]);
      expect((await stores[0]!.tally(cleanupAfter(1))).queues).toEqual([]);
    });
  });
}

export async function opened(arena: Pick<Arena, 'connect'>): Promise<Store> {
  const store = await openStore(arena.connect());
  onTestFinished(() => store.close());
  return store;
}

export type Act = (world: World) => Promise<void>;

async function actsOf(arena: Arena, stores: readonly Store[]): Promise<Act[]> {
  const acts: Act[] = [
    ...stores.slice(0, 4).map(
      (store): Act =>
        (to) =>
          produce(store, to),
    ),
    ...Array.from(
      { length: 6 },
      (_, n): Act =>
        (to) =>
          work(stores.slice(n % 3, (n % 3) + 3), `worker-${n}`, to),
    ),
    (to) => meddle(stores[3]!, to),
    (to) => tend(stores[4]!, to),
    (to) => auditOnAndOn(arena, stores[4]!, to),
  ];
  if (arena.call)
    for (const store of stores.slice(0, 2)) {
      const caller = await arena.call();
      acts.push((to) => transact(store, caller, to));
    }
  return acts;
}

/** Whoever stops early stops all the others. */
export async function all(acts: readonly Act[], world: Omit<World, 'isOver'>, until: () => boolean): Promise<void> {
  let failed = false;
  const isOver = (): boolean => failed || until();
  const fail = (error: unknown): never => {
    failed = true;
    throw error;
  };
  const ends = await Promise.allSettled(acts.map((act) => act({ ...world, isOver }).catch(fail)));
  for (const end of ends) if (end.status === 'rejected') throw end.reason;
}

/** All the time, where that can be judged. */
async function auditOnAndOn(arena: Arena, store: Store, { ledger, isOver }: World): Promise<void> {
  while (arena.isSnapshot && !isOver()) {
    await arena.audit(store);
    ledger.count('audits');
    await pause(50);
  }
}

/** Nobody acts, and the clock changes nothing any more; some jobs are held. */
export async function auditInQuiet(arena: Pick<Arena, 'audit'>, store: Store, ledger: Ledger): Promise<void> {
  await pause(quietMs);
  await sweepAll(store, null);
  const held = await store.claim({ ...request, owner: 'holder', slots: 10, ahead: 10, leaseMs: 60_000 });
  ledger.claimed(held);
  await arena.audit(store);
  await recount(store);
  expect(await auditOn(store, system, cleanupAfter(86_400_000))).toMatchObject({ clean: true });
  ledger.count('audits');
  const settlements = held.jobs.map(({ id }) => ({ id, epoch: held.epoch, ending: { kind: 'release' } as const }));
  const { answers } = await store.settle({ owner: 'holder', settlements, started: [], next: null });
  expect(answers).toEqual(settlements.map(() => 'ok'));
}

/** The numbers that the store keeps are those of its jobs. */
async function recount(store: Store): Promise<void> {
  const counted: { [state: string]: number } = {};
  for await (const { queue, state } of everyPage(store, noFilter, 500))
    counted[`${queue} ${state}`] = (counted[`${queue} ${state}`] ?? 0) + 1;
  const { queues } = await store.tally(cleanupAfter(86_400_000));
  const told = queues.flatMap((tally) => states.map((state) => [`${tally.queue} ${state}`, tally[state]] as const));
  expect(Object.fromEntries(told.filter(([, n]) => n > 0))).toEqual(counted);
}

async function finishAll(arena: Arena, stores: readonly Store[], world: Omit<World, 'isOver'>): Promise<void> {
  const deadline = Date.now() + 60_000;
  let left = 1;
  const count: Act = async ({ isOver }) => {
    while (!isOver()) {
      const { queues } = await stores[0]!.tally(cleanupAfter(1));
      left = queues.reduce((sum, { pending, processing }) => sum + pending + processing, 0);
      await pause(20);
    }
  };
  const last = stores.map(
    (store, n): Act =>
      (to) =>
        work([store], `last-${n}`, to, true),
  );
  const audits: Act = (to) => auditOnAndOn(arena, stores[0]!, to);
  await all([...last, count, audits], world, () => left === 0 || Date.now() > deadline);
  expect(left, 'jobs that nobody can claim').toBe(0);
  await arena.audit(stores[0]!);
}

/** Every job that was created has finished or was removed, and no other one is there. */
async function judge(store: Store, { created, removed, unsure }: Ledger): Promise<void> {
  const finished = new Set<string>();
  for await (const { id } of everyPage(store, noFilter, 500)) finished.add(id);
  const lost = [...created].filter((id) => !finished.has(id) && !removed.has(id) && !unsure.has(id));
  expect(lost, 'created, not finished and not removed').toEqual([]);
  const strange = [...finished].filter((id) => !created.has(id) && !removed.has(id) && !unsure.has(id));
  expect(strange, 'never created').toEqual([]);
}

/** It was a race: everything that can happen did. */
function expectVariety(arena: Arena, { counts }: Ledger): void {
  const expected = ['skipped', 'coalesced', 'replaced', 'existing', 'STALE_CLAIM', 'ok again', 'audits'];
  if (arena.call) expected.push('committed');
  expect(expected.filter((what) => !counts.get(what))).toEqual([]);
}

async function sweepAll(store: Store, cleanup: CleanupPolicy | null): Promise<void> {
  for (let more = true; more; ) ({ more } = await store.sweep({ limit: 500, cleanup }));
}
