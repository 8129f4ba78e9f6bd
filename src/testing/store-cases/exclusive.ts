/** Exclusive keys: one job per key has the turn, and when it ends, the turn passes on in the same step. */
import assert from 'node:assert/strict';
import { type Bench, claim, ending, type Hold, type JobSketch, storeCase } from './bench.js';

const keyed = (id: string, more: JobSketch = {}): JobSketch => ({ id, exclusiveKey: 'x', ...more });

/** `a` runs, `b` and `c` stand behind it. */
async function lineUp({ insert, take }: Bench): Promise<Hold> {
  await insert(keyed('a'), keyed('b'), keyed('c'));
  return take();
}

/** Ways to leave after which `a` does not stand before `b`. */
const gone: { readonly [way: string]: (bench: Bench, hold: Hold) => Promise<unknown> } = {
  complete: ({ settle }, hold) => settle(hold, ending.complete()),
  exhaust: ({ settle }, hold) => settle(hold, ending.exhaust()),
  fail: ({ settle }, hold) => settle(hold, ending.fail()),
  cancel: ({ settle }, hold) => settle(hold, ending.cancel()),
  retry: ({ settle }, hold) => settle(hold, ending.retry(5_000)),
  snooze: ({ settle }, hold) => settle(hold, ending.snooze(5_000)),
  'a cancelled hand-back': async ({ settle, cancel }, hold) => {
    await cancel(hold.id);
    await settle(hold, ending.release());
  },
  'a forced cancel': ({ cancel }, { id }) => cancel(id, { force: true }),
  'a forced removal': ({ remove }, { id }) => remove(id, true),
  'the last lapse': async ({ lapse, settle, take }, hold) => {
    await settle(hold, ending.release());
    await take({ maxStalls: 1 });
    await lapse();
  },
};

/** Ways to leave after which `a` stands in line again, before `b`, because it is older. */
const back: typeof gone = {
  release: ({ settle }, hold) => settle(hold, ending.release()),
  lapse: ({ lapse }) => lapse(),
};

/** Ways in which the ready one that has the turn loses it. */
const ready: { readonly [way: string]: (bench: Bench) => Promise<unknown> } = {
  cancel: ({ cancel }) => cancel('a'),
  remove: ({ remove }) => remove('a'),
  'a reschedule to later': ({ reschedule }) => reschedule('a', 5_000),
  'a coalesce to later': ({ insert }) =>
    insert({ type: 'mail', key: 'only-a', deduplication: 'coalesce', delay: 5_000 }),
  'its ttl': async ({ advance }) => advance(1_000),
};

const passing = [
  ...Object.entries(gone).map(([way, leave]) =>
    storeCase(`settle: the turn passes on ${way}`, async (bench) => {
      await leave(bench, await lineUp(bench));
      assert.deepEqual(await bench.claimIds(), ['b']);
    }),
  ),
  ...Object.entries(back).map(([way, leave]) =>
    storeCase(`settle: on ${way} the job stands in line again by its own time`, async (bench) => {
      await leave(bench, await lineUp(bench));
      assert.deepEqual(await bench.claimIds(), ['a']);
      assert.deepEqual(await bench.claimIds(), []);
    }),
  ),
  ...Object.entries({ ...gone, ...back }).map(([way, leave]) =>
    storeCase(`settle: nobody is left behind after ${way}`, async (bench) => {
      await leave(bench, await lineUp(bench));
      await bench.drain();
      const { pending, processing } = await bench.tally();
      assert.deepEqual({ pending, processing }, { pending: 0, processing: 0 });
    }),
  ),
  ...Object.entries(ready).map(([way, leave]) =>
    storeCase(`move: the turn of a ready job passes on ${way}`, async (bench) => {
      await bench.insert(keyed('a', { key: 'only-a', ttlMs: 1_000 }), keyed('b'), keyed('c'));
      await leave(bench);
      assert.deepEqual(await bench.claimIds(), ['b']);
      await bench.settle({ id: 'b', epoch: (await bench.job('b')).epoch, owner: 'worker-1' }, ending.complete());
      assert.ok((await bench.drain()).includes('c'));
    }),
  ),
  storeCase('insert: the turn of a replaced job passes on', async ({ insert, claimIds }) => {
    await insert(keyed('a', { key: 'k', deduplication: 'skip' }), keyed('b'));
    await insert({ id: 'new', key: 'k', deduplication: 'replace', exclusiveKey: 'x' });
    assert.deepEqual(await claimIds(), ['b']);
  }),
  storeCase('settle: the turn of a superseded job passes on', async (bench) => {
    await bench.insert(keyed('a', { key: 'k', deduplication: 'skip' }));
    const hold = await bench.take();
    await bench.insert(keyed('b', { key: 'k', deduplication: 'skip' }));
    await bench.settle(hold, ending.snooze(0));
    assert.equal((await bench.error('a'))?.code, 'SUPERSEDED');
    assert.deepEqual(await bench.claimIds(), ['b']);
  }),
];

