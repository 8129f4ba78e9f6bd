// Two things that happen at once, in every order that the scheduler comes up with: the answers must be true in all of them.
// A failure prints its seed and path; LASTOUT_SEED and LASTOUT_PATH run it again, LASTOUT_RUNS runs more.
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { Ending } from '../../src/core/ending.js';
import type { Claimed, MoveOutcome, NewJob, SettleAnswer, Store, StoredJob } from '../../src/core/store.js';
import { defineJob, type JobType, type Json, open, type Queue } from '../../src/index.js';
import { type FakeClock, fakeClock } from '../../src/testing/index.js';
import { engines, type EngineName } from '../engines.js';
import { factoryOn, harnessOf, harnessOn } from './harness.js';
import { giveTurns, orderOf, scheduledFactory, scheduledStore } from './interleavings/scheduled.js';
import { noFilter } from '../../src/core/store.js';
import { newJob } from './new-job.js';

const seed = Number(process.env.LASTOUT_SEED ?? 20_300_101);
/** Fewer where every call is a round trip. */
const runsOn: { readonly [engine in EngineName]: number } = { memory: 2_000, sqlite: 150, postgres: 50, redis: 80 };
const path = process.env.LASTOUT_PATH;

const totals: string[] = [];
afterAll(() => {
  for (const total of totals) console.log(total);
});

/** Runs the property over many orders, and counts them. */
async function interleave<T>(
  engine: EngineName,
  pair: string,
  scenario: fc.Arbitrary<T>,
  run: (scheduler: fc.Scheduler, scenario: T, saw: (what: string) => void) => Promise<void>,
): Promise<Map<string, number>> {
  const orders = new Set<string>();
  const seen = new Map<string, number>();
  const numRuns = Number(process.env.LASTOUT_RUNS ?? runsOn[engine]);
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(fc.scheduler(), scenario, async (scheduler, given) => {
      runs += 1;
      await run(scheduler, given, (what) => seen.set(what, (seen.get(what) ?? 0) + 1));
      orders.add(orderOf(scheduler));
    }),
    { seed, numRuns, ...(path !== undefined && { path }) },
  );
  const outcomes = [...seen].map(([what, n]) => `${n} ${what}`).toSorted();
  totals.push(
    `interleavings on ${engine}: ${runs} of ${pair}, ${orders.size} orders, seed ${seed}: ${outcomes.join(', ')}`,
  );
  expect(runs).toBeGreaterThanOrEqual(path === undefined ? numRuns : 1);
  return seen;
}

const still = async (): Promise<void> => undefined;

const plainJob = (id: string): NewJob => newJob({ id, input: '{}' });

const claimRequest = (owner: string, slots: number, ahead = 0) => ({
  owner,
  types: ['mail'],
  queues: null,
  slots,
  ahead,
  leaseMs: 30_000,
  maxStalls: 3,
});

async function cancel(store: Store, id: string, force: boolean): Promise<MoveOutcome> {
  const { items } = await store.move({
    filter: { ...noFilter, ids: [id] },
    move: { kind: 'cancel', reason: 'stop', force },
    dryRun: false,
    cursor: null,
    limit: 10,
  });
  return items[0]!.outcome;
}

async function jobIn(store: Store, id: string): Promise<StoredJob> {
  const { jobs } = await store.find({ filter: { ...noFilter, ids: [id] }, cursor: null, limit: 1 });
  return jobs[0]!;
}

