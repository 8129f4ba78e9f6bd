/** Plan: what a cleanup removes, told before it does, and what it passes over because it is held. */
import assert from 'node:assert/strict';
import type { FinishedState } from '../../core/job.js';
import type { CleanupPolicy, StoredKeep } from '../../core/policy.js';
import type { PlannedOwner, PlanPage, PlanPart, RetentionRule, StoredJob } from '../../core/store.js';
import { type Bench, cleanupOf, completed, ending, type JobSketch, storeCase } from './bench.js';

const parts = ['age', 'count', 'cap'] as const;
const allParts = [...parts, 'held'] as const;
type Plan = { readonly [P in (typeof allParts)[number]]: PlanPart };

const none: PlanPart = { count: 0, bytes: 0, sample: [] };
const nothing: Plan = { age: none, count: none, cap: none, held: none };

async function plan({ store }: Bench, policy: Partial<CleanupPolicy> = {}, limit = 500): Promise<Plan> {
  let sums: Plan = nothing;
  let cursor: string | null = null;
  let pages = 0;
  do {
    const page: PlanPage = await store.readPlan({ cleanup: cleanupOf(policy), cursor, limit });
    const add = (name: keyof Plan): PlanPart => {
      assert.ok(page[name].count <= limit && page[name].sample.length <= Math.min(10, page[name].count));
      return {
        count: sums[name].count + page[name].count,
        bytes: sums[name].bytes + page[name].bytes,
        sample: [...sums[name].sample, ...page[name].sample],
      };
    };
    sums = { age: add('age'), count: add('count'), cap: add('cap'), held: add('held') };
    cursor = page.next;
    assert.ok((pages += 1) < 1_000, 'a plan comes to an end');
  } while (cursor !== null);
  return sums;
}

const counts = (sums: Plan): Record<(typeof parts)[number], number> => ({
  age: sums.age.count,
  count: sums.count.count,
  cap: sums.cap.count,
});

interface Pages {
  readonly owing: readonly PlannedOwner[];
  readonly dueThings: readonly string[];
  readonly takenBy: readonly RetentionRule[];
  readonly cap: readonly string[];
}

/** What the pages tell besides the sums; `stays`: of those that own something. */
async function pages(
  { store }: Bench,
  policy: Partial<CleanupPolicy>,
  { limit = 500, id, stays = () => false }: { limit?: number; id?: string; stays?: (id: string) => boolean } = {},
): Promise<Pages> {
  const told = {
    owing: [] as PlannedOwner[],
    dueThings: [] as string[],
    takenBy: [] as RetentionRule[],
    cap: [] as string[],
  };
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const staying = told.owing.filter((owner) => stays(owner.id)).length;
    const asked = {
      cleanup: cleanupOf(policy),
      cursor: cursor ?? null,
      limit,
      staying,
      ...(id !== undefined && { id }),
    };
    const page: PlanPage = await store.readPlan({ ...asked });
    told.owing.push(...page.owing);
    told.dueThings.push(...page.dueThings);
    told.cap.push(...page.cap.sample);
    if (page.takenBy !== null) told.takenBy.push(page.takenBy);
    cursor = page.next;
  }
  return told;
}

