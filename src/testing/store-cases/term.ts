/** The maintainer's term, and its ledger. */
import assert from 'node:assert/strict';
import type { LedgerPage, Store, Swept } from '../../core/store.js';
import { completed, leaseMs, storeCase, sweepOnce } from './bench.js';

const ttlMs = 10_000;

const sweepAs = (store: Store, holder: string, fields: Parameters<typeof sweepOnce>[1] = {}): Promise<Swept> =>
  sweepOnce(store, { ...fields, term: { holder, ttlMs } });

const noteAs = async (store: Store, holder: string, entry: string): Promise<number | null> =>
  (await store.sweep({ limit: 500, cleanup: null, term: { holder, ttlMs }, entry })).term;

async function ledger(store: Store, limit = 100): Promise<string[]> {
  const entries: string[] = [];
  let cursor: string | null = null;
  do {
    const page: LedgerPage = await store.read({ log: 'ledger', cursor, limit });
    assert.ok(page.entries.length <= limit, 'a page is no longer than asked for');
    entries.push(...page.entries);
    cursor = page.next;
  } while (cursor !== null);
  return entries;
}

const terms = [
  storeCase('sweep: the holder of a living term renews it under the same number', async ({ store, advance }) => {
    const { term, busy } = await sweepAs(store, 'a');
    assert.deepEqual([typeof term, busy], ['number', false]);
    for (let i = 0; i < 3; i++) {
      advance(ttlMs - 1);
      assert.equal((await sweepAs(store, 'a')).term, term);
    }
  }),
  storeCase('sweep: while a term lives, another holder cleans nothing up', async (bench) => {
    const ids = await completed(bench, 1);
    await sweepAs(bench.store, 'a');
    bench.advance(ttlMs - 1);
    const refused = await sweepAs(bench.store, 'b', { jobRetentionMs: 1 });
    assert.deepEqual([refused.busy, refused.term, refused.removedBy.age], [true, null, 0]);
    assert.deepEqual(await bench.find(), ids);
    bench.advance(1);
    const taken = await sweepAs(bench.store, 'b', { jobRetentionMs: 1 });
    assert.deepEqual([taken.busy, taken.removedBy.age], [false, 1]);
    assert.equal((await sweepAs(bench.store, 'a')).busy, true);
  }),
  storeCase('sweep: who finds another holder’s term alive tends all the same', async (bench) => {
    const id = await bench.add();
    await bench.take();
    bench.advance(leaseMs - 1);
    await sweepAs(bench.store, 'a');
    bench.advance(1);
    const swept = await sweepAs(bench.store, 'b');
    assert.deepEqual([swept.busy, swept.lapsed, (await bench.job(id)).state], [true, 1, 'pending']);
  }),
  storeCase('sweep: each new term has the next number', async ({ store, advance }) => {
    const first = (await sweepAs(store, 'a')).term!;
    advance(ttlMs);
    assert.equal((await sweepAs(store, 'b')).term, first + 1);
    advance(ttlMs);
    assert.equal((await sweepAs(store, 'b')).term, first + 2);
    assert.equal(await noteAs(store, 'b', '{}'), first + 2);
    assert.equal((await sweepAs(store, 'a')).term, first + 3);
  }),
  storeCase('sweep: without a term nobody is asked', async (bench) => {
    await sweepAs(bench.store, 'a');
    await completed(bench, 1);
    bench.advance(1);
    const swept = await sweepOnce(bench.store, { jobRetentionMs: 1 });
    assert.deepEqual([swept.busy, swept.term, swept.removedBy.age], [false, null, 1]);
  }),
  storeCase('sweep: tending asks for no term and takes none', async ({ store }) => {
    const tend = (holder: string) => store.sweep({ limit: 9, cleanup: null, term: { holder, ttlMs }, entry: null });
    assert.deepEqual([(await tend('a')).term, (await tend('b')).busy], [null, false]);
    assert.equal((await sweepAs(store, 'b')).busy, false);
  }),
];

const entries = [
  storeCase('sweep: an entry ends its term, and is the only one of it', async ({ store }) => {
    const { term } = await sweepAs(store, 'a');
    assert.equal(await noteAs(store, 'a', '{"removed":1}'), term);
    assert.equal(await noteAs(store, 'a', '{"removed":2}'), null);
    assert.equal((await sweepAs(store, 'b')).busy, false);
    assert.deepEqual(await ledger(store), ['{"removed":1}']);
  }),
  storeCase('sweep: an entry of a term that another took over is not written', async ({ store, advance }) => {
    await sweepAs(store, 'a');
    advance(ttlMs);
    await sweepAs(store, 'b');
    assert.equal(await noteAs(store, 'a', '{"removed":1}'), null);
    assert.deepEqual(await ledger(store), []);
    assert.equal((await sweepAs(store, 'a')).busy, true);
  }),
  storeCase('sweep: an entry of the last term is written, lapsed or not', async ({ store, advance }) => {
    const { term } = await sweepAs(store, 'a');
    advance(2 * ttlMs);
    assert.equal(await noteAs(store, 'a', '{"removed":1}'), term);
    assert.deepEqual(await ledger(store), ['{"removed":1}']);
  }),
  storeCase('sweep: an entry of somebody who never had a term is not written', async ({ store }) => {
    assert.equal(await noteAs(store, 'a', '{}'), null);
    assert.deepEqual(await ledger(store), []);
  }),
  storeCase('sweep: with an entry, nothing else is done', async (bench) => {
    await completed(bench, 1);
    await sweepAs(bench.store, 'a');
    bench.advance(1_000);
    const swept = await sweepAs(bench.store, 'a', { entry: '{}', jobRetentionMs: 1 });
    assert.deepEqual([swept.removedBy.age, swept.examined, (await bench.find()).length], [0, 0, 1]);
  }),
  storeCase('read: the ledger comes newest first, page by page', async ({ store }) => {
    for (let i = 0; i < 7; i++) {
      await sweepAs(store, 'a');
      await noteAs(store, 'a', `{"n":${i}}`);
    }
    const newest = [6, 5, 4, 3, 2, 1, 0].map((i) => `{"n":${i}}`);
    for (const limit of [1, 3, 7, 100]) assert.deepEqual(await ledger(store, limit), newest);
  }),
  storeCase('read: the ledger keeps the newest thousand', async ({ store }) => {
    for (let i = 0; i < 1_003; i++) {
      await sweepAs(store, 'a');
      await noteAs(store, 'a', String(i));
    }
    const kept = await ledger(store);
    assert.deepEqual([kept.length, kept[0], kept.at(-1)], [1_000, '1002', '3']);
  }),
];

export const termCases = [...terms, ...entries];