describe.each(engines)('on %s, interleavings: claim × cancel', (engine) => {
  it('after cancelled no handler starts, and requested reaches the one that did', async () => {
    const ids = ['a', 'b', 'c'];
    const scenario = fc.record({
      slots: fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 2, maxLength: 3 }),
      ahead: fc.integer({ min: 0, max: 1 }),
    });
    const seen = await interleave(engine, 'claim × cancel', scenario, async (scheduler, { slots, ahead }, saw) => {
      const harness = await harnessOf(engine);
      await harness.store.insert(ids.map(plainJob), { atomic: false });
      const store = scheduledStore(harness.store, scheduler);
      const started: string[] = [];
      const answers = new Map<string, MoveOutcome>();
      const claims = slots.map(async (n, worker): Promise<Claimed> => {
        const claimed = await store.claim(claimRequest(`w${worker}`, n, ahead));
        for (const { id } of claimed.jobs) {
          assert.notEqual(answers.get(id), 'cancelled', 'a handler starts after cancelled');
          started.push(id);
        }
        return claimed;
      });
      const cancels = ids.map(async (id) => answers.set(id, await cancel(store, id, false)));
      await giveTurns(scheduler, Promise.all([...claims, ...cancels]), still);
      assert.equal(new Set(started).size, started.length, 'a job starts twice');
      for (const id of ids) {
        const outcome = answers.get(id)!;
        saw(outcome);
        assert.equal(outcome, started.includes(id) ? 'requested' : 'cancelled');
        const { state, cancelAt } = await jobIn(harness.store, id);
        assert.equal(state, outcome === 'cancelled' ? 'cancelled' : 'processing');
        assert.equal(cancelAt !== null, outcome === 'requested');
      }
      await harness.dispose();
    });
    expect([...seen.keys()].toSorted()).toEqual(['cancelled', 'requested']);
  }, 120_000);
});

const endings: { readonly [K in Ending['kind']]: Ending } = {
  complete: { kind: 'complete', result: '1' },
  retry: { kind: 'retry', inMs: 0, error: '{"message":"broken"}' },
  exhaust: { kind: 'exhaust', error: '{"message":"broken"}' },
  fail: { kind: 'fail', error: '{"message":"hopeless"}' },
  snooze: { kind: 'snooze', when: { inMs: 0 } },
  cancel: { kind: 'cancel', error: '{"message":"own","code":"CANCELLED"}' },
  release: { kind: 'release' },
};

/** Without a request, and after one. */
const becomes: { readonly [K in Ending['kind']]: readonly [string, string] } = {
  complete: ['completed', 'completed'],
  retry: ['pending', 'cancelled'],
  exhaust: ['failed', 'cancelled'],
  fail: ['failed', 'failed'],
  snooze: ['pending', 'cancelled'],
  cancel: ['cancelled', 'cancelled'],
  release: ['pending', 'cancelled'],
};

const kinds = ['complete', 'retry', 'exhaust', 'fail', 'snooze', 'cancel', 'release'] as const;

/** Whether the two answers can be true together, and whether the job is what they say. */
function checkPair(
  kind: Ending['kind'],
  force: boolean,
  settled: SettleAnswer,
  cancelled: MoveOutcome,
  job: StoredJob,
) {
  const [normally, asked] = becomes[kind];
  if (cancelled === 'requested') {
    assert.deepEqual([settled, force, job.state], ['ok', false, asked]);
  } else if (cancelled === 'cancelled') {
    assert.equal(job.state, 'cancelled');
    assert.deepEqual(JSON.parse(job.error!), { code: 'CANCELLED', message: 'stop' });
    // Either the ending had put the job back to pending, or force ended it first and the ending was refused.
    if (settled === 'ok') assert.equal(normally, 'pending');
    else assert.deepEqual([settled, force], ['STALE_CLAIM', true]);
  } else {
    assert.deepEqual([settled, cancelled, job.state], ['ok', `already:${normally}`, normally]);
  }
}

