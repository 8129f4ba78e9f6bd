/**
 * The same random calls on memory and on another store, under one clock, must answer alike and leave the same jobs, counts
 * and events behind: the simple tables check the ones that are not.
 */
import { expect, test } from 'vitest';
import { plainJob } from '../../src/core/columns.js';
import type { Ending } from '../../src/core/ending.js';
import { states } from '../../src/core/job.js';
import type { QueueLimits } from '../../src/core/limits.js';
import {
  type AuditPage,
  type Claimed,
  type ClaimRequest,
  type JobFilter,
  type Move,
  type NewJob,
  noFilter,
  type PlanPage,
  type Store,
  type StoreFactory,
} from '../../src/core/store.js';
import type { System } from '../../src/core/system.js';
import { memoryStore } from '../../src/stores/memory/store.js';
import { createSystem } from '../../src/system.js';

/** LASTOUT_SEEDS runs more. */
const seeds = Array.from({ length: Number(process.env.LASTOUT_SEEDS ?? 6) }, (_, i) => i + 1);
const callsPerSeed = 250;

export function sameAsMemory(create: () => StoreFactory): void {
  test.each(seeds)('seed %i: it answers as memory does', { timeout: 60_000 }, async (seed) => {
    const draw = drawing(seed);
    const clock = { now: 1_900_000_000_000 };
    const context = { system: standingSystem(clock), namespace: 'lastout', maxStoredJobs: 50, limits: limitsOf(seed) };
    const sides = [await sideOf(memoryStore(), context), await sideOf(create(), context)] as const;
    const [memory, other] = sides;
    const world: World = { draw, clock, ids: [], claims: 0, nextId: 0 };
    for (let i = 0; i < callsPerSeed; i++) {
      const [name, call] = nextCall(world);
      const answers = [await answerOf(call(memory)), await answerOf(call(other))];
      expect(comparable(answers[1]), `call ${i}: ${name}`).toEqual(comparable(answers[0]));
      remember(world, sides, answers);
      if (i % 10 !== 9) continue;
      const seen = comparable(await picture(memory, world.ids));
      expect(comparable(await picture(other, world.ids)), `after call ${i}: ${name}`).toEqual(seen);
    }
    await other.store.close();
  });
}

async function sideOf(factory: StoreFactory, context: Parameters<StoreFactory['open']>[0]): Promise<Side> {
  const store = await factory.open(context);
  const { cursor } = await store.readEvents({ after: null, limit: 1 });
  return { store, claims: [], eventsSeen: cursor };
}

/** Worlds without limits, with loose ones, and with tight ones take turns. */
function limitsOf(seed: number): ReadonlyMap<string, QueueLimits> {
  const loose: QueueLimits = { maxPending: 20, concurrency: 4, rate: { max: 60, perMs: 5_000 } };
  const tight: QueueLimits = { maxPending: 4, concurrency: 2, rate: null };
  const slow: QueueLimits = { maxPending: null, concurrency: null, rate: { max: 3, perMs: 2_000 } };
  const worlds: [string, QueueLimits][][] = [[], [['q1', loose]], [['q1', tight], ['q2', slow]]]; // biome-ignore format: one list
  return new Map(worlds[seed % worlds.length]);
}

type Draw = ReturnType<typeof drawing>;

interface World {
  readonly draw: Draw;
  readonly clock: { now: number };
  readonly ids: string[];
  /** How many claims each side remembers: the same ones, by the epochs of its own. */
  claims: number;
  nextId: number;
}

/** One of the two stores, and what it alone names: epochs and cursors are each engine's own. */
interface Side {
  readonly store: Store;
  readonly claims: Claimed[];
  /** The cursor of the last picture. */
  eventsSeen: string;
}

/** A call as drawn once; each side makes it with its own names. */
type Call = (side: Side) => Promise<unknown>;

function nextCall(world: World): [string, Call] {
  const { draw, clock } = world;
  if (draw.chance(0.4)) clock.now += draw.pick([1, 5, 50, 500, 3_000, 40_000]);
  const kind = draw.pick([
    'insert',
    'insert',
    'insert',
    'claim',
    'claim',
    'settle',
    'settle',
    'settle',
    'other',
  ] as const);
  if (kind === 'insert') return ['insert', insertCall(world)];
  if (kind === 'claim') return ['claim', claimCall(draw)];
  if (kind === 'settle' && world.claims > 0) return ['settle', settleCall(world)];
  const other = draw.pick(['move', 'move', 'sweep', 'pause', 'note', 'extend'] as const);
  return [other, otherCalls[other](world)];
}

function insertCall(world: World): Call {
  const jobs = Array.from({ length: world.draw.upTo(4) + 1 }, () => newJob(world));
  const atomic = world.draw.chance(0.3);
  return ({ store }) => store.insert(jobs, { atomic });
}