const single = [
  storeCase('readPlan: where nothing goes, the plan is empty', async (bench) => {
    assert.deepEqual(await plan(bench, { maxStoredJobs: 0 }), nothing);
    await completed(bench, 2);
    await bench.add();
    assert.deepEqual(await plan(bench, { maxStoredJobs: 3 }), nothing);
  }),
  storeCase('readPlan: a plan changes nothing', async (bench) => {
    const ids = await completed(bench, 3);
    bench.advance(1_000);
    const watched = await bench.watch();
    await plan(bench, { jobRetentionMs: 1 });
    assert.deepEqual([await bench.find(), await watched()], [ids.toReversed(), []]);
  }),
  storeCase('readPlan: a plan tells the first ids, and the length of the texts that go', async (bench) => {
    const ids = await completed(bench, 12, { input: '{"name":"Zoë"}' });
    bench.advance(1_000);
    const { age } = await plan(bench, { jobRetentionMs: 1 });
    const bytes = 12 * ('{"name":"Zoë"}'.length + '"done"'.length);
    assert.deepEqual(age, { count: 12, bytes, sample: ids.slice(0, 10) });
  }),
  storeCase('readPlan: an error counts for the length too', async (bench) => {
    const id = await bench.add();
    await bench.settle(await bench.take(), ending.fail({ message: 'no' }));
    const { error, input } = await bench.job(id);
    assert.equal((await plan(bench, { maxStoredJobs: 0 })).cap.bytes, input.length + error!.length);
  }),
  storeCase('readPlan: a plan tells what each rule removes, and nothing twice', async (bench) => {
    await completed(bench, 3, { policy: { keep: { completed: { ageMs: 1, count: 1 } } } });
    await completed(bench, 4, { type: 'sms', policy: { keep: { completed: { count: 2 } } } });
    await completed(bench, 3, { type: 'sms' });
    bench.advance(10);
    for (const limit of [1, 2, 500])
      assert.deepEqual(counts(await plan(bench, { maxStoredJobs: 2 }, limit)), { age: 3, count: 4, cap: 1 });
    assert.deepEqual(await bench.cleanUp({ maxStoredJobs: 2 }), { age: 3, count: 4, cap: 1 });
  }),
  storeCase('readPlan: a plan counts the age from where the policy does', async (bench) => {
    await bench.add({ delay: 1_000 });
    bench.advance(1_000);
    await bench.settle(await bench.take(), ending.complete());
    for (const [useCompletedTime, age] of [
      [true, 0],
      [false, 1],
    ] as const)
      assert.equal((await plan(bench, { jobRetentionMs: 500, useCompletedTime })).age.count, age);
  }),
  storeCase('readPlan: what is held goes by no rule, and counts for the cap', async (bench) => {
    const [first] = await completed(bench, 3);
    await bench.hold(first!);
    bench.advance(1_000);
    assert.deepEqual(counts(await plan(bench, { jobRetentionMs: 1 })), { age: 2, count: 0, cap: 0 });
    assert.deepEqual(counts(await plan(bench, { maxStoredJobs: 2 })), { age: 0, count: 0, cap: 1 });
    assert.deepEqual(counts(await plan(bench, { maxStoredJobs: 0 })), { age: 0, count: 0, cap: 2 });
  }),
  storeCase('readPlan: a job that owns something is in the plan, and what it owns is not', async (bench) => {
    const [id] = await completed(bench, 1);
    await bench.add({ type: 'lastout.artifact', queue: 'lastout', ownedBy: id! });
    assert.deepEqual((await plan(bench, { maxStoredJobs: 0 })).cap.sample, [id]);
    assert.equal((await plan(bench, { maxStoredJobs: 1 })).cap.count, 0);
  }),
];

const thing: JobSketch = { type: 'lastout.artifact', queue: 'lastout', delay: 3_600_000 };

