/** The table of deduplication, cell by cell, and what stands below it. */
import assert from 'node:assert/strict';
import type { DeduplicationStrategy } from '../../core/job.js';
import type { Inserted } from '../../core/store.js';
import { type Bench, ending, type JobSketch, newJob, storeCase } from './bench.js';

type Match = 'a pending match' | 'only a processing match' | 'no match';

/** Makes the match: its id, or one that stands for nothing. */
async function prepare({ add, take }: Bench, match: Match): Promise<string> {
  if (match === 'no match') return 'nobody';
  const id = await add({ key: 'k', deduplication: 'skip' });
  if (match === 'only a processing match') await take();
  return id;
}

function cell(
  strategy: DeduplicationStrategy,
  match: Match,
  rule: string,
  check: (bench: Bench, matched: string, answer: Inserted) => Promise<void>,
) {
  return storeCase(`insert: ${strategy} with ${match} ${rule}`, async (bench) => {
    const matched = await prepare(bench, match);
    bench.advance(1_000);
    const [answer] = await bench.insert({ id: 'new', key: 'k', deduplication: strategy });
    await check(bench, matched, answer!);
  });
}

async function insertsOne({ job }: Bench, _matched: string, answer: Inserted): Promise<void> {
  assert.deepEqual(answer, { id: 'new', outcome: 'created' });
  assert.equal((await job('new')).state, 'pending');
}

/** The one that runs is as before, and ends as it would have. */
async function insertsSuccessor(bench: Bench, matched: string, answer: Inserted): Promise<void> {
  await insertsOne(bench, matched, answer);
  const { state, epoch } = await bench.job(matched);
  assert.equal(state, 'processing');
  assert.equal(await bench.settle({ id: matched, epoch, owner: 'worker-1' }, ending.complete()), 'ok');
  assert.equal((await bench.job(matched)).state, 'completed');
  assert.deepEqual(await bench.claimIds(), ['new']);
}

const table = [
  cell('none', 'a pending match', 'inserts', async (bench, matched, answer) => {
    await insertsOne(bench, matched, answer);
    assert.equal((await bench.job(matched)).state, 'pending');
  }),
  cell('none', 'only a processing match', 'inserts', insertsSuccessor),
  cell('none', 'no match', 'inserts', insertsOne),
  cell('skip', 'a pending match', 'returns the pending id', async ({ find }, matched, answer) => {
    assert.deepEqual(answer, { id: matched, outcome: 'skipped' });
    assert.deepEqual(await find(), [matched]);
  }),
  cell('skip', 'only a processing match', 'inserts one successor', insertsSuccessor),
  cell('skip', 'no match', 'inserts', insertsOne),
  cell(
    'replace',
    'a pending match',
    'fails the pending one and inserts',
    async ({ job, error, now }, matched, answer) => {
      assert.deepEqual(answer, { id: 'new', outcome: 'replaced', replaced: matched });
      const { state, completedAt } = await job(matched);
      assert.deepEqual({ state, completedAt }, { state: 'failed', completedAt: now() });
      assert.equal((await error(matched))?.message, 'Replaced by newer job');
      assert.equal((await job('new')).state, 'pending');
    },
  ),
  cell('replace', 'only a processing match', 'inserts one successor and never touches it', insertsSuccessor),
  cell('replace', 'no match', 'inserts', insertsOne),
  cell(
    'coalesce',
    'a pending match',
    'moves it to now and returns its id',
    async ({ job, find, now }, matched, answer) => {
      assert.deepEqual(answer, { id: matched, outcome: 'coalesced' });
      assert.equal((await job(matched)).scheduledFor, now());
      assert.deepEqual(await find(), [matched]);
    },
  ),
  cell(
    'coalesce',
    'only a processing match',
    'returns its id and runs it once more',
    async (bench, matched, answer) => {
      assert.deepEqual(answer, { id: matched, outcome: 'coalesced' });
      const { epoch } = await bench.job(matched);
      await bench.settle({ id: matched, epoch, owner: 'worker-1' }, ending.complete());
      assert.equal((await bench.job(matched)).state, 'pending');
      await bench.settle(await bench.take(), ending.complete());
      assert.equal((await bench.job(matched)).state, 'completed');
      assert.deepEqual(await bench.find(), [matched]);
    },
  ),
  cell('coalesce', 'no match', 'inserts', insertsOne),
];

