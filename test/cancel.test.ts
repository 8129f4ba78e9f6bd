/** Cancelling, and the other things done to jobs by hand: each answers with the truth. */
import { describe, expect, it } from 'vitest';
import { cancel, fail, open, type Queue } from '../src/index.js';
import {
  bench,
  type Bench,
  codeOf,
  engines,
  eventually,
  holding,
  jobType,
  rejected,
  sharedFile,
  startChild,
  stateOf,
  until,
} from './worker-support.js';

async function pages(
  act: (cursor?: string) => Promise<{ items: readonly { outcome: string }[]; next: string | null }>,
) {
  const sizes: number[] = [];
  const outcomes = new Map<string, number>();
  for (let cursor: string | undefined, more = true; more; ) {
    const { items, next } = await act(cursor);
    sizes.push(items.length);
    for (const { outcome } of items) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    more = next !== null;
    cursor = next ?? undefined;
  }
  return { sizes, outcomes: Object.fromEntries(outcomes) };
}

/** One job in each finished state. */
async function finishedJobs(on: Bench): Promise<Record<'completed' | 'failed' | 'cancelled' | 'expired', string>> {
  const type = jobType('ends', ({ input }) => (input === 'fail' ? fail('no') : input === 'cancel' ? cancel('no') : 1));
  const expired = await on.queue.enqueue('never-worked', null, { ttl: '1s' });
  await on.clock.advance(1_000);
  const worker = await on.queue.work([type]);
  const ids = await Promise.all(['complete', 'fail', 'cancel'].map((input) => on.queue.enqueue(type, input)));
  for (const { id } of ids) await until(on.clock, async () => (await on.queue.get(id))!.completedAt !== null);
  await worker.stop();
  return { completed: ids[0]!.id, failed: ids[1]!.id, cancelled: ids[2]!.id, expired: expired.id };
}