const owning = [
  storeCase(
    'readPlan: a plan names those that own something, by their rule, with the length of their texts',
    async (bench) => {
      const [byAge] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 1 } } } });
      const [byCount] = await completed(bench, 1, {
        policy: { keep: { completed: { ageMs: null, count: 0 } } },
        type: 'sms',
      });
      const [byCap] = await completed(bench, 1, { input: '"Zoë"' });
      const [free] = await completed(bench, 1);
      for (const id of [byAge, byCount, byCap]) await bench.add({ ...thing, ownedBy: id! });
      await bench.cancel(await bench.add({ ...thing, ownedBy: free! }));
      bench.advance(10);
      const named = (id: string | undefined, rule: RetentionRule, bytes: number) => ({ id, rule, bytes });
      const plain = (await bench.job(byAge!)).input.length + '"done"'.length;
      for (const limit of [1, 500]) {
        const { owing } = await pages(bench, { maxStoredJobs: 0 }, { limit });
        assert.deepEqual(owing, [
          named(byAge, 'age', plain),
          named(byCount, 'count', plain),
          named(byCap, 'cap', '"Zoë"'.length + '"done"'.length),
        ]);
      }
    },
  ),
  storeCase('readPlan: for each one that stays because of what it owns, the cap takes another one', async (bench) => {
    const [aged] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 1 } } } });
    const ids = await completed(bench, 6);
    for (const id of [aged!, ids[0]!, ids[2]!]) await bench.add({ ...thing, ownedBy: id });
    bench.advance(10);
    // Seven are stored: one goes by age, two by the cap.
    for (const limit of [1, 2, 3, 500]) {
      const cap = async (stays: readonly string[]) =>
        (await pages(bench, { maxStoredJobs: 4 }, { limit, stays: (id) => stays.includes(id) })).cap;
      assert.deepEqual(await cap([]), ids.slice(0, 2));
      assert.deepEqual(await cap([aged!]), ids.slice(0, 3));
      assert.deepEqual(await cap([ids[0]!]), ids.slice(0, 3));
      assert.deepEqual(await cap([aged!, ids[0]!, ids[2]!]), ids.slice(0, 5));
    }
    const most = await pages(bench, { maxStoredJobs: 6 }, { stays: (id) => id === aged });
    assert.deepEqual(most.cap, ids.slice(0, 1));
    assert.deepEqual((await pages(bench, {}, { stays: (id) => id === aged })).cap, []);
  }),
  storeCase('readPlan: a plan tells the things that are due and not held, oldest first', async (bench) => {
    const [owner] = await completed(bench, 1);
    const due: string[] = [];
    for (const delay of [30, 10, 20, 10]) due.push(await bench.add({ ...thing, delay, ownedBy: owner! }));
    await bench.add({ ...thing, delay: 31, ownedBy: owner! });
    const held = await bench.add({ ...thing, delay: 5, ownedBy: owner! });
    await bench.hold(held);
    await bench.add({ delay: 5 });
    bench.advance(30);
    const inOrder = [due[1], due[3], due[2], due[0]];
    for (const limit of [1, 3, 500]) assert.deepEqual((await pages(bench, {}, { limit })).dueThings, inOrder);
  }),
  storeCase('readPlan: a plan says which rule takes a job, and nothing of the others', async (bench) => {
    const ids = await completed(bench, 3, { policy: { keep: { completed: { ageMs: null, count: 2 } } } });
    const [aged] = await completed(bench, 1, { type: 'sms', policy: { keep: { completed: { ageMs: 1 } } } });
    bench.advance(10);
    const takenBy = async (id: string, maxStoredJobs: number, limit: number) =>
      (await pages(bench, { maxStoredJobs }, { limit, id })).takenBy;
    for (const limit of [1, 500]) {
      for (const most of [1, Number.POSITIVE_INFINITY])
        assert.deepEqual(await takenBy(ids[0]!, most, limit), ['count']);
      assert.deepEqual(await takenBy(ids[1]!, Number.POSITIVE_INFINITY, limit), []);
      assert.deepEqual(await takenBy(ids[1]!, 1, limit), ['cap']);
      assert.deepEqual(await takenBy(ids[2]!, 1, limit), []);
      assert.deepEqual(await takenBy(aged!, 1, limit), ['age']);
      assert.deepEqual(await takenBy('nobody', 0, limit), []);
    }
  }),
];

