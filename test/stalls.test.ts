/** Workers that die, freeze or lose touch: their jobs come back, and what they still say is refused. */
import { describe, expect, it } from 'vitest';
import type { StalledJob } from '../src/core/failures.js';
import { defaults } from '../src/core/policy.js';
import type { JobEvent } from '../src/index.js';
import {
  bench,
  type Bench,
  claimRequest,
  engines,
  forever,
  gate,
  holding,
  jobType,
  passing,
  type Side,
  stateOf,
  until,
  warnings,
} from './worker-support.js';

const leaseMs = 30_000;
const { jobRetentionMs, cleanupIntervalMs } = defaults;
const cleanup = { jobRetentionMs, cleanupIntervalMs, useCompletedTime: true, maxStoredJobs: Number.POSITIVE_INFINITY };
const tendMs = 5_000;

/** A worker that takes the job and is never heard of again. */
async function dieWith(on: Bench, type: string, overrides: object = {}): Promise<number> {
  const { jobs, epoch } = await on.store.claim(claimRequest([type], overrides));
  expect(jobs.length).toBeGreaterThan(0);
  return epoch;
}

describe.each(engines)('a worker that died, on %s', (engine) => {
  it('its job is pending again within the lease and one tending, without any other worker', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('lost', null);
    await on.clock.advance(1_000);
    await dieWith(on, 'lost');
    await on.clock.advance(leaseMs - 1);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0 });
    await on.clock.advance(tendMs + 1);
    expect(await on.queue.get(id)).toMatchObject({
      state: 'pending',
      stalls: 1,
      attempts: 0,
      startedAt: expect.any(Date),
    });
  });

  it('it is shown as stalled and left behind until it comes back', async () => {
    await using on = await bench(engine);
    await on.clock.advance(1_000);
    await on.queue.enqueue('shown', null);
    await dieWith(on, 'shown');
    await on.clock.advance(leaseMs + 1_000);
    expect(await on.queue.stats()).toMatchObject({ total: { processing: 1, stalled: 1 }, leftBehind: 1 });
    await on.clock.advance(tendMs);
    expect(await on.queue.stats()).toMatchObject({ total: { pending: 1, processing: 0, stalled: 0 }, leftBehind: 0 });
  });

  it('a living worker takes it over as soon as the lease is over', async () => {
    await using on = await bench(engine);
    const dead = await on.another();
    const held = holding('taken');
    await dead.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(100);
    expect(held.started).toEqual([id]);
    const firstEpoch = held.context(id).job.epoch;
    for (const verb of ['extend', 'settle', 'claim', 'sweep', 'sweepInTerm'] as const) dead.wire.before[verb] = forever;
    const alive = jobType('taken', ({ job }) => ({ epoch: job.epoch, stalls: job.stalls }));
    await on.queue.work([alive]);
    await on.clock.advance(leaseMs - 1_000);
    expect(await stateOf(on.queue, id)).toBe('processing');
    await on.clock.advance(1_000 + 100);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    const job = (await on.queue.get(id))!;
    expect(job).toMatchObject({ attempts: 1, stalls: 1, result: { stalls: 1 } });
    expect((job.result as { epoch: number }).epoch).toBeGreaterThan(firstEpoch);
  });

  it('the crash of many workers comes back in one tending', async () => {
    await using on = await bench(engine);
    await on.queue.enqueueMany(Array.from({ length: 100 }, (_, input) => ({ type: 'many', input })));
    for (let n = 0; n < 100; n++) await dieWith(on, 'many', { owner: `worker${n}` });
    await on.clock.advance(leaseMs + tendMs);
    expect((await on.queue.stats()).total).toMatchObject({ pending: 100, processing: 0, stalled: 0 });
  });

  it('stalls are counted apart from attempts, and at maxStalls the job has failed', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('poison', null, { attempts: 1 });
    const seen: JobEvent[] = [];
    on.queue.on('failed', (event) => seen.push(event));
    for (let stalls = 1; stalls <= 3; stalls++) {
      await dieWith(on, 'poison', { maxStalls: 3 });
      await on.clock.advance(leaseMs + tendMs);
      expect(await on.queue.get(id)).toMatchObject({ stalls, attempts: 0 });
      if (stalls < 3) await on.clock.advance(30_000);
    }
    const job = (await on.queue.get(id))!;
    expect(job).toMatchObject({ state: 'failed', stalls: 3, attempts: 0, error: { code: 'STALLED' } });
    expect(job.completedAt).not.toBeNull();
    expect(job.dueAt!.getTime() - job.completedAt!.getTime()).toBe(86_400_000);
    await on.clock.advance(1_000);
    expect(seen).toMatchObject([{ id, error: { code: 'STALLED' } }]);
  });

  it('with maxStalls 1 the first stall is the last', async () => {
    await using on = await bench(engine);
    const held = holding('once');
    const side = await on.another();
    await side.queue.work([held.type], { maxStalls: 1 });
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(100);
    expect(held.started).toEqual([id]);
    side.wire.down = true;
    await on.clock.advance(leaseMs + tendMs);
    expect(await on.queue.get(id)).toMatchObject({ state: 'failed', stalls: 1, error: { code: 'STALLED' } });
  });

  it('after the first stall a job keeps its place; from the second on it comes back apart from its neighbours', async () => {
    await using on = await bench(engine);
    const ids = (await on.queue.enqueueMany(Array.from({ length: 5 }, (_, input) => ({ type: 'parted', input })))).map(
      ({ id }) => id,
    );
    const places = async (): Promise<number[]> =>
      Promise.all(ids.map(async (id) => (await on.queue.get(id))!.scheduledFor.getTime()));
    const before = await places();
    await dieWith(on, 'parted', { slots: 5, maxStalls: 9 });
    await on.clock.advance(leaseMs + tendMs);
    expect(await places()).toEqual(before);
    await dieWith(on, 'parted', { slots: 5, maxStalls: 9 });
    await on.clock.advance(leaseMs);
    const now = on.clock.now().getTime();
    const after = await places();
    for (const place of after) {
      expect(place).toBeGreaterThanOrEqual(now);
      expect(place).toBeLessThan(now + 30_000);
    }
    expect(new Set(after).size).toBe(5);
    const last = Math.max(...after);
    const told = await on.queue.explain(ids[after.indexOf(last)]!);
    expect(told).toMatchObject({ blockedBy: 'delay', until: new Date(last) });
    expect(told.because).toBe(
      'Its worker went silent 2 times while it ran: from the second time on it comes back only after a wait of up to half a minute. ' +
        `It is not due before ${new Date(last).toISOString()}.`,
    );
  });

  it('neighbours that were only claimed ahead are not charged, and are not claimed ahead again', async () => {
    await using on = await bench(engine);
    const [begun, ...ahead] = await on.queue.enqueueMany(
      Array.from({ length: 4 }, (_, input) => ({ type: 'ahead', input })),
    );
    const { jobs } = await on.store.claim(claimRequest(['ahead'], { slots: 1, ahead: 10 }));
    expect(jobs).toHaveLength(4);
    await on.clock.advance(leaseMs + tendMs);
    expect(await on.queue.get(begun!.id)).toMatchObject({ state: 'pending', stalls: 1 });
    for (const { id } of ahead)
      expect(await on.queue.get(id)).toMatchObject({ state: 'pending', stalls: 0, attempts: 0, startedAt: null });
    const again = await on.store.claim(claimRequest(['ahead'], { slots: 1, ahead: 10 }));
    expect(again.jobs).toHaveLength(1);
    expect(again.more).toBe(true);
  });

  it('one that was claimed ahead and has begun is charged', async () => {
    await using on = await bench(engine);
    const [first, second] = await on.queue.enqueueMany([
      { type: 'begun', input: 1 },
      { type: 'begun', input: 2 },
    ]);
    const { epoch } = await on.store.claim(claimRequest(['begun'], { slots: 1, ahead: 1 }));
    const settlements = [{ id: first.id, epoch, ending: { kind: 'complete', result: '1' } as const }];
    const started = [{ id: second.id, epoch }];
    await on.store.settle({ owner: 'byhand', settlements, started, next: null });
    await on.clock.advance(leaseMs + tendMs);
    expect(await on.queue.get(second.id)).toMatchObject({ state: 'pending', stalls: 1 });
  });

  it('tells of the stall in the event log', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('told', null);
    const seen: JobEvent[] = [];
    on.queue.on('stalled', (event) => seen.push(event));
    await dieWith(on, 'told');
    await on.clock.advance(leaseMs + tendMs + 1_000);
    expect(seen).toMatchObject([{ name: 'stalled', id, type: 'told' }]);
  });
});

