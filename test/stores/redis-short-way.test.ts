// Plain jobs take a short way through the scripts of Redis. Random calls, most of them about plain jobs, must answer as
// memory does, and the keys must say the same as the rows.
import { expect, it } from 'vitest';
import type { Ending } from '../../src/core/ending.js';
import {
  type AuditKind,
  type AuditPage,
  type Claimed,
  type ClaimRequest,
  type Move,
  type Moved,
  type NewJob,
  noFilter,
  type PlanPage,
  type Store,
} from '../../src/core/store.js';
import { memoryStore } from '../../src/stores/memory/store.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { createSystem } from '../../src/system.js';
import { describeOn } from '../engines.js';
import { emptyRedis } from '../services.js';
import { allJobs, auditKeys, leftovers } from './redis-audit.js';
import { newJob, plainClient } from './redis-support.js';

/** LASTOUT_SEEDS runs more. */
const seeds = Array.from({ length: Number(process.env.LASTOUT_SEEDS ?? 8) }, (_, i) => i + 1);
const calls = 150;
const retention = { maxStoredJobs: 60, jobRetentionMs: 2_000, cleanupIntervalMs: 1_000, useCompletedTime: true };

describeOn('redis', 'the short way', () => {
  it.each(seeds)('seed %i: answers as memory does, and keeps its books', { timeout: 60_000 }, async (seed) => {
    const url = await emptyRedis();
    const client = plainClient(url);
    const clock = { now: 1_900_000_000_000 };
    const context = {
      system: createSystem({ now: () => new Date(clock.now) }),
      namespace: 'lastout',
      maxStoredJobs: Number.POSITIVE_INFINITY,
    };
    const memory: Side = { store: await memoryStore().open(context), claims: [] };
    const redis: Side = { store: await redisStore({ url }).open(context), claims: [] };
    const world: World = { draw: drawing(seed), clock, ids: [], claims: 0, made: 0 };
    for (let i = 0; i < calls; i++) {
      const [name, call] = nextCall(world);
      const answers = [await call(memory), await call(redis)];
      expect(comparable(answers[1]), `call ${i}: ${name}`).toEqual(comparable(answers[0]));
      world.claims = memory.claims.length;
      if (i % 15 !== 14) continue;
      expect(comparable(await allJobs(redis.store)), `after call ${i}`).toEqual(
        comparable(await allJobs(memory.store)),
      );
      expect(sorted(await redis.store.tally(retention))).toEqual(sorted(await memory.store.tally(retention)));
      expect(await planOf(redis.store, 7), `plan after call ${i}`).toEqual(await planOf(memory.store, 500));
      expect(await booksOf(redis.store, 11), `audit after call ${i}`).toEqual(await booksOf(memory.store, 500));
      for (const { store } of [memory, redis]) await store.sweep({ limit: 500, cleanup: null });
      await auditKeys(client, redis.store);
    }
    await emptyOut(redis.store, clock);
    expect(await leftovers(client)).toEqual([]);
    await redis.store.close();
  });
});

interface Side {
  readonly store: Store;
  readonly claims: Claimed[];
}

interface World {
  readonly draw: ReturnType<typeof drawing>;
  readonly clock: { now: number };
  readonly ids: string[];
  claims: number;
  made: number;
}

type Call = (side: Side) => Promise<unknown>;

function nextCall(world: World): [string, Call] {
  const { draw, clock } = world;
  if (draw.chance(0.3)) clock.now += draw.pick([1, 20, 500, 31_000, -40]);
  const kind = draw.pick([
    'insert',
    'insert',
    'claim',
    'settle',
    'settle',
    'settle',
    'move',
    'note',
    'sweep',
    'extend',
    'own',
    'why',
  ] as const);
  if (kind === 'insert') return [kind, inserting(world)];
  if (kind === 'claim' || world.claims === 0) return ['claim', claiming(world)];
  if (kind === 'settle') return [kind, settling(world)];
  if (kind === 'extend') return [kind, extending(world)];
  if (kind === 'own') return [kind, owning(world)];
  if (kind === 'why') {
    const id = draw.pick([...world.ids, 'nobody']);
    return [kind, ({ store }) => store.readWhy(id)];
  }
  if (kind === 'move') return [kind, moving(world)];
  if (kind === 'note') return [kind, noting(world)];
  const limit = draw.pick([3, 500]);
  return ['sweep', ({ store }) => store.sweep({ limit, cleanup: retention })];
}

