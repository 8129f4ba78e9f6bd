/** The invariants of spec/invariants.md, by number: a compact proof of each on every store. Depth is in the files by topic. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import type { Ending } from '../src/core/ending.js';
import { fail, type JobEvent, type JobType, open, type Queue, snooze } from '../src/index.js';
import { expectNothingLeft } from '../src/testing/index.js';
import { emptyStore } from './engines.js';
import { handClock } from './lifecycle-support.js';
import { sizeOf, totalOf } from './soak/size.js';
import { healthOf } from './support.js';
import {
  bench,
  type Bench,
  claimRequest,
  codeOf,
  engines,
  holding,
  jobType,
  passing,
  rejected,
  stateOf,
  timeUntil,
  until,
} from './worker-support.js';

const leaseMs = 30_000;
const tendMs = 5_000;
const heartbeatMs = 10_000;

const endings: readonly Ending[] = [
  { kind: 'complete', result: '"late"' },
  { kind: 'retry', inMs: 0, error: '{"message":"late"}' },
  { kind: 'exhaust', error: '{"message":"late"}' },
  { kind: 'fail', error: '{"message":"late"}' },
  { kind: 'snooze', when: { inMs: 0 } },
  { kind: 'cancel', error: '{"message":"late"}' },
  { kind: 'release' },
];

const cleanup = { maxStoredJobs: 1_000, jobRetentionMs: 0, cleanupIntervalMs: 3_600_000, useCompletedTime: true };

async function bytesOf(read: Promise<AsyncIterable<Uint8Array>>): Promise<void> {
  for await (const chunk of await read) expect(chunk).toBeInstanceOf(Uint8Array);
}

async function settleOne(on: Bench, id: string, epoch: number, ending: Ending, owner = 'byhand') {
  const { answers } = await on.store.settle({ owner, settlements: [{ id, epoch, ending }], started: [], next: null });
  return answers[0];
}

async function claimOne(on: Bench, type: string, overrides: object = {}) {
  const { jobs, epoch } = await on.store.claim(claimRequest([type], overrides));
  expect(jobs).toHaveLength(1);
  return { id: jobs[0]!.id, epoch };
}

/** All that can be read of the jobs, as one value. */
async function everything(on: Bench) {
  const { items } = await on.queue.find({ limit: 200 });
  const logs = await Promise.all(items.map(({ id }) => on.queue.logs(id)));
  return { items, logs, stats: await on.queue.stats() };
}

/** What is refused on purpose (see the table of refusals below) is no counterexample. */
function isStorable(value: unknown): boolean {
  const text = JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'number' && Number.isInteger(part) && !Number.isSafeInteger(part) ? '\0' : part,
  );
  return !/__proto__|constructor|\\u0000|\\ud[89a-f]/i.test(text);
}

async function done(on: Bench, id: string) {
  await until(on.clock, async () => (await on.queue.get(id))!.completedAt !== null, `the end of ${id}`);
  return (await on.queue.get(id))!;
}