function newJob(world: World): NewJob {
  const { draw } = world;
  const idGiven = draw.chance(0.1);
  const id = idGiven && draw.chance(0.6) && world.ids.length > 0 ? draw.pick(world.ids) : `job${world.nextId++}`;
  return {
    ...plainJob,
    id,
    idGiven,
    type: draw.pick(types),
    queue: draw.pick(queues),
    priority: draw.pick([0, 0, 0, -5, 7]),
    when: draw.pick([{ inMs: 0 }, { inMs: 0 }, { inMs: 700 }, { at: world.clock.now + 20_000 }, { at: 5 }]),
    ttlMs: draw.pick([null, null, 900, 30_000]),
    maxAttempts: 3,
    subject: draw.pick([null, null, 'trip:1', 'trip:2']),
    key: draw.pick([null, null, 'a', 'b']),
    exclusiveKey: draw.pick([null, null, 'x', 'y']),
    deduplication: draw.pick(['none', 'none', 'skip', 'replace', 'coalesce'] as const),
    source: draw.pick([null, 'web']),
    metadata: draw.pick([null, '{"a":"b"}']),
    policy: draw.pick(policies),
    input: draw.pick(['1', '{"x":"\u2028 \u{1f600} \\u0000"}']),
    ownedBy: draw.chance(0.12) ? (draw.chance(0.1) ? 'nobody' : (world.ids.at(-1 - draw.upTo(3)) ?? null)) : null,
  };
}

function requestOf(draw: Draw): ClaimRequest {
  return {
    owner: draw.pick(owners),
    types: draw.pick([types, ['a', 'b'], ['c'], ['a', 'a']]),
    queues: draw.pick([null, null, ['q1'], ['q2', 'q1', 'none']]),
    slots: draw.upTo(4),
    ahead: draw.pick([0, 0, 3]),
    leaseMs: draw.pick([1_000, 30_000]),
    maxStalls: 2,
  };
}

function claimCall(draw: Draw): Call {
  const request = requestOf(draw);
  return ({ store }) => store.claim(request);
}

/** Of the jobs of a claim, those that chance picks; the same ones on both sides. */
function partOf(draw: Draw, share: number): <T>(list: readonly T[]) => T[] {
  const seed = draw.upTo(1e9);
  return (list) => {
    const again = drawing(seed);
    return list.filter(() => again.chance(share));
  };
}

function settleCall({ draw, claims }: World): Call {
  const which = draw.upTo(claims - 1);
  const [settling, starting] = [partOf(draw, 0.7), partOf(draw, 0.3)];
  const endings = Array.from({ length: mostSlots }, () => endingOf(draw));
  const next = draw.chance(0.4) ? requestOf(draw) : null;
  const owner = draw.pick(owners);
  return ({ store, claims: own }) => {
    const jobs = own[which]!.jobs.map(({ id, epoch }) => ({ id, epoch }));
    const settlements = settling(jobs.map((job, index) => ({ ...job, ending: endings[index]! })));
    return store.settle({ owner, settlements, started: starting(jobs), next });
  };
}

/** Slots and jobs ahead of one request. */
const mostSlots = 8;

function endingOf(draw: Draw): Ending {
  const error = JSON.stringify({ message: draw.pick(['no', 'never']), code: 'E' });
  return draw.pick<Ending>([
    { kind: 'complete', result: draw.pick(['1', '"two"']) },
    { kind: 'complete', result: 'null' },
    { kind: 'retry', inMs: draw.pick([0, 100, 5_000]), error },
    { kind: 'exhaust', error },
    { kind: 'fail', error },
    { kind: 'snooze', when: { inMs: 250 } },
    { kind: 'cancel', error },
    { kind: 'release' },
  ]);
}