const policies = [
  '{}',
  '{}',
  '{}',
  '{"completed":{"count":4}}',
  '{"completed":{"ageMs":600}}',
  '{"failed":{"ageMs":null}}',
];

function jobOf(world: World): NewJob {
  const { draw } = world;
  const id = `j${world.made++}`;
  world.ids.push(id);
  const keep = draw.pick(policies);
  const plain = newJob({
    id,
    type: draw.pick(['a', 'b']),
    queue: draw.pick(['q', 'q', 'r']),
    source: draw.pick([null, 'web']),
    policy: `{"backoff":null,"timeoutMs":${draw.pick([null, null, 5_000])},"keep":${keep}}`,
  });
  if (draw.chance(0.85)) return plain;
  return draw.pick([
    { ...plain, priority: -1 },
    { ...plain, when: { inMs: 300 } },
    { ...plain, ttlMs: 400 },
    { ...plain, exclusiveKey: 'x' },
    { ...plain, deduplication: 'skip' as const },
    { ...plain, deduplication: 'coalesce' as const },
  ]);
}

function inserting(world: World): Call {
  const jobs = Array.from({ length: world.draw.pick([1, 3, 8, 30]) }, () => jobOf(world));
  // Sent again, also with some that never arrived.
  if (world.draw.chance(0.1)) jobs.push({ ...jobOf(world), id: world.draw.pick(world.ids) });
  const atomic = world.draw.chance(0.3);
  return ({ store }) => store.insert(jobs, { atomic });
}

/** Something that a job of a claim owns: mostly under that claim, which may be over. */
function owning(world: World): Call {
  const { draw } = world;
  const [index, job, isUnder] = [draw.upTo(world.claims), draw.upTo(40), draw.chance(0.7)];
  const id = `j${world.made++}`;
  world.ids.push(id);
  const inMs = draw.pick([0, 50, 1_000, 40_000]);
  const thing = newJob({ id, type: 'lastout.artifact', queue: draw.pick(['lastout', 'lastout', 'q']), when: { inMs } });
  return ({ store, claims }) => {
    const { epoch, jobs } = claims[index]!;
    const ownedBy = jobs[job % jobs.length]!.id;
    const under = isUnder ? { id: ownedBy, epoch, owner: 'w' } : null;
    return store.insert([{ ...thing, ownedBy, under }], { atomic: false });
  };
}

function requestOf({ draw }: World): ClaimRequest {
  return {
    owner: 'w',
    types: draw.pick([['a'], ['b'], ['a', 'b']]),
    queues: draw.pick([null, null, ['q'], ['r', 'q']]),
    slots: draw.pick([0, 1, 5, 40]),
    ahead: draw.pick([0, 0, 3, 30]),
    leaseMs: 30_000,
    maxStalls: 3,
  };
}

function claiming(world: World): Call {
  const request = requestOf(world);
  return async (side) => remember(side, await side.store.claim(request));
}

function remember(side: Side, claimed: Claimed): Claimed {
  if (claimed.jobs.length > 0) side.claims.push(claimed);
  return claimed;
}

const endings: readonly Ending[] = [
  ...Array.from({ length: 6 }, (_, n): Ending => ({ kind: 'complete', result: `"${n} \u00e4"` })),
  { kind: 'complete', result: '~:a\0b' },
  { kind: 'retry', inMs: 0, error: '{"message":"m"}' },
  { kind: 'fail', error: '{"message":"m"}' },
  { kind: 'release' },
];

/** Some jobs of some claims, over or not, now and then the same twice, with or without a next claim. */
function settling(world: World): Call {
  const { draw } = world;
  const said = Array.from({ length: draw.pick([1, 2, 10, 40]) }, () => ({
    claim: draw.chance(0.7) ? world.claims - 1 : draw.upTo(world.claims),
    job: draw.upTo(40),
    ending: draw.chance(0.8) ? endings[draw.upTo(6)]! : draw.pick(endings),
  }));
  const next = draw.chance(0.5) ? requestOf(world) : null;
  const begun = draw.upTo(40);
  return async (side) => {
    const settlements = said.map(({ claim, job, ending }) => {
      const { epoch, jobs } = side.claims[claim]!;
      return { id: jobs[job % jobs.length]!.id, epoch, ending };
    });
    const last = side.claims.at(-1)!;
    const started = last.jobs.slice(0, begun).map(({ id }) => ({ id, epoch: last.epoch }));
    const { answers, claimed } = await side.store.settle({ owner: 'w', settlements, started, next });
    return { answers, claimed: claimed && remember(side, claimed) };
  };
}