describe.each(engines)('safety on %s', (engine) => {
  it('S1: an acknowledged job is there, whoever looks and whatever closes', async () => {
    await using on = await bench(engine);
    const acked = new Set<string>();
    for (let n = 0; n < 20; n++) acked.add((await on.queue.enqueue('acked', n)).id);
    const batch = Array.from({ length: 50 }, (_, input) => ({
      type: 'acked',
      input,
      options: { delay: input * 1_000 },
    }));
    for (const { id } of await on.queue.enqueueMany(batch)) acked.add(id);
    await claimOne(on, 'acked');
    await on.queue.close();
    const other = await on.another();
    const found = (await other.queue.find({ type: 'acked', limit: 200 })).items.map(({ id }) => id);
    expect(new Set(found)).toEqual(acked);
  });

  it('S2: a job has at most one current claim, and its epochs only grow', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('claimed', null);
    let last = 0;
    for (let n = 0; n < 10; n++) {
      const { epoch } = await claimOne(on, 'claimed', { owner: `worker${n}` });
      expect(epoch).toBeGreaterThan(last);
      expect((await on.store.claim(claimRequest(['claimed'], { slots: 10, ahead: 10 }))).jobs).toEqual([]);
      expect(await on.queue.get(id)).toMatchObject({ state: 'processing', epoch });
      expect(await settleOne(on, id, epoch, { kind: 'release' }, `worker${n}`)).toBe('ok');
      expect(await stateOf(on.queue, id)).toBe('pending');
      last = epoch;
    }
  });

  it('S3: a call under an old claim changes nothing', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('fenced', null);
    const old = await claimOne(on, 'fenced');
    await on.clock.advance(leaseMs + tendMs);
    const lapsed = await everything(on);
    const refusals = async (epoch: number, owner: string): Promise<void> => {
      for (const ending of endings) expect(await settleOne(on, id, epoch, ending, owner)).toBe('STALE_CLAIM');
      const lines = [{ message: 'late', fields: null }];
      expect(await on.store.note(owner, [{ id, epoch, progress: '{"percent":1}', lines }])).toEqual(['STALE_CLAIM']);
      const claims = [{ epoch, ids: [id], started: [id] }];
      expect(await on.store.extend({ owner, leaseMs, claims, card: null })).toEqual({ lost: [id], cancelled: [] });
    };
    await refusals(old.epoch, 'byhand');
    expect(await everything(on)).toEqual(lapsed);

    const current = await claimOne(on, 'fenced', { owner: 'second' });
    const held = await everything(on);
    await refusals(old.epoch, 'byhand');
    await refusals(old.epoch, 'second');
    await refusals(current.epoch, 'byhand');
    await refusals(current.epoch + 1, 'second');
    expect(await everything(on)).toEqual(held);

    expect(await settleOne(on, id, current.epoch, { kind: 'complete', result: '1' }, 'second')).toBe('ok');
    const ended = await everything(on);
    await refusals(old.epoch, 'byhand');
    expect(await everything(on)).toEqual(ended);
    await on.queue.remove(id);
    await refusals(old.epoch, 'byhand');
    expect((await everything(on)).items).toEqual([]);
  });

  it('S4: a job is settled exactly once, by the last claim', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('once', null);
    const first = await claimOne(on, 'once');
    await on.clock.advance(leaseMs + tendMs);
    const last = await claimOne(on, 'once');
    const complete = { kind: 'complete', result: '"last"' } as const;
    expect(await settleOne(on, id, first.epoch, { kind: 'complete', result: '"first"' })).toBe('STALE_CLAIM');
    expect(await settleOne(on, id, last.epoch, complete)).toBe('ok');
    const ended = await everything(on);
    expect(await settleOne(on, id, last.epoch, complete)).toBe('ok');
    expect(await settleOne(on, id, last.epoch, { kind: 'complete', result: '"other"' })).toBe('ALREADY_SETTLED');
    expect(await settleOne(on, id, last.epoch, { kind: 'fail', error: '{"message":"x"}' })).toBe('ALREADY_SETTLED');
    expect(await everything(on)).toEqual(ended);
    expect(await on.queue.get(id)).toMatchObject({ result: 'last', epoch: last.epoch, attempts: 1 });
  });

  it('S5: nobody takes over before the lease is over, extended or not', async () => {
    await using on = await bench(engine);
    const ran: number[] = [];
    await on.queue.enqueue('early', null, { timeout: 1_000 });
    const { id, epoch } = await claimOne(on, 'early');
    await on.queue.work([jobType('early', () => void ran.push(on.clock.monotonic()))]);
    await on.clock.advance(20_000);
    await on.store.extend({ owner: 'byhand', leaseMs, claims: [{ epoch, ids: [id], started: [] }], card: null });
    await on.clock.advance(leaseMs - 1);
    expect(ran).toEqual([]);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', epoch });
    await on.clock.advance(101);
    await done(on, id);
    expect(ran).toHaveLength(1);
    expect(ran[0]).toBeGreaterThanOrEqual(20_000 + leaseMs);
  });

  it('S6: what has finished stays as it ended', async () => {
    await using on = await bench(engine);
    const type = jobType('final', ({ input }) => {
      if (input === 'throw') throw new Error('thrown');
      return input === 'fail' ? fail('failed') : 'value';
    });
    await on.queue.enqueue('cancelled', null);
    await on.queue.cancel({ type: 'cancelled' });
    await on.queue.enqueue('expired', null, { ttl: 1_000 });
    await on.queue.enqueue('replaced', 1, { deduplication: 'replace' });
    await on.queue.enqueue('replaced', 2, { deduplication: 'replace' });
    await on.clock.advance(tendMs);
    await on.queue.cancel({ type: 'replaced' });
    await on.queue.work([type]);
    for (const input of ['value', 'fail', 'throw']) await on.queue.enqueue(type, input, { attempts: 1 });
    await until(on.clock, async () => (await on.queue.stats()).total.pending === 0);
    await on.clock.advance(1_000);
    const ended = await everything(on);
    expect(new Set(ended.items.map(({ state }) => state))).toEqual(
      new Set(['completed', 'failed', 'cancelled', 'expired']),
    );
    for (const job of ended.items) {
      expect(job.completedAt).not.toBeNull();
      expect(job.dueAt).not.toBeNull();
      for (const ending of endings) await settleOne(on, job.id, job.epoch, ending);
      await on.queue.cancel(job.id, { force: true });
      await on.queue.reschedule(job.id, { delay: 0 });
    }
    await on.clock.advance(60_000);
    expect(await everything(on)).toEqual(ended);
  });

  it('S7: attempts are the handlers begun; snoozes, hand-backs and lapses use none', async () => {
    await using on = await bench(engine);
    const held = holding('honest', { attempts: 3, backoff: { type: 'fixed', base: 100, jitter: 0 } });
    const { id } = await on.queue.enqueue(held.type, null);
    let worker = await on.queue.work([held.type]);
    const run = async (n: number, ending: unknown): Promise<void> => {
      await until(on.clock, () => held.started.length === n, `run ${n}`);
      held.end(id, ending);
      await on.clock.advance(200);
    };
    await run(1, rejected(new Error('one')));
    await run(2, snooze(100));
    await until(on.clock, () => held.started.length === 3);
    await passing(on.clock, worker.stop({ grace: 0 }));
    await claimOne(on, 'honest');
    await on.clock.advance(leaseMs + tendMs);
    expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 1, stalls: 1 });
    worker = await on.queue.work([held.type]);
    await run(4, rejected(new Error('two')));
    await run(5, rejected(new Error('three')));
    expect(await done(on, id)).toMatchObject({ state: 'failed', attempts: 3, stalls: 1, error: { message: 'three' } });
  });

  it('S8: a slot has at most one pending job, on every path into it', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    const options = { deduplication: 'skip', deduplicationKey: 'slot' } as const;
    const pendingOnes = async (): Promise<number> =>
      (await on.queue.find({ type: 'slotted', state: 'pending' })).items.length;
    const asked = await Promise.all(
      Array.from({ length: 20 }, (_, n) => (n % 2 ? on : other).queue.enqueue('slotted', n, options)),
    );
    expect(new Set(asked.map(({ id }) => id)).size).toBe(1);
    expect(asked.filter(({ outcome }) => outcome === 'created')).toHaveLength(1);
    expect(await pendingOnes()).toBe(1);
    const first = asked[0]!.id;
    for (const ending of endings.filter(({ kind }) => ['retry', 'snooze', 'release'].includes(kind))) {
      const { id, epoch } = await claimOne(on, 'slotted');
      await on.queue.enqueue('slotted', 'successor', options);
      expect(await settleOne(on, id, epoch, ending)).toBe('ok');
      expect(await pendingOnes()).toBe(1);
      expect(await on.queue.get(id)).toMatchObject({ state: 'cancelled', error: { code: 'SUPERSEDED' } });
    }
    await claimOne(on, 'slotted');
    await on.queue.enqueue('slotted', 'after the lapse', options);
    await on.clock.advance(leaseMs + tendMs);
    expect(await pendingOnes()).toBe(1);
    expect((await on.queue.retry(first)).items[0]!.outcome).toBe('skipped');
    expect(await pendingOnes()).toBe(1);
  });

  it('S8: a schedule is one live job and yields one job per tick, whoever sets and fires it', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    const set = (n: number) => (n % 2 ? on : other).queue.schedule('beat', 'beat', null, { every: '10s' });
    for (let round = 0; round < 6; round++) {
      await Promise.all(Array.from({ length: 32 }, (_, n) => set(n)));
      await on.clock.advance('5s');
      // Those that it replaced, where two were set at once, are over.
      const live = await on.queue.find({ type: 'lastout.schedule', state: ['pending', 'processing'] });
      expect(live.items).toHaveLength(1);
      if (round === 3) await on.queue.remove({ type: 'beat' });
    }
    const ticks = (await on.queue.find({ type: 'beat' })).items.map(({ metadata }) => metadata.tick);
    expect(ticks).toEqual(['2030-01-01T00:00:30.000Z']);
  });

  it('S9: an enqueue with a given id happens once, also when its answer was lost', async () => {
    await using on = await bench(engine);
    const id = 'order-4711-invoice-1';
    on.wire.after.insert = () => Promise.reject(new Error('the answer was lost'));
    expect(await codeOf(on.queue.enqueue('invoice', { order: 4711 }, { id }))).toBe('RESULT_UNKNOWN');
    delete on.wire.after.insert;
    expect(await on.queue.enqueue('invoice', { order: 4711 }, { id })).toEqual({ id, outcome: 'existing' });
    expect(await codeOf(on.queue.enqueue('invoice', { order: 4712 }, { id }))).toBe('IDEMPOTENCY_CONFLICT');
    expect(await codeOf(on.queue.enqueue('receipt', { order: 4711 }, { id }))).toBe('IDEMPOTENCY_CONFLICT');
    await on.queue.remove(id);
    expect(await on.queue.enqueue('invoice', { order: 4711 }, { id })).toEqual({ id, outcome: 'existing' });
    expect((await on.queue.find({ type: 'invoice' })).items).toEqual([]);
  });

  it('S10: a cancel says the truth, and after "cancelled" no handler starts', async () => {
    await using on = await bench(engine);
    const held = holding('truth', {}, true);
    const ids = (
      await on.queue.enqueueMany(Array.from({ length: 30 }, (_, input) => ({ type: held.type, input })))
    ).map(({ id }) => id);
    await on.queue.work([held.type], { concurrency: 7 });
    await on.clock.settle();
    const answers = await Promise.all(ids.map(async (id) => [id, (await on.queue.cancel(id)).items[0]!.outcome]));
    await on.clock.advance(60_000);
    const said = (outcome: string): string[] => answers.filter(([, answer]) => answer === outcome).map(([id]) => id!);
    expect(said('requested').sort()).toEqual([...held.started].sort());
    expect(said('cancelled')).toHaveLength(30 - held.started.length);
    for (const id of ids) {
      expect(await stateOf(on.queue, id)).toBe('cancelled');
      expect((await on.queue.cancel(id)).items).toEqual([{ id, outcome: 'already:cancelled' }]);
    }
  });

  it('S11: a batch is stored whole or not at all, and each job with its event', async () => {
    await using on = await bench(engine);
    const seen: JobEvent[] = [];
    on.queue.on('created', (event) => seen.push(event));
    await on.clock.advance(200);
    await on.queue.enqueue('taken', 1, { id: 'given-id-of-another1' });
    const good = { type: 'batch', input: 1 };
    const empty = await everything(on);
    for (const bad of [
      { type: 'taken', input: 2, options: { id: 'given-id-of-another1' } },
      { type: 'batch', input: 1, options: { priority: 1.5 } },
      { type: 'batch', input: (() => 1) as never },
    ])
      expect(await codeOf(on.queue.enqueueMany([good, bad, good]))).toMatch(/^[A-Z_]+$/);
    expect(await everything(on)).toEqual(empty);
    const stored = await on.queue.enqueueMany([good, good, good]);
    await on.clock.advance(200);
    expect(seen.map(({ id }) => id)).toEqual(['given-id-of-another1', ...stored.map(({ id }) => id)]);
  });

  it('S12: no more claims per exclusive key than one, and no more handlers than slots, in any batch size', async () => {
    await using on = await bench(engine);
    const jobs = Array.from({ length: 60 }, (_, n) => ({
      type: 'capped',
      input: n,
      options: n % 3 === 0 ? {} : { exclusiveKey: `key${n % 3}` },
    }));
    await on.queue.enqueueMany(jobs);
    for (const slots of [1, 2, 5, 50]) {
      const claimed = await on.store.claim(claimRequest(['capped'], { slots, ahead: 10 }));
      const keys = claimed.jobs.map(({ exclusiveKey }) => exclusiveKey).filter((key) => key !== null);
      expect(new Set(keys).size).toBe(keys.length);
      const settlements = claimed.jobs.map(({ id }) => ({
        id,
        epoch: claimed.epoch,
        ending: { kind: 'release' } as const,
      }));
      await on.store.settle({ owner: 'byhand', settlements, started: [], next: null });
    }
    await claimOne(on, 'capped'); // dies and leaks no slot
    let running = 0;
    let most = 0;
    const busy = new Set<string>();
    const type = jobType('capped', async ({ job }) => {
      running += 1;
      most = Math.max(most, running);
      if (job.exclusiveKey !== null) {
        expect(busy.has(job.exclusiveKey)).toBe(false);
        busy.add(job.exclusiveKey);
      }
      await on.clock.settle();
      running -= 1;
      if (job.exclusiveKey !== null) busy.delete(job.exclusiveKey);
    });
    await on.queue.work([type], { concurrency: 4 });
    await on.clock.advance(leaseMs + tendMs);
    await until(on.clock, async () => (await on.queue.stats()).total.completed === 60);
    expect(most).toBeLessThanOrEqual(4);
    await expectNothingLeft(on.queue);
  });

  it('S12: no more claims per queue than its concurrency, in any batch size, and no crash leaks a slot', async () => {
    await using on = await bench(engine, { queues: { capped: { concurrency: 3 } } });
    const other = await on.another();
    const jobs = Array.from({ length: 40 }, (_, input) => ({ type: 'capped', input, options: { queue: 'capped' } }));
    await on.queue.enqueueMany(jobs);
    const running = async (): Promise<number> =>
      (await on.queue.find({ state: 'processing', limit: 200 })).items.length;
    for (const slots of [1, 2, 5, 50]) {
      const claimed = await on.store.claim(claimRequest(['capped'], { slots, ahead: 10 }));
      expect(await running()).toBe(Math.min(slots, 3));
      expect((await on.store.claim(claimRequest(['capped'], { slots: 50, owner: 'second' }))).jobs).toHaveLength(
        3 - Math.min(slots, 3),
      );
      expect(await running()).toBe(3);
      // Both die with what they hold; a late word of the first gives nothing back a second time.
      await on.clock.advance(leaseMs + tendMs);
      expect(await running()).toBe(0);
      for (const { id } of claimed.jobs) await settleOne(on, id, claimed.epoch, { kind: 'release' });
    }
    let now = 0;
    let most = 0;
    const type = jobType('capped', async () => {
      most = Math.max(most, ++now);
      expect(await running()).toBeLessThanOrEqual(3);
      now -= 1;
    });
    for (const { queue } of [on, other]) await queue.work([type], { concurrency: 8, maxStalls: 100 });
    for (let n = 0; n < 600 && (await on.queue.stats()).total.completed < 40; n++) await on.clock.advance(100);
    expect((await on.queue.stats()).total.completed).toBe(40);
    expect(most).toBe(3);
    await expectNothingLeft(on.queue);
  });

  it('S13: a full queue refuses before any effect, and what it refused is not lost', async () => {
    await using on = await bench(engine, { queues: { narrow: { maxPending: 5 } } });
    const other = await on.another();
    const seen: JobEvent[] = [];
    on.queue.on('created', (event) => seen.push(event));
    await on.clock.settle(); // it reads from here on
    const accepted: string[] = [];
    const send = async (queue: Bench['queue'], input: number): Promise<number | null> => {
      try {
        accepted.push((await queue.enqueue('narrow', input, { queue: 'narrow' })).id);
        return null;
      } catch (error) {
        expect(error).toMatchObject({
          code: 'QUEUE_FULL',
          details: { queue: 'narrow', maxPending: 5, retryAfterMs: 1_000 },
        });
        return input;
      }
    };
    const ran: number[] = [];
    const type = jobType('narrow', ({ input }) => void ran.push(input));
    let waiting: number[] = Array.from({ length: 30 }, (_, n) => n);
    for (let round = 0; waiting.length > 0 && round < 30; round++) {
      const answers = await Promise.all(waiting.map((input) => send(input % 2 === 0 ? on.queue : other.queue, input)));
      const { pending, full } = (await on.queue.stats()).queues.narrow!;
      expect(pending).toBeLessThanOrEqual(5);
      if (round === 0)
        expect({ pending, full, accepted: accepted.length }).toEqual({ pending: 5, full: true, accepted: 5 });
      expect((await on.queue.find({ limit: 200 })).items).toHaveLength(accepted.length);
      waiting = answers.filter((input) => input !== null);
      if (round === 0) for (const { queue } of [on, other]) await queue.work([type], { concurrency: 2 });
      await on.clock.advance(1_000);
    }
    expect(ran.toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, n) => n));
    expect(new Set(seen.map(({ id }) => id))).toEqual(new Set(accepted));
    await expectNothingLeft(on.queue);
  });

  it('S14: one maintainer per term; terms only grow, and a stale one writes nothing', async () => {
    await using on = await bench(engine);
    await on.queue.stopPeriodicCleanup();
    const before = (await on.queue.ledger()).items.length;
    const sweep = (holder: string) => on.store.sweepInTerm({ holder, ttlMs: 30_000 }, { limit: 10, cleanup });
    const first = await sweep('a');
    expect(first.term).toEqual(expect.any(Number));
    expect((await sweep('b')).term).toBeNull();
    expect((await sweep('a')).term).toBe(first.term);
    await on.clock.advance(30_001);
    const second = await sweep('b');
    expect(second.term!).toBeGreaterThan(first.term!);
    const entry = (by: string): string => JSON.stringify({ by, at: on.clock.now() });
    expect(await on.store.endTerm('a', entry('a'))).toBeNull();
    expect(await on.store.endTerm('b', entry('b'))).toBe(second.term);
    expect(await on.store.endTerm('b', entry('b'))).toBeNull();
    expect((await sweep('a')).term!).toBeGreaterThan(second.term!);
    const { items } = await on.queue.ledger();
    expect(items.slice(0, items.length - before).map(({ by }) => by)).toEqual(['b']);
  });

  it('S15: namespaces, queues, types, keys and subjects never run into one another', async () => {
    await using on = await bench(engine);
    const pairs = [
      ['a', 'b.c'],
      ['a.b', 'c'],
      ['a', 'b'],
      ['a', 'B'],
      ['A', 'b'],
      ['a-b', 'c'],
      ['a', 'b-c'],
      ['a', ' b'],
    ] as const;
    const outcomes = new Set<string>();
    for (const [type, key] of pairs) {
      const options = { deduplication: 'skip', deduplicationKey: key, exclusiveKey: key } as const;
      outcomes.add((await on.queue.enqueue(type, null, options)).outcome);
      outcomes.add(
        (await on.queue.enqueue(type, null, { ...options, deduplicationKey: `${key}/2`, queue: 'two' })).outcome,
      );
    }
    expect([...outcomes]).toEqual(['created']);
    const types = [...new Set(pairs.map(([type]) => type))];
    const claimed = await on.store.claim(claimRequest(types, { slots: 100 }));
    expect(claimed.jobs).toHaveLength(2 * pairs.length);
    const other = await on.another({ namespace: 'other' });
    expect((await other.queue.find()).items).toEqual([]);
    await other.queue.enqueue('a', null);
    await other.queue.cancel({ all: true });
    await other.queue.sweep();
    expect((await on.queue.stats()).total).toMatchObject({ processing: 2 * pairs.length, cancelled: 0 });
  });

  it('S16: an input comes out as it went in', async () => {
    await using on = await bench(engine);
    const echo = jobType('echo', ({ input }) => input);
    await on.queue.work([echo]);
    const storable = fc.jsonValue({ maxDepth: 5 }).filter(isStorable);
    await fc.assert(
      fc.asyncProperty(storable, async (value) => {
        const sent = JSON.parse(JSON.stringify(value)) as unknown;
        const { id } = await on.queue.enqueue(echo, sent);
        const job = await done(on, id);
        expect(job.input).toEqual(sent);
        expect(job.result).toEqual(sent);
      }),
      { numRuns: 50 },
    );
  });

  it.each<[string, unknown, string]>([
    ['a function', { f: () => 1 }, 'UNSERIALIZABLE'],
    ['a Date', { at: new Date(0) }, 'UNSERIALIZABLE'],
    ['a Map', new Map(), 'UNSERIALIZABLE'],
    ['a bigint', 1n, 'UNSERIALIZABLE'],
    ['a NUL', 'a\0b', 'UNSTORABLE_TEXT'],
    ['half a surrogate pair', '\ud800', 'UNSTORABLE_TEXT'],
    ['an unsafe integer', 2 ** 53, 'UNSAFE_INTEGER'],
    ['a prototype', JSON.parse('{"__proto__":{}}'), 'FORBIDDEN_KEY'],
  ])('S16: %s is refused with the same code everywhere', async (_, input, code) => {
    await using on = await bench(engine);
    expect(await codeOf(on.queue.enqueue('refused', input as never))).toBe(code);
    expect(on.wire.of('insert')).toEqual([]);
  });
});