describe.each(engines)('cancelling pending jobs on %s', (engine) => {
  it('by id: at once, for good, with the reason as its error', async () => {
    await using on = await bench(engine);
    const ran: string[] = [];
    const type = jobType('pending', ({ job }) => void ran.push(job.id));
    const { id } = await on.queue.enqueue(type, null);
    const delayed = await on.queue.enqueue(type, null, { delay: '10s' });
    expect(await on.queue.cancel(id, { reason: 'site deleted' })).toEqual({
      matched: 1,
      items: [{ id, outcome: 'cancelled' }],
      next: null,
    });
    await on.queue.cancel(delayed.id);
    await on.queue.work([type]);
    await on.clock.advance(11_000);
    expect(ran).toEqual([]);
    const job = (await on.queue.get(id))!;
    expect(job).toMatchObject({
      state: 'cancelled',
      error: { code: 'CANCELLED', message: 'site deleted' },
      attempts: 0,
    });
    expect(job.completedAt!.getTime()).toBe(job.createdAt.getTime());
    expect((await on.queue.get(delayed.id))!.error).toEqual({ code: 'CANCELLED', message: 'Cancelled' });
  });

  it('by subject: all of it and nothing else, and what comes later is untouched', async () => {
    await using on = await bench(engine);
    const mine = await on.queue.enqueueMany([
      { type: 'a', input: 1, options: { subject: 'trip:42' } },
      { type: 'b', input: 2, options: { subject: 'trip:42', delay: '1h', queue: 'other' } },
    ]);
    const others = await on.queue.enqueueMany([
      { type: 'a', input: 3, options: { subject: 'trip:421' } },
      { type: 'a', input: 4, options: { subject: 'trip:4' } },
      { type: 'a', input: 5 },
    ]);
    const { items } = await on.queue.cancel({ subject: 'trip:42' }, { reason: 'trip over' });
    expect(items.map(({ id }) => id).sort()).toEqual(mine.map(({ id }) => id).sort());
    const later = await on.queue.enqueue('a', 6, { subject: 'trip:42' });
    for (const { id } of [...others, later]) expect(await stateOf(on.queue, id)).toBe('pending');
    for (const { id } of mine) expect((await on.queue.get(id))!.error!.message).toBe('trip over');
  });

  it.each<[string, object]>([
    ['type', { type: 'chosen' }],
    ['queue', { queue: 'chosen' }],
    ['key', { key: 'chosen' }],
    ['source', { source: 'chosen' }],
    ['several at once', { type: 'chosen', queue: ['chosen', 'another'], state: 'pending' }],
  ])('by filter on %s', async (_, filter) => {
    await using on = await bench(engine);
    const chosen = await on.queue.enqueue('chosen', null, {
      queue: 'chosen',
      deduplication: 'skip',
      deduplicationKey: 'chosen',
      source: 'chosen',
    });
    const other = await on.queue.enqueue('other', null);
    expect((await on.queue.cancel(filter)).items).toEqual([{ id: chosen.id, outcome: 'cancelled' }]);
    expect(await stateOf(on.queue, other.id)).toBe('pending');
  });

  it('by filter on the time of creation', async () => {
    await using on = await bench(engine);
    const old = await on.queue.enqueue('timed', 1);
    await on.clock.advance(1_000);
    const between = on.clock.now();
    await on.clock.advance(1_000);
    const fresh = await on.queue.enqueue('timed', 2);
    expect((await on.queue.cancel({ before: between })).items).toEqual([{ id: old.id, outcome: 'cancelled' }]);
    expect((await on.queue.cancel({ after: between })).items).toEqual([{ id: fresh.id, outcome: 'cancelled' }]);
  });

  it('pages over 2,500 jobs, at most 1,000 at a time', async () => {
    await using on = await bench(engine);
    for (let batch = 0; batch < 5; batch++)
      await on.queue.enqueueMany(Array.from({ length: 500 }, (_, input) => ({ type: 'bulk', input })));
    const dry = await pages((cursor) =>
      on.queue.cancel({ type: 'bulk' }, { dryRun: true, ...(cursor !== undefined && { cursor }) }),
    );
    expect(dry).toEqual({ sizes: [1_000, 1_000, 500], outcomes: { cancelled: 2_500 } });
    expect((await on.queue.stats()).total).toMatchObject({ pending: 2_500, cancelled: 0 });
    const real = await pages((cursor) => on.queue.cancel({ type: 'bulk' }, cursor === undefined ? {} : { cursor }));
    expect(real).toEqual({ sizes: [1_000, 1_000, 500], outcomes: { cancelled: 2_500 } });
    expect((await on.queue.stats()).total).toMatchObject({ pending: 0, cancelled: 2_500 });
    expect((await on.queue.cancel({ type: 'bulk' })).matched).toBe(0);
  });
});

