// What an act is made of: it is done to the store and to the model, and both must answer alike.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { plainJob } from '../../../src/core/columns.js';
import type { Ending } from '../../../src/core/ending.js';
import type {
  ClaimRequest,
  ExtendRequest,
  JobFilter,
  Move,
  NewJob,
  SettleAnswer,
  Settlement,
} from '../../../src/core/store.js';
import { noFilter } from '../../../src/core/store.js';
import { compare, count, look, lookForLapsed, type policy, type Real } from './compare.js';
import type { ModelJob } from './jobs.js';
import type { Model } from './model.js';

type Work = (model: Model, real: Real) => Promise<void>;

/** One act: runs on both sides and then compares all that can be seen. */
export class Act implements fc.AsyncCommand<Model, Real> {
  constructor(
    private readonly label: string,
    private readonly work: Work,
    private readonly ready: (model: Model) => boolean = () => true,
  ) {}

  check(model: Readonly<Model>): boolean {
    return this.ready(model as Model);
  }

  async run(model: Model, real: Real): Promise<void> {
    model.now = real.harness.now();
    await this.work(model, real);
    count(real, 'acts');
    model.now = real.harness.now();
    await look(real);
    await compare(model, real);
  }

  toString(): string {
    return this.label;
  }
}

/** One job under one claim. */
export interface Hold {
  readonly id: string;
  readonly epoch: number;
  readonly owner: string;
}

/** What surrounds the store: who works, and what was given to whom. */
interface World {
  /** Every claim ever given out, so that old ones can speak up late. */
  readonly holds: Hold[];
  /** How often a node was started anew; each start has an owner of its own. */
  readonly starts: Map<string, number>;
  /** Nodes that stand still. */
  readonly still: Set<string>;
  lastId: number;
}
const worlds = new WeakMap<Model, World>();
export function worldOf(model: Model): World {
  const world = worlds.get(model) ?? { holds: [], starts: new Map(), still: new Set(), lastId: 0 };
  worlds.set(model, world);
  return world;
}

export const nodes = ['w1', 'w2'] as const;
/** The owner under which a node works now. */
export function ownerOf(model: Model, node: string): string {
  return `${node}.${worldOf(model).starts.get(node) ?? 0}`;
}
/** For a node that stands still another one works. */
const awake = (model: Model, node: string): string => ownerOf(model, worldOf(model).still.has(node) ? 'w3' : node);

export const holdsOf = (model: Model): readonly Hold[] => worldOf(model).holds;
/** What a node holds that is able to speak. */
export function liveHolds(model: Model): Hold[] {
  const { still } = worldOf(model);
  const speaking = [...nodes, 'w3'].filter((node) => !still.has(node)).map((node) => ownerOf(model, node));
  return heldNow(model).filter(({ owner }) => speaking.includes(owner));
}
export const heldNow = (model: Model): Hold[] =>
  holdsOf(model).filter(({ id, epoch }) => model.byId(id)?.claim?.epoch === epoch);
export const pick = <T>(list: readonly T[], n: number): T => list[n % list.length]!;

export function advance(model: Model, real: Real, ms: number): void {
  real.harness.advance(ms);
  model.now = real.harness.now();
}

const plans = [
  {},
  {},
  { timeoutMs: 2_000 },
  { keep: { completed: { ageMs: 20 }, cancelled: { ageMs: null } } },
  { keep: { completed: { count: 1 }, failed: { ageMs: 500, count: 2 }, expired: { count: 0 } } },
] as const;

export const sketch = fc.record({
  type: fc.constantFrom<string>('a', 'b'),
  queue: fc.constantFrom<string>('q', 'q', 'q', 'r'),
  priority: fc.constantFrom(0, 0, -1, 1),
  delay: fc.constantFrom(0, 0, 0, 5, 30, -10),
  ttlMs: fc.constantFrom(null, null, null, 25, 80),
  key: fc.constantFrom<string | null>(null, 'k', 'l'),
  exclusiveKey: fc.constantFrom(null, null, 'x', 'y'),
  deduplication: fc.constantFrom('none', 'skip', 'replace', 'coalesce'),
  subject: fc.constantFrom(null, 'trip:1', 'trip:2'),
  plan: fc.nat(plans.length - 1),
});
export type Sketch = typeof sketch extends fc.Arbitrary<infer T> ? T : never;

/** Ids count up within a model, so that a sequence reads the same each time it is run. */
export function newId(model: Model): string {
  const world = worldOf(model);
  world.lastId += 1;
  return `j${world.lastId}`;
}

export function newJob(
  model: Model,
  { delay, plan, ...rest }: Sketch,
  given: { id: string; input: string } | null,
): NewJob {
  return {
    ...plainJob,
    ...rest,
    id: given?.id ?? newId(model),
    idGiven: given !== null,
    // A negative delay stands for an instant, which may have passed.
    when: delay >= 0 ? { inMs: delay } : { at: model.now + delay },
    maxAttempts: 3,
    metadata: rest.deduplication === 'none' ? null : '{"slot":true}',
    policy: JSON.stringify({ backoff: null, timeoutMs: null, keep: {}, ...plans[plan] }),
    input: given?.input ?? '{"n":1}',
  };
}

export async function insert(model: Model, real: Real, jobs: readonly NewJob[], atomic: boolean): Promise<void> {
  const expected = model.insert(jobs, atomic);
  const answer = real.harness.store.insert(jobs, { atomic });
  if (!Array.isArray(expected)) {
    count(real, `${expected.code} of a batch`);
    return assert.rejects(answer, expected);
  }
  for (const one of expected) if (one.outcome === 'refused') count(real, one.code);
  const withoutText = (await answer).map((one) => (one.outcome === 'refused' ? { ...one, message: '' } : one));
  assert.deepEqual(withoutText, expected);
}

