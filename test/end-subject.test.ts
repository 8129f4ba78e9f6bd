// Ending a subject: the fence, what is cancelled, released and deleted, and a certificate that stays true.
import { describe, expect, it } from 'vitest';
import { type NewJob, noFilter } from '../src/core/store.js';
import { defineJob, LastoutError, type Queue } from '../src/index.js';
import { newJob } from '../src/testing/store-cases/bench.js';
import { provider } from './leases-support.js';
import { expectCode } from './support.js';
import { bench, type Bench, codeOf, engines, holding, jobType, stateOf, until } from './worker-support.js';

const subject = 'trip:42';
const dayMs = 86_400_000;

async function statesOf(queue: Queue, ids: readonly string[]): Promise<(string | null)[]> {
  return Promise.all(ids.map((id) => stateOf(queue, id)));
}

/** A job of the library's own that stands for something outside, as leases do. */
function leaseJob(sketch: Partial<Omit<NewJob, 'policy'>> = {}): NewJob {
  return newJob({ type: 'lastout.lease.box', queue: 'lastout', subject, delay: 3_600_000, ...sketch });
}

async function startOne(on: Bench, hold: ReturnType<typeof holding>, options: object = {}): Promise<string> {
  const { id } = await on.queue.enqueue(hold.type, null, { subject, ...options });
  await until(on.clock, () => hold.started.includes(id), 'the start');
  return id;
}