describe.each(engines)('on %s, interleavings: settle × cancel', (engine) => {
  it('both answers are true together, and the job is what they say', async () => {
    const ids = ['a', 'b', 'c'];
    const each = <T>(arbitrary: fc.Arbitrary<T>) => fc.tuple(arbitrary, arbitrary, arbitrary);
    const scenario = fc.record({
      how: each(fc.constantFrom<Ending['kind']>(...kinds)),
      force: each(fc.boolean()),
      together: fc.integer({ min: 1, max: 3 }),
      resend: fc.boolean(),
    });
    const seen = await interleave(engine, 'settle × cancel', scenario, async (scheduler, given, saw) => {
      const harness = await harnessOf(engine);
      await harness.store.insert(ids.map(plainJob), { atomic: false });
      const { epoch } = await harness.store.claim(claimRequest('w', 3));
      const store = scheduledStore(harness.store, scheduler);
      const settlements = ids.map((id, i) => ({ id, epoch, ending: endings[given.how[i]!] }));
      const settle = async (batch: typeof settlements): Promise<readonly SettleAnswer[]> => {
        const send = () => store.settle({ owner: 'w', settlements: batch, started: [], next: null });
        const { answers } = await send();
        // A lost reply makes the worker send the same endings again: who was told ok is told so again, unless a cancel
        // by force has come in between.
        if (given.resend) {
          const again = (await send()).answers;
          again.forEach((answer, i) => assert.ok(answer === answers[i] || answer === 'STALE_CLAIM'));
        }
        return answers;
      };
      const [first, rest, ...cancelled] = await giveTurns(
        scheduler,
        Promise.all([
          settle(settlements.slice(0, given.together)),
          settle(settlements.slice(given.together)),
          ...ids.map((id, i) => cancel(store, id, given.force[i]!)),
        ]),
        still,
      );
      const settled = [...first, ...rest];
      for (const [i, id] of ids.entries()) {
        const outcome = cancelled[i]!;
        saw(`${settled[i]} with ${outcome}`);
        checkPair(given.how[i]!, given.force[i]!, settled[i]!, outcome, await jobIn(harness.store, id));
      }
      await harness.dispose();
    });
    for (const pair of [
      'ok with requested',
      'ok with cancelled',
      'STALE_CLAIM with cancelled',
      'ok with already:completed',
    ])
      expect(seen.get(pair) ?? 0, pair).toBeGreaterThan(0);
  }, 120_000);
});

describe.each(engines)('on %s, interleavings: skip × claim', (engine) => {
  it('no event is without a later start', async () => {
    const scenario = fc.record({
      events: fc.integer({ min: 2, max: 4 }),
      concurrency: fc.integer({ min: 1, max: 2 }),
      strategy: fc.constantFrom('skip', 'skip', 'coalesce', 'replace'),
      exclusive: fc.boolean(),
    });
    const seen = await interleave(engine, 'skip × claim', scenario, async (scheduler, given, saw) => {
      const clock = fakeClock();
      const [factory, giveBack] = await factoryOn(engine);
      const queue = await open(scheduledFactory(factory, scheduler), { clock });
      // Each event changes the data first and then asks for a run; a run reads the data when it starts.
      let data = 0;
      const starts: { id: string; saw: number }[] = [];
      const build = defineJob('build', {
        deduplication: given.strategy,
        deduplicationKey: 'site',
        ...(given.exclusive && { exclusiveKey: 'site' }),
        async run({ job }) {
          starts.push({ id: job.id, saw: data });
          await scheduler.schedule(Promise.resolve(), 'handler ends');
          return null;
        },
      });
      const events = Array.from({ length: given.events }, async (_, index) => {
        await scheduler.schedule(Promise.resolve(), `event ${index}`);
        const version = ++data;
        const { id, outcome } = await queue.enqueue(build, null);
        saw(outcome);
        return { version, id, outcome };
      });
      const worker = queue.work([build], { concurrency: given.concurrency });
      const told = await giveTurns(scheduler, Promise.all(events), still);
      await worker;
      const settledAll = async (): Promise<void> => {
        while (await isBusy(queue));
      };
      await giveTurns(scheduler, settledAll(), () => clock.advance(100));
      for (const { version, id, outcome } of told) {
        assert.ok(
          starts.some((start) => start.saw >= version),
          `event ${version} has no later start`,
        );
        // What replace inserted may itself have been replaced by a later event.
        if (given.strategy !== 'replace')
          assert.ok(
            starts.some((start) => start.id === id && start.saw >= version),
            `event ${version} was ${outcome} into ${id}, which started before it`,
          );
      }
      await giveTurns(scheduler, queue.close({ grace: 0 }), () => clock.advance(100));
      await giveBack();
    });
    for (const outcome of ['created', 'skipped', 'coalesced', 'replaced'])
      expect(seen.get(outcome) ?? 0, outcome).toBeGreaterThan(0);
  }, 120_000);
});

/** Ends when told, ends when aborted, or hears nothing until long after. */
type Handler = 'told' | 'abortable' | 'deaf';