describe.each(engines)('a job that is given up, on %s', (engine) => {
  const failedLines = ({ logs }: Side) => logs.filter(({ message }) => message === 'Job failed');

  it('is told once, by the process whose tending ended it', async () => {
    await using on = await bench(engine);
    const sides = [on, await on.another(), await on.another()];
    const { id } = await on.queue.enqueue('poison', null);
    await dieWith(on, 'poison', { maxStalls: 1 });
    await on.clock.advance(leaseMs + tendMs);
    expect(await stateOf(on.queue, id)).toBe('failed');
    const error = 'Its worker went silent 1 time while it ran';
    expect(sides.flatMap(failedLines)).toEqual([
      { level: 'error', message: 'Job failed', fields: { id, type: 'poison', code: 'STALLED', stalls: 1, error } },
    ]);
  });

  it('is told by the process whose claim ended it, or whose runUntilIdle', async () => {
    await using on = await bench(engine);
    const [worker, once] = [await on.another(), await on.another()];
    const sides = [on, worker, once];
    const poisonUnder = async (...living: readonly Side[]) => {
      const { id } = await on.queue.enqueue('poison', null);
      await dieWith(on, 'poison', { maxStalls: 1 });
      for (const side of sides) side.wire.down = !living.includes(side);
      await on.clock.advance(leaseMs + tendMs);
      return id;
    };
    for (const { wire } of sides) wire.before.sweep = forever;
    await worker.queue.work([jobType('other', () => null)]);
    const first = await poisonUnder(worker);
    expect(sides.map((side) => failedLines(side).map(({ fields }) => fields.id))).toEqual([[], [first], []]);
    on.wire.down = false;
    const second = await poisonUnder();
    once.wire.down = false;
    await passing(on.clock, once.queue.runUntilIdle([jobType('other', () => null)]));
    expect(sides.map((side) => failedLines(side).map(({ fields }) => fields.id))).toEqual([[], [first], [second]]);
  });

  it('is told by its code, type and id where there is a codec', async () => {
    const codec = { encode: (text: string) => text, decode: (text: string) => text };
    await using on = await bench(engine, { codec });
    const { id } = await on.queue.enqueue('poison', null);
    await dieWith(on, 'poison', { maxStalls: 1 });
    await on.clock.advance(leaseMs + tendMs);
    expect(failedLines(on).map(({ fields }) => fields)).toEqual([{ id, type: 'poison', code: 'STALLED' }]);
  });

  it('each verb tells its caller alone, once it is done: claim, settle, sweep', async () => {
    await using on = await bench(engine);
    const told: (readonly StalledJob[])[] = [];
    const store = await on.reach({ stalled: (jobs) => void told.push(jobs) });
    const other = await on.reach({ stalled: () => expect.unreachable('it ended nothing') });
    other.subscribe(() => undefined);
    const poisoned = async (n: number, keep?: 0) => {
      const type = 'poison';
      const options = keep === undefined ? {} : { keep };
      const ids = (await on.queue.enqueueMany(Array.from({ length: n }, () => ({ type, input: null, options })))).map(
        ({ id }) => id,
      );
      await dieWith(on, 'poison', { maxStalls: 1, slots: n });
      on.wire.down = true; // so that the queue itself tends nothing
      await on.clock.advance(leaseMs);
      on.wire.down = false;
      return ids.map((id) => ({ id, type, stalls: 1 }));
    };
    const byClaim = await poisoned(300);
    await store.claim(claimRequest(['none']));
    expect(told.splice(0).flat()).toEqual(byClaim);

    const [one] = await on.queue.enqueueMany([{ type: 'mine', input: null }]);
    const { epoch } = await store.claim(claimRequest(['mine'], { leaseMs: 10 * leaseMs }));
    const bySettle = await poisoned(2);
    // What its handler calls by the same name is not for the store to tell.
    const ending = { kind: 'fail', error: JSON.stringify({ code: 'STALLED', message: 'by 7 hands' }) } as const;
    const settlements = [{ id: one.id, epoch, ending }];
    await store.settle({ owner: 'byhand', settlements, started: [], next: claimRequest(['none']) });
    expect(told.splice(0)).toEqual([bySettle]);

    const bySweep = await poisoned(1, 0);
    await store.sweep({ limit: 1_000, cleanup });
    expect(told.splice(0)).toEqual([bySweep]);
    await store.claim(claimRequest(['none']));
    await store.sweep({ limit: 100, cleanup: null });
    expect(told).toEqual([]);
  });
});

