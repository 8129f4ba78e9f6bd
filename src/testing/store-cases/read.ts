/** Find: which jobs, newest first, page by page. Reading changes nothing. */
import assert from 'node:assert/strict';
import { claim, ending, filterOf, storeCase } from './bench.js';

export const readCases = [
  storeCase('find: newest first', async ({ insert, find }) => {
    await insert({ id: 'a', priority: 9 }, { id: 'b' });
    await insert({ id: 'c', delay: 5_000 });
    assert.deepEqual(await find(), ['c', 'b', 'a']);
  }),
  storeCase('find: live and finished jobs stand in one order', async ({ insert, take, settle, find }) => {
    await insert({ id: 'a' }, { id: 'b', delay: 5_000 }, { id: 'c', delay: 9_000 });
    await settle(await take(), ending.complete());
    assert.deepEqual(await find(), ['c', 'b', 'a']);
  }),
  storeCase('find: by ids, each once, unknown ones left out', async ({ insert, find }) => {
    await insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    assert.deepEqual(await find({ ids: ['a', 'c', 'nobody', 'a'] }), ['c', 'a']);
  }),
  storeCase('find: by ids, each once, over as many pages as large jobs take', async ({ store, insert, find }) => {
    const ids = Array.from({ length: 100 }, (_, i) => `large-${i}`);
    const input = JSON.stringify('x'.repeat(240_000));
    for (let at = 0; at < ids.length; at += 20) await insert(...ids.slice(at, at + 20).map((id) => ({ id, input })));
    assert.deepEqual(await find({ ids }), ids.toReversed());
    const { jobs } = await store.find({ filter: filterOf({ ids }), cursor: null, limit: 10 });
    assert.equal(jobs.length, 10, 'a page of large jobs is more than one of them');
  }),
  storeCase('find: no ids find nothing', async ({ add, find }) => {
    await add();
    assert.deepEqual(await find({ ids: [] }), []);
  }),
  storeCase('find: by state, each of them', async (bench) => {
    await bench.insert({ id: 'completed' });
    await bench.settle(await bench.take(), ending.complete());
    await bench.insert({ id: 'failed' });
    await bench.settle(await bench.take(), ending.fail());
    await bench.insert({ id: 'cancelled' });
    await bench.cancel('cancelled');
    await bench.insert({ id: 'expired', ttlMs: 1 });
    bench.advance(1);
    await bench.insert({ id: 'processing' });
    await bench.take();
    await bench.insert({ id: 'pending' });
    for (const state of ['pending', 'processing', 'completed', 'failed', 'cancelled', 'expired'] as const)
      assert.deepEqual(await bench.find({ states: [state] }), [state]);
    assert.deepEqual(await bench.find({ states: ['failed', 'pending', 'processing'] }), [
      'pending',
      'processing',
      'failed',
    ]);
    assert.deepEqual(await bench.find({ states: ['expired', 'completed'] }), ['expired', 'completed']);
    assert.deepEqual(await bench.find({ states: [] }), []);
  }),
  storeCase('find: a job that went back to pending is not found as processing', async ({ add, take, settle, find }) => {
    const id = await add();
    await settle(await take(), ending.snooze(5_000));
    assert.deepEqual([await find({ states: ['processing'] }), await find({ states: ['pending'] })], [[], [id]]);
  }),
  storeCase('find: a job that left its claim, and is in another one, is on one page', async ({ store, ...bench }) => {
    await bench.insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    const { epoch } = await claim(store, { slots: 3 });
    await bench.settle({ id: 'a', epoch, owner: 'worker-1' }, ending.snooze(0));
    await bench.claimIds();
    for (const size of [1, 2, 3]) assert.deepEqual(await bench.find({ states: ['processing'] }, size), ['c', 'b', 'a']);
  }),
  storeCase('find: by type', async ({ insert, find }) => {
    await insert({ id: 'a' }, { id: 'b', type: 'sms' }, { id: 'c', type: 'fax' });
    assert.deepEqual(await find({ types: ['sms', 'fax'] }), ['c', 'b']);
  }),
  storeCase('find: by queue', async ({ insert, find }) => {
    await insert({ id: 'a' }, { id: 'b', queue: 'fast' });
    assert.deepEqual(await find({ queues: ['fast', 'none'] }), ['b']);
  }),
  storeCase('find: by subject', async ({ insert, find }) => {
    await insert({ id: 'a', subject: 'trip:1' }, { id: 'b', subject: 'trip:10' }, { id: 'c' });
    assert.deepEqual(await find({ subject: 'trip:1' }), ['a']);
  }),
  storeCase('find: by deduplication key', async ({ insert, find }) => {
    await insert({ id: 'a', key: 'k' }, { id: 'b', key: 'K' }, { id: 'c' });
    assert.deepEqual(await find({ key: 'k' }), ['a']);
  }),
  storeCase(
    'find: by type and key, live ones at once, however many others have the key',
    async ({ store, insert, find }) => {
      await insert({ id: 'one', type: 'sms', key: 'k' }, { id: 'other', type: 'sms', key: 'K' });
      for (let batch = 0; batch < 11; batch++) await insert(...Array.from({ length: 1_000 }, () => ({ key: 'k' })));
      const filter = { types: ['sms'], key: 'k', states: ['pending', 'processing'] } as const;
      const found = async () =>
        (await store.find({ filter: filterOf(filter), cursor: null, limit: 1 })).jobs.map(({ id }) => id);
      assert.deepEqual([await found(), await find(filter, 1)], [['one'], ['one']]);
      await claim(store, { types: ['sms'] });
      assert.deepEqual([await found(), await find({ ...filter, states: ['pending'] })], [['one'], []]);
      await insert({ id: 'two', type: 'sms', key: 'k' }, { id: 'three', type: 'fax', key: 'k' });
      assert.deepEqual(await find({ ...filter, types: ['sms', 'fax', 'sms', 'none'] }, 2), ['three', 'two', 'one']);
    },
  ),
  storeCase('find: by source', async ({ insert, find }) => {
    await insert({ id: 'a', source: 'api' }, { id: 'b', source: 'cron' });
    assert.deepEqual(await find({ source: 'cron' }), ['b']);
  }),
  storeCase('find: before and after leave their own instant out', async ({ add, advance, now, find }) => {
    await add({ id: 'a' });
    advance(10);
    await add({ id: 'b' });
    const at = now();
    advance(10);
    await add({ id: 'c' });
    assert.deepEqual([await find({ before: at }), await find({ after: at })], [['a'], ['c']]);
    assert.deepEqual(await find({ after: at - 1, before: at + 1 }), ['b']);
  }),
  storeCase('find: all fields must hold', async ({ insert, find, cancel }) => {
    await insert(
      { id: 'a', subject: 'trip:1', queue: 'fast' },
      { id: 'b', subject: 'trip:1' },
      { id: 'c', subject: 'trip:1', queue: 'fast', type: 'sms' },
      { id: 'd', subject: 'trip:1', queue: 'fast' },
    );
    await cancel('d');
    assert.deepEqual(await find({ subject: 'trip:1', queues: ['fast'], types: ['mail'], states: ['pending'] }), ['a']);
    assert.deepEqual(await find({ subject: 'trip:1', queues: ['fast'], types: ['mail'] }), ['d', 'a']);
  }),
  storeCase('find: pages go on without a gap or a repeat', async ({ insert, find }) => {
    await insert(...Array.from({ length: 10 }, (_, i) => ({ id: `p${i}` })));
    const all = await find({}, 100);
    for (const size of [1, 2, 3, 10]) assert.deepEqual(await find({}, size), all);
  }),
  storeCase('find: inserts between two pages do not shift them', async ({ store, insert }) => {
    await insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    const first = await store.find({ filter: filterOf({}), cursor: null, limit: 2 });
    await insert({ id: 'd' }, { id: 'e' });
    const second = await store.find({ filter: filterOf({}), cursor: first.next, limit: 2 });
    assert.deepEqual(
      [...first.jobs, ...second.jobs].map(({ id }) => id),
      ['c', 'b', 'a'],
    );
  }),
  storeCase('find: removals between two pages do not shift them', async ({ store, insert, remove }) => {
    await insert({ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: 'd' });
    const first = await store.find({ filter: filterOf({}), cursor: null, limit: 2 });
    await remove('c');
    const second = await store.find({ filter: filterOf({}), cursor: first.next, limit: 2 });
    assert.deepEqual(
      second.jobs.map(({ id }) => id),
      ['b', 'a'],
    );
  }),
  storeCase('find: a job that ends between two pages keeps its place', async ({ store, insert, cancel }) => {
    await insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    const first = await store.find({ filter: filterOf({}), cursor: null, limit: 1 });
    await cancel('b');
    const second = await store.find({ filter: filterOf({}), cursor: first.next, limit: 2 });
    assert.deepEqual(
      second.jobs.map(({ id }) => id),
      ['b', 'a'],
    );
  }),
  storeCase('find: one job among very many is found, on however late a page', async ({ store, insert, find }) => {
    await insert({ id: 'one', source: 'import' });
    for (let batch = 0; batch < 12; batch++) await insert(...Array.from({ length: 1_000 }, () => ({ source: 'web' })));
    const page = await store.find({ filter: filterOf({ source: 'import' }), cursor: null, limit: 1 });
    assert.ok(page.jobs.length === 1 || page.next !== null, 'a page that ends early says where to go on');
    assert.deepEqual(await find({ source: 'import' }, 1), ['one']);
  }),
  storeCase('find: a cursor that no page gave is refused', async ({ store, add }) => {
    await add();
    await assert.rejects(
      store.find({ filter: filterOf({}), cursor: 'NOT A CURSOR', limit: 1 }),
      (error) => (error as { code?: unknown }).code === 'INVALID_CURSOR',
    );
  }),
];