const keyed = (key: string, deduplication: DeduplicationStrategy, more: JobSketch = {}): JobSketch => ({
  key,
  deduplication,
  ...more,
});

const matching = [
  storeCase('insert: a match is within the job type', async ({ insert }) => {
    const answers = await insert(keyed('k', 'skip'), keyed('k', 'skip', { type: 'sms' }));
    assert.ok(answers.every(({ outcome }) => outcome === 'created'));
  }),
  storeCase('insert: a match is across queues', async ({ add, insert }) => {
    const id = await add(keyed('k', 'skip', { queue: 'fast' }));
    assert.deepEqual(await insert(keyed('k', 'skip', { queue: 'slow' })), [{ id, outcome: 'skipped' }]);
  }),
  storeCase('insert: a key matches jobs of any strategy', async ({ add, insert }) => {
    const id = await add(keyed('k', 'none'));
    assert.deepEqual(await insert(keyed('k', 'skip')), [{ id, outcome: 'skipped' }]);
    assert.deepEqual(await insert(keyed('k', 'coalesce')), [{ id, outcome: 'coalesced' }]);
  }),
  storeCase('insert: another key does not match', async ({ add, insert }) => {
    await add(keyed('k', 'skip'));
    assert.equal((await insert(keyed('l', 'skip')))[0]?.outcome, 'created');
  }),
  storeCase('insert: no key matches every live job of the type', async ({ add, insert }) => {
    const id = await add(keyed('k', 'none'));
    assert.deepEqual(await insert({ deduplication: 'skip' }), [{ id, outcome: 'skipped' }]);
  }),
  storeCase('insert: a key does not match a job without one', async ({ add, insert }) => {
    await add({ deduplication: 'skip' });
    assert.equal((await insert(keyed('k', 'skip')))[0]?.outcome, 'created');
  }),
  storeCase('insert: finished jobs never match', async ({ add, insert, take, settle, cancel }) => {
    await add(keyed('k', 'skip'));
    await settle(await take(), ending.complete());
    const second = await add(keyed('k', 'skip'));
    await cancel(second);
    assert.equal((await insert(keyed('k', 'skip')))[0]?.outcome, 'created');
  }),
  storeCase('insert: a delayed job is a pending match', async ({ add, insert }) => {
    const id = await add(keyed('k', 'skip', { delay: 3_600_000 }));
    assert.deepEqual(await insert(keyed('k', 'skip')), [{ id, outcome: 'skipped' }]);
  }),
  storeCase(
    'insert: a job that waits for its next attempt is a pending match',
    async ({ add, insert, take, settle }) => {
      const id = await add(keyed('k', 'skip'));
      await settle(await take(), ending.retry(60_000));
      assert.deepEqual(await insert(keyed('k', 'skip')), [{ id, outcome: 'skipped' }]);
    },
  ),
  storeCase('insert: a pending job past its ttl is first ended and then matches nothing', async (bench) => {
    const old = await bench.add(keyed('k', 'skip', { ttlMs: 1_000 }));
    bench.advance(1_000);
    const [answer] = await bench.insert(keyed('k', 'skip', { id: 'new' }));
    assert.deepEqual(answer, { id: 'new', outcome: 'created' });
    const { state, completedAt, expiresAt } = await bench.job(old);
    assert.deepEqual({ state, completedAt }, { state: 'expired', completedAt: expiresAt });
  }),
  storeCase('insert: replace leaves a pending job past its ttl expired', async ({ add, insert, advance, job }) => {
    const old = await add(keyed('k', 'skip', { ttlMs: 1_000 }));
    advance(1_000);
    assert.deepEqual(await insert(keyed('k', 'replace', { id: 'new' })), [{ id: 'new', outcome: 'created' }]);
    assert.equal((await job(old)).state, 'expired');
  }),
  storeCase('insert: a processing job with a cancel request matches nothing', async ({ add, insert, take, cancel }) => {
    const id = await add(keyed('k', 'coalesce'));
    await take();
    await cancel(id);
    assert.deepEqual(await insert(keyed('k', 'coalesce', { id: 'new' })), [{ id: 'new', outcome: 'created' }]);
  }),
  storeCase('insert: a job marked to run again counts as pending for skip', async ({ add, insert, take }) => {
    const id = await add(keyed('k', 'coalesce'));
    await take();
    await insert(keyed('k', 'coalesce'));
    assert.deepEqual(await insert(keyed('k', 'skip')), [{ id, outcome: 'skipped' }]);
  }),
  storeCase('insert: skip and coalesce take the newest of several pending matches', async ({ insert }) => {
    await insert(keyed('k', 'none', { id: 'a' }), keyed('k', 'none', { id: 'b', delay: 5_000 }));
    assert.deepEqual(await insert(keyed('k', 'skip')), [{ id: 'b', outcome: 'skipped' }]);
    assert.deepEqual(await insert(keyed('k', 'coalesce')), [{ id: 'b', outcome: 'coalesced' }]);
  }),
  storeCase('insert: a pending match goes before a processing one', async ({ add, insert, take }) => {
    await add(keyed('k', 'skip'));
    await take();
    const successor = await add(keyed('k', 'skip'));
    assert.deepEqual(await insert(keyed('k', 'coalesce')), [{ id: successor, outcome: 'coalesced' }]);
  }),
  storeCase('insert: replace ends all pending matches and names the newest', async ({ insert, job }) => {
    await insert(
      keyed('k', 'none', { id: 'a' }),
      keyed('k', 'skip', { id: 'skipped' }),
      keyed('k', 'none', { id: 'b' }),
    );
    const [answer] = await insert(keyed('k', 'replace', { id: 'new' }));
    assert.deepEqual(answer, { id: 'new', outcome: 'replaced', replaced: 'b' });
    for (const id of ['a', 'b']) assert.equal((await job(id)).state, 'failed');
  }),
  storeCase('insert: duplicates inside one batch are decided in call order', async ({ insert, find }) => {
    const answers = await insert(
      keyed('k', 'skip', { id: 'a' }),
      keyed('k', 'skip', { id: 'b' }),
      keyed('k', 'replace', { id: 'c' }),
      keyed('k', 'coalesce', { id: 'd' }),
    );
    assert.deepEqual(answers, [
      { id: 'a', outcome: 'created' },
      { id: 'a', outcome: 'skipped' },
      { id: 'c', outcome: 'replaced', replaced: 'a' },
      { id: 'c', outcome: 'coalesced' },
    ]);
    assert.deepEqual(await find({ states: ['pending'] }), ['c']);
  }),
];