describe.each(engines)('liveness on %s', (engine) => {
  it('S17: retention removes only what is finished, old enough and not held, and a hold or a removal wins', async () => {
    await using on = await bench(engine, { cleanup: { jobRetentionMs: 60_000 } });
    await on.queue.stopPeriodicCleanup();
    const held = holding('runs');
    await on.queue.work([held.type], { lease: '1h' });
    const { id: running } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    const { id: pending } = await on.queue.enqueue('job', null);
    const ended = async (): Promise<string> => {
      const { id } = await on.queue.enqueue('ended', null);
      await on.queue.cancel(id);
      return id;
    };
    const [old, kept, both] = [await ended(), await ended(), await ended()];
    await on.queue.hold(kept, 'kept');
    await on.clock.advance(60_001);
    const young = await ended();
    const [holds] = await Promise.all([on.queue.hold(both, 'at the last moment'), on.queue.sweep()]);
    expect(await stateOf(on.queue, both)).toBe(holds === 1 ? 'cancelled' : null);
    expect(await stateOf(on.queue, old)).toBeNull();
    for (const id of [running, pending, kept, young]) expect(await stateOf(on.queue, id)).not.toBeNull();
    held.endAll();
  });

  it('S18: nothing keyed by a removed job remains, and no late call brings it back', async () => {
    await using on = await bench(engine, { artifacts: 'memory' });
    const held = holding('work');
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null, { deduplication: 'skip', deduplicationKey: 'k' });
    await until(on.clock, () => held.started.length === 1);
    const context = held.context(id);
    context.log('a line');
    const { epoch } = (await on.queue.get(id))!;
    const { id: artifact } = await context.artifact.put('out', 'bytes');
    await context.tempDir();
    await on.clock.advance(200);
    await on.queue.remove(id, { force: true });
    expect(await codeOf(context.artifact.put('late', 'bytes'))).toMatch(/^(STALE_CLAIM|JOB_NOT_FOUND)$/);
    context.log('a late line');
    held.end(id, 'late');
    await on.clock.advance(1_000);
    const owner = on.wire.of('claim')[0]!.request.owner as string;
    expect(await settleOne(on, id, epoch, endings[0]!, owner)).toBe('STALE_CLAIM');
    expect(await on.queue.logs(id)).toEqual([]);
    expect(await codeOf(on.queue.artifacts.read(artifact))).toBe('JOB_NOT_FOUND');
    expect((await on.queue.find({ queue: ['default', 'lastout'] })).items).toEqual([]);
    expect((await on.queue.enqueue(held.type, null, { deduplication: 'skip', deduplicationKey: 'k' })).outcome).toBe(
      'created',
    );
    expect(await on.queue.audit()).toMatchObject({ clean: true });
  });

  it('S19: bytes go before their record, the record before the job, and a crash in between is taken up again', async () => {
    await using on = await bench(engine, { artifacts: 'memory', cleanup: { jobRetentionMs: 0 } });
    await on.queue.stopPeriodicCleanup();
    const type = jobType('puts', async ({ artifact }) => void (await artifact.put('out', 'bytes')));
    const { id } = await on.queue.enqueue(type, null);
    await passing(on.clock, on.queue.runUntilIdle([type]));
    const artifact = (await on.queue.artifacts.get(id, 'out'))!.id;
    await on.clock.advance(1);
    let moves = 0;
    on.wire.before.move = () => {
      moves += 1;
      if (moves > 1) throw new Error('the process died here'); // the record has said that it goes, the bytes are gone
    };
    await passing(
      on.clock,
      on.queue.sweep().catch(() => undefined),
    );
    expect(await codeOf(bytesOf(on.queue.artifacts.read(artifact)))).toBe('JOB_NOT_FOUND');
    expect(await on.queue.artifacts.get(id, 'out')).toBeNull();
    expect((await on.queue.find({ type: 'lastout.artifact' })).items).toHaveLength(1);
    expect(await stateOf(on.queue, id)).toBe('completed');
    delete on.wire.before.move;
    expect(await on.queue.sweep()).toMatchObject({ removed: 1 });
    expect((await on.queue.find({ queue: ['default', 'lastout'] })).items).toEqual([]);
  });

  it('S20: a sweep for orphans ends only what is over, or was found absent each time, whatever else the lookup says', async () => {
    await using on = await bench(engine);
    /** What each subject is found to be, sweep by sweep; ! stands for an outage of all. */
    const told: { readonly [id: string]: string } = {
      present: 'pppp!ppp',
      gone: 'paaaaaaa',
      back: 'apapapap',
      unsure: 'auauauau',
      late: 'pppppaap',
      over: 'puao',
    };
    let sweep = -1;
    let isOver = false;
    const words = { p: 'present', o: 'over', a: 'absent', u: 'unknown', '!': 'unknown' } as const;
    on.queue.defineSubject('trip', {
      every: '1m',
      async check(ids) {
        // Asked for all of them, it is the next sweep; asked for some, it is the question right before the deed.
        if (ids.includes('present')) sweep += 1;
        if (told.present![sweep] === '!') throw new Error('The database is away');
        return ids.map((id) => words[told[id]![sweep] as keyof typeof words]);
      },
    });
    const held = holding('runs');
    await on.queue.work([held.type]);
    const running = await on.queue.enqueue(held.type, null, { subject: 'trip:gone' });
    await until(on.clock, () => held.started.length === 1);
    const ids = new Map<string, string>();
    for (const id of Object.keys(told))
      ids.set(id, (await on.queue.enqueue('waits', null, { subject: `trip:${id}`, delay: '5h' })).id);
    const endedAfter = new Map<string, number>();
    while (!isOver) {
      await on.clock.advance(65_000);
      for (const [id, jobId] of ids)
        if (!endedAfter.has(id) && (await stateOf(on.queue, jobId)) === 'cancelled') endedAfter.set(id, sweep);
      isOver = sweep >= 7;
    }
    expect([...endedAfter]).toEqual([
      ['gone', 2],
      ['over', 3],
      ['late', 6],
    ]);
    expect(await stateOf(on.queue, running.id)).toBe('processing');
  });

  it('S24: an artifact is seen when it is whole, and never after its claim was lost', async () => {
    await using on = await bench(engine, { artifacts: 'memory' });
    const held = holding('puts');
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    let goOn: () => void = () => undefined;
    async function* slow() {
      yield Buffer.from('half');
      await new Promise<void>((resolve) => (goOn = resolve));
    }
    const putting = codeOf(held.context(id).artifact.put('out', slow()));
    await on.clock.settle();
    expect(await on.queue.artifacts.get(id, 'out')).toBeNull();
    // By its worker's word alone the claim would live; by the store's it is over.
    on.wire.before.extend = () => new Promise(() => undefined);
    await on.clock.advance(leaseMs + tendMs);
    goOn();
    expect(await passing(on.clock, putting)).toBe('STALE_CLAIM');
    delete on.wire.before.extend;
    held.endAll();
    await on.clock.advance(2 * leaseMs);
    expect(await on.queue.artifacts.list(id)).toEqual([]);
    expect((await on.queue.find({ type: 'lastout.artifact' })).items).toEqual([]);
  });

  it('S26: each transition has its event, in order, and a reader that goes on from any of them misses none', async () => {
    await using on = await bench(engine);
    const type = jobType('fails', ({ job }: { job: { attempts: number } }) => {
      if (job.attempts === 1) throw new Error('once more');
    });
    const { id } = await on.queue.enqueue(type, null, { backoff: { type: 'fixed', base: 0 } });
    await passing(on.clock, on.queue.runUntilIdle([type]));
    await on.queue.remove(id);
    const read = async (after: string): Promise<readonly { name: string; cursor: string; id?: string }[]> =>
      (await on.store.readEvents({ after, limit: 100 })).events.filter((event) => event.id === id);
    const all = await read('0.0');
    const names = all.map(({ name }) => name).filter((name) => name !== 'claimed');
    expect(names).toEqual(['created', 'retried', 'completed', 'removed']);
    for (const [index, { cursor }] of all.entries()) expect(await read(cursor)).toEqual(all.slice(index + 1));
  });

  it('L1: a due job starts within one poll, though every notification is dropped', async () => {
    await using on = await bench(engine, { deaf: true });
    const started: number[] = [];
    const type = jobType('due', () => void started.push(on.clock.monotonic()));
    await on.queue.work([type], { poll: 100 });
    await on.clock.advance(37);
    await on.queue.enqueue(type, 'now');
    await on.queue.enqueue(type, 'later', { delay: 1_000 });
    await on.clock.advance(100);
    expect(started).toHaveLength(1);
    await on.clock.advance(1_000);
    expect(started).toHaveLength(2);
    expect(started[1]! - 1_037).toBeLessThanOrEqual(100);
  });

  it('L2: the job of a dead worker runs again within the lease and one tending', async () => {
    await using on = await bench(engine, { deaf: true });
    const { id } = await on.queue.enqueue('orphaned', null);
    await claimOne(on, 'orphaned');
    await on.queue.work([jobType('orphaned', () => 'again')], { poll: 100 });
    await on.clock.advance(leaseMs + tendMs);
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', result: 'again', stalls: 1 });
  });

  it('L3: a cancel request and the loss of a claim reach the signal within one heartbeat', async () => {
    await using on = await bench(engine, { deaf: true });
    const held = holding('told');
    await on.queue.work([held.type]);
    const [asked, lost] = await on.queue.enqueueMany([
      { type: held.type, input: 1 },
      { type: held.type, input: 2 },
    ]);
    await on.clock.advance(1_000);
    await on.queue.cancel(asked.id);
    await on.queue.cancel(lost.id, { force: true });
    await on.clock.advance(heartbeatMs);
    expect(held.context(asked.id).signal.reason).toMatchObject({ code: 'CANCELLED' });
    expect(held.context(lost.id).signal.reason).toMatchObject({ code: 'STALE_CLAIM' });
  });

  it('L4: a finished handler is settled once the store is back, without running again', async () => {
    await using on = await bench(engine);
    const held = holding('unheard');
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    on.wire.down = true;
    held.end(id, 'kept');
    await on.clock.advance(20_000);
    on.wire.down = false;
    await on.clock.advance(5_000);
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', result: 'kept', attempts: 1, stalls: 0 });
    expect(held.started).toEqual([id]);
  });

  it('L4: any thrown value ends the attempt with an error that can be stored', async () => {
    await using on = await bench(engine);
    const cyclic: any = new Error('cyclic');
    cyclic.cause = cyclic;
    const hostile = new Proxy(
      {},
      {
        get: () => {
          throw new Error('trap');
        },
        getPrototypeOf: () => {
          throw new Error('trap');
        },
      },
    );
    const getter = Object.defineProperty(new Error('x'), 'message', {
      get: () => {
        throw new Error('getter');
      },
    });
    const thrown: unknown[] = [
      undefined,
      null,
      'text',
      42,
      1n,
      Symbol('symbol'),
      () => 1,
      {},
      Object.create(null),
      Object.freeze(new Error('frozen')),
      cyclic,
      hostile,
      getter,
      new Error('nul \0 and half \ud800'),
      new Error('x'.repeat(5_000_000)),
      snooze('1s'),
    ];
    const type = jobType('throws', ({ input }) => {
      throw thrown[Number(input)];
    });
    await on.queue.work([type]);
    for (const index of thrown.keys()) {
      const { id } = await on.queue.enqueue(type, index, { attempts: 1 });
      const job = await done(on, id);
      expect(job.state).toBe('failed');
      expect(typeof job.error!.message).toBe('string');
      expect(JSON.stringify(job.error).length).toBeLessThan(17_000);
    }
  });

  it('L5: no error of the store stops a loop, and health says so meanwhile', async () => {
    await using on = await bench(engine);
    const type = jobType('survivor', () => 'done');
    await on.queue.work([type]);
    for (const verb of ['claim', 'settle', 'sweep', 'sweepInTerm', 'extend'] as const) {
      const { id } = await on.queue.enqueue(type, null, { delay: 1_000 });
      on.wire.before[verb] = () => Promise.reject(new Error(`${verb} is broken`));
      await on.clock.advance(20_000);
      if (verb === 'claim' || verb === 'settle') {
        expect(await healthOf(on.queue)).toMatchObject({ ok: false, warnings: [{ code: 'WORKER_FAILING' }] });
        expect(await stateOf(on.queue, id)).not.toBe('completed');
      }
      delete on.wire.before[verb];
      await on.clock.advance(5_000);
      expect(await stateOf(on.queue, id)).toBe('completed');
      expect((await healthOf(on.queue)).ok).toBe(true);
    }
    on.wire.down = true;
    await on.clock.advance(60_000);
    expect(await healthOf(on.queue)).toMatchObject({ ok: false });
    const warned = on.logs.filter(({ level }) => level === 'warn').length;
    expect(warned).toBeLessThan(10);
    on.wire.down = false;
    const { id } = await on.queue.enqueue(type, null);
    await on.clock.advance(5_000);
    expect(await stateOf(on.queue, id)).toBe('completed');
  });

  it('L6: a poison job, a long line behind a key and a failing handler delay nobody else', async () => {
    await using on = await bench(engine);
    const held = holding('blocks', { exclusiveKey: 'k' });
    const poison = jobType(
      'poison',
      () => {
        throw new Error('again and again');
      },
      { attempts: 1_000, backoff: { type: 'fixed', base: 1, jitter: 0 }, priority: -10 },
    );
    const good = jobType('good', () => 'done');
    await on.queue.work([held.type, poison, good], { concurrency: 3 });
    await on.queue.enqueueMany(Array.from({ length: 500 }, (_, input) => ({ type: held.type, input })));
    await on.queue.enqueue(poison, null);
    await until(on.clock, () => held.started.length === 1);
    const before = on.clock.monotonic();
    const { id } = await on.queue.enqueue(good, null);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    expect(on.clock.monotonic()).toBe(before);
  });

  it('L7: a ttl and the slot it frees count at their instant, swept or not', async () => {
    await using on = await bench(engine);
    for (const verb of ['sweep', 'sweepInTerm'] as const)
      on.wire.before[verb] = () => Promise.reject(new Error('nobody sweeps'));
    const options = { ttl: 1_000, deduplication: 'skip', deduplicationKey: 'k' } as const;
    const { id } = await on.queue.enqueue('brief', 1, options);
    await on.clock.advance(999);
    expect(await on.queue.enqueue('brief', 2, options)).toEqual({ id, outcome: 'skipped' });
    await on.clock.advance(1);
    expect(await on.queue.get(id)).toMatchObject({ state: 'expired', error: { code: 'EXPIRED' } });
    expect((await on.queue.stats()).total).toMatchObject({ pending: 0, expired: 1 });
    expect(await on.queue.enqueue('brief', 3, options)).toMatchObject({ outcome: 'created' });
    const ran: unknown[] = [];
    await on.queue.work([jobType('brief', ({ input }) => void ran.push(input))]);
    await until(on.clock, () => ran.length > 0);
    expect(ran).toEqual([3]);
  });

  it('L9: retention makes progress at every tick, whatever the backlog and whatever breaks it off', async () => {
    // Without a cap, which would start passes beside the ticks.
    const cleanup = { maxStoredJobs: Number.POSITIVE_INFINITY, jobRetentionMs: 0, cleanupIntervalMs: 60_000 };
    await using on = await bench(engine, { cleanup });
    await on.clock.settle();
    for (let i = 0; i < 2; i++)
      await on.queue.enqueueMany(Array.from({ length: 800 }, () => ({ type: 'job', input: null })));
    for (let i = 0; i < 2; i++) await on.queue.cancel({ type: 'job' });
    let calls = 0;
    on.wire.before.sweepInTerm = () => {
      if (++calls % 2 === 0) throw new Error('timed out');
    };
    const left = [1_600];
    for (let i = 0; i < 3; i++) {
      await on.clock.advance(60_000);
      left.push((await on.queue.stats()).total.cancelled);
    }
    expect(left.every((n, index) => index === 0 || n < left[index - 1]!)).toBe(true);
    delete on.wire.before.sweepInTerm;
    await on.clock.advance(60_000);
    expect((await on.queue.stats()).total.cancelled).toBe(0);
  });

  it('L11: a dead maintainer is replaced when its term is over', async () => {
    await using on = await bench(engine, { cleanup: { jobRetentionMs: 0, cleanupIntervalMs: 3_600_000 } });
    await on.clock.settle();
    const { id } = await on.queue.enqueue('job', null);
    await on.queue.cancel(id);
    await on.clock.advance(3_599_000);
    const spare = { ...cleanup, jobRetentionMs: 86_400_000 };
    await on.store.sweepInTerm({ holder: 'dead', ttlMs: 30_000 }, { limit: 1, cleanup: spare });
    await on.clock.advance(1_000);
    expect(await stateOf(on.queue, id)).toBe('cancelled');
    await on.clock.advance(30_000);
    expect(await stateOf(on.queue, id)).toBeNull();
  });

  it('L8: close resolves within its grace and one second, and what it released can be claimed at once', async () => {
    await using on = await bench(engine);
    const held = holding('endless');
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    const closing = on.queue.close({ grace: '3s' });
    expect(await timeUntil(on.clock, closing)).toBeLessThanOrEqual(4_000);
    expect(await closing).toMatchObject({ handedBack: [id] });
    const { jobs } = await on.store.claim(claimRequest(['endless']));
    expect(jobs.map((job) => [job.id, job.attempts])).toEqual([[id, 1]]);
  });
});