describe.each(engines)('cancelling running jobs on %s', (engine) => {
  async function running(on: Bench, obeys: boolean, options: object = {}) {
    const held = holding('running', options, obeys);
    await on.queue.work([held.type]);
    const { id } = await on.queue.enqueue(held.type, null);
    await on.clock.advance(100);
    expect(held.started).toEqual([id]);
    return { held, id, signal: held.context(id).signal };
  }

  it('reaches the signal at once in the same process', async () => {
    await using on = await bench(engine);
    const { id, signal } = await running(on, true);
    const before = on.clock.now();
    expect((await on.queue.cancel(id, { reason: 'enough' })).items).toEqual([{ id, outcome: 'requested' }]);
    await until(on.clock, () => signal.aborted);
    expect(signal.reason).toMatchObject({ code: 'CANCELLED', message: 'enough' });
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled');
    expect(on.clock.now()).toEqual(before);
    expect(await on.queue.get(id)).toMatchObject({
      error: { code: 'CANCELLED', message: 'enough' },
      cancelRequested: { at: before, reason: 'enough' },
    });
  });

  it('reaches the signal within one heartbeat where no hint comes through', async () => {
    await using on = await bench(engine, { deaf: true });
    const { id, signal } = await running(on, true);
    await on.queue.cancel(id);
    await on.clock.settle();
    expect(signal.aborted).toBe(false);
    expect(await on.queue.get(id)).toMatchObject({ state: 'processing', cancelRequested: { reason: 'Cancelled' } });
    await on.clock.advance(10_000);
    expect(signal.aborted).toBe(true);
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled');
  });

  it('no retry is made of a handler that throws after the request', async () => {
    await using on = await bench(engine);
    const { id, held } = await running(on, false, { attempts: 5 });
    await on.queue.cancel(id, { reason: 'stop' });
    held.end(id, rejected(new Error('of its own')));
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled');
    await on.clock.advance(120_000);
    expect(await on.queue.get(id)).toMatchObject({ state: 'cancelled', error: { message: 'stop' }, attempts: 1 });
    expect(held.started).toHaveLength(1);
  });

  it('a handler that finishes its work all the same has completed', async () => {
    await using on = await bench(engine);
    const { id, held } = await running(on, false);
    await on.queue.cancel(id);
    held.end(id, 'done anyway');
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
    expect(await on.queue.get(id)).toMatchObject({ result: 'done anyway', error: null });
    expect((await on.queue.cancel(id)).items).toEqual([{ id, outcome: 'already:completed' }]);
  });

  it('the first reason stands', async () => {
    await using on = await bench(engine);
    const { id, held } = await running(on, false);
    await on.queue.cancel(id, { reason: 'first' });
    expect((await on.queue.cancel(id, { reason: 'second' })).items).toEqual([{ id, outcome: 'requested' }]);
    held.end(id, rejected(new Error('stopped')));
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled');
    expect((await on.queue.get(id))!.error!.message).toBe('first');
  });

  it('force ends it at once, tells the handler, and refuses what it still says', async () => {
    await using on = await bench(engine);
    const { id, held, signal } = await running(on, false);
    expect((await on.queue.cancel(id, { force: true, reason: 'now' })).items).toEqual([{ id, outcome: 'cancelled' }]);
    expect(await on.queue.get(id)).toMatchObject({ state: 'cancelled', error: { code: 'CANCELLED', message: 'now' } });
    await until(on.clock, () => signal.aborted);
    expect(signal.reason).toMatchObject({ code: 'STALE_CLAIM' });
    const ended = await on.queue.get(id);
    held.end(id, 'too late');
    await on.clock.advance(60_000);
    expect(await on.queue.get(id)).toEqual(ended);
    expect(on.logs.map(({ message }) => message)).toContain('Late result refused');
  });

  it('by subject it reaches pending and running ones alike', async () => {
    await using on = await bench(engine);
    const { id, held } = await running(on, true, { subject: 'site:docs' });
    const waiting = await on.queue.enqueue(held.type, null, { delay: '1h' });
    const { items } = await on.queue.cancel({ subject: 'site:docs' });
    expect(new Map(items.map((item) => [item.id, item.outcome]))).toEqual(
      new Map([
        [id, 'requested'],
        [waiting.id, 'cancelled'],
      ]),
    );
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'cancelled');
  });
});