const otherCalls: Record<'move' | 'sweep' | 'pause' | 'note' | 'extend', (world: World) => Call> = {
  move({ draw, ids, clock }) {
    const filter: JobFilter = { ...noFilter, ...draw.pick([{ ids: ids.filter(() => draw.chance(0.1)) }, ...filters]) };
    const move = draw.pick<Move>([
      { kind: 'cancel', reason: 'by hand', force: draw.chance(0.4) },
      { kind: 'remove', force: draw.chance(0.5), ...draw.pick([{}, { reason: 'by request' }]) },
      {
        ...{ kind: 'retry', newIds: ['r1', 'r2', 'r3'].map((id) => `${id}-${draw.upTo(1e9)}`) },
        ...draw.pick([{}, { again: true }, { failuresOnly: true }]),
      },
      { kind: 'reschedule', when: draw.pick([null, { inMs: 0 }, { inMs: 10_000 }]), priority: draw.pick([null, 3]) },
      { kind: 'hold', reason: 'wait', until: draw.pick([null, clock.now + 400, clock.now + 30_000]) },
      { kind: 'unhold' },
      { kind: 'defer', forMs: draw.pick([null, 400, 30_000]) },
      { kind: 'dismiss', ...draw.pick([{}, { reason: 'busy' }]) },
      { kind: 'confirm', memo: '{"bytes":1}', when: draw.pick([null, { inMs: 600 }]), under: null },
    ]);
    const request = { filter, move, dryRun: draw.chance(0.2), cursor: null, limit: draw.upTo(2) + 1 };
    return async ({ store }) => (await store.move(request)).items;
  },
  sweep({ draw }) {
    const rule = { ...cleanup, maxStoredJobs: draw.pick([5, 40]), useCompletedTime: draw.chance(0.6) };
    const request = { limit: 500, cleanup: draw.pick([null, rule]) };
    const term = { holder: draw.pick(owners), ttlMs: 2_000 };
    return draw.pick<Call>([
      ({ store }) => store.sweep(request),
      ({ store }) => store.sweepInTerm(term, { limit: 500, cleanup: rule }),
      ({ store }) => store.endTerm(term.holder, '{"removed":1}'),
    ]);
  },
  pause({ draw }) {
    const [queue, paused] = [draw.pick([null, 'q1', 'q2']), draw.chance(0.3)];
    return ({ store }) => store.pause(queue, paused);
  },
  note({ draw, claims }) {
    const which = claims === 0 ? null : draw.upTo(claims - 1);
    const lines = [{ message: 'line', fields: draw.pick([null, '{"n":1}']) }];
    const progress = draw.pick([null, '{"percent":5}']);
    const owner = draw.pick(owners);
    return ({ store, claims: own }) => {
      const jobs = which === null ? [] : own[which]!.jobs;
      return store.note(
        owner,
        jobs.map(({ id, epoch }) => ({ id, epoch, progress, lines })),
      );
    };
  },
  extend({ draw }) {
    const starting = partOf(draw, 0.5);
    const [owner, leaseMs] = [draw.pick(owners), draw.pick([500, 30_000])];
    const card = draw.pick([null, { name: owner, types: draw.pick([types, ['a']]), queues: null, concurrency: 2 }]);
    return ({ store, claims: own }) => {
      const claims = own.slice(-2).map(({ epoch, jobs }) => {
        const ids = jobs.map(({ id }) => id);
        return { epoch, ids, started: starting(ids) };
      });
      return store.extend({ owner, leaseMs, claims, card });
    };
  },
};

/** Everything that can be read. */
async function picture(side: Side, ids: readonly string[]) {
  const { store } = side;
  const found: unknown[] = [];
  for (const filter of filters) found.push(await pages(store, { ...noFilter, ...filter }));
  const tallies = [];
  for (const useCompletedTime of [true, false]) {
    const tally = await store.tally({ ...cleanup, jobRetentionMs: 5_000, useCompletedTime });
    tallies.push({ ...tally, queues: tally.queues.toSorted((a, b) => (a.queue < b.queue ? -1 : 1)) });
  }
  // From the last picture on: how far back the log reaches is each engine's own.
  const { events, cursor, reset } = await store.readEvents({ after: side.eventsSeen, limit: 10_000 });
  side.eventsSeen = cursor;
  const lines = [];
  for (const id of ids.slice(-20)) lines.push(await store.readLines(id));
  // What one call does to several jobs happens at once; for each of them, one thing happens after the other.
  const told: Record<string, unknown[]> = {};
  for (const event of events) (told[event.id ?? ''] ??= []).push(event);
  const whys = [];
  for (const id of ids.slice(-20)) whys.push(await store.readWhy(id));
  return { found, tallies, told, reset, lines, whys, books: await books(store) };
}

/** What a cleanup would do, what those before did, and what is there. */
async function books(store: Store) {
  const sums: Record<string, number> = {};
  const add = (name: string, n: number): void => void (sums[name] = (sums[name] ?? 0) + n);
  const held: string[] = [];
  for (const [at, policy] of plans.entries()) {
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page: PlanPage = await store.readPlan({ cleanup: policy, cursor: cursor ?? null, limit: 7 });
      for (const part of ['age', 'count', 'cap', 'held'] as const) {
        add(`${at} ${part}`, page[part].count);
        add(`${at} ${part} bytes`, page[part].bytes);
      }
      held.push(...page.held.sample);
      cursor = page.next;
    }
  }
  const amiss: string[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page: AuditPage = await store.readAudit({ cursor: cursor ?? null, limit: 7 });
    for (const [kind, { created, released, live, attention }] of Object.entries(page.kinds)) {
      add(`${kind} created`, created);
      add(`${kind} released`, released);
      add(`${kind} live`, live);
      amiss.push(...attention);
    }
    cursor = page.next;
  }
  const ledger = await store.readLedger({ cursor: null, limit: 100 });
  const workers = await store.readWorkers();
  return {
    sums,
    held,
    amiss,
    ledger: ledger.entries,
    workers: workers.toSorted((a, b) => (a.owner < b.owner ? -1 : 1)),
  };
}

