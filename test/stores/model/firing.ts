// Acts about schedules, as a store sees them: one live job that is snoozed from tick to tick, remembers the last one, and
// gives the jobs of a tick in the step that settles it.
import fc from 'fast-check';
import type { NewJob, Settlement } from '../../../src/core/store.js';
import {
  Act,
  advance,
  claim,
  type Hold,
  holdsOf,
  insert,
  newId,
  newJob,
  nodes,
  settleAll,
  type Sketch,
  sketch,
  text,
} from './act.js';
import { count, type Real } from './compare.js';
import type { Model } from './model.js';

const schedule: Sketch = {
  type: 's',
  queue: 'lastout',
  priority: 0,
  delay: 0,
  ttlMs: null,
  key: 'k',
  exclusiveKey: null,
  deduplication: 'skip',
  subject: null,
  plan: 0,
};
const request = { types: ['s'], queues: ['lastout'], slots: 3, ahead: 0, leaseMs: 60, maxStalls: 1_000 };

/** Claims what is due, like the ticker of a process. */
async function take(model: Model, real: Real, owner: string): Promise<readonly Hold[]> {
  const before = holdsOf(model).length;
  await claim(model, real, { ...request, owner });
  return holdsOf(model).slice(before);
}

/** The tick is told by what the job remembers, so that it is the same one whoever fires it. */
function firingOf(model: Model, { id, epoch }: Hold, jobs: readonly Sketch[], inMs: number): Settlement {
  const tick = 1 + Number(model.byId(id)?.memo ?? 0);
  const then = jobs.map((one, k): NewJob => {
    const { metadata, ...job } = newJob(model, one, null);
    return { ...job, metadata: JSON.stringify({ slot: metadata !== null, tick: `${id} ${tick} ${k}` }) };
  });
  return { id, epoch, ending: { kind: 'snooze', when: { inMs } }, memo: String(tick), then };
}

async function fire(model: Model, real: Real, holds: readonly Hold[], firings: readonly Settlement[]): Promise<void> {
  if (holds.length === 0) return;
  for (const answer of await settleAll(model, real, holds[0]!.owner, firings)) count(real, `ticks ${answer}`);
}

const given = fc.record({
  owner: fc.constantFrom<string>(...nodes),
  jobs: fc.array(sketch, { maxLength: 2 }),
  inMs: fc.constantFrom(0, 20),
});

export const firing = [
  fc.tuple(fc.constantFrom('k', 'l'), fc.constantFrom('skip', 'replace', 'coalesce'), fc.constantFrom(0, 30)).map(
    ([key, deduplication, delay]) =>
      new Act(`schedule(${key}, ${deduplication}, ${delay})`, (model, real) => {
        const one = { ...schedule, key, deduplication, delay } as Sketch;
        return insert(model, real, [newJob(model, one, null)], false);
      }),
  ),
  given.map(
    ({ owner, jobs, inMs }) =>
      new Act(`fire(${owner}, ${text(jobs)}, ${inMs})`, async (model, real) => {
        const holds = await take(model, real, owner);
        const firings = holds.map((hold) => firingOf(model, hold, jobs, inMs));
        await fire(model, real, holds, firings);
      }),
  ),
  given.map(
    ({ owner, jobs, inMs }) =>
      new Act(`fireTwice(${owner}, ${text(jobs)}, ${inMs})`, async (model, real) => {
        const holds = await take(model, real, owner);
        const firings = holds.map((hold) => firingOf(model, hold, jobs, inMs));
        await fire(model, real, holds, firings);
        await fire(model, real, holds, firings); // the answer was lost
      }),
  ),
  given.map(
    ({ jobs, inMs }) =>
      new Act(`fireLate(${text(jobs)}, ${inMs})`, async (model, real) => {
        const late = await take(model, real, 'w1');
        const firings = late.map((hold) => firingOf(model, hold, jobs, inMs));
        advance(model, real, 61);
        const holds = await take(model, real, 'w2');
        await fire(
          model,
          real,
          holds,
          holds.map((hold) => firingOf(model, hold, jobs, inMs)),
        );
        await fire(model, real, late, firings);
      }),
  ),
  fc
    .constantFrom<string>(...nodes)
    .map((owner) => new Act(`takeSchedules(${owner})`, async (model, real) => void (await take(model, real, owner)))),
  fc.constantFrom(true, false, false).map(
    (paused) =>
      new Act(`${paused ? 'pause' : 'resume'}Schedules()`, async (model, real) => {
        await real.harness.store.pause('lastout', paused);
        model.pause('lastout', paused);
      }),
  ),
  fc.nat(9).map(
    (i) =>
      new Act(
        `fireAny(${i})`,
        async (model, real) => {
          const old = holdsOf(model).filter(({ id }) => model.byId(id)?.given.type === 's');
          const hold = old[i % old.length]!;
          await fire(model, real, [hold], [firingOf(model, hold, [{ ...schedule, type: 'a', key: newId(model) }], 5)]);
        },
        (model) => holdsOf(model).some(({ id }) => model.byId(id)?.given.type === 's'),
      ),
  ),
];