// ---- bounds -----------------------------------------------------------------------------------------------------

/** What is made meanwhile is seen: how many entries all its maps and sets have. */
async function watchingMaps<T>(make: () => Promise<T>): Promise<{ made: T; entries(): number }> {
  const seen: { readonly size: number }[] = [];
  const { Map: PlainMap, Set: PlainSet } = globalThis;
  globalThis.Map = class<K, V> extends PlainMap<K, V> {
    constructor(entries?: Iterable<readonly [K, V]> | null) {
      super(entries);
      seen.push(this);
    }
  };
  globalThis.Set = class<T> extends PlainSet<T> {
    constructor(values?: Iterable<T> | null) {
      super(values);
      seen.push(this);
    }
  };
  try {
    return { made: await make(), entries: () => seen.reduce((sum, { size }) => sum + size, 0) };
  } finally {
    Object.assign(globalThis, { Map: PlainMap, Set: PlainSet });
  }
}

/** Each job leaves a trace wherever a name can leave one. */
function manyNames(type: JobType<any, any>, n: number, round: number): Parameters<Queue['enqueueMany']>[0] {
  return Array.from({ length: n }, (_, index) => {
    const name = `${round}-${index}`;
    const options = {
      queue: `queue-${name}`,
      subject: `thing:${name}`,
      deduplicationKey: name,
      exclusiveKey: name,
      attempts: 1,
      timeout: 60_000 + round * 1_000 + index,
      keep: { age: 0, count: 10 + index },
    };
    return { type, input: name, options };
  });
}

