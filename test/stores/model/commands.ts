// The acts of a sequence, and how often each kind comes.
import fc from 'fast-check';
import type { Ending } from '../../../src/core/ending.js';
import type { Move } from '../../../src/core/store.js';
import {
  Act,
  advance,
  anyHold,
  anyLive,
  claim,
  endings,
  extend,
  holdsOf,
  insert,
  liveHolds,
  move,
  n,
  newId,
  newJob,
  note,
  pick,
  request,
  settle,
  sketch,
  sweep,
  text,
} from './act.js';
import { policy, type Real } from './compare.js';
import { firing } from './firing.js';
import type { ModelJob } from './jobs.js';
import { limiting } from './limiting.js';
import type { Model } from './model.js';
import { standing } from './nodes.js';
import { reading } from './reading.js';

const anyJob = (model: Model): boolean => model.jobs.length > 0;
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

const idsEver = (model: Model): string[] => [...model.jobs.map(({ given }) => given.id), ...model.tombs.keys()];

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
  fc.tuple(fc.array(sketch, { minLength: 1, maxLength: 3 }), fc.boolean()).map(
    ([many, atomic]) =>
      new Act(`insertAndResend(${text(many)}, ${atomic})`, async (model, real) => {
        const jobs = many.map((one) => newJob(model, one, null));
        await insert(model, real, jobs.slice(1), atomic); // the first never arrived
        await insert(model, real, jobs, atomic);
      }),
  ),
  fc.tuple(n, sketch).map(
    ([i, one]) =>
      new Act(
        `resendOld(${i}, ${text(one)})`,
        (model, real) => insert(model, real, [{ ...newJob(model, one, null), id: pick(idsEver(model), i) }], false),
        (model) => idsEver(model).length > 0,
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
  fc.tuple(n, endings, sketch, fc.boolean()).map(
    ([i, how, one, late]) =>
      new Act(
        `settleAndInsert(${i}, ${text(how)}, ${text(one)}, ${late})`,
        async (model, real) => {
          const hold = pick(late ? holdsOf(model) : liveHolds(model), i);
          const extra = { memo: `"${newId(model)}"`, then: [newJob(model, one, null), newJob(model, one, null)] };
          await settle(model, real, hold, how, null, extra);
          await settle(model, real, hold, how, null, { memo: '"again"', then: [newJob(model, one, null)] });
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
  n.map(
    (i) =>
      new Act(
        `retryTwice(${i})`,
        async (model, real) => {
          const retry = { kind: 'retry', newIds: [newId(model)] } as const;
          const id = idOf(model, i);
          await move(model, real, ...byId(id), retry);
          await move(model, real, ...byId(id), retry); // the answer was lost
        },
        anyJob,
      ),
  ),
  onJob('retryAgain', (model) => ({ kind: 'retry', newIds: [newId(model)], again: true })),
  onJob('dryRetry', () => ({ kind: 'retry', newIds: ['never'] }), true),
  onJob('dryRetryAgain', () => ({ kind: 'retry', newIds: ['never'], again: true }), true),
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
        return move(model, real, ...bySubject(subject), { kind: 'retry', newIds, failuresOnly: true });
      }),
  ),
];

const queues = fc.constantFrom('q', 'r', null);
const tending = [
  fc
    .constantFrom(1, 5, 10, 20, 40, 100)
    .map((ms) => new Act(`advance(${ms})`, async (model, real) => advance(model, real, ms))),
  fc.constantFrom(1, 5, 20).map((ms) => new Act(`advance(${ms})`, async (model, real) => advance(model, real, ms))),
  fc.constant(new Act('advance(30s)', async (model, real) => advance(model, real, 30_000))),
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
  fc.constantFrom(true, false, false).map(
    (paused) =>
      new Act(`${paused ? 'pause' : 'resume'}All()`, async (model, real) => {
        await real.harness.store.pause(null, paused);
        model.pause(null, paused);
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
  ...often(3, settling),
  ...moving,
  ...limiting,
  ...often(3, [limiting[0]!, limiting[3]!, limiting[4]!]),
  ...often(2, standing),
  ...often(2, firing),
  ...reading,
  ...tending,
  ...often(3, tending.slice(0, 2)),
];
/** How a sequence begins, so that the rest finds something to do. */
export const firstActs: fc.Arbitrary<fc.AsyncCommand<Model, Real>[]> = fc.array(
  fc.oneof(...often(2, inserting.slice(0, 3)), ...claiming.slice(0, 3), tending[0]!, limiting[0]!, firing[0]!),
  { minLength: 5, maxLength: 12, size: 'max' },
);
export const numberOfKinds = [
  inserting,
  claiming,
  settling,
  moving,
  tending,
  limiting,
  standing,
  firing,
  reading,
].flat().length;