const held = [
  storeCase(
    'readPlan: a plan tells what is held apart, whichever rule would take it, and how long its texts are',
    async (bench) => {
      await completed(bench, 2);
      await completed(bench, 1, { policy: { keep: { completed: { ageMs: 1 } } } });
      await completed(bench, 1, { policy: { keep: { completed: { ageMs: null, count: 0 } } } });
      const ids = (await bench.find()).toReversed();
      bench.advance(1_000);
      const free = await plan(bench, { jobRetentionMs: 1 });
      assert.deepEqual([counts(free), free.held], [{ age: 3, count: 1, cap: 0 }, none]);
      for (const id of ids) await bench.hold(id);
      const bytes = free.age.bytes + free.count.bytes;
      for (const policy of [{ jobRetentionMs: 1 }, { maxStoredJobs: 0 }, {}])
        assert.deepEqual(await plan(bench, policy), { ...nothing, held: { count: 4, bytes, sample: ids } });
      for (const id of ids) await bench.unhold(id);
      assert.deepEqual(await plan(bench, { jobRetentionMs: 1 }), free);
    },
  ),
  storeCase('readPlan: a live job that is held is in the plan when it has ended', async (bench) => {
    const [waits, runs] = [await bench.add({ delay: 60_000 }), await bench.add()];
    for (const id of [waits, runs]) await bench.hold(id);
    const taken = await bench.take();
    assert.deepEqual(await plan(bench, { maxStoredJobs: 0 }, 1), nothing);
    await bench.settle(taken, ending.complete());
    await bench.cancel(waits);
    const { held: all } = await plan(bench, { maxStoredJobs: 0 }, 1);
    assert.deepEqual([all.count, all.sample], [2, [waits, runs]]);
  }),
  storeCase('readPlan: a hold that is over holds nothing in a plan, lifted or not', async (bench) => {
    const [short, long] = await completed(bench, 2);
    await bench.hold(short!, bench.now() + 10);
    await bench.hold(long!, bench.now() + 11);
    assert.deepEqual((await plan(bench)).held.sample, [short, long]);
    bench.advance(10);
    for (const limit of [1, 500]) assert.deepEqual((await plan(bench, {}, limit)).held.sample, [long]);
    await bench.tend();
    const { held: left, cap } = await plan(bench, { maxStoredJobs: 1 });
    assert.deepEqual([left.sample, cap.sample], [[long], [short]]);
  }),
  storeCase('readPlan: what is held is told by the end of its hold, then in the order of insertion', async (bench) => {
    // In the order of their ids they would come the other way round.
    const ids = Array.from({ length: 12 }, (_, index) => `held-${99 - index}`);
    for (const id of ids) await bench.add({ id });
    // In the order of their ends as well.
    for (const id of ids.toReversed()) {
      await bench.cancel(id);
      bench.advance(1);
    }
    const soon = bench.now() + 50;
    for (const [index, id] of ids.entries()) await bench.hold(id, index % 3 === 0 ? soon : undefined);
    const inOrder = [...ids.filter((_, index) => index % 3 === 0), ...ids.filter((_, index) => index % 3 > 0)];
    for (const limit of [1, 5]) {
      const { count, sample } = (await plan(bench, {}, limit)).held;
      assert.deepEqual([count, sample], [12, inOrder]);
    }
    assert.deepEqual((await plan(bench)).held.sample, inOrder.slice(0, 10));
  }),
  storeCase('readPlan: of what is held, a page that went on still tells what was not told', async (bench) => {
    const ids = await completed(bench, 4);
    for (const [index, id] of ids.entries()) await bench.hold(id, bench.now() + 10 * (index + 1));
    bench.advance(10);
    const request = { cleanup: cleanupOf(), limit: 1 };
    const told: string[] = [];
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page: PlanPage = await bench.store.readPlan({ ...request, cursor: cursor ?? null });
      told.push(...page.held.sample);
      // Lifts the first hold, which was over when the plan began.
      await bench.tend();
      cursor = page.next;
    }
    assert.deepEqual(told, ids.slice(1));
  }),
];

/** Numbers that look like chance and are the same each time. */
function drawing(seed: number): (below: number) => number {
  let state = seed * 0x9e3779b1;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0;
    return Math.floor(((state >>> 8) / 2 ** 24) * below);
  };
}

const ways: readonly FinishedState[] = ['completed', 'failed', 'cancelled', 'expired'];

async function finish(bench: Bench, state: FinishedState, sketch: JobSketch): Promise<string> {
  const { add, take, settle, cancel, advance, tend } = bench;
  const id = await add(state === 'expired' ? { ...sketch, ttlMs: 1 } : sketch);
  if (state === 'cancelled') await cancel(id);
  else if (state === 'expired') {
    advance(1);
    await tend();
  } else await settle(await take({ types: [sketch.type!] }), state === 'completed' ? ending.complete() : ending.fail());
  return id;
}