const coalescing = [
  storeCase('insert: coalesce pulls a delayed job forward', async ({ add, insert, claimIds }) => {
    const id = await add(keyed('k', 'coalesce', { delay: 60_000 }));
    assert.deepEqual(await claimIds(), []);
    await insert(keyed('k', 'coalesce'));
    assert.deepEqual(await claimIds(), [id]);
  }),
  storeCase(
    'insert: coalesce with a delay moves a due job to that time',
    async ({ add, insert, advance, claimIds }) => {
      const id = await add(keyed('k', 'coalesce'));
      await insert(keyed('k', 'coalesce', { delay: 5_000 }));
      assert.deepEqual(await claimIds(), []);
      advance(5_000);
      assert.deepEqual(await claimIds(), [id]);
    },
  ),
  storeCase('insert: coalesce starts the ttl anew', async ({ add, insert, advance, job, now }) => {
    const id = await add(keyed('k', 'coalesce', { ttlMs: 1_000 }));
    advance(900);
    await insert(keyed('k', 'coalesce', { ttlMs: 50 }));
    assert.equal((await job(id)).expiresAt, now() + 1_000);
    advance(999);
    assert.equal((await job(id)).state, 'pending');
  }),
  storeCase(
    'insert: a ttl that coalesce started anew still ends the job',
    async ({ add, insert, advance, claimIds, job }) => {
      const id = await add(keyed('k', 'coalesce', { ttlMs: 1_000 }));
      advance(900);
      await insert(keyed('k', 'coalesce'));
      advance(1_000);
      assert.deepEqual(await claimIds(), []);
      assert.equal((await job(id)).state, 'expired');
    },
  ),
  storeCase(
    'insert: coalesce on a job that runs past its ttl is not lost with the claim',
    async ({ add, insert, take, settle, advance, claimIds }) => {
      const id = await add(keyed('k', 'coalesce', { ttlMs: 1_000 }));
      const hold = await take();
      advance(2_000);
      assert.deepEqual(await insert(keyed('k', 'coalesce')), [{ id, outcome: 'coalesced' }]);
      await settle(hold, ending.release());
      assert.deepEqual(await claimIds(), [id]);
    },
  ),
  storeCase('insert: skip and coalesce keep the stored input', async ({ add, insert, take, job, settle }) => {
    const id = await add(keyed('k', 'coalesce', { input: '"first"' }));
    await insert(keyed('k', 'skip', { input: '"second"' }), keyed('k', 'coalesce', { input: '"third"' }));
    assert.equal((await job(id)).input, '"first"');
    const hold = await take();
    await insert(keyed('k', 'coalesce', { input: '"fourth"' }));
    await settle(hold, ending.complete());
    assert.equal((await job(id)).input, '"first"');
  }),
  storeCase(
    'insert: several events on a running job make one more run',
    async ({ add, insert, take, settle, drain }) => {
      const id = await add(keyed('k', 'coalesce'));
      const hold = await take();
      await insert(keyed('k', 'coalesce'), keyed('k', 'coalesce'), keyed('k', 'coalesce'));
      await settle(hold, ending.complete());
      assert.deepEqual(await drain(), [id]);
    },
  ),
  storeCase('insert: coalesce with a delay on a running job runs it again then', async (bench) => {
    const id = await bench.add(keyed('k', 'coalesce'));
    const hold = await bench.take();
    await bench.insert(keyed('k', 'coalesce', { delay: 5_000 }));
    bench.advance(1_000);
    await bench.settle(hold, ending.complete());
    assert.equal((await bench.job(id)).scheduledFor, bench.now() + 4_000);
  }),
];

