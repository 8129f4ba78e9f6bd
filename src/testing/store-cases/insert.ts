import assert from 'node:assert/strict';
import { plainStored } from '../../core/columns.js';
import { filterOf, newJob, storeCase, ending } from './bench.js';

const refusalCode = (error: unknown): unknown => (error as { code?: unknown }).code;

export const insertCases = [
  storeCase('insert: a stored job reads back as it was given', async ({ store, now, job }) => {
    const given = newJob({
      type: 'sms',
      queue: 'fast',
      priority: -5,
      delay: 1_000,
      ttlMs: 60_000,
      maxAttempts: 7,
      subject: 'trip:42',
      key: 'k',
      exclusiveKey: 'x',
      deduplication: 'skip',
      source: 'api',
      metadata: '{"a":[]}',
      policy: { timeoutMs: 500 },
      input: '{"text":"ä\\u2028 \\"quoted\\"","list":[],"n":1.5}',
    });
    await store.insert([given], { atomic: false });
    const { seq: _, ...stored } = await job(given.id);
    const { seq: __, ...plain } = plainStored;
    assert.deepEqual(stored, {
      ...plain,
      id: given.id,
      type: 'sms',
      queue: 'fast',
      state: 'pending',
      priority: -5,
      input: given.input,
      result: null,
      error: null,
      attempts: 0,
      maxAttempts: 7,
      stalls: 0,
      subject: 'trip:42',
      key: 'k',
      exclusiveKey: 'x',
      source: 'api',
      metadata: '{"a":[]}',
      policy: given.policy,
      progress: null,
      memo: null,
      retryOf: null,
      ownedBy: null,
      heldUntil: null,
      heldReason: null,
      cancelAt: null,
      cancelReason: null,
      createdAt: now(),
      scheduledFor: now() + 1_000,
      startedAt: null,
      completedAt: null,
      expiresAt: now() + 60_000,
      dueAt: now() + 1_000,
      epoch: 0,
    });
  }),
  storeCase('insert: answers come in the order of the batch', async ({ store }) => {
    const jobs = [newJob(), newJob({ priority: -1 }), newJob({ delay: 5 })];
    const answers = await store.insert(jobs, { atomic: false });
    assert.deepEqual(
      answers,
      jobs.map(({ id }) => ({ id, outcome: 'created' })),
    );
  }),
  storeCase('insert: every input of a batch is kept to the letter', async ({ insert, job }) => {
    const values = [
      { text: 'ä\u2028😀 "quoted" \\ \u0001', list: [], '': {}, '"': '/' },
      [[], [1.5, -2.25e-7, 1e21, 5e-324, Number.MAX_SAFE_INTEGER], { a: null }],
      'text',
      '{"a":1}',
      '[',
      0,
      null,
      true,
    ];
    const inputs = values.map((value) => JSON.stringify(value));
    const answers = await insert(...inputs.map((input) => ({ input })));
    const stored = await Promise.all(answers.map(async ({ id }) => (await job(id)).input));
    assert.deepEqual(stored, inputs);
  }),
  storeCase('insert: later jobs have greater numbers', async ({ insert, job }) => {
    const [a, b] = await insert({}, {});
    const [c] = await insert({ priority: -9 });
    const seqs = await Promise.all([a, b, c].map(async (answer) => (await job(answer!.id)).seq));
    assert.ok(seqs[0]! < seqs[1]! && seqs[1]! < seqs[2]!);
  }),
  storeCase('insert: an empty batch changes nothing', async ({ store, find }) => {
    assert.deepEqual(await store.insert([], { atomic: true }), []);
    assert.deepEqual(await find(), []);
  }),
  storeCase('insert: an instant in the past is due now', async ({ add, now, job }) => {
    const id = await add({ when: { at: now() - 5_000 } });
    assert.equal((await job(id)).scheduledFor, now());
  }),
  storeCase('insert: an instant ahead is kept to the millisecond', async ({ add, now, job }) => {
    const id = await add({ when: { at: now() + 86_400_123 } });
    assert.equal((await job(id)).dueAt, now() + 86_400_123);
  }),
  storeCase('insert: ttl counts from the insertion, not from the due time', async ({ add, now, job }) => {
    const id = await add({ delay: 1_000, ttlMs: 1_500 });
    assert.equal((await job(id)).expiresAt, now() + 1_500);
  }),
  storeCase('insert: a given id with the same input answers existing', async ({ insert, find }) => {
    await insert({ id: 'order-7', given: true });
    const answers = await insert({ id: 'order-7', given: true, priority: 5, queue: 'other' });
    assert.deepEqual(answers, [{ id: 'order-7', outcome: 'existing' }]);
    assert.deepEqual(await find(), ['order-7']);
  }),
  storeCase('insert: a given id does not care about the order of the keys of its input', async ({ insert }) => {
    await insert({ id: 'order-7', given: true, input: '{"a":1,"b":{"c":[1,2],"d":null}}' });
    const [answer] = await insert({ id: 'order-7', given: true, input: '{"b":{"d":null,"c":[1,2]},"a":1}' });
    assert.equal(answer?.outcome, 'existing');
  }),
  storeCase('insert: a given id cares about the order of a list', async ({ insert }) => {
    await insert({ id: 'order-7', given: true, input: '[1,2]' });
    const [answer] = await insert({ id: 'order-7', given: true, input: '[2,1]' });
    assert.equal(answer?.outcome, 'refused');
  }),
  storeCase('insert: a given id with another input is refused and changes nothing', async ({ insert, job }) => {
    await insert({ id: 'order-7', given: true, input: '1' });
    const [answer] = await insert({ id: 'order-7', given: true, input: '2' });
    assert.ok(answer?.outcome === 'refused' && answer.code === 'IDEMPOTENCY_CONFLICT');
    assert.equal((await job('order-7')).input, '1');
  }),
  storeCase('insert: a given id with another type is refused', async ({ insert }) => {
    await insert({ id: 'order-7', given: true });
    const [answer] = await insert({ id: 'order-7', given: true, type: 'sms' });
    assert.ok(answer?.outcome === 'refused' && answer.code === 'IDEMPOTENCY_CONFLICT');
  }),
  storeCase(
    'insert: a given id is known while its job runs and after it finished',
    async ({ insert, take, settle }) => {
      await insert({ id: 'order-7', given: true });
      const hold = await take();
      assert.equal((await insert({ id: 'order-7', given: true }))[0]?.outcome, 'existing');
      await settle(hold, ending.complete());
      assert.equal((await insert({ id: 'order-7', given: true }))[0]?.outcome, 'existing');
      assert.equal((await insert({ id: 'order-7', given: true, input: '0' }))[0]?.outcome, 'refused');
    },
  ),
  storeCase(
    'insert: a given id is known by its tombstone after its job was removed',
    async ({ insert, remove, find }) => {
      await insert({ id: 'order-7', given: true });
      await remove('order-7');
      assert.deepEqual(await insert({ id: 'order-7', given: true }), [{ id: 'order-7', outcome: 'existing' }]);
      assert.equal((await insert({ id: 'order-7', given: true, input: '0' }))[0]?.outcome, 'refused');
      assert.deepEqual(await find(), []);
    },
  ),
  storeCase('insert: a given id is known by its tombstone after retention', async (bench) => {
    await bench.insert({ id: 'order-7', given: true });
    await bench.settle(await bench.take(), ending.complete());
    bench.advance(2_000);
    await bench.cleanUp({ jobRetentionMs: 1_000 });
    assert.equal(await bench.exists('order-7'), false);
    assert.equal((await bench.insert({ id: 'order-7', given: true }))[0]?.outcome, 'existing');
  }),
  storeCase('insert: a given id twice in one batch makes one job', async ({ insert, find }) => {
    const answers = await insert({ id: 'order-7', given: true }, { id: 'order-7', given: true });
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      ['created', 'existing'],
    );
    assert.deepEqual(await find(), ['order-7']);
  }),
  storeCase('insert: an id that is known is answered before deduplication', async ({ insert, find }) => {
    await insert({ id: 'order-7', given: true, deduplication: 'replace', key: 'k' });
    const [answer] = await insert({ id: 'order-7', given: true, deduplication: 'replace', key: 'k' });
    assert.deepEqual(answer, { id: 'order-7', outcome: 'existing' });
    assert.deepEqual(await find({ states: ['pending'] }), ['order-7']);
  }),
  storeCase('insert: a refused job of a batch leaves the others alone', async ({ insert, find }) => {
    await insert({ id: 'order-7', given: true, input: '1' });
    const answers = await insert({ id: 'a' }, { id: 'order-7', given: true, input: '2' }, { id: 'b' });
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      ['created', 'refused', 'created'],
    );
    assert.deepEqual(await find(), ['b', 'a', 'order-7']);
  }),
  storeCase('insert: atomic writes none when one is refused', async ({ store, add, insert, find, job }) => {
    const live = await add({ deduplication: 'skip', key: 'k' });
    await insert({ id: 'order-7', given: true, input: '1' });
    const batch = [
      newJob(),
      newJob({ deduplication: 'replace', key: 'k' }),
      newJob({ id: 'order-7', given: true, input: '2' }),
    ];
    await assert.rejects(
      store.insert(batch, { atomic: true }),
      (error) => refusalCode(error) === 'IDEMPOTENCY_CONFLICT',
    );
    assert.deepEqual(await find(), ['order-7', live]);
    assert.equal((await job(live)).state, 'pending');
  }),
  storeCase('insert: atomic also sees two inputs for one id inside the batch', async ({ store, find }) => {
    const batch = [newJob({ id: 'a', given: true, input: '1' }), newJob({ id: 'a', given: true, input: '2' })];
    await assert.rejects(
      store.insert(batch, { atomic: true }),
      (error) => refusalCode(error) === 'IDEMPOTENCY_CONFLICT',
    );
    assert.deepEqual(await find(), []);
  }),
  storeCase('insert: atomic answers like single inserts when nothing is refused', async ({ store }) => {
    const batch = [newJob({ id: 'a', deduplication: 'skip', key: 'k' }), newJob({ deduplication: 'skip', key: 'k' })];
    assert.deepEqual(await store.insert(batch, { atomic: true }), [
      { id: 'a', outcome: 'created' },
      { id: 'a', outcome: 'skipped' },
    ]);
  }),
  storeCase('insert: names that look alike stay apart', async ({ store, insert, claimIds }) => {
    await insert(
      { id: 'a', type: 'x.y', queue: 'z' },
      { id: 'b', type: 'x', queue: 'y.z' },
      { id: 'c', type: 'X.y', queue: 'z' },
    );
    assert.deepEqual(await claimIds({ types: ['x.y'], queues: ['z'] }), ['a']);
    const page = await store.find({ filter: filterOf({ types: ['x'] }), cursor: null, limit: 10 });
    assert.deepEqual(
      page.jobs.map(({ id }) => id),
      ['b'],
    );
  }),
  storeCase('insert: keys of any text stay apart', async ({ insert, claimIds }) => {
    const keys = ["a'b", 'a"b', 'a\nb', 'a:b', 'a{b}', 'ä', 'A', 'a', ' a', 'a%', '\u{1f600}'];
    const answers = await insert(...keys.map((key) => ({ key, deduplication: 'skip' as const, exclusiveKey: key })));
    assert.ok(answers.every(({ outcome }) => outcome === 'created'));
    assert.equal((await claimIds()).length, keys.length);
  }),
];
