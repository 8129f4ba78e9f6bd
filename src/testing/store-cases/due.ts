import assert from 'node:assert/strict';
import { type Bench, ending, storeCase } from './bench.js';

const due = (
  { store }: Bench,
  types: readonly string[] = ['mail'],
  queues: readonly string[] | null = null,
  limit = 100,
): Promise<number> => store.countDue({ types, queues, limit });

/** In the order of names: a store may tell them in any. */
const lanes = async ({ store }: Bench): Promise<readonly (readonly [string, string, number])[]> =>
  (await store.readLanes())
    .map(({ type, queue, waitedMs }) => [type, queue, waitedMs] as const)
    .sort(([a, x], [b, y]) => (`${a} ${x}` < `${b} ${y}` ? -1 : 1));

export const dueCases = [
  storeCase(
    'readLanes: each type and queue with due jobs is told once, with how long the oldest has waited',
    async (bench) => {
      await bench.insert({ type: 'a', priority: 5 }, { type: 'b', delay: 2_000 }, { type: 'd', delay: 9_000 });
      await bench.insert(
        { type: 'e', exclusiveKey: 'k' },
        { type: 'e', exclusiveKey: 'k' },
        { type: 'f', ttlMs: 2_500 },
      );
      bench.advance(1_000);
      await bench.insert({ type: 'a' }, { type: 'a', queue: 'fast' }, { type: 'a', priority: -5 });
      assert.deepEqual(await lanes(bench), [
        ['a', 'default', 1_000],
        ['a', 'fast', 0],
        ['e', 'default', 1_000],
        ['f', 'default', 1_000],
      ]);
      bench.advance(2_000);
      const due = [
        ['a', 'default', 3_000],
        ['a', 'fast', 2_000],
        ['b', 'default', 1_000],
        ['e', 'default', 3_000],
      ];
      assert.deepEqual(await lanes(bench), due);
      await bench.tend();
      assert.deepEqual(await lanes(bench), due);
    },
  ),
  storeCase('readLanes: a type whose jobs all run, or have ended, is not told', async (bench) => {
    await bench.insert({}, {});
    const hold = await bench.take({ slots: 1 });
    assert.equal((await lanes(bench)).length, 1);
    const other = await bench.take({ slots: 1 });
    assert.deepEqual(await lanes(bench), []);
    await bench.settle(hold, ending.complete());
    await bench.settle(other, ending.retry(500));
    assert.deepEqual(await lanes(bench), []);
    bench.advance(700);
    assert.deepEqual(await lanes(bench), [['mail', 'default', 200]]);
  }),
  storeCase('countDue: what is due is counted by type and queue', async (bench) => {
    await bench.insert({}, { queue: 'fast' }, { type: 'sms' }, { type: 'sms', queue: 'fast' }, { type: 'fax' });
    assert.equal(await due(bench), 2);
    assert.equal(await due(bench, ['mail', 'sms']), 4);
    assert.equal(await due(bench, ['mail', 'sms'], ['fast']), 2);
    assert.equal(await due(bench, ['mail', 'mail'], ['fast', 'fast', 'none']), 1);
    assert.equal(await due(bench, ['none']), 0);
    assert.equal(await due(bench, []), 0);
    assert.equal(await due(bench, ['mail'], []), 0);
  }),
  storeCase('countDue: what is delayed is not due before its time, and then is, promoted or not', async (bench) => {
    await bench.insert({ delay: 1_000 }, { delay: 2_000, queue: 'fast' }, { delay: 2_000, type: 'sms' });
    assert.equal(await due(bench), 0);
    bench.advance(1_000);
    assert.equal(await due(bench), 1);
    bench.advance(1_000);
    assert.equal(await due(bench), 2);
    assert.equal(await due(bench, ['mail', 'sms'], ['default']), 2);
    await bench.tend();
    assert.equal(await due(bench), 2);
  }),
  storeCase('countDue: what runs or has finished is not due', async (bench) => {
    await bench.insert({}, {});
    const hold = await bench.take({ slots: 1 });
    assert.equal(await due(bench), 1);
    await bench.settle(hold, ending.retry(500));
    assert.equal(await due(bench), 1);
    bench.advance(500);
    assert.equal(await due(bench), 2);
    await bench.drain();
    assert.equal(await due(bench), 0);
  }),
  storeCase('countDue: what a pause or an exclusive key holds back is due', async (bench) => {
    await bench.insert({ exclusiveKey: 'x' }, { exclusiveKey: 'x' }, { exclusiveKey: 'x' }, { queue: 'fast' });
    await bench.store.pause('fast', true);
    assert.equal(await due(bench), 4);
    await bench.take();
    assert.equal(await due(bench), 3);
  }),
  storeCase('countDue: what is past its ttl is not due, swept or not', async (bench) => {
    await bench.insert({ ttlMs: 1_000 }, { ttlMs: 1_000, exclusiveKey: 'x' }, { ttlMs: 1_000, exclusiveKey: 'x' });
    await bench.insert({ ttlMs: 1_000, delay: 500 }, {});
    assert.equal(await due(bench), 4);
    bench.advance(1_000);
    assert.equal(await due(bench), 1);
    await bench.tend();
    assert.equal(await due(bench), 1);
  }),
  storeCase('countDue: what is due is counted up to the limit', async (bench) => {
    await bench.insert(...Array.from({ length: 6 }, (_, n) => ({ queue: n < 3 ? 'default' : 'fast' })));
    await bench.insert({ delay: 10 }, { delay: 10 });
    bench.advance(10);
    assert.equal(await due(bench, ['mail'], null, 5), 5);
    assert.equal(await due(bench, ['mail'], ['default', 'fast'], 5), 5);
    assert.equal(await due(bench, ['mail'], null, 8), 8);
  }),
];