describe.each(engines)('truthful answers on %s', (engine) => {
  it('of a finished job it says how it had ended, and changes nothing', async () => {
    await using on = await bench(engine);
    const jobs = await finishedJobs(on);
    for (const [state, id] of Object.entries(jobs)) {
      const before = await on.queue.get(id);
      for (const force of [false, true]) {
        expect((await on.queue.cancel(id, { force })).items).toEqual([{ id, outcome: `already:${state}` }]);
      }
      expect(await on.queue.get(id)).toEqual(before);
    }
  });

  it('of an unknown job it says nothing', async () => {
    await using on = await bench(engine);
    expect(await on.queue.cancel('01hzzzzzzzzzzzzzzzzz')).toEqual({ matched: 0, items: [], next: null });
  });

  it('an expired job that nobody swept is already expired', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('unswept', null, { ttl: 100 });
    for (const verb of ['sweep', 'sweepInTerm'] as const)
      on.wire.before[verb] = () => Promise.reject(new Error('no sweep'));
    await on.clock.advance(100);
    expect((await on.queue.cancel(id)).items).toEqual([{ id, outcome: 'already:expired' }]);
  });

  it.each<[string, unknown, string]>([
    ['an empty filter', {}, 'FILTER_REQUIRED'],
    ['nothing', undefined, 'FILTER_REQUIRED'],
    ['null', null, 'FILTER_REQUIRED'],
    ['an empty subject', { subject: '' }, 'SUBJECT_REQUIRED'],
    ['a star without a kind', { subject: '*' }, 'INVALID_KEY'],
    ['an SQL wildcard without a kind', { subject: '%' }, 'INVALID_KEY'],
    ['a misspelt field', { subjekt: 'trip:42' }, 'UNKNOWN_OPTION'],
    ['an unknown state', { state: 'running' }, 'INVALID_FILTER'],
    ['all that is not true', { all: 1 }, 'INVALID_FILTER'],
    ['an id that is none', 'no such id!', 'INVALID_ID'],
  ])('%s is refused before anything happens', async (_, which, code) => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('safe', null);
    for (const act of ['cancel', 'retry', 'remove'] as const)
      expect(await codeOf(on.queue[act](which as string))).toBe(code);
    expect(await codeOf(on.queue.reschedule(which as string, { delay: 0 }))).toBe(code);
    expect(on.wire.of('move')).toHaveLength(0);
    expect(await stateOf(on.queue, id)).toBe('pending');
  });

  it('all: true means every job that can be cancelled', async () => {
    await using on = await bench(engine);
    await on.queue.enqueueMany([
      { type: 'a', input: 1 },
      { type: 'b', input: 2, options: { queue: 'other' } },
    ]);
    expect((await on.queue.cancel({ all: true })).matched).toBe(2);
    expect((await on.queue.stats()).total).toMatchObject({ pending: 0, cancelled: 2 });
  });
});

