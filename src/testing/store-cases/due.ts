import assert from 'node:assert/strict';
import { type Bench, ending, storeCase } from './bench.js';

const due = (
  { store }: Bench,
  types: readonly string[] = ['mail'],
  queues: readonly string[] | null = null,
  limit = 100,
): Promise<number> => store.read({ log: 'due', types, queues, limit });

export const dueCases = [
  storeCase('read: what is due is counted by type and queue', async (bench) => {
    await bench.insert({}, { queue: 'fast' }, { type: 'sms' }, { type: 'sms', queue: 'fast' }, { type: 'fax' });
    assert.equal(await due(bench), 2);
    assert.equal(await due(bench, ['mail', 'sms']), 4);
    assert.equal(await due(bench, ['mail', 'sms'], ['fast']), 2);
    assert.equal(await due(bench, ['mail', 'mail'], ['fast', 'fast', 'none']), 1);
    assert.equal(await due(bench, ['none']), 0);
    assert.equal(await due(bench, []), 0);
    assert.equal(await due(bench, ['mail'], []), 0);
  }),
  storeCase('read: what is delayed is not due before its time, and then is, promoted or not', async (bench) => {
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
  storeCase('read: what runs or has finished is not due', async (bench) => {
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
  storeCase('read: what a pause or an exclusive key holds back is due', async (bench) => {
    await bench.insert({ exclusiveKey: 'x' }, { exclusiveKey: 'x' }, { exclusiveKey: 'x' }, { queue: 'fast' });
    await bench.store.pause('fast', true);
    assert.equal(await due(bench), 4);
    await bench.take();
    assert.equal(await due(bench), 3);
  }),
  storeCase('read: what is past its ttl is not due, swept or not', async (bench) => {
    await bench.insert({ ttlMs: 1_000 }, { ttlMs: 1_000, exclusiveKey: 'x' }, { ttlMs: 1_000, exclusiveKey: 'x' });
    await bench.insert({ ttlMs: 1_000, delay: 500 }, {});
    assert.equal(await due(bench), 4);
    bench.advance(1_000);
    assert.equal(await due(bench), 1);
    await bench.tend();
    assert.equal(await due(bench), 1);
  }),
  storeCase('read: what is due is counted up to the limit', async (bench) => {
    await bench.insert(...Array.from({ length: 6 }, (_, n) => ({ queue: n < 3 ? 'default' : 'fast' })));
    await bench.insert({ delay: 10 }, { delay: 10 });
    bench.advance(10);
    assert.equal(await due(bench, ['mail'], null, 5), 5);
    assert.equal(await due(bench, ['mail'], ['default', 'fast'], 5), 5);
    assert.equal(await due(bench, ['mail'], null, 8), 8);
  }),
];
