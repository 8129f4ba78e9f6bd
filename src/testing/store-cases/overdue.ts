/** What may be acted on while nothing can be written: jobs whose time is over for certain. */
import assert from 'node:assert/strict';
import type { OverduePage } from '../../core/store.js';
import { type Bench, leaseMs, storeCase } from './bench.js';

/** By then no call that was made before the deadline can change it: a store may wait so long. */
const certainMs = 15_000;

async function overdue(
  { store }: Bench,
  asked: { types?: readonly string[]; ids?: readonly string[]; limit?: number } = {},
): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | null = null;
  do {
    const { types = ['mail'], ids: wanted = null, limit = 100 } = asked;
    const page: OverduePage = await store.readOverdue({ types, ids: wanted, cursor, limit });
    assert.equal(page.doubt, null);
    ids.push(...page.jobs.map(({ id }) => id));
    cursor = page.next;
  } while (cursor !== null);
  return ids;
}

export const overdueCases = [
  storeCase(
    'readOverdue: overdue are jobs whose deadline has passed, by the store’s clock, and no others',
    async (bench) => {
      const soon = await bench.add({ delay: 1_000 });
      const later = await bench.add({ delay: 60_000 });
      const other = await bench.add({ delay: 1_000, type: 'sms' });
      assert.deepEqual(await overdue(bench), []);
      bench.advance(999);
      assert.deepEqual(await overdue(bench), []);
      bench.advance(1 + certainMs);
      assert.deepEqual(await overdue(bench), [soon]);
      assert.deepEqual(await overdue(bench, { types: ['mail', 'sms'] }), [other, soon]);
      assert.deepEqual(await overdue(bench, { ids: [later] }), []);
      assert.deepEqual(await overdue(bench, { ids: [later, soon, other] }), [soon]);
    },
  ),
  storeCase('readOverdue: overdue changes nothing, and tells a job as find does', async (bench) => {
    const id = await bench.add({ delay: 1_000, queue: 'lastout', key: 'a name', subject: 'user:1' });
    await bench.move([id], { kind: 'confirm', memo: '{"info":1}', when: { inMs: 2_000 }, under: null });
    bench.advance(2_000 + certainMs);
    const page = await bench.store.readOverdue({ types: ['mail'], ids: null, cursor: null, limit: 10 });
    assert.deepEqual(page, { doubt: null, jobs: [await bench.job(id)], next: null });
    assert.deepEqual(await bench.claimIds(), [id]);
  }),
  storeCase('readOverdue: a deadline that was moved on is not overdue', async (bench) => {
    const id = await bench.add({ delay: 500, queue: 'lastout' });
    const [confirmed] = await bench.move([id], { kind: 'confirm', memo: '{}', when: { inMs: 1_000 }, under: null });
    bench.advance(900);
    const [again] = await bench.move([id], { kind: 'confirm', memo: null, when: { inMs: 60_000 }, under: null });
    assert.deepEqual([confirmed?.outcome, again?.outcome], ['confirmed', 'confirmed']);
    bench.advance(30_000);
    assert.deepEqual(await overdue(bench), []);
    bench.advance(30_000 + certainMs);
    assert.deepEqual(await overdue(bench), [id]);
  }),
  storeCase(
    'readOverdue: a job that is held is overdue when its claim has lapsed, and one that has ended is not',
    async (bench) => {
      const [first, second] = [await bench.add(), await bench.add()];
      const hold = await bench.take({ slots: 1 });
      await bench.settle(hold, { kind: 'complete', result: 'null' });
      assert.equal(hold.id, first);
      await bench.take({ slots: 1 });
      bench.advance(leaseMs - 1);
      assert.deepEqual(await overdue(bench), []);
      bench.advance(1 + certainMs);
      assert.deepEqual(await overdue(bench), [second]);
    },
  ),
  storeCase('readOverdue: overdue goes on page by page', async (bench) => {
    const ids: string[] = [];
    for (let i = 0; i < 7; i++) ids.push(await bench.add({ delay: i % 2 === 0 ? 1_000 : 600_000 }));
    bench.advance(1_000 + certainMs);
    const wanted = ids.filter((_, i) => i % 2 === 0).reverse();
    assert.deepEqual(await overdue(bench, { limit: 2 }), wanted);
  }),
];