describe.each(engines)('ending a subject on %s', (engine) => {
  it('cancels what is pending and delayed, asks what runs to stop, and lists it', async () => {
    await using on = await bench(engine);
    const hold = holding('dispatch', {}, true);
    await on.queue.work([hold.type]);
    const running = await startOne(on, hold);
    const waiting = await on.queue.enqueue('other', null, { subject });
    const delayed = await on.queue.enqueue('other', null, { subject, delay: '1h' });
    const untouched = await on.queue.enqueue('other', null, { subject: 'trip:43' });
    const at = on.clock.now();
    const certificate = await on.queue.endSubject(subject, 'trip cancelled');
    expect(certificate).toEqual({
      subject,
      reason: 'trip cancelled',
      at,
      cancelled: 2,
      requested: 1,
      leases: 0,
      artifacts: 0,
      underWay: [running],
      fencedUntil: new Date(at.getTime() + dayMs),
    });
    expect(await statesOf(on.queue, [waiting.id, delayed.id, untouched.id])).toEqual([
      'cancelled',
      'cancelled',
      'pending',
    ]);
    expect((await on.queue.get(waiting.id))!.error).toEqual({ code: 'CANCELLED', message: 'trip cancelled' });
    await until(on.clock, async () => (await stateOf(on.queue, running)) === 'cancelled', 'the end of what ran');
    expect(hold.context(running).signal.reason).toMatchObject({ code: 'CANCELLED', message: 'trip cancelled' });
  });

  it('asked again, the certificate says what is still under way, and later that nothing is', async () => {
    await using on = await bench(engine);
    const hold = holding('stubborn');
    await on.queue.work([hold.type]);
    const running = await startOne(on, hold);
    await on.queue.endSubject(subject, 'first');
    const again = await on.queue.endSubject(subject, 'second');
    expect(again).toMatchObject({ cancelled: 0, requested: 1, underWay: [running] });
    hold.endAll();
    await until(on.clock, async () => (await stateOf(on.queue, running)) === 'completed', 'the end of what ran');
    expect(await on.queue.endSubject(subject, 'third')).toMatchObject({ cancelled: 0, requested: 0, underWay: [] });
  });

  it('refuses new jobs of it until the fence is over or lifted', async () => {
    await using on = await bench(engine);
    await on.queue.endSubject(subject, 'gone', { fence: '10m' });
    const refusal = await expectCode('SUBJECT_ENDED', () => on.queue.enqueue('other', null, { subject }));
    expect(refusal.message).toContain(subject);
    expect(refusal.details).toMatchObject({ subject });
    const batch = [
      { type: 'other', input: null },
      { type: 'other', input: null, options: { subject } },
    ];
    expect((await expectCode('SUBJECT_ENDED', () => on.queue.enqueueMany(batch))).message).toMatch(/^Job 1: /);
    expect((await on.queue.find()).items).toEqual([]);
    await on.clock.advance('10m');
    await on.queue.enqueue('other', null, { subject });
    await on.queue.endSubject(subject, 'gone', { fence: 'forever' });
    await on.clock.advance('11m');
    expect(await codeOf(on.queue.enqueue('other', null, { subject }))).toBe('SUBJECT_ENDED');
    expect([await on.queue.liftSubject(subject), await on.queue.liftSubject(subject)]).toEqual([true, false]);
    await on.queue.enqueue('other', null, { subject });
  });

  it('skips a retry by hand and the ticks of a schedule', async () => {
    await using on = await bench(engine);
    const ran: string[] = [];
    const type = jobType('ticked', ({ job }) => void ran.push(job.id));
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null, { subject });
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed', 'the first run');
    await on.queue.schedule('ticks', type, null, { every: '1m' }, { subject });
    await on.queue.endSubject(subject, 'gone', { fence: '10m' });
    expect((await on.queue.retry(id)).items).toEqual([{ id, outcome: 'skipped' }]);
    await on.clock.advance('5m');
    expect(ran).toEqual([id]);
    await on.queue.liftSubject(subject);
    await on.clock.advance('61s');
    expect(ran).toHaveLength(2);
  });

  it('a running job that snoozes or throws behind the fence does not start again', async () => {
    await using on = await bench(engine);
    const hold = holding('again', { attempts: 5, backoff: { type: 'fixed', base: 0 } });
    await on.queue.work([hold.type]);
    const running = await startOne(on, hold);
    await on.queue.endSubject(subject, 'gone');
    hold.end(running, Promise.reject(new Error('broken')));
    await until(on.clock, async () => (await stateOf(on.queue, running)) === 'cancelled', 'the end');
    await on.clock.advance('1m');
    expect(hold.started).toEqual([running]);
  });

  it('a job that slipped in beside the fence never runs, and is collected', async () => {
    await using on = await bench(engine);
    const ran: string[] = [];
    const type = jobType('late', ({ job }) => void ran.push(job.id));
    const due = await on.queue.enqueue(type, null, { subject });
    const delayed = await on.queue.enqueue(type, null, { subject, delay: '5h' });
    // The fence alone, as it stands when a job that was on its way in comes after the cancelling.
    await on.store.fence(subject, { reason: 'gone', forMs: dayMs });
    await on.queue.work([type]);
    await until(on.clock, async () => (await stateOf(on.queue, due.id)) === 'cancelled', 'the end of what is due');
    await on.clock.advance('70s');
    expect(await stateOf(on.queue, delayed.id)).toBe('cancelled');
    expect(ran).toEqual([]);
  });

  it('releases its leases: they are due at once, whoever holds them', async () => {
    await using on = await bench(engine);
    const [held, other] = [leaseJob(), leaseJob({ subject: 'trip:43' })];
    await on.store.insert([held, other], { atomic: true });
    const certificate = await on.queue.endSubject(subject, 'gone');
    expect(certificate).toMatchObject({ leases: 1, underWay: [held.id] });
    const claimed = await on.store.claim({
      ...{ owner: 'ender', types: ['lastout.lease.box'], queues: ['lastout'], slots: 5, ahead: 0, leaseMs: 60_000 },
      maxStalls: 3,
    });
    expect(claimed.jobs.map(({ id }) => id)).toEqual([held.id]);
    expect(await on.queue.endSubject(subject, 'gone')).toMatchObject({ leases: 0, underWay: [held.id] });
    const settlements = [{ id: held.id, epoch: claimed.epoch, ending: { kind: 'complete', result: 'null' } as const }];
    await on.store.settle({ owner: 'ender', settlements, started: [], next: null });
    expect(await on.queue.endSubject(subject, 'gone')).toMatchObject({ leases: 0, underWay: [] });
    expect(await codeOf(on.store.insert([leaseJob()], { atomic: true }))).toBe('SUBJECT_ENDED');
  });

  it('what a lease stands for is destroyed, and its holder cannot renew it', async () => {
    const rooms = provider();
    await using on = await bench(engine, { resources: [rooms.resource] });
    const lease = await on.queue.lease(rooms.resource, { size: 1 }, { ttl: '1h', subject });
    const other = await on.queue.lease(rooms.resource, { size: 1 }, { ttl: '1h', subject: 'trip:43' });
    expect(await on.queue.endSubject(subject, 'gone')).toMatchObject({ leases: 1, underWay: [lease.id] });
    expect(await codeOf(lease.renew('1h'))).toBe('LEASE_LOST');
    await on.clock.advance('10s');
    expect(rooms.names()).toEqual([other.name]);
    expect(await on.queue.endSubject(subject, 'gone')).toMatchObject({ leases: 0, underWay: [] });
    expect(await codeOf(on.queue.lease(rooms.resource, { size: 1 }, { ttl: '1h', subject }))).toBe('SUBJECT_ENDED');
    expect(rooms.count('create')).toBe(2);
  });

  it('deletes artifacts on request, of finished jobs and of those that it cancels', async () => {
    await using on = await bench(engine, { artifacts: 'memory' });
    const type = defineJob<any, any>('writes', {
      async run({ artifact }) {
        await artifact.put('a', '1');
        await artifact.put('b', '2');
      },
    });
    await on.queue.work([type]);
    const { id } = await on.queue.enqueue(type, null, { subject });
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed', 'the artifacts');
    expect((await on.queue.endSubject(subject, 'gone')).artifacts).toBe(0);
    expect(await on.queue.artifacts.list(id)).toHaveLength(2);
    await on.queue.hold(id, 'evidence');
    expect(await on.queue.endSubject(subject, 'gone', { artifacts: true })).toMatchObject({
      artifacts: 0,
      underWay: [id],
    });
    await on.queue.release(id);
    expect(await on.queue.endSubject(subject, 'gone', { artifacts: true })).toMatchObject({
      artifacts: 2,
      underWay: [],
    });
    expect(await on.queue.artifacts.list(id)).toEqual([]);
  });

  it('many jobs of one subject take bounded calls', async () => {
    await using on = await bench(engine);
    for (let batch = 0; batch < 3; batch++)
      await on.queue.enqueueMany(
        Array.from({ length: 1_000 }, () => ({ type: 'many', input: null, options: { subject } })),
      );
    on.wire.calls.length = 0;
    expect((await on.queue.endSubject(subject, 'gone')).cancelled).toBe(3_000);
    const moves = on.wire.of('move');
    expect(moves.length).toBeGreaterThanOrEqual(6);
    for (const { reply } of moves) expect(reply.items.length).toBeLessThanOrEqual(500);
  });
});