/** A job type that does as its input says while the queue closes, and simply returns afterwards. */
function taskOf(scheduler: fc.Scheduler) {
  const deaf: (() => void)[] = [];
  let closing = true;
  const task = defineJob('task', {
    async run({ job, signal }) {
      const { handler } = job.input as { handler: Handler };
      if (closing && handler === 'told') await scheduler.schedule(Promise.resolve(), `handler of ${job.id} ends`);
      if (closing && handler === 'deaf') await new Promise<void>((resolve) => deaf.push(resolve));
      if (closing && handler === 'abortable') await aborted(signal);
      return job.id;
    },
  });
  return {
    task,
    closed() {
      closing = false;
    },
    speakLate() {
      for (const speak of deaf) speak();
    },
  };
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const stop = (): void => reject(signal.reason);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
}

async function isBusy(queue: Queue): Promise<boolean> {
  const { total } = await queue.stats();
  return total.pending + total.processing > 0;
}

/** The next worker does the rest; over all, each job has completed once, with one attempt. */
async function finishTheRest(queue: Queue, task: JobType<Json, Json>, clock: FakeClock): Promise<void> {
  await queue.work([task]);
  for (let i = 0; i < 20 && (await isBusy(queue)); i++) await clock.advance(50);
  for (const { state, attempts } of (await queue.find()).items)
    assert.deepEqual({ state, attempts }, { state: 'completed', attempts: 1 });
}

describe.each(engines)('on %s, interleavings: close × settle', (engine) => {
  it('each job is settled exactly once, or handed back with no attempt used', async () => {
    const scenario = fc.record({
      handlers: fc.array(fc.constantFrom<Handler>('told', 'told', 'abortable', 'deaf'), { minLength: 1, maxLength: 4 }),
      concurrency: fc.integer({ min: 1, max: 3 }),
      grace: fc.constantFrom(0, 1_000),
      patience: fc.nat(12),
    });
    const seen = await interleave(
      engine,
      'close × settle',
      scenario,
      async (scheduler, { handlers, concurrency, grace, patience }, saw) => {
        const clock = fakeClock();
        const [factory, giveBack] = await factoryOn(engine);
        const { store, dispose } = await harnessOn(factory, giveBack);
        const { cursor } = await store.readEvents({ after: null, limit: 1 });
        const { task, closed, speakLate } = taskOf(scheduler);
        const queue = await open(scheduledFactory(factory, scheduler), { clock });
        const jobs = handlers.map((handler, i) => ({ type: task, input: { handler }, options: { id: `task-${i}` } }));
        await giveTurns(scheduler, queue.enqueueMany(jobs), still);
        await queue.work([task], { concurrency });
        const close = async () => {
          for (let i = 0; i <= patience; i++) await scheduler.schedule(Promise.resolve(), 'close waits');
          return queue.close({ grace });
        };
        const report = await giveTurns(scheduler, close(), () => clock.advance(50));
        closed();
        assert.deepEqual(report.abandoned, []);

        const next = await open(factory, { clock });
        const left = (await next.find()).items;
        assert.equal(left.length, jobs.length);
        for (const { id, state, attempts, error, result } of left) {
          saw(state);
          if (state === 'completed')
            assert.deepEqual({ attempts, error, result }, { attempts: 1, error: null, result: id });
          else assert.deepEqual({ state, attempts, error }, { state: 'pending', attempts: 0, error: null });
          if (report.handedBack.includes(id)) assert.equal(state, 'pending');
        }
        // What a deaf handler says now comes too late to count.
        speakLate();
        await clock.settle();
        assert.deepEqual((await next.find()).items, left);

        await finishTheRest(next, task, clock);
        const { events } = await store.readEvents({ after: cursor, limit: 1_000 });
        const completed = events.filter(({ name }) => name === 'completed').map(({ id }) => id);
        assert.deepEqual(completed.toSorted(), left.map(({ id }) => id).toSorted());
        await next.close({ grace: 0 });
        await dispose();
      },
    );
    // Which of the two a server hears first is not up to the scheduler.
    const sure = engine === 'memory' || engine === 'sqlite' ? ['completed', 'pending'] : ['pending'];
    for (const state of sure) expect(seen.get(state) ?? 0, state).toBeGreaterThan(0);
  }, 240_000);
});
