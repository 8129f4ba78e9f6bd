/** The maintainer's term, and its ledger. */
import assert from 'node:assert/strict';
import type { LedgerPage, Store, SweptInTerm } from '../../core/store.js';
import { cleanupOf, completed, leaseMs, storeCase, sweepOnce } from './bench.js';

const ttlMs = 10_000;

const sweepAs = (store: Store, holder: string, policy: Parameters<typeof cleanupOf>[0] = {}): Promise<SweptInTerm> =>
  store.sweepInTerm({ holder, ttlMs }, { limit: 500, cleanup: cleanupOf(policy) });

async function ledger(store: Store, limit = 100): Promise<string[]> {
  const entries: string[] = [];
  let cursor: string | null = null;
  do {
    const page: LedgerPage = await store.readLedger({ cursor, limit });
    assert.ok(page.entries.length <= limit, 'a page is no longer than asked for');
    entries.push(...page.entries);
    cursor = page.next;
  } while (cursor !== null);
  return entries;
}

const terms = [
  storeCase('sweepInTerm: the holder of a living term renews it under the same number', async ({ store, advance }) => {
    const { term } = await sweepAs(store, 'a');
    assert.equal(typeof term, 'number');
    for (let i = 0; i < 3; i++) {
      advance(ttlMs - 1);
      assert.equal((await sweepAs(store, 'a')).term, term);
    }
  }),
  storeCase('sweepInTerm: while a term lives, another holder cleans nothing up', async (bench) => {
    const ids = await completed(bench, 1);
    await sweepAs(bench.store, 'a');
    bench.advance(ttlMs - 1);
    const refused = await sweepAs(bench.store, 'b', { jobRetentionMs: 1 });
    assert.deepEqual([refused.term, refused.removedBy.age], [null, 0]);
    assert.deepEqual(await bench.find(), ids);
    bench.advance(1);
    const taken = await sweepAs(bench.store, 'b', { jobRetentionMs: 1 });
    assert.deepEqual([typeof taken.term, taken.removedBy.age], ['number', 1]);
    assert.equal((await sweepAs(bench.store, 'a')).term, null);
  }),
  storeCase('sweepInTerm: who finds another holder’s term alive tends all the same', async (bench) => {
    const id = await bench.add();
    await bench.take();
    bench.advance(leaseMs - 1);
    await sweepAs(bench.store, 'a');
    bench.advance(1);
    const swept = await sweepAs(bench.store, 'b');
    assert.deepEqual([swept.term, swept.lapsed, (await bench.job(id)).state], [null, 1, 'pending']);
  }),
  storeCase('sweepInTerm: each new term has the next number', async ({ store, advance }) => {
    const first = (await sweepAs(store, 'a')).term!;
    advance(ttlMs);
    assert.equal((await sweepAs(store, 'b')).term, first + 1);
    advance(ttlMs);
    assert.equal((await sweepAs(store, 'b')).term, first + 2);
    assert.equal(await store.endTerm('b', '{}'), first + 2);
    assert.equal((await sweepAs(store, 'a')).term, first + 3);
  }),
  storeCase('sweep: without a term nobody is asked', async (bench) => {
    await sweepAs(bench.store, 'a');
    await completed(bench, 1);
    bench.advance(1);
    const swept = await sweepOnce(bench.store, { jobRetentionMs: 1 });
    assert.equal(swept.removedBy.age, 1);
    assert.equal((await sweepAs(bench.store, 'b')).term, null, 'the term of the first goes on');
  }),
];

const entries = [
  storeCase('endTerm: an entry ends its term, and is the only one of it', async ({ store }) => {
    const { term } = await sweepAs(store, 'a');
    assert.equal(await store.endTerm('a', '{"removed":1}'), term);
    assert.equal(await store.endTerm('a', '{"removed":2}'), null);
    assert.notEqual((await sweepAs(store, 'b')).term, null);
    assert.deepEqual(await ledger(store), ['{"removed":1}']);
  }),
  storeCase('endTerm: an entry of a term that another took over is not written', async ({ store, advance }) => {
    await sweepAs(store, 'a');
    advance(ttlMs);
    await sweepAs(store, 'b');
    assert.equal(await store.endTerm('a', '{"removed":1}'), null);
    assert.deepEqual(await ledger(store), []);
    assert.equal((await sweepAs(store, 'a')).term, null);
  }),
  storeCase('endTerm: an entry of the last term is written, lapsed or not', async ({ store, advance }) => {
    const { term } = await sweepAs(store, 'a');
    advance(2 * ttlMs);
    assert.equal(await store.endTerm('a', '{"removed":1}'), term);
    assert.deepEqual(await ledger(store), ['{"removed":1}']);
  }),
  storeCase('endTerm: an entry of somebody who never had a term is not written', async ({ store }) => {
    assert.equal(await store.endTerm('a', '{}'), null);
    assert.deepEqual(await ledger(store), []);
  }),
  storeCase('endTerm: removes no job and brings none back', async (bench) => {
    await completed(bench, 1);
    const id = await bench.add();
    await bench.take();
    await sweepAs(bench.store, 'a');
    bench.advance(leaseMs);
    await bench.store.endTerm('a', '{}');
    assert.deepEqual([(await bench.find()).length, (await bench.job(id)).state], [2, 'processing']);
  }),
  storeCase('readLedger: comes newest first, page by page', async ({ store }) => {
    for (let i = 0; i < 7; i++) {
      await sweepAs(store, 'a');
      await store.endTerm('a', `{"n":${i}}`);
    }
    const newest = [6, 5, 4, 3, 2, 1, 0].map((i) => `{"n":${i}}`);
    for (const limit of [1, 3, 7, 100]) assert.deepEqual(await ledger(store, limit), newest);
  }),
  storeCase('readLedger: keeps the newest thousand', async ({ store }) => {
    for (let i = 0; i < 1_003; i++) {
      await sweepAs(store, 'a');
      await store.endTerm('a', String(i));
    }
    const kept = await ledger(store);
    assert.deepEqual([kept.length, kept[0], kept.at(-1)], [1_000, '1002', '3']);
  }),
];

export const termCases = [...terms, ...entries];
