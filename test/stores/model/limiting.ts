// Acts about the limits of queues: another process opens the store with them, or with nothing to say.
import fc from 'fast-check';
import type { QueueLimits } from '../../../src/core/limits.js';
import { Act, advance, claim, insert, newJob, sketch, text } from './act.js';
import { count, type Real } from './compare.js';
import type { Model } from './model.js';

async function limit(model: Model, real: Real, queue: string, limits: QueueLimits): Promise<void> {
  const other = await real.harness.open(new Map([[queue, limits]]));
  await other.close();
  model.limit(queue, limits);
  count(real, 'limits set');
}

// Every window is of one length: what a store still knows of starts before a window grew is its own choice.
const limits: fc.Arbitrary<QueueLimits> = fc.record({
  maxPending: fc.constantFrom(null, null, 1, 3),
  concurrency: fc.constantFrom(null, null, 1, 2),
  rate: fc.constantFrom(null, null, { max: 1, perMs: 40 }, { max: 3, perMs: 40 }),
});
const unlimited: QueueLimits = { maxPending: null, concurrency: null, rate: null };
const queues = fc.constantFrom('q', 'q', 'r');
const everything = { types: ['a', 'b'], queues: null, slots: 20, ahead: 0, leaseMs: 60, maxStalls: 3 };

export const limiting = [
  fc
    .tuple(queues, limits)
    .map(
      ([queue, wanted]) =>
        new Act(`limit(${queue}, ${text(wanted)})`, (model, real) => limit(model, real, queue, wanted)),
    ),
  queues.map((queue) => new Act(`lift(${queue})`, (model, real) => limit(model, real, queue, unlimited))),
  fc.constant(
    new Act('openAndSayNothing()', async (_model, real) => {
      const other = await real.harness.open(new Map());
      await other.close();
    }),
  ),
  fc.tuple(fc.array(sketch, { minLength: 2, maxLength: 5 }), fc.constantFrom('one by one', 'all or none'), queues).map(
    ([many, how, queue]) =>
      new Act(`fill(${text(many)}, ${how}, ${queue})`, (model, real) => {
        const jobs = many.map((one) => newJob(model, { ...one, queue }, null));
        return insert(model, real, jobs, how === 'all or none');
      }),
  ),
  fc.tuple(queues, fc.constantFrom(1, 0)).map(
    ([queue, early]) =>
      new Act(
        `claimWhenTheRateOpens(${queue}, ${early})`,
        async (model, real) => {
          advance(model, real, model.blockOf(queue).blockedUntil! - model.now - early);
          await claim(model, real, { ...everything, owner: 'w1' });
        },
        (model) => (model.blockOf(queue).blockedUntil ?? 0) > model.now,
      ),
  ),
];