/** Jobs of two types in all states, with all kinds of rules, some of them held or owing, some live. */
async function furnish(bench: Bench, draw: (below: number) => number): Promise<string[]> {
  const owned: string[] = [];
  const rules: readonly (StoredKeep | undefined)[] = [
    undefined,
    undefined,
    { ageMs: 20 },
    { ageMs: null },
    { count: 1 },
    { count: 2 },
    { ageMs: 30, count: 3 },
    { ageMs: null, count: 0 },
  ];
  for (let n = 10 + draw(25); n > 0; n--) {
    const state = ways[draw(4)]!;
    const keep = rules[draw(rules.length)];
    const policy = keep ? { keep: { [state]: keep } } : {};
    const id = await finish(bench, state, { type: draw(2) === 0 ? 'mail' : 'sms', policy, input: `"${n}"` });
    if (draw(3) > 0) bench.advance(draw(15));
    if (draw(6) === 0) await bench.hold(id, draw(2) === 0 ? undefined : bench.now() + draw(40));
    if (draw(8) === 0) owned.push(await bench.add({ type: 'lastout.temp', queue: 'lastout', ownedBy: id }));
  }
  for (let n = draw(4); n > 0; n--) await bench.add({ delay: 900_000 });
  bench.advance(draw(30));
  await bench.tend();
  return owned;
}

/** Finished jobs that are held, in the order of a plan. */
async function heldNow(bench: Bench): Promise<StoredJob[]> {
  const jobs: StoredJob[] = [];
  for (const id of (await bench.find()).toReversed()) jobs.push(await bench.job(id));
  const isHeld = ({ heldUntil, completedAt }: StoredJob): boolean =>
    completedAt !== null && heldUntil !== null && heldUntil > bench.now();
  return jobs.filter(isHeld).sort((a, b) => a.heldUntil! - b.heldUntil!);
}

const property = Array.from({ length: 8 }, (_, seed) =>
  storeCase(`readPlan: a plan is what sweeping to the end removes (${seed + 1})`, async (bench) => {
    const draw = drawing(seed + 1);
    const owned = await furnish(bench, draw);
    const policy = {
      jobRetentionMs: 20 + draw(60),
      maxStoredJobs: draw(3) === 0 ? Number.POSITIVE_INFINITY : draw(20),
      useCompletedTime: draw(3) > 0,
    };
    const whole = await plan(bench, policy);
    const staying = (await heldNow(bench)).map(({ id }) => id);
    assert.deepEqual([whole.held.count, whole.held.sample], [staying.length, staying.slice(0, 10)]);
    for (const limit of [1, 3]) {
      const paged = await plan(bench, policy, limit);
      for (const name of allParts)
        assert.deepEqual([paged[name].count, paged[name].bytes], [whole[name].count, whole[name].bytes], name);
    }
    const rules = new Map<string, RetentionRule>();
    for (const id of await bench.find())
      for (const rule of (await pages(bench, policy, { id })).takenBy) rules.set(id, rule);
    const isCapped = policy.maxStoredJobs < Number.POSITIVE_INFINITY;
    // Without a cap, nobody is looked for by age.
    for (const name of parts) {
      const told = [...rules.values()].filter((rule) => rule === name).length;
      assert.equal(told, isCapped || name !== 'age' ? whole[name].count : 0, name);
      if (isCapped || name !== 'age') for (const id of whole[name].sample) assert.equal(rules.get(id), name);
    }
    for (const id of owned) await bench.remove(id);
    const before = new Set(await bench.find());
    const removed = { age: 0, count: 0, cap: 0 };
    const limit = 1 + draw(4);
    for (let more = true; more; ) {
      const swept = await bench.store.sweep({ limit, cleanup: cleanupOf(policy) });
      for (const name of parts) removed[name] += swept.removedBy[name];
      more = swept.more;
    }
    assert.deepEqual(removed, counts(whole));
    const left = await bench.find();
    for (const id of staying) assert.ok(left.includes(id), `${id} is held`);
    for (const id of left) before.delete(id);
    for (const name of parts) for (const id of whole[name].sample) assert.ok(before.has(id), `${id} went by ${name}`);
    assert.deepEqual(await plan(bench, policy), { ...nothing, held: whole.held });
  }),
);

export const planCases = [...single, ...owning, ...held, ...property];