describe.each(engines)('a worker that comes back too late, on %s', (engine) => {
  it('its settle is refused with a log line and changes nothing', async () => {
    await using on = await bench(engine);
    const late = await on.another();
    const held = holding('late');
    await late.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(100);
    const frozen = gate();
    for (const verb of ['extend', 'settle', 'claim', 'sweep', 'sweepInTerm'] as const)
      late.wire.before[verb] = () => frozen.passed;
    held.end(id, 'of the old claim');
    await on.queue.work([jobType('late', () => 'of the new claim')]);
    await on.clock.advance(leaseMs + tendMs);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    const before = await on.queue.get(id);
    frozen.open();
    await until(on.clock, () => warnings(late.logs).includes('Late result refused'));
    const line = late.logs.find(({ message }) => message === 'Late result refused')!;
    expect(line.fields).toMatchObject({ id, code: 'STALE_CLAIM', ending: 'complete' });
    expect(await on.queue.get(id)).toEqual(before);
    expect(before).toMatchObject({ result: 'of the new claim' });
  });

  it('loss of the claim aborts the signal with STALE_CLAIM at the next heartbeat', async () => {
    await using on = await bench(engine, { deaf: true });
    const held = holding('lost');
    const worker = await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(100);
    const { signal } = held.context(id);
    await on.queue.remove(id, { force: true });
    expect(signal.aborted).toBe(false);
    await on.clock.advance(10_000);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'STALE_CLAIM' });
    expect(worker.running).toEqual([]);
    held.end(id, 'anything');
    await on.clock.advance(20_000);
    expect(await on.queue.get(id)).toBeNull();
    expect(on.wire.of('settle').flatMap(({ request }) => request.settlements)).toEqual([]);
    expect(on.logs.map(({ message }) => message)).toContain('Late result refused');
  });

  it('progress and log lines under a lost claim are refused and stop the handler', async () => {
    await using on = await bench(engine, { deaf: true });
    const held = holding('noted');
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(100);
    const { signal, progress, log } = held.context(id);
    await on.queue.cancel(id, { force: true, reason: 'by force' });
    progress(50);
    log('still here');
    await on.clock.advance(200);
    expect(signal.reason).toMatchObject({ code: 'STALE_CLAIM' });
    expect(await on.queue.get(id)).toMatchObject({ state: 'cancelled', progress: null });
    expect(await on.queue.logs(id)).toEqual([]);
  });

  it('two handlers of one job never settle both', async () => {
    await using on = await bench(engine);
    const first = await on.another();
    const old = holding('twice');
    await first.queue.work([old.type]);
    const { id } = await on.queue.enqueue(old.type, null);
    await on.clock.advance(100);
    first.wire.down = true;
    const fresh = holding('twice');
    await on.queue.work([fresh.type]);
    await on.clock.advance(leaseMs + tendMs);
    await until(on.clock, () => fresh.started.length === 1);
    old.end(id, 'old');
    await on.clock.advance(1_000);
    expect(await stateOf(on.queue, id)).toBe('processing');
    fresh.end(id, 'fresh');
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    expect(await on.queue.get(id)).toMatchObject({ result: 'fresh', attempts: 1, stalls: 1 });
  });
});