describe.each(engines)('retry, remove and reschedule on %s', (engine) => {
  it('retry makes a new job of a finished one, which stays as it ended', async () => {
    await using on = await bench(engine);
    const jobs = await finishedJobs(on);
    for (const id of Object.values(jobs)) {
      const old = (await on.queue.get(id))!;
      const { items } = await on.queue.retry(id);
      expect(items).toEqual([{ id, outcome: 'retried', newId: expect.any(String) }]);
      const made = (await on.queue.get(items[0]!.newId!))!;
      expect(made).toMatchObject({ state: 'pending', retryOf: id, type: old.type, input: old.input, attempts: 0 });
      expect(await on.queue.get(id)).toEqual(old);
    }
  });

  it('retry keeps what the job was made with', async () => {
    await using on = await bench(engine);
    const options = {
      queue: 'own',
      priority: 7,
      subject: 'trip:42',
      exclusiveKey: 'x',
      source: 'test',
      metadata: { a: 1 },
      attempts: 9,
    };
    const { id } = await on.queue.enqueue('kept', { n: 1 }, options);
    await on.queue.cancel(id);
    const { newId } = (await on.queue.retry(id)).items[0]!;
    const { attempts, ...columns } = options;
    expect(await on.queue.get(newId!)).toMatchObject({ ...columns, maxAttempts: attempts, input: { n: 1 } });
  });

  it('retry refuses live jobs, and skips where the slot is taken', async () => {
    await using on = await bench(engine);
    const options = { deduplication: 'skip', deduplicationKey: 'k' } as const;
    const first = await on.queue.enqueue('slotted', null, options);
    expect((await on.queue.retry(first.id)).items).toEqual([{ id: first.id, outcome: 'not_finished' }]);
    await on.queue.cancel(first.id);
    const second = await on.queue.enqueue('slotted', null, options);
    expect((await on.queue.retry(first.id)).items).toEqual([{ id: first.id, outcome: 'skipped', newId: second.id }]);
    expect((await on.queue.find({ type: 'slotted', state: 'pending' })).items).toHaveLength(1);
  });

  it('retry by filter makes one new job each', async () => {
    await using on = await bench(engine);
    await on.queue.enqueueMany(Array.from({ length: 20 }, (_, input) => ({ type: 'bulk', input })));
    await on.queue.cancel({ type: 'bulk' });
    const { items } = await on.queue.retry({ type: 'bulk', state: 'cancelled' });
    expect(new Set(items.map(({ newId }) => newId)).size).toBe(20);
    expect((await on.queue.stats()).total).toMatchObject({ pending: 20, cancelled: 20 });
  });

  it('retry by filter takes failed jobs only, and repeats none of them twice', async () => {
    await using on = await bench(engine);
    const { failed } = await finishedJobs(on);
    const { items } = await on.queue.retry({ type: 'ends' });
    expect(items).toEqual([{ id: failed, outcome: 'retried', newId: expect.any(String) }]);
    const already = [{ id: failed, outcome: 'already_retried', newId: items[0]!.newId! }];
    expect((await on.queue.retry({ type: 'ends' })).items).toEqual(already);
    expect((await on.queue.retry(failed, { dryRun: true })).items).toEqual(already);
    expect((await on.queue.stats()).total.pending).toBe(1);
    const again = await on.queue.retry({ type: 'ends' }, { again: true });
    expect(again.items).toEqual([{ id: failed, outcome: 'retried', newId: expect.any(String) }]);
    expect((await on.queue.stats()).total.pending).toBe(2);
    expect(await codeOf(on.queue.cancel(failed, { again: true }))).toBe('UNKNOWN_OPTION');
  });

  it('retry repeats what completed where that state is named', async () => {
    await using on = await bench(engine);
    const { completed } = await finishedJobs(on);
    const { items } = await on.queue.retry({ type: 'ends', state: 'completed' });
    expect(items).toEqual([{ id: completed, outcome: 'retried', newId: expect.any(String) }]);
  });

  it('retry leaves replaced jobs alone unless they are named', async () => {
    await using on = await bench(engine);
    const options = { deduplication: 'replace' } as const;
    const old = await on.queue.enqueue('built', 1, options);
    const { id } = await on.queue.enqueue('built', 2, options);
    await on.queue.cancel(id);
    for (const which of [{ type: 'built' }, { state: 'failed' }, { all: true }] as const)
      expect(await on.queue.retry(which)).toEqual({ matched: 0, items: [], next: null });
    const { items } = await on.queue.retry(old.id);
    expect(items).toEqual([{ id: old.id, outcome: 'retried', newId: expect.any(String) }]);
  });

  it('remove takes pending and finished jobs, and running ones only by force', async () => {
    await using on = await bench(engine);
    const jobs = await finishedJobs(on);
    const held = holding('removed');
    await on.queue.work([held.type]);
    const pending = await on.queue.enqueue(held.type, null, { delay: '1h' });
    const { id } = await on.queue.enqueue(held.type, null);
    await until(on.clock, () => held.started.length === 1);
    for (const gone of [...Object.values(jobs), pending.id]) {
      expect((await on.queue.remove(gone)).items).toEqual([{ id: gone, outcome: 'removed' }]);
      expect(await on.queue.get(gone)).toBeNull();
    }
    expect((await on.queue.remove(id)).items).toEqual([{ id, outcome: 'not_finished' }]);
    expect((await on.queue.remove(id, { force: true })).items).toEqual([{ id, outcome: 'removed' }]);
    await until(on.clock, () => held.context(id).signal.aborted);
    held.context(id).log('from the grave');
    held.end(id, 'nobody listens');
    await on.clock.advance(30_000);
    expect(await on.queue.get(id)).toBeNull();
    expect(await on.queue.logs(id)).toEqual([]);
    expect((await on.queue.find()).items).toEqual([]);
    expect((await on.queue.stats()).total).toMatchObject({ pending: 0, processing: 0, completed: 0, failed: 0 });
  });

  it('reschedule moves pending jobs: later, now, or ahead of others', async () => {
    await using on = await bench(engine);
    const order: unknown[] = [];
    const type = jobType('moved', ({ input }) => void order.push(input));
    const later = await on.queue.enqueue(type, 'later');
    const now = await on.queue.enqueue(type, 'now', { delay: '10s' });
    await on.queue.enqueue(type, 'third');
    const ahead = await on.queue.enqueue(type, 'ahead');
    const dated = await on.queue.enqueue(type, 'dated');
    const runAt = new Date(on.clock.now().getTime() + 20_000);
    expect((await on.queue.reschedule(later.id, { delay: '20s' })).items).toEqual([{ id: later.id, outcome: 'moved' }]);
    await on.queue.reschedule(dated.id, { runAt });
    await on.queue.reschedule(now.id, { delay: 0 });
    await on.queue.reschedule(ahead.id, { priority: -1 });
    expect((await on.queue.get(dated.id))!.scheduledFor).toEqual(runAt);
    await on.queue.work([type], { concurrency: 1 });
    await until(on.clock, () => order.length === 3);
    await on.clock.advance(10_000);
    expect(order[0]).toBe('ahead');
    expect([...order].sort()).toEqual(['ahead', 'now', 'third']);
    await on.clock.advance(10_000);
    expect(order.slice(3)).toEqual(['later', 'dated']);
    expect((await on.queue.reschedule(now.id, { delay: 0 })).items).toEqual([{ id: now.id, outcome: 'not_pending' }]);
  });

  it('reschedule by filter goes on from page to page, and a dry run moves nothing', async () => {
    await using on = await bench(engine);
    for (const n of [1_000, 50])
      await on.queue.enqueueMany(
        Array.from({ length: n }, () => ({ type: 'bulk', input: null, options: { delay: '1h' } })),
      );
    const move = (cursor?: string, dryRun = false) =>
      on.queue.reschedule({ type: 'bulk' }, { delay: 0 }, { dryRun, ...(cursor !== undefined && { cursor }) });
    expect((await move(undefined, true)).matched).toBeGreaterThan(0);
    expect((await on.queue.stats()).total).toMatchObject({ delayed: 1_050 });
    const { outcomes } = await pages(move);
    expect(outcomes).toEqual({ moved: 1_050 });
    expect((await on.queue.stats()).total).toMatchObject({ pending: 1_050, delayed: 0 });
  });

  it('a cursor is taken by the call that made it, and refused by every other', async () => {
    await using on = await bench(engine);
    await on.queue.enqueueMany(Array.from({ length: 3 }, () => ({ type: 'bulk', input: null })));
    const { next } = await on.queue.find({ limit: 1 });
    const { items } = await on.queue.find({ limit: 2, cursor: next! });
    expect(items).toHaveLength(2);
    const calls: ((cursor: string) => Promise<unknown>)[] = [
      (cursor) => on.queue.cancel({ type: 'bulk' }, { cursor }),
      (cursor) => on.queue.retry({ type: 'bulk' }, { cursor }),
      (cursor) => on.queue.remove({ type: 'bulk' }, { cursor }),
      (cursor) => on.queue.remove({ queue: 'lastout' }, { cursor }),
      (cursor) => on.queue.reschedule({ type: 'bulk' }, { delay: 0 }, { cursor }),
      (cursor) => on.queue.ledger({ cursor }),
      (cursor) => on.queue.leases.find({ cursor }),
    ];
    for (const call of calls) expect(await codeOf(call(next!))).toBe('INVALID_CURSOR');
    const find = (cursor: string) => on.queue.find({ cursor });
    const strange = ['', '1', 'zz', '.', '1.', `0${next}`, `${next}0`, next!.slice(0, -1), '7.1', 'x'.repeat(10_000)];
    for (const cursor of strange)
      for (const call of [find, ...calls]) expect(await codeOf(call(cursor))).toBe('INVALID_CURSOR');
    for (const cursor of [5, {}, true]) expect(await codeOf(find(cursor as never))).toBe('INVALID_CURSOR');
    expect((await on.queue.stats()).total).toMatchObject({ pending: 3 });
  });

  it('reschedule wakes a sleeping worker', async () => {
    await using on = await bench(engine);
    const type = jobType('woken', () => 'up');
    await on.queue.work([type], { poll: '1h' });
    const { id } = await on.queue.enqueue(type, null, { delay: '10h' });
    await on.clock.advance(1_000);
    await on.queue.reschedule(id, { delay: 0 });
    await until(on.clock, async () => (await stateOf(on.queue, id)) === 'completed');
  });

  it('reschedule without a time or a priority is refused', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('still', null);
    expect(await codeOf(on.queue.reschedule(id, {}))).toBe('INVALID_DELAY');
  });
});