/** The cursors and where pages end may differ: one engine looks at rows that the other need not look at. */
async function pages(store: Store, filter: JobFilter): Promise<unknown[]> {
  const list: unknown[] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<Store['find']>> = await store.find({ filter, cursor, limit: 7 });
    list.push(...page.jobs);
    cursor = page.next;
  } while (cursor !== null);
  return list;
}

function remember(world: World, sides: readonly Side[], answers: readonly unknown[]): void {
  sides.forEach(({ claims }, index) => {
    const answer = answers[index] as { claimed?: Claimed | null } | Claimed | null | undefined;
    const claimed = (answer as { claimed?: Claimed | null } | null)?.claimed ?? (answer as Partial<Claimed> | null);
    if (claimed?.jobs && claimed.jobs.length > 0) claims.push(claimed as Claimed);
    if (claims.length > 6) claims.shift();
  });
  world.claims = sides[0]!.claims.length;
  if (!Array.isArray(answers[0])) return;
  for (const item of answers[0] as { id?: string }[]) if (item.id !== undefined) world.ids.push(item.id);
}

/** Numbers that each engine gives out as it likes: where a job stands in the order of insertion, and which claim it was. */
function comparable(answer: unknown): unknown {
  if (Array.isArray(answer)) return answer.map(comparable);
  if (answer === null || typeof answer !== 'object') return answer;
  const entries = Object.entries(answer).filter(([name]) => !['seq', 'epoch', 'cursor'].includes(name));
  return Object.fromEntries(entries.map(([name, value]) => [name, comparable(value)]));
}

/** A refusal counts as an answer. */
function answerOf(answer: Promise<unknown>): Promise<unknown> {
  return answer.catch((error: unknown) => ({ refused: String(error) }));
}

const types = ['a', 'b', 'c'];
const queues = ['q1', 'q2', 'q1', 'q2', 'lastout'];
const owners = ['o1', 'o1', 'o1', 'o2'];
const backoff = { type: 'fixed', base: 1_000 };
const policies = [
  { backoff, timeoutMs: null, keep: {} },
  { backoff, timeoutMs: 500, keep: { completed: { ageMs: 2_000 }, failed: { ageMs: null }, cancelled: { count: 2 } } },
  { backoff, timeoutMs: 5_000, keep: { completed: { count: 3 }, expired: { ageMs: 0, count: 1 } } },
].map((policy) => JSON.stringify(policy));
const cleanup = { maxStoredJobs: 40, jobRetentionMs: 60_000, cleanupIntervalMs: 1_000, useCompletedTime: true };
const plans = [5, 30].map((maxStoredJobs) => ({
  ...cleanup,
  maxStoredJobs,
  jobRetentionMs: 5_000,
  useCompletedTime: maxStoredJobs === 30,
}));
const filters: Partial<JobFilter>[] = [
  {},
  ...states.map((state) => ({ states: [state] })),
  { states: ['processing', 'expired'] },
  { states: ['completed', 'failed', 'cancelled'] },
  { types: ['a'] },
  { types: ['a', 'c'], states: ['pending', 'completed'] },
  { types: ['b', 'c'], states: ['failed', 'cancelled'], queues: ['q1'] },
  { queues: ['q2'], source: 'web' },
  { subject: 'trip:1' },
  { subject: 'trip:2', states: ['completed', 'expired'], types: ['a', 'b'] },
  { key: 'a' },
  { key: 'b', types: ['b', 'c'] },
  { key: '', states: [] },
  { ownedBy: 'job3' },
  { ownedBy: 'job9', states: ['pending'], types: ['a', 'b'] },
  { before: 1_900_000_050_000, after: 1_900_000_000_100 },
];

function standingSystem(clock: { now: number }): System {
  return {
    ...createSystem(),
    now: () => clock.now,
    givenNow: () => clock.now,
    monotonic: () => clock.now,
    timer: () => () => undefined,
    soon: (callback) => void queueMicrotask(callback),
    random: () => 0.5,
    id: () => 'unused',
    token: () => 'unused',
  };
}

function drawing(seed: number) {
  let state = seed * 0x9e3779b1;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    chance: (share: number): boolean => next() < share,
    upTo: (most: number): number => Math.floor(next() * (most + 1)),
    pick: <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!,
  };
}