function extending(world: World): Call {
  const index = world.draw.upTo(world.claims);
  return ({ store, claims }) => {
    const { epoch, jobs } = claims[index]!;
    const ids = jobs.map(({ id }) => id);
    return store.extend({
      owner: 'w',
      leaseMs: 30_000,
      claims: [{ epoch, ids, started: ids.slice(0, 2) }],
      card: null,
    });
  };
}

function noting(world: World): Call {
  const [index, job, percent] = [world.draw.upTo(world.claims), world.draw.upTo(40), world.draw.upTo(100)];
  return ({ store, claims }) => {
    const { epoch, jobs } = claims[index]!;
    const { id } = jobs[job % jobs.length]!;
    return store.note('w', [{ id, epoch, progress: `{"percent":${percent}}`, lines: [] }]);
  };
}

function moving(world: World): Call {
  const { draw } = world;
  const ids = Array.from({ length: draw.pick([1, 5, 20]) }, () => draw.pick([...world.ids, 'nobody']));
  const move = draw.pick<Move>([
    { kind: 'cancel', reason: 'no longer', force: draw.chance(0.5) },
    { kind: 'remove', force: draw.chance(0.5) },
    { kind: 'reschedule', when: { inMs: draw.pick([0, 100]) }, priority: draw.pick([null, 5]) },
    { kind: 'hold', reason: 'evidence', until: draw.pick([null, world.clock.now + draw.pick([-5, 30, 3_000])]) },
    { kind: 'unhold' },
    { kind: 'defer', forMs: draw.pick([null, 30, 3_000]) },
    { kind: 'dismiss' },
    { kind: 'confirm', memo: '{"bytes":1}', when: draw.pick([null, { inMs: 500 }]), under: null },
  ]);
  return ({ store }) => store.move({ filter: { ...noFilter, ids }, move, dryRun: false, cursor: null, limit: 100 });
}

/** Lets everything lapse and end, and removes it. */
async function emptyOut(store: Store, clock: { now: number }): Promise<void> {
  clock.now += 60_000;
  await store.sweep({ limit: 500, cleanup: null });
  for (const move of [{ kind: 'unhold' }, { kind: 'remove', force: true }] as const) {
    let cursor: string | null = null;
    do {
      const moved: Moved = await store.move({ filter: noFilter, move, dryRun: false, cursor, limit: 100 });
      cursor = moved.next;
    } while (cursor !== null);
  }
  await store.sweep({ limit: 500, cleanup: { ...retention, jobRetentionMs: 0 } });
}

/** The pages of a plan, summed. */
async function planOf(store: Store, limit: number): Promise<unknown> {
  const sums = { age: [0, 0], count: [0, 0], cap: [0, 0], held: [0, 0] };
  let cursor: string | null = null;
  do {
    const page: PlanPage = await store.readPlan({ cleanup: retention, cursor, limit });
    for (const part of ['age', 'count', 'cap', 'held'] as const) {
      sums[part][0]! += page[part].count;
      sums[part][1]! += page[part].bytes;
    }
    cursor = page.next;
  } while (cursor !== null);
  return sums;
}

/** The pages of an audit, summed. */
async function booksOf(store: Store, limit: number): Promise<unknown> {
  const kinds: Record<string, AuditKind> = {};
  let cursor: string | null = null;
  do {
    const page: AuditPage = await store.readAudit({ cursor, limit });
    for (const [kind, { created, released, live, attention }] of Object.entries(page.kinds)) {
      const had = kinds[kind] ?? { created: 0, released: 0, live: 0, attention: [] };
      kinds[kind] = {
        created: had.created + created,
        released: had.released + released,
        live: had.live + live,
        attention: [...had.attention, ...attention],
      };
    }
    cursor = page.next;
  } while (cursor !== null);
  return kinds;
}

/** Without what is an engine's own: numbers of claims and of jobs. */
function comparable(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (name, item: unknown) => (name === 'epoch' || name === 'seq' ? null : item)));
}

function sorted({ queues, ...rest }: Awaited<ReturnType<Store['tally']>>): unknown {
  return { ...rest, queues: queues.toSorted((a, b) => (a.queue < b.queue ? -1 : 1)) };
}

function drawing(seed: number) {
  let state = seed * 2_654_435_761;
  const next = (): number => {
    state = (Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e37_79b9) >>> 0;
    return ((state ^ (state >>> 13)) >>> 0) / 2 ** 32;
  };
  return {
    chance: (share: number): boolean => next() < share,
    upTo: (below: number): number => Math.floor(next() * below),
    pick: <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!,
  };
}