describe.each(engines)('pause and resume on %s', (engine) => {
  it('one queue, every queue, and back', async () => {
    await using on = await bench(engine);
    const ran: unknown[] = [];
    const type = jobType('any', ({ input }) => void ran.push(input));
    await on.queue.work([type]);
    await on.queue.pause('a');
    await on.queue.enqueue(type, 'in a', { queue: 'a' });
    await on.queue.enqueue(type, 'in b', { queue: 'b' });
    await on.clock.advance(1_000);
    expect(ran).toEqual(['in b']);
    expect((await on.queue.stats()).queues).toMatchObject({ a: { paused: true, pending: 1 }, b: { paused: false } });
    await on.queue.pause();
    await on.queue.enqueue(type, 'also in b', { queue: 'b' });
    await on.clock.advance(1_000);
    expect(ran).toEqual(['in b']);
    expect((await on.queue.stats()).total.paused).toBe(true);
    await on.queue.resume('b');
    await on.clock.advance(1_000);
    expect(ran).toEqual(['in b', 'also in b']);
    const { id } = await on.queue.enqueue(type, 'in c', { queue: 'c' });
    expect(await on.queue.explain(id)).toMatchObject({ blockedBy: 'paused' });
    const { total, queues } = await on.queue.stats();
    expect([total.paused, queues]).toMatchObject([
      false,
      { a: { paused: true }, b: { paused: false }, c: { paused: true } },
    ]);
    await on.queue.resume();
    await on.clock.advance(1_000);
    expect([...ran].sort()).toEqual(['also in b', 'in a', 'in b', 'in c']);
    expect((await on.queue.stats()).total.paused).toBe(false);
  });

  it('a pause is seen by every process on the store, and outlives the one that asked', async () => {
    await using on = await bench(engine);
    const other = await on.another();
    await other.queue.pause('default');
    await other.queue.close();
    const ran: unknown[] = [];
    await on.queue.work([jobType('seen', () => void ran.push(1))]);
    await on.queue.enqueue('seen', null);
    await on.clock.advance(2_000);
    expect(ran).toEqual([]);
    await on.queue.resume('default');
    await on.clock.advance(100);
    expect(ran).toEqual([1]);
  });

  it('a name that cannot be a queue is refused', async () => {
    await using on = await bench(engine);
    expect(await codeOf(on.queue.pause('no:good'))).toBe('INVALID_NAME');
    expect(await codeOf(on.queue.resume(''))).toBe('INVALID_NAME');
  });
});

describe('cancelling from another process on the same SQLite file', () => {
  async function reaches(act: (queue: Queue, id: string) => Promise<unknown>, code: string, state: string) {
    await using shared = await sharedFile();
    await using queue = await open(`sqlite:${shared.file}`);
    await using child = startChild('worker', shared.file);
    await child.said('ready');
    const { id } = await queue.enqueue('waits', null);
    await child.said(`started ${id}`);
    await act(queue, id);
    expect(await child.said('aborted')).toBe(`aborted ${code}`);
    await eventually(async () => (await stateOf(queue, id)) === state, state);
    child.kill('SIGTERM');
    expect(await child.exited).toEqual({ code: 0, signal: null });
  }

  it('a request reaches the running handler', async () => {
    await reaches((queue, id) => queue.cancel(id, { reason: 'from afar' }), 'CANCELLED', 'cancelled');
  });

  it('force takes the job away from it', async () => {
    await reaches((queue, id) => queue.cancel(id, { force: true }), 'STALE_CLAIM', 'cancelled');
  });
});