export const exclusiveCases = [
  storeCase('claim: one key gives one job, however many are due', async ({ insert, claimIds }) => {
    await insert(keyed('a'), keyed('b'), keyed('c'));
    assert.deepEqual(await claimIds(), ['a']);
    assert.deepEqual(await claimIds({ owner: 'worker-2' }), []);
  }),
  storeCase('claim: jobs of one key run one after another in their order', async ({ insert, drain }) => {
    await insert(keyed('b', { priority: 1 }), keyed('c', { priority: 2 }), keyed('d', { priority: 2 }));
    await insert(keyed('a', { priority: 1 }));
    assert.deepEqual(await drain(), ['b', 'a', 'c', 'd']);
  }),
  storeCase('claim: jobs behind a key hold up nobody else', async ({ insert, claimIds }) => {
    await insert(keyed('a'), keyed('b'), keyed('c'), { id: 'free' }, keyed('other', { exclusiveKey: 'y' }));
    assert.deepEqual(await claimIds({ slots: 3 }), ['a', 'free', 'other']);
  }),
  storeCase('claim: jobs behind are no reason to ask for more', async ({ store, insert }) => {
    await insert(keyed('a'), keyed('b'));
    assert.equal((await claim(store, { slots: 1 })).more, false);
  }),
  storeCase('claim: a key is within its type', async ({ insert, claimIds }) => {
    await insert(keyed('a'), keyed('b', { type: 'sms' }));
    assert.deepEqual(await claimIds({ types: ['mail', 'sms'] }), ['a', 'b']);
  }),
  storeCase('claim: a key is within its queue', async ({ insert, claimIds }) => {
    await insert(keyed('a'), keyed('b', { queue: 'other' }));
    assert.deepEqual(await claimIds(), ['a', 'b']);
  }),
  storeCase('claim: a delayed job of a key does not have the turn', async ({ insert, claimIds }) => {
    await insert(keyed('later', { delay: 60_000, priority: -5 }), keyed('a'));
    assert.deepEqual(await claimIds(), ['a']);
  }),
  storeCase('claim: a delayed job that becomes due stands behind the one that runs', async (bench) => {
    await bench.insert(keyed('a'), keyed('b', { delay: 1_000 }));
    const hold = await bench.take();
    bench.advance(1_000);
    assert.deepEqual(await bench.claimIds(), []);
    await bench.settle(hold, ending.complete());
    assert.deepEqual(await bench.claimIds(), ['b']);
  }),
  storeCase(
    'claim: delayed jobs of one key that become due together give one',
    async ({ insert, advance, claimIds }) => {
      await insert(keyed('a', { delay: 1_000 }), keyed('b', { delay: 1_000 }));
      advance(1_000);
      assert.deepEqual(await claimIds(), ['a']);
    },
  ),
  storeCase('claim: a retried job of a key waits for the one that took its turn', async (bench) => {
    const hold = await lineUp(bench);
    await bench.settle(hold, ending.retry(1_000));
    const second = await bench.take();
    bench.advance(1_000);
    assert.deepEqual(await bench.claimIds(), []);
    await bench.settle(second, ending.complete());
    assert.deepEqual(await bench.drain(), ['c', 'a']);
  }),
  storeCase('claim: a behind job whose ttl is over is skipped when the turn passes', async (bench) => {
    await bench.insert(keyed('a'), keyed('b', { ttlMs: 1_000 }), keyed('c'));
    const hold = await bench.take();
    bench.advance(2_000);
    await bench.settle(hold, ending.complete());
    assert.deepEqual(await bench.claimIds(), ['c']);
    assert.equal((await bench.job('b')).state, 'expired');
  }),
  storeCase('move: a cancel request does not free the key', async (bench) => {
    const hold = await lineUp(bench);
    assert.equal(await bench.cancel('a'), 'requested');
    assert.deepEqual(await bench.claimIds(), []);
    await bench.settle(hold, ending.retry(0));
    assert.deepEqual(await bench.claimIds(), ['b']);
  }),
  storeCase('move: leaving the line from behind leaves the turn where it is', async (bench) => {
    await lineUp(bench);
    await bench.cancel('b');
    await bench.reschedule('c', 5_000);
    assert.deepEqual(await bench.claimIds(), []);
  }),
  storeCase('move: a job behind that gets a better priority comes next', async (bench) => {
    const hold = await lineUp(bench);
    assert.equal(await bench.reschedule('c', null, -1), 'moved');
    await bench.settle(hold, ending.complete());
    assert.deepEqual(await bench.claimIds(), ['c']);
  }),
  ...passing,
];