/** More than a store on a server ends in two calls. */
const many = 2_100;

function crowd(atomic: boolean, key: string | null) {
  const how = `${atomic ? 'in a batch that is all or none' : 'among others'}, ${key === null ? 'without' : 'with'} a key`;
  return storeCase(`insert: replace ends however many wait, and names the newest (${how})`, async (bench) => {
    const waiting = Array.from({ length: many }, (_, n) => ({ id: `old-${n}`, key }));
    for (let from = 0; from < many; from += 700) await bench.insert(...waiting.slice(from, from + 700));
    const batch: JobSketch[] = [
      { id: 'before', type: 'sms' },
      { id: 'new', key, deduplication: 'replace' },
      { id: 'after', type: 'sms' },
      { id: 'next', key },
    ];
    assert.deepEqual(await bench.store.insert(batch.map(newJob), { atomic }), [
      { id: 'before', outcome: 'created' },
      { id: 'new', outcome: 'replaced', replaced: `old-${many - 1}` },
      { id: 'after', outcome: 'created' },
      { id: 'next', outcome: 'created' },
    ]);
    const { pending, failed } = await bench.tally();
    assert.deepEqual({ pending, failed }, { pending: 4, failed: many });
    assert.deepEqual(await bench.claimIds({ slots: 10 }), ['new', 'next']);
  });
}

const crowds = [crowd(false, null), crowd(false, 'k'), crowd(true, null)];

export const deduplicateCases = [...table, ...matching, ...coalescing, ...crowds];
