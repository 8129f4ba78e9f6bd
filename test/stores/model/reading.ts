// Acts that only read: what an owner holds, how much is due, and pages of jobs by a filter.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { states } from '../../../src/core/job.js';
import { type JobFilter, noFilter } from '../../../src/core/store.js';
import { Act, nodes, ownerOf, text } from './act.js';
import type { Real } from './compare.js';
import { type ModelJob, stateOf } from './jobs.js';
import type { Model } from './model.js';

const types = fc.constantFrom(['a'], ['a', 'b'], ['s'], ['a', 'b', 's']);
const queues = fc.constantFrom(null, ['q'], ['r', 'lastout'], ['q', 'r']);

function passes({ given, ...job }: ModelJob, filter: JobFilter, state: string): boolean {
  const among = (list: readonly string[] | null, value: string): boolean => list?.includes(value) ?? true;
  return (
    among(filter.states, state) &&
    among(filter.types, given.type) &&
    among(filter.queues, given.queue) &&
    (filter.subject === null || filter.subject === given.subject) &&
    (filter.key === null || filter.key === given.key) &&
    (filter.before === null || job.createdAt < filter.before) &&
    (filter.system || given.queue !== 'lastout')
  );
}

async function findAll(model: Model, real: Real, filter: JobFilter, limit: number): Promise<void> {
  const found: string[] = [];
  for (let cursor: string | null = null, more = true; more; more = cursor !== null) {
    const page: { jobs: readonly { id: string }[]; next: string | null } = await real.harness.store.find({
      filter,
      cursor,
      limit,
    });
    assert.ok(page.jobs.length <= limit);
    found.push(...page.jobs.map(({ id }) => id));
    cursor = page.next;
  }
  const expected = model.jobs.filter((job) => passes(job, filter, stateOf(job, model.now)));
  assert.deepEqual(found, expected.map(({ given }) => given.id).reverse());
}

const filters: fc.Arbitrary<Partial<JobFilter>> = fc.record({
  states: fc.constantFrom(null, null, ...states.map((state) => [state])),
  types: fc.oneof(fc.constant(null), types),
  queues,
  subject: fc.constantFrom(null, null, null, 'trip:1'),
  key: fc.constantFrom(null, null, 'k'),
  system: fc.boolean(),
});

export const reading = [
  fc.constantFrom<string>(...nodes, 'w3').map(
    (node) =>
      new Act(`readClaims(${node})`, async (model, real) => {
        const owner = ownerOf(model, node);
        const held = await real.harness.store.readClaims(owner);
        const byEpoch = (a: { epoch: number }, b: { epoch: number }): number => a.epoch - b.epoch;
        assert.deepEqual(held.toSorted(byEpoch), model.heldBy(owner).sort(byEpoch));
      }),
  ),
  fc.tuple(types, queues, fc.constantFrom(1, 3, 1_000)).map(
    ([of, among, limit]) =>
      new Act(`readDue(${text(of)}, ${text(among)}, ${limit})`, async (model, real) => {
        const due = await real.harness.store.countDue({ types: of, queues: among, limit });
        assert.equal(due, model.due(of, among, limit));
      }),
  ),
  fc
    .tuple(filters, fc.constantFrom(1, 3, 50))
    .map(
      ([filter, limit]) =>
        new Act(`findPages(${text(filter)}, ${limit})`, (model, real) =>
          findAll(model, real, { ...noFilter, ...filter }, limit),
        ),
    ),
];