export const request = fc.record({
  owner: fc.constantFrom<string>(...nodes),
  types: fc.constantFrom(['a', 'b'], ['a', 'b'], ['a']),
  queues: fc.constantFrom(null, null, ['q'], ['q', 'r']),
  slots: fc.constantFrom(0, 1, 2, 5),
  ahead: fc.constantFrom(0, 0, 0, 3),
  leaseMs: fc.constantFrom(20, 60),
  maxStalls: fc.constantFrom(1, 2, 3),
});

export async function claim(model: Model, real: Real, wanted: ClaimRequest): Promise<void> {
  const asked = { ...wanted, owner: awake(model, wanted.owner) };
  await learnClaim(model, real, asked, await real.harness.store.claim(asked));
}

async function learnClaim(
  model: Model,
  real: Real,
  wanted: ClaimRequest,
  claimed: Awaited<ReturnType<Real['harness']['store']['claim']>>,
): Promise<void> {
  await lookForLapsed(model, real);
  const expected = model.claim(wanted, claimed.epoch);
  const { jobs, nextDueInMs, more } = claimed;
  assert.deepEqual({ ids: jobs.map(({ id }) => id), nextDueInMs, more }, expected);
  if (jobs.length === 0) return;
  assert.ok(claimed.epoch > real.lastEpoch, 'epochs only grow');
  real.lastEpoch = claimed.epoch;
  for (const { id } of jobs) worldOf(model).holds.push({ id, epoch: claimed.epoch, owner: wanted.owner });
}

export const endings: fc.Arbitrary<Ending> = fc.oneof(
  fc.constantFrom('1', '2').map((result): Ending => ({ kind: 'complete', result })),
  fc.constantFrom(0, 10).map((inMs): Ending => ({ kind: 'retry', inMs, error: '{"message":"again","code":"E"}' })),
  fc.constant<Ending>({ kind: 'exhaust', error: '{"message":"enough"}' }),
  fc.constant<Ending>({ kind: 'fail', error: '{"message":"failed"}' }),
  fc.constantFrom({ inMs: 0 }, { inMs: 10 }, { at: 0 }).map((when): Ending => ({ kind: 'snooze', when })),
  fc.constant<Ending>({ kind: 'cancel', error: '{"message":"own","code":"CANCELLED"}' }),
  fc.constant<Ending>({ kind: 'release' }),
);

export async function settle(
  model: Model,
  real: Real,
  hold: Hold,
  ending: Ending,
  next: ClaimRequest | null = null,
  extra: Pick<Settlement, 'memo' | 'then'> = {},
): Promise<void> {
  const { owner, ...of } = hold;
  await settleAll(model, real, owner, [{ ...of, ending, ...extra }], next);
}

export async function settleAll(
  model: Model,
  real: Real,
  owner: string,
  settlements: readonly Settlement[],
  next: ClaimRequest | null = null,
): Promise<readonly SettleAnswer[]> {
  const { answers, claimed } = await real.harness.store.settle({ owner, settlements, started: [], next });
  await lookForLapsed(model, real);
  assert.deepEqual(answers, model.settle(owner, settlements, []));
  assert.equal(claimed === null, next === null);
  if (claimed && next) await learnClaim(model, real, next, claimed);
  return answers;
}

export async function move(
  model: Model,
  real: Real,
  filter: Partial<JobFilter>,
  matches: (job: ModelJob) => boolean,
  how: Move,
  dryRun = false,
): Promise<void> {
  const wanted = { filter: { ...noFilter, ...filter }, move: how, dryRun, cursor: null, limit: 1_000 };
  const { items, next } = await real.harness.store.move(wanted);
  assert.equal(next, null);
  assert.deepEqual(items, model.move(matches, how, dryRun));
}

export async function extend(
  model: Model,
  real: Real,
  { id, epoch, owner }: Hold,
  leaseMs: number,
  begun: boolean,
): Promise<void> {
  await extendAll(model, real, {
    owner,
    leaseMs,
    claims: [{ epoch, ids: [id], started: begun ? [id] : [] }],
    card: null,
  });
}

export async function extendAll(model: Model, real: Real, wanted: ExtendRequest): Promise<void> {
  assert.deepEqual(await real.harness.store.extend(wanted), model.extend(wanted));
}

export async function sweep(model: Model, real: Real, cleanup: typeof policy | null): Promise<void> {
  const { more: _, ...swept } = await real.harness.store.sweep({ limit: 500, cleanup });
  await lookForLapsed(model, real);
  assert.deepEqual(swept, model.sweep(cleanup));
}

export async function note(model: Model, real: Real, { id, epoch, owner }: Hold, percent: number): Promise<void> {
  const one = { id, epoch, progress: `{"percent":${percent}}`, lines: [{ message: 'line', fields: null }] };
  assert.deepEqual(await real.harness.store.note(owner, [one]), [model.note(owner, one)]);
  assert.equal((await real.harness.store.readLines(id)).length, model.byId(id)?.lines ?? 0);
}

export const n = fc.nat(99);
export const anyHold = (model: Model): boolean => holdsOf(model).length > 0;
export const anyLive = (model: Model): boolean => liveHolds(model).length > 0;
export const text = (value: unknown): string => JSON.stringify(value);