describe.each(engines)('bounds on %s', (engine) => {
  it('R1: a store comes back to its size after retention, whatever names the jobs had', {
    timeout: 120_000,
  }, async () => {
    const { url } = await emptyStore[engine]();
    const cleanup = { jobRetentionMs: 0, maxStoredJobs: Number.POSITIVE_INFINITY };
    const clock = handClock();
    const { made: queue, entries } = await watchingMaps(() => open(url, { cleanup, artifacts: 'memory', clock }));
    await queue.stopPeriodicCleanup();
    const type = jobType('marks', async ({ input, artifact, log, progress }) => {
      log('a line');
      progress(0.5);
      await artifact.put('out', 'bytes', { shortLink: true });
      if (String(input).endsWith('7')) throw new Error('fails');
    });
    const size = async (): Promise<number> => (engine === 'memory' ? entries() : totalOf((await sizeOf(url)).rows));
    const played = async (n: number, round: number): Promise<number> => {
      await queue.enqueueMany(manyNames(type, n, round));
      await queue.hold({ queue: `queue-${round}-1` }, 'for a while');
      await queue.runUntilIdle([type]);
      const full = await size();
      await queue.release({ queue: `queue-${round}-1` });
      clock.at += 3_600_000; // older than retention, and than what the event log keeps
      for (let i = 0; i < 2; i++) await queue.sweep();
      expect(
        (await queue.find({ queue: ['lastout', ...Array.from({ length: n }, (_, i) => `queue-${round}-${i}`)] })).items,
      ).toEqual([]);
      return full;
    };
    // There are as many tombstones as there may be.
    if (engine === 'memory') for (let i = 0; i < 11; i++) await tombs(queue, 1_000);
    for (let round = 0; round < 2; round++) await played(120, round);
    const before = await size();
    const full = await played(120, 3);
    const after = await size();
    console.log(`R1 on ${engine}: ${before} before, ${full} with 120 jobs, ${after} after retention`);
    expect(full - before).toBeGreaterThan(500);
    expect(after).toBe(before);
    await queue.close();
  });

  it('R1: when a job goes by hand, pending, running or finished, nothing is left of it but its tombstone and events', {
    timeout: 120_000,
  }, async () => {
    const { url } = await emptyStore[engine]();
    const clock = handClock();
    const { made: queue, entries } = await watchingMaps(() => open(url, { artifacts: 'memory', clock }));
    await queue.stopPeriodicCleanup();
    const size = async (): Promise<number> => (engine === 'memory' ? entries() : totalOf((await sizeOf(url)).rows));
    const ends = ['pending', 'processing', 'completed'] as const;
    const type = jobType('marks', async ({ input, artifact, log, progress, signal }) => {
      log('a line');
      progress(0.5);
      await artifact.put('out', 'bytes', { shortLink: true });
      if (input === 'pending') throw new Error('once more');
      if (input === 'processing') await new Promise((resolve) => signal.addEventListener('abort', resolve));
    });
    const played = async (name: string): Promise<number> => {
      const worker = await queue.work([type], { poll: 10 });
      const ids: string[] = [];
      for (const end of ends) {
        const id = `${name}-${end}`;
        const names = { subject: `thing:${id}`, deduplicationKey: id, exclusiveKey: id, queue: id };
        await queue.enqueue(type, end, { id, ...names, attempts: 2, backoff: { type: 'fixed', base: '1h' } });
        await vi.waitFor(async () => {
          const { state, attempts } = (await queue.get(id))!;
          expect([state, attempts, (await queue.artifacts.list(id)).length]).toEqual([end, 1, 1]);
        }, 10_000);
        ids.push(id);
      }
      const full = await size();
      for (const id of ids)
        expect((await queue.remove(id, { force: true })).items).toEqual([{ id, outcome: 'removed' }]);
      await worker.stop({ grace: 0 });
      clock.at += 3_600_000; // older than what the event log keeps, and than the cards of workers
      await queue.sweep();
      return full;
    };
    if (engine === 'memory') for (let i = 0; i < 11; i++) await tombs(queue, 1_000);
    for (const name of ['first', 'second']) await played(name);
    const before = await size();
    expect(await played('third')).toBeGreaterThan(before + 10);
    expect(await size()).toBe(before);
    await queue.close();
  });

  it('R1: what a job gathers is capped in number and in bytes', async () => {
    await using on = await bench(engine);
    const type = jobType('tells', ({ log, progress }) => {
      for (let i = 0; i < 3_000; i++) {
        log(`${i} ${'x'.repeat(1_000)}`);
        progress({ percent: i / 30, message: 'y'.repeat(1_000) });
      }
      throw new Error('z'.repeat(100_000));
    });
    const { id } = await on.queue.enqueue(type, null, { attempts: 5, backoff: { type: 'fixed', base: 0 } });
    await passing(on.clock, on.queue.runUntilIdle([type]));
    const lines = await on.queue.logs(id);
    expect(lines.length).toBeLessThanOrEqual(1_000);
    expect(JSON.stringify(lines).length).toBeLessThan(400_000);
    const { progress, error, attempts, state } = (await on.queue.get(id))!;
    expect([state, attempts]).toEqual(['failed', 5]);
    expect(JSON.stringify(error).length).toBeLessThan(17_000);
    expect(JSON.stringify(progress).length).toBeLessThan(2_000);
  });
});

