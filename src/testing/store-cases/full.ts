/** maxPending: how many jobs may wait in a queue, and who is refused. */
import assert from 'node:assert/strict';
import type { Inserted } from '../../core/store.js';
import { ending, newJob, storeCase } from './bench.js';

const outcomes = (inserted: readonly Inserted[]): string[] =>
  inserted.map((answer) => (answer.outcome === 'refused' ? answer.code : answer.outcome));

/** What a refusal tells of the queue `default`. */
const detailsOf = (maxPending: number, pending: number, index: number) => ({
  queue: 'default',
  maxPending,
  pending,
  retryAfterMs: 1_000,
  index,
});

export const fullCases = [
  storeCase('insert: a full queue refuses, each job for itself, before any effect', async (bench) => {
    await bench.limit({ default: { maxPending: 2 } });
    const events = await bench.watch();
    const answers = await bench.insert(
      { id: 'a' },
      { id: 'b', delay: 60_000 },
      { id: 'c' },
      { id: 'd', queue: 'other' },
    );
    assert.deepEqual(outcomes(answers), ['created', 'created', 'QUEUE_FULL', 'created']);
    assert.equal(await bench.exists('c'), false);
    assert.deepEqual(
      (await events()).map(({ id }) => id),
      ['a', 'b', 'd'],
    );
    assert.equal((await bench.tally()).pending, 2);
  }),
  storeCase('insert: the refusal of a full queue says which, how full, and when to come again', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    const [, refused] = await bench.insert({}, {});
    assert.ok(refused?.outcome === 'refused');
    assert.deepEqual(refused.details, { queue: 'default', maxPending: 1, pending: 1, retryAfterMs: 1_000 });
    assert.match(refused.message, /default.*1/);
  }),
  storeCase('insert: a queue has room again when a job has started, ended or gone', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    const first = await bench.add();
    await bench.take();
    const second = await bench.add();
    assert.deepEqual(outcomes(await bench.insert({})), ['QUEUE_FULL']);
    await bench.cancel(second);
    const third = await bench.add();
    await bench.remove(third);
    await bench.add();
    assert.equal((await bench.job(first)).state, 'processing');
  }),
  storeCase('insert: a job past its ttl takes no room, swept or not', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    await bench.add({ ttlMs: 1_000 });
    bench.advance(999);
    assert.deepEqual(outcomes(await bench.insert({})), ['QUEUE_FULL']);
    bench.advance(1);
    assert.deepEqual(outcomes(await bench.insert({ id: 'a', ttlMs: 1_000 })), ['created']);
    bench.advance(1_000);
    const atomic = await bench.store.insert([newJob({ id: 'b' })], { atomic: true });
    assert.deepEqual(outcomes(atomic), ['created']);
  }),
  storeCase('insert: jobs past their ttl take no room, however many, in whatever queue', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    await bench.insert(...Array.from({ length: 600 }, () => ({ queue: 'other', ttlMs: 1_000 })));
    await bench.add({ ttlMs: 2_000 });
    bench.advance(3_000);
    assert.deepEqual(outcomes(await bench.insert({}, {})), ['created', 'QUEUE_FULL']);
    assert.equal((await bench.tally()).pending, 1);
  }),
  storeCase('insert: as many jobs past their ttl as a queue may hold leave all of its room', async (bench) => {
    await bench.limit({ default: { maxPending: 700 } });
    await bench.insert(...Array.from({ length: 700 }, () => ({ ttlMs: 1_000 })));
    bench.advance(1_000);
    const answers = await bench.insert(...Array.from({ length: 701 }, () => ({})));
    assert.deepEqual(new Set(outcomes(answers.slice(0, 700))), new Set(['created']));
    const [refused] = answers.slice(700);
    assert.ok(refused?.outcome === 'refused');
    assert.deepEqual(refused.details, { queue: 'default', maxPending: 700, pending: 700, retryAfterMs: 1_000 });
  }),
  storeCase('insert: a job past its ttl that a new one meets gives its room once', async (bench) => {
    await bench.limit({ default: { maxPending: 2 } });
    await bench.insert({ key: 'k', ttlMs: 1_000 }, {});
    bench.advance(1_000);
    const answers = await bench.insert({ key: 'k', deduplication: 'skip' }, {});
    assert.deepEqual(outcomes(answers), ['created', 'QUEUE_FULL']);
    assert.equal((await bench.tally()).pending, 2);
  }),
  storeCase('insert: a job that a full queue refuses stands for no other, and replaces none', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    await bench.add();
    await bench.add({ id: 'a', key: 'k', queue: 'other' });
    const answers = await bench.insert(
      { key: 'k', deduplication: 'replace' }, // its match stands in another queue
      { key: 'new', deduplication: 'skip' },
      { key: 'k', deduplication: 'skip', queue: 'other' },
      { key: 'new', deduplication: 'skip', queue: 'other' },
      { id: 'given', given: true },
      { id: 'given', given: true, queue: 'other' },
    );
    assert.deepEqual(outcomes(answers), ['QUEUE_FULL', 'QUEUE_FULL', 'skipped', 'created', 'QUEUE_FULL', 'created']);
    assert.equal((await bench.job('a')).state, 'pending');
  }),
  storeCase('insert: what adds no job to a full queue is not refused', async (bench) => {
    await bench.add({ id: 'running', type: 'sms' });
    await bench.take({ types: ['sms'] });
    await bench.limit({ default: { maxPending: 1 } });
    await bench.add({ id: 'a', key: 'k', given: true });
    const answers = await bench.insert(
      { id: 'a', key: 'k', given: true },
      { key: 'k', deduplication: 'skip' },
      { key: 'k', deduplication: 'coalesce' },
      { type: 'sms', deduplication: 'coalesce' },
      { id: 'b', key: 'k', deduplication: 'replace' },
    );
    assert.deepEqual(outcomes(answers), ['existing', 'skipped', 'coalesced', 'coalesced', 'replaced']);
    assert.equal((await bench.tally()).pending, 1);
  }),
  storeCase('insert: a strategy without a match is refused by a full queue and touches nothing', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    await bench.add({ id: 'a', key: 'k', queue: 'other' });
    await bench.add({ id: 'b' });
    const answers = await bench.insert(
      ...(['skip', 'replace', 'coalesce'] as const).map((deduplication) => ({ deduplication, key: 'new' })),
      { deduplication: 'replace', key: 'k' }, // its match stands in another queue
    );
    assert.deepEqual(outcomes(answers), ['QUEUE_FULL', 'QUEUE_FULL', 'QUEUE_FULL', 'QUEUE_FULL']);
    assert.deepEqual([(await bench.job('a')).state, (await bench.job('b')).state], ['pending', 'pending']);
  }),
  storeCase('insert: an atomic batch that does not fit is refused as a whole, before any effect', async (bench) => {
    await bench.limit({ default: { maxPending: 3 } });
    await bench.add({ id: 'old', key: 'k' });
    const events = await bench.watch();
    const batch = [{ key: 'k', deduplication: 'replace' as const }, {}, {}, { id: 'beyond' }].map(newJob);
    const refusal = { code: 'QUEUE_FULL', details: detailsOf(3, 1, 3) };
    await assert.rejects(bench.store.insert(batch, { atomic: true }), refusal);
    assert.deepEqual(await bench.find(), ['old']);
    assert.equal((await bench.job('old')).state, 'pending');
    assert.deepEqual(await events(), []);
    assert.deepEqual(outcomes(await bench.store.insert(batch.slice(0, 3), { atomic: true })), [
      'replaced',
      'created',
      'created',
    ]);
  }),
  storeCase('insert: an atomic batch counts its own duplicates as deduplication would', async (bench) => {
    await bench.limit({ default: { maxPending: 2 } });
    const keyed = (key: string, deduplication: 'skip' | 'replace' | 'coalesce' | 'none') => ({ key, deduplication });
    const batch = [
      { ...keyed('a', 'skip'), id: 'given', given: true },
      keyed('a', 'skip'),
      keyed('a', 'coalesce'),
      { ...keyed('a', 'skip'), id: 'given', given: true },
      keyed('b', 'none'),
      keyed('b', 'replace'),
      keyed('b', 'replace'),
      keyed('a', 'skip'),
    ];
    const answers = await bench.store.insert(batch.map(newJob), { atomic: true });
    assert.deepEqual(outcomes(answers), [
      'created', 'skipped', 'coalesced', 'existing', 'created', 'replaced', 'replaced', 'skipped',
    ]); // biome-ignore format: one line per answer would be long
    assert.equal((await bench.tally()).pending, 2);
  }),
  storeCase('insert: an atomic batch counts what it replaces, once', async (bench) => {
    await bench.limit({ default: { maxPending: 2 } });
    await bench.add({ id: 'old', key: 'a' });
    const batch = [
      { deduplication: 'replace' as const }, // without a key it replaces all of its type
      { key: 'a', deduplication: 'skip' as const },
      { id: 'given', given: true, queue: 'other' },
      { id: 'given', given: true, queue: 'other' },
      {},
    ].map(newJob);
    await assert.rejects(bench.store.insert(batch, { atomic: true }), { details: detailsOf(2, 1, 4) });
    const answers = await bench.store.insert(batch.slice(0, 4), { atomic: true });
    assert.deepEqual(outcomes(answers), ['replaced', 'created', 'created', 'existing']);
    assert.equal((await bench.tally()).pending, 2);
  }),
  storeCase('insert: an atomic batch with a given id twice needs room for one', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    const batch = [
      { id: 'given', given: true },
      { id: 'given', given: true },
    ].map(newJob);
    assert.deepEqual(outcomes(await bench.store.insert(batch, { atomic: true })), ['created', 'existing']);
    assert.deepEqual(outcomes(await bench.store.insert(batch, { atomic: true })), ['existing', 'existing']);
  }),
  storeCase('insert: a queue that is more than full still lets one job take the place of another', async (bench) => {
    await bench.insert({ key: 'a' }, { key: 'b' }, { key: 'c' });
    await bench.limit({ default: { maxPending: 1 } });
    const replacing = (key: string) => newJob({ key, deduplication: 'replace' });
    assert.deepEqual(outcomes(await bench.store.insert([replacing('a')], { atomic: true })), ['replaced']);
    assert.deepEqual(outcomes(await bench.store.insert([replacing('b')], { atomic: false })), ['replaced']);
    await assert.rejects(bench.store.insert([replacing('d')], { atomic: true }), { code: 'QUEUE_FULL' });
  }),
  storeCase('insert: an atomic batch meets running jobs as deduplication would', async (bench) => {
    await bench.add({ key: 'run' });
    await bench.take();
    await bench.limit({ default: { maxPending: 1 } });
    const strategies = ['coalesce', 'skip', 'coalesce', 'replace', 'skip'] as const;
    const batch = strategies.map((deduplication) => newJob({ key: 'run', deduplication }));
    const answers = await bench.store.insert(batch, { atomic: true });
    assert.deepEqual(outcomes(answers), ['coalesced', 'skipped', 'coalesced', 'created', 'skipped']);
    assert.equal((await bench.tally()).pending, 1);
  }),
  storeCase('settle: a job goes back to a full queue', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    for (const how of [ending.retry(0), ending.release(), ending.snooze(0)]) {
      await bench.add();
      const hold = await bench.take();
      await bench.add();
      assert.equal(await bench.settle(hold, how), 'ok');
      assert.equal((await bench.job(hold.id)).state, 'pending');
      await bench.drain();
    }
  }),
  storeCase('settle: jobs that follow an ending go to a full queue', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    await bench.add();
    const { id, epoch, owner } = await bench.take();
    await bench.add();
    const settlements = [{ id, epoch, ending: ending.complete(), then: [newJob({ id: 'tick' })] }];
    await bench.store.settle({ owner, settlements, started: [], next: null });
    assert.equal((await bench.job('tick')).state, 'pending');
  }),
  storeCase('sweep: a lapsed job comes back to a full queue', async (bench) => {
    await bench.limit({ default: { maxPending: 1 } });
    const id = await bench.add();
    await bench.take();
    await bench.add();
    await bench.lapse();
    assert.deepEqual([(await bench.job(id)).state, (await bench.tally()).pending], ['pending', 2]);
    assert.deepEqual(outcomes(await bench.insert({})), ['QUEUE_FULL']);
  }),
  storeCase('move: a retry by hand goes to a full queue', async (bench) => {
    const id = await bench.add();
    await bench.settle(await bench.take(), ending.fail());
    await bench.limit({ default: { maxPending: 1 } });
    await bench.add();
    const items = await bench.move([id], { kind: 'retry', newIds: ['again'] });
    assert.deepEqual(items, [{ id, outcome: 'retried', newId: 'again' }]);
  }),
];
