// Plain jobs that came together are one row of the pending table. Whoever takes some of them from its start, its middle or
// its end finds them in the order, and leaves the others in the place, that they have in memory.
import { expect, onTestFinished, test } from 'vitest';
import { type Claimed, type NewJob, noFilter, type Store } from '../../src/core/store.js';
import { memoryStore } from '../../src/stores/memory/store.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { createSystem } from '../../src/system.js';
import { claim } from '../../src/testing/store-cases/bench.js';
import { seeded } from '../crash/seeded.js';
import { faultsIn } from './sqlite-audit.js';
import { connect, newJob, openStore, valueOf } from './sqlite-support.js';

interface Side {
  readonly store: Store;
  claims: Claimed[];
}

type Call = (side: Side) => Promise<unknown>;

async function bothSides() {
  const clock = { now: Date.parse('2030-01-01T00:00:00Z') };
  const system = createSystem({ now: () => new Date(clock.now) });
  const db = await connect(':memory:');
  onTestFinished(() => void db.close());
  const sqlite: Side = { store: await openStore(sqliteStore({ db }), { system }), claims: [] };
  const memory: Side = { store: await openStore(memoryStore(), { system }), claims: [] };
  async function both(call: Call): Promise<void> {
    expect(await call(sqlite)).toEqual(await call(memory));
    expect(faultsIn(db)).toEqual([]);
  }
  return { clock, db, both };
}

const batch = (size: number, from: number, fields: Partial<NewJob> = {}): NewJob[] =>
  Array.from({ length: size }, (_, index) => newJob({ id: `job-${String(from + index).padStart(5, '0')}`, ...fields }));

const take =
  (slots: number, types: readonly string[] = ['mail'], queues: readonly string[] | null = null): Call =>
  async (side) => {
    const claimed = await claim(side.store, { slots, types, queues });
    side.claims.push(claimed);
    return claimed.jobs;
  };

const found =
  (filter: Partial<typeof noFilter>, limit: number): Call =>
  async ({ store }) => {
    const ids: string[] = [];
    for (let cursor: string | null = null, more = true; more; more = cursor !== null) {
      const page: Awaited<ReturnType<Store['find']>> = await store.find({
        filter: { ...noFilter, ...filter },
        cursor,
        limit,
      });
      ids.push(...page.jobs.map(({ id, state }) => `${id} ${state}`));
      cursor = page.next;
    }
    return ids;
  };

const move =
  (ids: readonly string[], how: Parameters<Store['move']>[0]['move']): Call =>
  ({ store }) =>
    store.move({ filter: { ...noFilter, ids }, move: how, dryRun: false, cursor: null, limit: 100 });

test('jobs that came together are one row, which is divided where one of them leaves', async () => {
  const { db, both } = await bothSides();
  const rows = (): unknown => valueOf(db, `select group_concat(seq || '-' || last) from lastout_pending`);
  await both(({ store }) => store.insert(batch(10, 0), { atomic: false }));
  expect(rows()).toBe('1-10');
  await both(move(['job-00004'], { kind: 'cancel', reason: 'stop', force: false }));
  expect(rows()).toBe('1-4,6-10');
  await both(take(2));
  expect(rows()).toBe('3-4,6-10');
  await both(take(3));
  expect(rows()).toBe('7-10');
  await both(move(['job-00009'], { kind: 'cancel', reason: 'stop', force: false }));
  await both(move(['job-00006'], { kind: 'cancel', reason: 'stop', force: false }));
  expect(rows()).toBe('8-9');
  await both(take(5));
  expect(rows()).toBe(null);
});

test.each([1, 2, 3, 4, 5, 6])('whatever is done to them, in any order: seed %i', async (seed) => {
  const { clock, both } = await bothSides();
  const { below } = seeded(seed);
  const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
  let added = 0;

  const calls: (() => Call)[] = [
    () => {
      const jobs = [1, 2, 3].slice(below(3)).flatMap(() => {
        const list = batch(below(12), added, {
          type: pick(['mail', 'mail', 'post']),
          queue: pick(['default', 'default', 'slow']),
          priority: pick([0, 0, 5]),
          when: pick([{ inMs: 0 }, { inMs: 0 }, { inMs: 0 }, { inMs: 3 }]),
        });
        added += list.length;
        return list;
      });
      return ({ store }) => store.insert(jobs, { atomic: false });
    },
    () =>
      take(1 + below(9), pick([['mail'], ['mail', 'post'], ['post']]), pick([null, ['default'], ['default', 'slow']])),
    () => {
      const ids = Array.from({ length: 1 + below(3) }, () => `job-${String(below(added + 1)).padStart(5, '0')}`);
      const when = { inMs: pick([0, 2]) };
      return move(
        ids,
        pick([
          { kind: 'cancel', reason: 'stop', force: false } as const,
          { kind: 'hold', until: clock.now + 1_000, reason: 'look' } as const,
          { kind: 'reschedule', when, priority: pick([null, 5, 0]) } as const,
        ]),
      );
    },
    () => {
      const jobs = batch(1, added, { deduplication: pick(['replace', 'skip', 'coalesce'] as const) });
      added += 1;
      return ({ store }) => store.insert(jobs, { atomic: false });
    },
    () => async (side) => {
      const [first, ...others] = side.claims;
      side.claims = others;
      if (!first) return null;
      const ending = { kind: 'release' } as const;
      const settlements = first.jobs.map(({ id }) => ({ id, epoch: first.epoch, ending }));
      return (await side.store.settle({ owner: 'worker-1', settlements, started: [], next: null })).answers;
    },
    () =>
      found(
        pick([{ types: ['mail'] }, { states: ['pending'] }, { states: ['pending'], queues: ['slow'] }]),
        1 + below(7),
      ),
  ];
  for (let i = 0; i < 150; i++) {
    clock.now += below(3);
    await both(pick(calls)());
    if (i % 10 === 0) await both(found({}, 50));
  }
});