async function tombs(queue: Queue, n: number): Promise<void> {
  await queue.enqueueMany(Array.from({ length: n }, () => ({ type: 'gone', input: null })));
  await queue.remove({ type: 'gone' });
}

// ---- the list ---------------------------------------------------------------------------------------------------

const numbers = [
  ...Array.from({ length: 26 }, (_, index) => `S${index + 1}`),
  ...Array.from({ length: 12 }, (_, index) => `L${index + 1}`),
  'R1',
  'R2',
];
/** What takes many rows, or a server of one's own, is shown by the cost of a claim; `npm run bench -- snapshot` has the rates. */
const shownIn: { readonly [number: string]: readonly string[] } = {
  S21: ['schedules-faults.test.ts'],
  S22: ['leases-invariants.test.ts', 'leases-faults.test.ts'],
  S23: ['leases-invariants.test.ts'],
  S25: ['leases-invariants.test.ts', 'leases-kill.test.ts'],
  L10: ['leases-invariants.test.ts'],
  L12: ['read.test.ts'],
  R2: ['cost/rules.ts', 'cost/postgres-xmin.test.ts'],
};
/** Invariants that cannot hold yet, each with the reason. */
const notYet: { readonly [number: string]: string } = {};

it('every number of the list has a test here or where it says, or a reason why not yet', () => {
  const text = readFileSync(fileURLToPath(import.meta.url), 'utf8');
  for (const [number, files] of Object.entries(shownIn)) {
    expect(numbers).toContain(number);
    for (const file of files)
      expect(readFileSync(new URL(file, import.meta.url), 'utf8'), file).toMatch(new RegExp(`[\`']${number}: `));
  }
  const titled = new Set([...text.matchAll(/^ {2}(?:it|\]\))\((['"`])([SLR]\d+): /gm)].map((match) => match[2]));
  for (const number of Object.keys(notYet)) {
    expect(numbers).toContain(number);
    expect(titled).not.toContain(number);
  }
  expect(numbers.filter((number) => !titled.has(number) && !(number in shownIn) && !(number in notYet))).toEqual([]);
});