describe('through a codec', () => {
  it('the reason is coded in the store, also of what a claim ends, and plain to who reads it', async () => {
    const codec = {
      encode: (text: string) => Buffer.from(text).toString('base64'),
      decode: (text: string) => Buffer.from(text, 'base64').toString(),
    };
    await using on = await bench('memory', { codec });
    const ran: string[] = [];
    const type = jobType('late', ({ job }) => void ran.push(job.id));
    // The cancelling does not reach it: as if it had come in a moment later.
    on.wire.before.move = async () => {
      throw new LastoutError('STORE_UNAVAILABLE', 'away');
    };
    const { id } = await on.queue.enqueue(type, null, { subject });
    expect(await codeOf(on.queue.endSubject(subject, 'a secret'))).toBe('STORE_UNAVAILABLE');
    await on.queue.work([type]);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled', 'the end');
    expect((await on.queue.get(id))!.error).toEqual({ code: 'CANCELLED', message: 'a secret' });
    expect(ran).toEqual([]);
    const { jobs } = await on.store.find({ filter: { ...noFilter, ids: [id] }, cursor: null, limit: 1 });
    expect(jobs[0]!.error).not.toContain('secret');
  });
});

describe('a hundred thousand jobs of one subject', () => {
  it('end in bounded calls, and other jobs cost nothing', { timeout: 120_000 }, async () => {
    await using on = await bench('memory');
    const jobs = (of: string) =>
      Array.from({ length: 1_000 }, () => ({ type: 'many', input: null, options: { subject: of } }));
    for (let batch = 0; batch < 100; batch++) await on.queue.enqueueMany(jobs(subject));
    await on.queue.enqueueMany(jobs('trip:43'));
    on.wire.calls.length = 0;
    expect((await on.queue.endSubject(subject, 'gone')).cancelled).toBe(100_000);
    const moves = on.wire.of('move');
    for (const { reply } of moves) expect(reply.items.length).toBeLessThanOrEqual(500);
    expect(moves.length).toBeLessThanOrEqual(201);
    expect((await on.queue.stats()).total).toMatchObject({ pending: 1_000, cancelled: 100_000 });
  });
});

describe('what endSubject and liftSubject refuse', () => {
  it('no subject, no reason, options that do not exist', async () => {
    await using on = await bench('memory');
    const { queue } = on;
    await expectCode('INVALID_KEY', () => queue.endSubject('', 'gone'));
    await expectCode('INVALID_KEY', () => queue.endSubject('trip', 'gone'));
    await expectCode('INVALID_KEY', () => queue.liftSubject('*'));
    await expectCode('INVALID_INPUT', () => queue.endSubject(subject, ' '));
    await expectCode('INVALID_INPUT', () => queue.endSubject(subject, undefined as never));
    await expectCode('INVALID_DURATION', () => queue.endSubject(subject, 'gone', { fence: 'never' as never }));
    await expectCode('UNKNOWN_OPTION', () => queue.endSubject(subject, 'gone', { artefacts: true } as never));
    await expectCode('UNKNOWN_OPTION', () => queue.endSubject(subject, 'gone', { artifacts: 'yes' as never }));
    expect(await on.store.unfence(subject)).toBeNull();
  });
});
