// Every store call ends, and an outcome that nobody knows is resolved by looking, never by a blind second write.
import { describe, expect, it } from 'vitest';
import { noFilter } from '../src/core/store.js';
import { defineJob } from '../src/index.js';
import { bench, engines, forever, gate, passing, warnings } from './worker-support.js';

const lost = (): never => {
  throw new Error('connection reset');
};
/** What a call gives or how it is refused, once it is over. */
const outcome = async <T>(call: Promise<T>): Promise<T | string> =>
  call.catch((error: { code?: string }) => String(error.code));

describe.each(engines)('on %s', (engine) => {
  describe('a store call that', () => {
    it('does not answer ends after 15 seconds: unknown for what writes, unavailable for what reads', async () => {
      await using on = await bench(engine);
      const { queue, wire, clock } = on;
      const calls = {
        move: () => queue.cancel('nobody'),
        pause: () => queue.pause(),
        find: () => queue.get('nobody'),
        tally: () => queue.stats(),
        readLines: () => queue.logs('nobody'),
        sweepInTerm: () => queue.sweep(),
      };
      const answers: Record<string, unknown> = {};
      for (const [verb, call] of Object.entries(calls)) {
        wire.before[verb as 'move'] = forever;
        const waiting = outcome<unknown>(call());
        let over = false;
        void waiting.then(() => (over = true));
        await clock.advance(14_999);
        expect(over, verb).toBe(false);
        await clock.advance(2);
        answers[verb] = await waiting;
        delete wire.before[verb as 'move'];
      }
      expect(answers).toEqual({
        move: 'RESULT_UNKNOWN',
        pause: 'RESULT_UNKNOWN',
        sweepInTerm: 'RESULT_UNKNOWN',
        find: 'STORE_UNAVAILABLE',
        tally: 'STORE_UNAVAILABLE',
        readLines: 'STORE_UNAVAILABLE',
      });
    });

    it('breaks off without a name is unknown, and the cause is kept', async () => {
      await using on = await bench(engine);
      on.wire.after.pause = lost;
      const refusal = await on.queue.pause().catch((error: unknown) => error);
      expect(refusal).toMatchObject({ code: 'RESULT_UNKNOWN', cause: { message: 'connection reset' } });
      expect((await on.queue.stats()).total.paused).toBe(true);
    });

    it('hangs when the queue is closed is given up', async () => {
      await using on = await bench(engine);
      on.wire.before.insert = forever;
      const waiting = outcome(on.queue.enqueue('mail', 1));
      await passing(on.clock, on.queue.close({ grace: 0 }));
      expect(await waiting).toBe('RESULT_UNKNOWN');
    });
  });

  describe('an enqueue whose reply is lost', () => {
    it('finds its job by reading and writes nothing more', async () => {
      await using on = await bench(engine);
      on.wire.after.insert = lost;
      const { id, outcome: found } = await on.queue.enqueue('mail', 1);
      expect(found).toBe('created');
      expect((await on.queue.find()).items.map((job) => job.id)).toEqual([id]);
      expect(on.wire.of('insert')).toHaveLength(1);
    });

    it('that never arrived is sent again under the same id', async () => {
      await using on = await bench(engine);
      let calls = 0;
      on.wire.before.insert = () => void (++calls === 1 && lost());
      const { id } = await on.queue.enqueue('mail', 1);
      const sent = on.wire.of('insert').map(({ request }) => request[0]);
      expect(sent).toEqual([expect.objectContaining({ id }), expect.objectContaining({ id })]);
      expect((await on.queue.find()).items).toHaveLength(1);
    });

    it('is not stored again when it has run and gone meanwhile', async () => {
      await using on = await bench(engine);
      on.wire.after.insert = async ([{ id }]) => {
        if (on.wire.of('insert').length > 1) return;
        await on.store.move({
          filter: { ...noFilter, ids: [id] },
          move: { kind: 'remove', force: true },
          dryRun: false,
          cursor: null,
          limit: 1,
        });
        lost();
      };
      expect((await on.queue.enqueue('mail', 1)).outcome).toBe('created');
      expect((await on.queue.find()).items).toEqual([]);
    });

    it('among others resolves each of them by itself', async () => {
      await using on = await bench(engine);
      await on.queue.enqueue('news', 0, { deduplication: 'skip' });
      let calls = 0;
      on.wire.after.insert = () => void (++calls === 1 && lost());
      const answers = await Promise.all([
        on.queue.enqueue('mail', 1),
        on.queue.enqueue('news', 2, { deduplication: 'skip' }),
        on.queue.enqueue('mail', 3, { id: 'given' }),
      ]);
      expect(answers.map((answer) => answer.outcome)).toEqual(['created', 'skipped', 'existing']);
      expect((await on.queue.find()).items).toHaveLength(3);
    });

    it('is all or none for enqueueMany', async () => {
      await using on = await bench(engine);
      on.wire.after.insert = lost;
      const answers = await on.queue.enqueueMany([1, 2, 3].map((input) => ({ type: 'mail', input })));
      expect(answers.map((answer) => answer.outcome)).toEqual(['created', 'created', 'created']);
      expect((await on.queue.find()).items).toHaveLength(3);
      expect(on.wire.of('insert')).toHaveLength(1);
    });

    it('is RESULT_UNKNOWN with its id when the store stays silent, and the id makes a second call safe', async () => {
      await using on = await bench(engine);
      on.wire.after.insert = lost;
      on.wire.before.find = lost;
      const refusal = await on.queue.enqueue('mail', 1, { id: 'order-17' }).catch((error: unknown) => error);
      expect(refusal).toMatchObject({ code: 'RESULT_UNKNOWN', details: { ids: ['order-17'] } });
      delete on.wire.after.insert;
      delete on.wire.before.find;
      expect((await on.queue.enqueue('mail', 1, { id: 'order-17' })).outcome).toBe('existing');
      expect((await on.queue.find()).items).toHaveLength(1);
    });

    it('keeps a refusal that is known: nothing is sent twice', async () => {
      await using on = await bench(engine);
      await on.queue.enqueue('mail', 1, { id: 'order-17' });
      const refusal = await outcome(on.queue.enqueue('mail', 2, { id: 'order-17' }));
      expect(refusal).toBe('IDEMPOTENCY_CONFLICT');
      expect(on.wire.of('insert')).toHaveLength(2);
    });
  });

  describe('a worker whose claim was made but never answered', () => {
    const ways = { 'is lost': lost, hangs: forever } as const;
    it.each(Object.entries(ways))('hands the jobs back unused when the reply %s', async (_, way) => {
      await using on = await bench(engine);
      const ran = gate<{ attempts: number; stalls: number }>();
      const mail = defineJob('mail', {
        run: ({ job: { attempts, stalls } }) => void ran.open({ attempts, stalls }),
      });
      await on.queue.enqueue(mail, 1);
      let claims = 0;
      on.wire.after.claim = ({ types }) => (types.includes('mail') && ++claims === 1 ? way() : undefined);
      const worker = await on.queue.work([mail]);
      await on.clock.advance(20_000); // less than the lease
      expect(await ran.passed).toEqual({ attempts: 1, stalls: 0 });
      expect(on.wire.of('readClaims').map(({ request }) => request)).toContain(worker.id);
    });

    it('finds them when the claim travelled with endings', async () => {
      await using on = await bench(engine);
      const seen: number[] = [];
      const mail = defineJob<number>('mail', { run: ({ job }) => void seen.push(job.stalls) });
      for (const input of [1, 2, 3]) await on.queue.enqueue(mail, input);
      let settles = 0;
      on.wire.after.settle = ({ next }) => void (next && ++settles === 1 && lost());
      await on.queue.work([mail], { concurrency: 1 });
      await on.clock.advance(5_000);
      expect(seen).toEqual([0, 0, 0]);
      expect((await on.queue.stats()).total).toMatchObject({ completed: 3, processing: 0 });
    });

    it('hands them back before it stops', async () => {
      await using on = await bench(engine);
      const mail = defineJob('mail', { run: () => expect.unreachable('the answer came after the stop') });
      const { id } = await on.queue.enqueue(mail, 1);
      on.wire.after.claim = lost;
      const worker = await on.queue.work([mail]);
      await on.clock.settle();
      expect((await on.queue.get(id))?.state).toBe('processing');
      const report = await passing(on.clock, worker.stop());
      expect(report).toEqual({ finished: 0, handedBack: [id], abandoned: [], leases: [] });
      expect(await on.queue.get(id)).toMatchObject({ state: 'pending', attempts: 0, stalls: 0 });
    });
  });

  it('an ending that outlasted an outage is all that the worker says about its job', async () => {
    await using on = await bench(engine);
    const [began, end] = [gate(), gate()];
    const mail = defineJob('mail', {
      async run() {
        began.open();
        await end.passed;
      },
    });
    const { id } = await on.queue.enqueue(mail, 1);
    await on.queue.work([mail], { concurrency: 2, lease: '1s' });
    await began.passed;
    on.wire.down = true;
    end.open();
    // Longer than its lease: by its own clock the worker has lost the job, which nobody else can have taken meanwhile.
    await on.clock.advance(3_000);
    on.wire.down = false;
    await on.clock.advance(20_000);
    const said = on.wire.of('settle').flatMap(({ request, reply }) => (reply ? request.settlements : []));
    expect(said).toMatchObject([{ id, ending: { kind: 'complete' } }]);
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', attempts: 1, stalls: 0 });
    expect(warnings(on.logs)).not.toContain('Late result refused');
  });

  it('a settlement whose reply is lost is sent again and counts once', async () => {
    await using on = await bench(engine);
    let runs = 0;
    const mail = defineJob('mail', { run: () => void runs++ });
    const { id } = await on.queue.enqueue(mail, 1);
    let calls = 0;
    on.wire.after.settle = () => void (++calls === 1 && lost());
    await on.queue.work([mail]);
    await on.clock.advance(5_000);
    expect(runs).toBe(1);
    expect(await on.queue.get(id)).toMatchObject({ state: 'completed', attempts: 1 });
  });

  it('a retry by hand whose reply is lost is found by looking and not made twice', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('mail', 1);
    await on.queue.cancel(id);
    on.wire.after.move = ({ dryRun }) => void (dryRun || lost());
    const { items } = await on.queue.retry(id);
    const { items: jobs } = await on.queue.find({ state: 'pending' });
    expect(jobs).toHaveLength(1);
    expect(items).toEqual([{ id, outcome: 'retried', newId: jobs[0]!.id }]);
  });

  it('a retry of many whose reply is lost still says where it goes on', async () => {
    await using on = await bench(engine);
    for (let batch = 0; batch < 2; batch++)
      await on.queue.enqueueMany(Array.from({ length: 600 }, (_, input) => ({ type: 'mail', input })));
    await on.queue.cancel({ all: true });
    await on.queue.cancel({ all: true });
    on.wire.after.move = ({ dryRun }) => void (dryRun || lost());
    const first = await on.queue.retry({ state: 'cancelled' });
    delete on.wire.after.move;
    const second = await on.queue.retry({ state: 'cancelled' }, { cursor: first.next! });
    expect([first.matched, second.matched, second.next]).toEqual([1_000, 200, null]);
    expect((await on.queue.stats()).total.pending).toBe(1_200);
  });

  it('a retry of large jobs whose reply is lost finds all that it made', async () => {
    await using on = await bench(engine);
    const input = 'x'.repeat(240_000);
    const jobs = await on.queue.enqueueMany(Array.from({ length: 50 }, () => ({ type: 'mail', input })));
    for (const { id } of jobs) await on.queue.cancel(id);
    on.wire.after.move = ({ dryRun }) => void (dryRun || lost());
    const retried: string[] = [];
    for (let cursor: string | null = null; ; ) {
      const page: Awaited<ReturnType<typeof on.queue.retry>> = await on.queue.retry(
        { state: 'cancelled' },
        cursor === null ? {} : { cursor },
      );
      retried.push(...page.items.map(({ id }) => id));
      if (page.next === null) break;
      cursor = page.next;
    }
    expect(new Set(retried).size).toBe(50);
    expect((await on.queue.stats()).total).toMatchObject({ pending: 50, cancelled: 50 });
  });

  it('a retry by hand that never arrived is sent again', async () => {
    await using on = await bench(engine);
    const { id } = await on.queue.enqueue('mail', 1);
    await on.queue.cancel(id);
    let calls = 0;
    on.wire.before.move = () => void (++calls === 1 && lost());
    expect((await on.queue.retry(id)).items[0]?.outcome).toBe('retried');
    expect((await on.queue.find({ state: 'pending' })).items).toHaveLength(1);
  });
});
