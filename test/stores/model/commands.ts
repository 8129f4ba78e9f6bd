// The acts of a sequence: each is done to the store and to the model, and both must answer alike.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import type { Ending } from '../../../src/core/ending.js';
import type { ClaimRequest, JobFilter, Move, NewJob } from '../../../src/core/store.js';
import { noFilter } from '../../../src/core/store.js';
import { compare, count, look, policy, type Real } from './compare.js';
import type { ModelJob } from './jobs.js';
import type { Model } from './model.js';

type Work = (model: Model, real: Real) => Promise<void>;

/** One act: runs on both sides and then compares all that can be seen. */
class Act implements fc.AsyncCommand<Model, Real> {
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

/** Every claim ever given out, so that old ones can speak up late. */
interface Hold {
  readonly id: string;
  readonly epoch: number;
  readonly owner: string;
}
const holds = new WeakMap<Model, Hold[]>();
const holdsOf = (model: Model): Hold[] => {
  const list = holds.get(model) ?? [];
  holds.set(model, list);
  return list;
};
const liveHolds = (model: Model): Hold[] =>
  holdsOf(model).filter(({ id, epoch }) => model.byId(id)?.claim?.epoch === epoch);
const pick = <T>(list: readonly T[], n: number): T => list[n % list.length]!;

const plans = [
  {},
  {},
  { timeoutMs: 2_000 },
  { keep: { completed: { ageMs: 20 }, cancelled: { ageMs: null } } },
  { keep: { completed: { count: 1 }, failed: { ageMs: 500, count: 2 }, expired: { count: 0 } } },
] as const;

const sketch = fc.record({
  type: fc.constantFrom('a', 'b'),
  queue: fc.constantFrom('q', 'q', 'q', 'r'),
  priority: fc.constantFrom(0, 0, -1, 1),
  delay: fc.constantFrom(0, 0, 0, 5, 30, -10),
  ttlMs: fc.constantFrom(null, null, null, 25, 80),
  key: fc.constantFrom(null, 'k', 'l'),
  exclusiveKey: fc.constantFrom(null, null, 'x', 'y'),
  deduplication: fc.constantFrom('none', 'skip', 'replace', 'coalesce'),
  subject: fc.constantFrom(null, 'trip:1', 'trip:2'),
  plan: fc.nat(plans.length - 1),
});
type Sketch = typeof sketch extends fc.Arbitrary<infer T> ? T : never;

/** Ids count up within a model, so that a sequence reads the same each time it is run. */
const counters = new WeakMap<Model, number>();
function newId(model: Model): string {
  const n = (counters.get(model) ?? 0) + 1;
  counters.set(model, n);
  return `j${n}`;
}

function newJob(model: Model, { delay, plan, ...rest }: Sketch, given: { id: string; input: string } | null): NewJob {
  return {
    ...rest,
    id: given?.id ?? newId(model),
    idGiven: given !== null,
    // A negative delay stands for an instant, which may have passed.
    when: delay >= 0 ? { inMs: delay } : { at: model.now + delay },
    maxAttempts: 3,
    source: null,
    metadata: rest.deduplication === 'none' ? null : '{"slot":true}',
    policy: JSON.stringify({ backoff: null, timeoutMs: null, keep: {}, ...plans[plan] }),
    input: given?.input ?? '{"n":1}',
  };
}

async function insert(model: Model, real: Real, jobs: readonly NewJob[], atomic: boolean): Promise<void> {
  const expected = model.insert(jobs, atomic);
  const answer = real.harness.store.insert(jobs, { atomic });
  if (expected === null) return assert.rejects(answer, { code: 'IDEMPOTENCY_CONFLICT' });
  const withoutText = (await answer).map((one) => (one.outcome === 'refused' ? { ...one, message: '' } : one));
  assert.deepEqual(withoutText, expected);
}

const request = fc.record({
  owner: fc.constantFrom('w1', 'w2'),
  types: fc.constantFrom(['a', 'b'], ['a', 'b'], ['a']),
  queues: fc.constantFrom(null, null, ['q'], ['q', 'r']),
  slots: fc.constantFrom(0, 1, 2, 5),
  ahead: fc.constantFrom(0, 0, 0, 3),
  leaseMs: fc.constantFrom(20, 60),
  maxStalls: fc.constantFrom(1, 2, 3),
});

async function claim(model: Model, real: Real, wanted: ClaimRequest): Promise<void> {
  const claimed = await real.harness.store.claim(wanted);
  await learnClaim(model, real, wanted, claimed);
}

async function learnClaim(
  model: Model,
  real: Real,
  wanted: ClaimRequest,
  claimed: Awaited<ReturnType<Real['harness']['store']['claim']>>,
): Promise<void> {
  await look(real); // the model asks when those come back that stalled twice
  const expected = model.claim(wanted, claimed.epoch);
  const { jobs, nextDueInMs, more } = claimed;
  assert.deepEqual({ ids: jobs.map(({ id }) => id), nextDueInMs, more }, expected);
  if (jobs.length === 0) return;
  assert.ok(claimed.epoch > real.lastEpoch, 'epochs only grow');
  real.lastEpoch = claimed.epoch;
  for (const { id } of jobs) holdsOf(model).push({ id, epoch: claimed.epoch, owner: wanted.owner });
}

const endings: fc.Arbitrary<Ending> = fc.oneof(
  fc.constantFrom('1', '2').map((result): Ending => ({ kind: 'complete', result })),
  fc.constantFrom(0, 10).map((inMs): Ending => ({ kind: 'retry', inMs, error: '{"message":"again","code":"E"}' })),
  fc.constant<Ending>({ kind: 'exhaust', error: '{"message":"enough"}' }),
  fc.constant<Ending>({ kind: 'fail', error: '{"message":"failed"}' }),
  fc.constantFrom(0, 10).map((inMs): Ending => ({ kind: 'snooze', inMs })),
  fc.constant<Ending>({ kind: 'cancel', error: '{"message":"own","code":"CANCELLED"}' }),
  fc.constant<Ending>({ kind: 'release' }),
);

async function settle(
  model: Model,
  real: Real,
  hold: Hold,
  ending: Ending,
  next: ClaimRequest | null = null,
): Promise<void> {
  const { owner, ...of } = hold;
  const settlements = [{ ...of, ending }];
  const { answers, claimed } = await real.harness.store.settle({ owner, settlements, started: [], next });
  await look(real);
  assert.deepEqual(answers, model.settle(owner, settlements, []));
  assert.equal(claimed === null, next === null);
  if (claimed && next) await learnClaim(model, real, next, claimed);
}

async function move(
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

async function extend(model: Model, real: Real, hold: Hold, leaseMs: number, begun: boolean): Promise<void> {
  const claims = [{ epoch: hold.epoch, ids: [hold.id], started: begun ? [hold.id] : [] }];
  const wanted = { owner: hold.owner, leaseMs, claims };
  assert.deepEqual(await real.harness.store.extend(wanted), model.extend(wanted));
}

async function sweep(model: Model, real: Real, cleanup: typeof policy | null): Promise<void> {
  const { more: _, ...swept } = await real.harness.store.sweep({ limit: 500, cleanup });
  await look(real);
  assert.deepEqual(swept, model.sweep(cleanup));
}

async function note(model: Model, real: Real, { id, epoch, owner }: Hold, percent: number): Promise<void> {
  const one = { id, epoch, progress: `{"percent":${percent}}`, lines: [{ message: 'line', fields: null }] };
  assert.deepEqual(await real.harness.store.note(owner, [one]), [model.note(owner, one)]);
  assert.equal((await real.harness.store.read({ log: 'job', id })).length, model.byId(id)?.lines ?? 0);
}

const n = fc.nat(99);
const anyJob = (model: Model): boolean => model.jobs.length > 0;
const anyHold = (model: Model): boolean => holdsOf(model).length > 0;
const anyLive = (model: Model): boolean => liveHolds(model).length > 0;
const text = (value: unknown): string => JSON.stringify(value);
const byId = (id: string) => [{ ids: [id] }, (job: ModelJob) => job.given.id === id] as const;
const bySubject = (subject: string) => [{ subject }, (job: ModelJob) => job.given.subject === subject] as const;
const idOf = (model: Model, i: number): string => pick(model.jobs, i).given.id;

/** An act on one stored job. */
const onJob = (label: string, how: (model: Model) => Move, dryRun = false) =>
  n.map(
    (i) =>
      new Act(
        `${label}(${i})`,
        (model, real) => move(model, real, ...byId(idOf(model, i)), how(model), dryRun),
        anyJob,
      ),
  );
/** An act under a claim that is held. */
const onLive = (label: string, ending: fc.Arbitrary<Ending>) =>
  fc
    .tuple(n, ending)
    .map(
      ([i, how]) =>
        new Act(
          `${label}(${i}, ${text(how)})`,
          (model, real) => settle(model, real, pick(liveHolds(model), i), how),
          anyLive,
        ),
    );
const given = fc.record({
  id: fc.constantFrom('given-1', 'given-2'),
  input: fc.constantFrom('{"a":1,"b":2}', '{"b":2,"a":1}', '3'),
});
const kind = (name: Ending['kind']): fc.Arbitrary<Ending> => endings.filter((ending) => ending.kind === name);

const inserting = [
  sketch.map(
    (one) => new Act(`insert(${text(one)})`, (model, real) => insert(model, real, [newJob(model, one, null)], false)),
  ),
  sketch.map(
    (one) =>
      new Act(`insertKeyed(${text(one)})`, (model, real) =>
        insert(model, real, [newJob(model, { ...one, type: 'a', key: 'k', delay: 0 }, null)], false),
      ),
  ),
  fc.tuple(fc.array(sketch, { minLength: 1, maxLength: 4 }), fc.boolean()).map(
    ([many, atomic]) =>
      new Act(`insertMany(${text(many)}, ${atomic})`, (model, real) =>
        insert(
          model,
          real,
          many.map((one) => newJob(model, one, null)),
          atomic,
        ),
      ),
  ),
  fc
    .tuple(sketch, given)
    .map(
      ([one, id]) =>
        new Act(`insertGiven(${text(one)}, ${text(id)})`, (model, real) =>
          insert(model, real, [newJob(model, one, id)], false),
        ),
    ),
  fc.tuple(fc.array(fc.tuple(sketch, given), { minLength: 2, maxLength: 3 }), fc.boolean()).map(
    ([many, atomic]) =>
      new Act(`insertManyGiven(${text(many)}, ${atomic})`, (model, real) =>
        insert(
          model,
          real,
          many.map(([one, id]) => newJob(model, one, id)),
          atomic,
        ),
      ),
  ),
];

const claiming = [
  request.map((one) => new Act(`claim(${text(one)})`, (model, real) => claim(model, real, one))),
  request.map(
    (one) => new Act(`claimAhead(${text(one)})`, (model, real) => claim(model, real, { ...one, slots: 1, ahead: 4 })),
  ),
  request.map(
    (one) =>
      new Act(`claimAll(${text(one)})`, (model, real) =>
        claim(model, real, { ...one, types: ['a', 'b'], queues: null, slots: 20, leaseMs: 60 }),
      ),
  ),
  n.map(
    (i) => new Act(`extend(${i})`, (model, real) => extend(model, real, pick(liveHolds(model), i), 50, false), anyLive),
  ),
  n.map(
    (i) =>
      new Act(`extendBegun(${i})`, (model, real) => extend(model, real, pick(liveHolds(model), i), 50, true), anyLive),
  ),
  n.map(
    (i) => new Act(`extendAny(${i})`, (model, real) => extend(model, real, pick(holdsOf(model), i), 50, true), anyHold),
  ),
  n.map(
    (i) =>
      new Act(
        `extendAsStranger(${i})`,
        (model, real) => extend(model, real, { ...pick(holdsOf(model), i), owner: 'stranger' }, 50, true),
        anyHold,
      ),
  ),
];

const settling = [
  ...(['complete', 'retry', 'exhaust', 'fail', 'snooze', 'cancel', 'release'] as const).map((name) =>
    onLive(name, kind(name)),
  ),
  fc.tuple(n, endings, request).map(
    ([i, how, next]) =>
      new Act(
        `settleAndClaim(${i}, ${text(how)}, ${text(next)})`,
        (model, real) => {
          const hold = pick(liveHolds(model), i);
          return settle(model, real, hold, how, { ...next, owner: hold.owner });
        },
        anyLive,
      ),
  ),
  fc.tuple(n, endings).map(
    ([i, how]) =>
      new Act(
        `settleTwice(${i}, ${text(how)})`,
        async (model, real) => {
          const hold = pick(liveHolds(model), i);
          await settle(model, real, hold, how);
          await settle(model, real, hold, how);
        },
        anyLive,
      ),
  ),
  fc
    .tuple(n, endings)
    .map(
      ([i, how]) =>
        new Act(
          `settleAny(${i}, ${text(how)})`,
          (model, real) => settle(model, real, pick(holdsOf(model), i), how),
          anyHold,
        ),
    ),
  fc
    .tuple(n, endings)
    .map(
      ([i, how]) =>
        new Act(
          `settleAsStranger(${i}, ${text(how)})`,
          (model, real) => settle(model, real, { ...pick(liveHolds(model), i), owner: 'stranger' }, how),
          anyLive,
        ),
    ),
  fc
    .tuple(n, n)
    .map(
      ([i, percent]) =>
        new Act(
          `note(${i}, ${percent})`,
          (model, real) => note(model, real, pick(liveHolds(model), i), percent),
          anyLive,
        ),
    ),
  n.map((i) => new Act(`noteAny(${i})`, (model, real) => note(model, real, pick(holdsOf(model), i), 5), anyHold)),
];

const subjects = fc.constantFrom('trip:1', 'trip:2');
const moving = [
  onJob('cancel', () => ({ kind: 'cancel', reason: 'stop', force: false })),
  onJob('cancelOther', () => ({ kind: 'cancel', reason: 'second', force: false })),
  onJob('forceCancel', () => ({ kind: 'cancel', reason: 'now', force: true })),
  onJob('dryCancel', () => ({ kind: 'cancel', reason: 'maybe', force: true }), true),
  onJob('remove', () => ({ kind: 'remove', force: false })),
  onJob('forceRemove', () => ({ kind: 'remove', force: true })),
  onJob('dryRemove', () => ({ kind: 'remove', force: true }), true),
  onJob('retryByHand', (model) => ({ kind: 'retry', newIds: [newId(model)] })),
  onJob('dryRetry', () => ({ kind: 'retry', newIds: ['never'] }), true),
  onJob('rescheduleLater', () => ({ kind: 'reschedule', when: { inMs: 15 }, priority: null })),
  onJob('rescheduleNow', () => ({ kind: 'reschedule', when: { inMs: 0 }, priority: null })),
  onJob('reprioritise', () => ({ kind: 'reschedule', when: null, priority: -3 })),
  subjects.map(
    (subject) =>
      new Act(`cancelSubject(${subject})`, (model, real) =>
        move(model, real, ...bySubject(subject), { kind: 'cancel', reason: 'gone', force: false }),
      ),
  ),
  subjects.map(
    (subject) =>
      new Act(`retrySubject(${subject})`, (model, real) => {
        const newIds = model.jobs.map(() => newId(model));
        return move(model, real, ...bySubject(subject), { kind: 'retry', newIds });
      }),
  ),
];

const queues = fc.constantFrom('q', 'r', null);
const tending = [
  fc
    .constantFrom(1, 5, 10, 20, 40, 100)
    .map((ms) => new Act(`advance(${ms})`, async (_model, real) => real.harness.advance(ms))),
  fc.constantFrom(1, 5, 20).map((ms) => new Act(`advance(${ms})`, async (_model, real) => real.harness.advance(ms))),
  fc.constant(new Act('advance(30s)', async (_model, real) => real.harness.advance(30_000))),
  fc.constant(new Act('tend()', (model, real) => sweep(model, real, null))),
  fc
    .constantFrom(policy, { ...policy, useCompletedTime: false }, { ...policy, maxStoredJobs: 3 })
    .map((cleanup) => new Act(`cleanUp(${text(cleanup)})`, (model, real) => sweep(model, real, cleanup))),
  fc.tuple(queues, fc.constantFrom(true, false, false)).map(
    ([queue, paused]) =>
      new Act(`${paused ? 'pause' : 'resume'}(${queue})`, async (model, real) => {
        await real.harness.store.pause(queue, paused);
        model.pause(queue, paused);
      }),
  ),
  fc.constant(
    new Act('resumeAll()', async (model, real) => {
      await real.harness.store.pause(null, false);
      model.pause(null, false);
    }),
  ),
];

const often = <T>(times: number, list: readonly T[]): T[] => Array.from({ length: times }, () => list).flat();

/** What makes things happen comes more often than what takes them away. */
export const kindsOfActs: fc.Arbitrary<fc.AsyncCommand<Model, Real>>[] = [
  ...often(2, inserting),
  ...often(4, inserting.slice(0, 2)),
  ...claiming,
  ...often(4, claiming.slice(0, 3)),
  ...often(2, settling),
  ...moving,
  ...tending,
  ...often(3, tending.slice(0, 2)),
];
/** How a sequence begins, so that the rest finds something to do. */
export const firstActs: fc.Arbitrary<fc.AsyncCommand<Model, Real>[]> = fc.array(
  fc.oneof(...often(2, inserting.slice(0, 3)), ...claiming.slice(0, 3), tending[0]!),
  { minLength: 5, maxLength: 12, size: 'max' },
);
export const numberOfKinds = inserting.length + claiming.length + settling.length + moving.length + tending.length;