describe.each(engines)('heartbeats on %s', (engine) => {
  it('keep the claim of a long handler through pause and stop', async () => {
    await using on = await bench(engine);
    const held = holding('long');
    const worker = await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    const other = await on.another();
    let elsewhere = 0;
    await other.queue.work([jobType('long', () => void (elsewhere += 1))]);
    await on.clock.advance(3 * leaseMs);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0 });
    await on.queue.pause();
    await on.clock.advance(3 * leaseMs);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0 });
    await on.queue.resume();
    const stopping = worker.stop({ grace: '10m' });
    await on.clock.advance(3 * leaseMs);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0, attempts: 1 });
    held.end(id, 'after nine leases');
    const report = await passing(on.clock, stopping);
    expect(report).toEqual({ finished: 1, handedBack: [], abandoned: [], leases: [] });
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', result: 'after nine leases', stalls: 0 });
    expect(elsewhere).toBe(0);
    expect(held.started).toEqual([id]);
  });

  it('go on after single failures, and the handler never notices', async () => {
    await using on = await bench(engine);
    const held = holding('shaky');
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    let beats = 0;
    on.wire.before.extend = () => {
      beats += 1;
      if (beats % 2 === 1) throw new Error('shaky');
    };
    await on.clock.advance(5 * leaseMs);
    expect(held.context(id).signal.aborted).toBe(false);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0 });
    held.end(id);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
  });

  it.each([
    ['fails', () => Promise.reject(new Error('no answer'))],
    ['hangs', forever],
  ])('when extending %s for as long as the lease, the handlers are aborted', async (_, fault) => {
    await using on = await bench(engine);
    const held = holding('untrusted');
    const worker = await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    const { signal } = held.context(id);
    on.wire.before.extend = on.wire.before.claim = fault;
    await on.clock.advance(leaseMs - 1);
    expect(signal.aborted).toBe(false);
    await on.clock.advance(1);
    expect(signal.aborted).toBe(true);
    expect(signal.reason).toMatchObject({ code: 'STALE_CLAIM' });
    expect(worker.running).toEqual([]);
  });

  it('trust ends at the time of the request plus the lease, however late the answer came', async () => {
    await using on = await bench(engine);
    const held = holding('slow-answer');
    const answer = gate();
    on.wire.after.claim = () => answer.passed;
    const { id } = await on.queue.enqueue(held.type, null);
    await on.queue.work([held.type], { lease: '30s' });
    await on.clock.advance(7_000);
    answer.open();
    await until(on.clock, () => held.started.length === 1);
    // No claim either: taking the job anew would end the old run for another reason.
    on.wire.before.extend = on.wire.before.claim = () => Promise.reject(new Error('no answer'));
    const { signal } = held.context(id);
    await on.clock.advance(leaseMs - 7_000 - 1);
    expect(signal.aborted).toBe(false);
    await on.clock.advance(1);
    expect(signal.aborted).toBe(true);
  });

  it('a process that stood still asks the store before it gives its jobs up', async () => {
    await using on = await bench(engine);
    const held = holding('asleep');
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    // Nobody tends and nobody claims meanwhile: the claim is past its lease, but still ours.
    on.wire.before.claim = forever;
    on.wire.before.sweep = forever;
    on.wire.before.sweepInTerm = forever;
    on.wire.calls.length = 0;
    await on.clock.advance(9_000);
    const { now, monotonic } = on.clock;
    const asleepMs = 60_000;
    on.clock.now = () => new Date(now().getTime() + asleepMs);
    on.clock.monotonic = () => monotonic() + asleepMs;
    await on.clock.advance(1_000);
    expect(on.wire.of('extend')).toHaveLength(1);
    expect(held.context(id).signal.aborted).toBe(false);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', stalls: 0 });
    expect((await on.queue.get(id))!.dueAt!.getTime()).toBe(on.clock.now().getTime() + leaseMs);
  });
});
