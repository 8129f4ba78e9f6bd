/** Fences of subjects: what comes in, what starts, what is collected, and when a fence goes. */
import assert from 'node:assert/strict';
import { farAway, type Inserted } from '../../core/store.js';
import { firstLookMs } from '../../core/subject.js';
import { type Bench, claim, ending, filterOf, leaseMs, newJob, storeCase } from './bench.js';
import { inside } from './transaction.js';

const subject = 'trip:42';
const dayMs = 86_400_000;

function fence({ store }: Bench, forMs: number | null = dayMs, reason = 'trip cancelled') {
  return store.fence(subject, { reason, forMs });
}

function codeIn(answer: Inserted | undefined): string | undefined {
  return answer?.outcome === 'refused' ? answer.code : answer?.outcome;
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code;

async function slipIn(bench: Bench, ...sketches: Parameters<Bench['add']>[0][]): Promise<string[]> {
  await bench.store.unfence(subject);
  const ids: string[] = [];
  for (const sketch of sketches) ids.push(await bench.add({ subject, ...sketch }));
  await fence(bench);
  return ids;
}

const endedBy = { code: 'CANCELLED', message: 'trip cancelled' };

export const subjectCases = [
  storeCase('fence: a fence refuses jobs of its subject, each for itself', async (bench) => {
    await fence(bench);
    const answers = await bench.insert({}, { subject }, { subject: 'trip:43' }, { subject, delay: 5_000 });
    assert.deepEqual(answers.map(codeIn), ['created', 'SUBJECT_ENDED', 'created', 'SUBJECT_ENDED']);
    const refused = answers[1] as Inserted & { outcome: 'refused' };
    assert.deepEqual(refused.details, { subject, fencedUntil: new Date(bench.now() + dayMs).toISOString() });
    assert.equal((await bench.find()).length, 2);
    assert.equal((await bench.tally()).pending, 2);
  }),
  storeCase('fence: a fence refuses a batch of equal jobs', async (bench) => {
    await fence(bench);
    const answers = await bench.insert({ subject }, { subject }, { subject });
    assert.deepEqual(answers.map(codeIn), ['SUBJECT_ENDED', 'SUBJECT_ENDED', 'SUBJECT_ENDED']);
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('fence: a fence refuses an atomic batch as a whole', async (bench) => {
    await fence(bench);
    for (const batch of [
      [newJob(), newJob({ subject })],
      [newJob({ subject }), newJob({ subject })],
    ])
      await assert.rejects(
        bench.store.insert(batch, { atomic: true }),
        (error) => codeOf(error) === 'SUBJECT_ENDED' && /Job [01]: /.test((error as Error).message),
      );
    assert.deepEqual(await bench.find(), []);
  }),
  ...(['skip', 'replace', 'coalesce'] as const).map((deduplication) =>
    storeCase(`pause: a fence refuses a job that would ${deduplication}, and touches nothing`, async (bench) => {
      const waiting = await bench.add({ key: 'k', deduplication, delay: 60_000 });
      await fence(bench);
      const [answer] = await bench.insert({ subject, key: 'k', deduplication });
      assert.equal(codeIn(answer), 'SUBJECT_ENDED');
      const { state, scheduledFor } = await bench.job(waiting);
      assert.deepEqual({ state, scheduledFor }, { state: 'pending', scheduledFor: bench.now() + 60_000 });
    }),
  ),
  storeCase('fence: a fence refuses to run a running job again', async (bench) => {
    const id = await bench.add({ subject, key: 'k', deduplication: 'coalesce' });
    const hold = await bench.take();
    await fence(bench);
    const [answer] = await bench.insert({ subject, key: 'k', deduplication: 'coalesce' });
    assert.equal(codeIn(answer), 'SUBJECT_ENDED');
    assert.equal(await bench.settle(hold, ending.complete()), 'ok');
    assert.equal((await bench.job(id)).state, 'completed');
  }),
  storeCase('fence: behind a fence an id that is known is answered as ever', async (bench) => {
    await bench.add({ id: 'mine', given: true, subject });
    await fence(bench);
    const answers = await bench.insert({ id: 'mine', given: true, subject });
    assert.deepEqual(answers.map(codeIn), ['existing']);
  }),
  storeCase('fence: a fence refuses the jobs that follow a settlement, and lets it be', async (bench) => {
    const id = await bench.add();
    const { epoch, owner } = await bench.take();
    await fence(bench);
    const then = [newJob({ id: 'gone', subject }), newJob({ id: 'kept' })];
    const settlements = [{ id, epoch, ending: ending.complete(), then }];
    const { answers } = await bench.store.settle({ owner, settlements, started: [], next: null });
    assert.deepEqual(answers, ['ok']);
    assert.deepEqual([await bench.exists('gone'), await bench.exists('kept')], [false, true]);
  }),
  storeCase('fence: behind a fence a retry by hand is skipped', async (bench) => {
    const id = await bench.add({ subject });
    await bench.settle(await bench.take(), ending.fail());
    await fence(bench);
    const move = { kind: 'retry', newIds: ['new'] } as const;
    assert.deepEqual(await bench.move([id], move), [{ id, outcome: 'skipped' }]);
    assert.equal(await bench.exists('new'), false);
  }),
  inside("pause: a fence refuses jobs in a caller's transaction", async (bench, begin) => {
    await fence(bench);
    const at = await begin();
    const answers = await bench.store.insert([newJob({ subject }), newJob()], { atomic: false, tx: at.tx });
    await at.commit();
    assert.deepEqual(answers.map(codeIn), ['SUBJECT_ENDED', 'created']);
    assert.equal((await bench.find()).length, 1);
  }),
  storeCase('claim: a job behind a fence is cancelled instead of started', async (bench) => {
    const id = await bench.add({ subject });
    const other = await bench.add();
    const read = await bench.watch();
    await fence(bench);
    assert.deepEqual(await bench.claimIds(), [other]);
    assert.deepEqual(await bench.error(id), endedBy);
    const { state, attempts, startedAt } = await bench.job(id);
    assert.deepEqual({ state, attempts, startedAt }, { state: 'cancelled', attempts: 0, startedAt: null });
    assert.deepEqual(
      (await read()).filter(({ name }) => name === 'cancelled').map((event) => [event.id, event.error]),
      [[id, endedBy]],
    );
    const { pending, cancelled, processing } = await bench.tally();
    assert.deepEqual({ pending, cancelled, processing }, { pending: 0, cancelled: 1, processing: 1 });
  }),
  storeCase('claim: a slot is given to the next job, not lost to one behind a fence', async (bench) => {
    for (let n = 0; n < 3; n++) await bench.add({ subject });
    const others = [await bench.add(), await bench.add()];
    await fence(bench);
    const started: string[] = [];
    for (let more = true; more; ) {
      const claimed = await claim(bench.store, { slots: 2 - started.length });
      started.push(...claimed.jobs.map(({ id }) => id));
      ({ more } = claimed);
    }
    assert.deepEqual(started, others);
  }),
  storeCase('claim: a fence ends what a settlement would claim next', async (bench) => {
    const first = await bench.add();
    const { epoch, owner } = await bench.take();
    const id = await bench.add({ subject });
    await fence(bench);
    const next = { owner, types: ['mail'], queues: null, slots: 5, ahead: 0, leaseMs, maxStalls: 3 };
    const settlements = [{ id: first, epoch, ending: ending.complete() }];
    const { claimed } = await bench.store.settle({ owner, settlements, started: [], next });
    assert.deepEqual(claimed?.jobs, []);
    assert.equal((await bench.job(id)).state, 'cancelled');
  }),
  storeCase('claim: a fence passes on the turn of an exclusive key', async (bench) => {
    const first = await bench.add({ subject, exclusiveKey: 'x' });
    const second = await bench.add({ exclusiveKey: 'x' });
    await fence(bench);
    assert.deepEqual([...(await bench.claimIds()), ...(await bench.claimIds())], [second]);
    assert.equal((await bench.job(first)).state, 'cancelled');
  }),
  storeCase('claim: a job that comes back behind a fence does not start again', async (bench) => {
    const id = await bench.add({ subject });
    const hold = await bench.take();
    await fence(bench);
    assert.equal(await bench.settle(hold, ending.retry(0)), 'ok');
    assert.deepEqual(await bench.claimIds(), []);
    assert.deepEqual(await bench.error(id), endedBy);
  }),
  storeCase('claim: a delayed job behind a fence ends when it is due', async (bench) => {
    const [id] = await slipIn(bench, { delay: 5_000 });
    bench.advance(5_000);
    assert.deepEqual(await bench.claimIds(), []);
    assert.equal((await bench.job(id!)).state, 'cancelled');
  }),
  storeCase("claim: the library's own jobs go on behind a fence; a new one is refused", async (bench) => {
    const id = await bench.add({ subject, queue: 'lastout', type: 'lastout.lease.box' });
    await fence(bench);
    bench.advance(firstLookMs);
    await bench.tend();
    assert.equal(
      codeIn((await bench.insert({ subject, queue: 'lastout', type: 'lastout.lease.box' }))[0]),
      'SUBJECT_ENDED',
    );
    assert.deepEqual(await bench.claimIds({ types: ['lastout.lease.box'] }), [id]);
  }),
  storeCase(
    'sweep: what slipped in beside a fence is collected, delayed and waiting behind a key too',
    async (bench) => {
      const ids = await slipIn(bench, {}, { delay: dayMs / 2 }, { exclusiveKey: 'x' }, { exclusiveKey: 'x' });
      bench.advance(firstLookMs);
      const swept = await bench.tend();
      assert.deepEqual([swept.fenced, swept.more], [4, false]);
      for (const id of ids) assert.deepEqual(await bench.error(id), endedBy);
      assert.equal((await bench.tend()).fenced, 0);
    },
  ),
  storeCase('sweep: what runs behind a fence is left to its worker', async (bench) => {
    const id = await bench.add({ subject });
    await bench.take({ leaseMs: dayMs });
    await fence(bench);
    bench.advance(firstLookMs);
    assert.equal((await bench.tend()).fenced, 0);
    assert.equal((await bench.job(id)).state, 'processing');
  }),
  storeCase('sweep: what is behind a fence is collected part by part', async (bench) => {
    await slipIn(bench, {}, {}, {}, {}, {});
    bench.advance(firstLookMs);
    const parts: number[] = [];
    for (let more = true; more && parts.length < 10; ) {
      const swept = await bench.store.sweep({ limit: 2, cleanup: null });
      parts.push(swept.fenced);
      more = swept.more;
    }
    assert.equal(
      parts.reduce((sum, n) => sum + n, 0),
      5,
    );
    assert.ok(parts.every((n) => n <= 2));
  }),
  storeCase('sweep: a fence is looked behind again and again, for who comes late', async (bench) => {
    const [early] = await slipIn(bench, { delay: dayMs / 2 });
    bench.advance(firstLookMs);
    assert.equal((await bench.tend()).fenced, 1);
    assert.equal((await bench.job(early!)).state, 'cancelled');
    const [late] = await slipIn(bench, { delay: dayMs / 2 });
    bench.advance(2 * firstLookMs);
    assert.equal((await bench.tend()).fenced, 1);
    assert.equal((await bench.job(late!)).state, 'cancelled');
  }),
  storeCase('fence: a fence is over at its end, swept or not', async (bench) => {
    await fence(bench, 5_000);
    bench.advance(4_999);
    assert.equal(codeIn((await bench.insert({ subject }))[0]), 'SUBJECT_ENDED');
    bench.advance(1);
    const id = await bench.add({ subject });
    await bench.tend();
    assert.deepEqual(await bench.claimIds(), [id]);
    assert.equal(await bench.store.unfence(subject), null);
  }),
  storeCase('fence: a fence without an end stands until it is lifted', async (bench) => {
    assert.deepEqual(await fence(bench, null), { at: bench.now(), until: farAway });
    bench.advance(400 * dayMs);
    await bench.tend();
    const [answer] = await bench.insert({ subject });
    assert.deepEqual((answer as Inserted & { outcome: 'refused' }).details, { subject, fencedUntil: null });
    assert.deepEqual(await bench.store.unfence(subject), { at: bench.now(), until: farAway });
    await bench.add({ subject });
  }),
  storeCase('fence: a second fence never ends before the first, and gives the reason', async (bench) => {
    await fence(bench, 60_000, 'first');
    bench.advance(10_000);
    assert.deepEqual(await fence(bench, 5_000, 'second'), { at: bench.now(), until: bench.now() + 50_000 });
    assert.deepEqual(await fence(bench, 70_000, 'third'), { at: bench.now(), until: bench.now() + 70_000 });
    await bench.store.fence('trip:43', { reason: 'another', forMs: 1_000 });
    const [id] = await slipIn(bench, {});
    await fence(bench, 1_000, 'last');
    assert.deepEqual(await bench.claimIds(), []);
    assert.deepEqual(await bench.error(id!), { code: 'CANCELLED', message: 'last' });
  }),
  storeCase('unfence: lifting answers whether a fence stood', async (bench) => {
    assert.equal(await bench.store.unfence(subject), null);
    const { until } = await fence(bench);
    assert.deepEqual(await bench.store.unfence(subject), { at: bench.now(), until });
    assert.equal(await bench.store.unfence(subject), null);
    assert.deepEqual(await bench.claimIds(), []);
    const id = await bench.add({ subject });
    assert.deepEqual(await bench.claimIds(), [id]);
  }),
  storeCase('fence: a coded reason of a fence is kept as it is', async (bench) => {
    const reason = `~:${'coded '.repeat(60)}`;
    const [id] = await slipIn(bench, {});
    await fence(bench, dayMs, reason);
    assert.deepEqual(await bench.claimIds(), []);
    assert.deepEqual(await bench.error(id!), { code: 'CANCELLED', message: reason });
  }),
  storeCase('move: an orphan is cancelled while it is pending, and left alone while it runs', async (bench) => {
    const running = await bench.add({ subject });
    await bench.take();
    const delayed = await bench.add({ subject, delay: 5_000 });
    const ready = await bench.add({ subject });
    const move = { kind: 'condemn', reason: 'gone' } as const;
    assert.deepEqual(await bench.move([ready], move, true), [{ id: ready, outcome: 'cancelled' }]);
    assert.equal((await bench.job(ready)).state, 'pending');
    const outcomes = await bench.move([running, delayed, ready], move);
    assert.deepEqual(
      new Map(outcomes.map(({ id, outcome }) => [id, outcome])),
      new Map([
        [running, 'not_pending'],
        [delayed, 'cancelled'],
        [ready, 'cancelled'],
      ]),
    );
    assert.deepEqual(await bench.error(ready), { code: 'ORPHANED', message: 'gone' });
    assert.equal((await bench.job(running)).cancelAt, null);
    assert.deepEqual(await bench.move([ready], move), [{ id: ready, outcome: 'not_pending' }]);
    const found = await bench.store.move({
      filter: filterOf({ subject, states: ['pending'] }),
      ...{ move, dryRun: false, cursor: null, limit: 10 },
    });
    assert.deepEqual(found, { items: [], next: null });
  }),
];
