/** Limits of a queue over all processes: how many jobs may run at once, and start in a window. */
import assert from 'node:assert/strict';
import { type Bench, claim, ending, type Hold, type JobSketch, leaseMs, storeCase } from './bench.js';

const jobs = (n: number, sketch: JobSketch = {}): JobSketch[] => Array.from({ length: n }, () => sketch);

/** Claims as much as may start; what it took. */
async function takeAll({ store }: Bench, owner = 'worker-1'): Promise<Hold[]> {
  const { jobs: taken, epoch } = await claim(store, { owner });
  return taken.map(({ id }) => ({ id, epoch, owner }));
}

/** The ways in which a claim of a job may end, each giving its slot back. */
const waysOut: { readonly [way: string]: (bench: Bench, hold: Hold) => Promise<unknown> } = {
  'completes': ({ settle }, hold) => settle(hold, ending.complete()),
  'fails': ({ settle }, hold) => settle(hold, ending.fail()),
  'is tried again later': ({ settle }, hold) => settle(hold, ending.retry(60_000)),
  'is snoozed': ({ settle }, hold) => settle(hold, ending.snooze(60_000)),
  'is cancelled by force': ({ cancel }, hold) => cancel(hold.id, { force: true }),
  'is removed by force': ({ remove }, hold) => remove(hold.id, true),
}; // biome-ignore format: one table

const concurrencyCases = [
  storeCase('claim: no more jobs of a queue run than its concurrency, in any batch size', async (bench) => {
    await bench.limit({ default: { concurrency: 3 } });
    await bench.insert(...jobs(10));
    assert.equal((await bench.claimIds({ slots: 1 })).length, 1);
    assert.equal((await bench.claimIds({ slots: 50, owner: 'worker-2' })).length, 2);
    assert.deepEqual(await bench.claimIds({ slots: 50, owner: 'worker-3' }), []);
  }),
  storeCase('claim: a limit counts all types of its queue together', async (bench) => {
    await bench.limit({ default: { concurrency: 2 } });
    await bench.insert(...jobs(3), ...jobs(3, { type: 'sms' }));
    assert.equal((await bench.claimIds({ types: ['mail', 'sms'] })).length, 2);
    assert.deepEqual(await bench.claimIds({ types: ['sms'] }), []);
  }),
  storeCase('claim: a limit counts jobs that were running before it was set', async (bench) => {
    await bench.insert(...jobs(5));
    await bench.take({ slots: 1 });
    await bench.limit({ default: { concurrency: 2 } });
    assert.equal((await bench.claimIds()).length, 1);
  }),
  ...Object.entries(waysOut).map(([way, leave]) =>
    storeCase(`claim: a job that ${way} gives its slot back`, async (bench) => {
      await bench.limit({ default: { concurrency: 1 } });
      await bench.insert({ id: 'first' }, { id: 'second' });
      const hold = await bench.take();
      assert.deepEqual(await bench.claimIds(), []);
      await leave(bench, hold);
      assert.deepEqual(await bench.claimIds(), ['second']);
    }),
  ),
  storeCase('claim: a job that is handed back gives its slot to the first in order', async (bench) => {
    await bench.limit({ default: { concurrency: 1 } });
    await bench.insert({ id: 'first' }, { id: 'second' });
    await bench.settle(await bench.take(), ending.release());
    assert.deepEqual(await bench.claimIds(), ['first']);
  }),
  storeCase('claim: a dead worker holds its slots until its claim lapses, and not longer', async (bench) => {
    await bench.limit({ default: { concurrency: 2 } });
    await bench.insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    await bench.claimIds();
    bench.advance(leaseMs - 1);
    assert.deepEqual(await bench.claimIds({ owner: 'worker-2' }), []);
    bench.advance(1);
    assert.deepEqual(await bench.claimIds({ owner: 'worker-2' }), ['a', 'b']);
  }),
  storeCase('claim: a late ending gives no slot back a second time', async (bench) => {
    await bench.limit({ default: { concurrency: 1 } });
    await bench.insert({ id: 'a' }, { id: 'b' });
    const dead = await bench.take();
    await bench.lapse();
    await bench.take({ owner: 'worker-2' });
    assert.equal(await bench.settle(dead, ending.complete()), 'STALE_CLAIM');
    assert.deepEqual(await bench.claimIds({ owner: 'worker-3' }), []);
  }),
  storeCase('claim: an extended claim keeps its slot', async (bench) => {
    await bench.limit({ default: { concurrency: 1 } });
    await bench.insert({}, {});
    const { id, epoch, owner } = await bench.take();
    bench.advance(leaseMs - 1);
    await bench.store.extend({ owner, leaseMs, claims: [{ epoch, ids: [id], started: [] }], card: null });
    bench.advance(leaseMs - 1);
    assert.deepEqual(await bench.claimIds({ owner: 'worker-2' }), []);
  }),
  storeCase('settle: the claim that it carries may use the slot that it gives back', async (bench) => {
    await bench.limit({ default: { concurrency: 1 } });
    await bench.insert({}, { id: 'next' });
    const { id, epoch, owner } = await bench.take();
    const next = { owner, types: ['mail'], queues: null, slots: 5, ahead: 5, leaseMs, maxStalls: 3 };
    const settlements = [{ id, epoch, ending: ending.complete() }];
    const { claimed } = await bench.store.settle({ owner, settlements, started: [], next });
    assert.deepEqual(
      claimed?.jobs.map((job) => job.id),
      ['next'],
    );
  }),
  storeCase('claim: jobs of a queue with a concurrency or a rate are never claimed ahead', async (bench) => {
    await bench.limit({ default: { concurrency: 5 }, slow: { rate: { max: 5, perMs: 1_000 } } });
    await bench.insert(...jobs(3), ...jobs(3, { queue: 'slow' }));
    assert.equal((await bench.claimIds({ queues: ['default'], slots: 1, ahead: 5 })).length, 1);
    assert.equal((await bench.claimIds({ queues: ['slow'], slots: 1, ahead: 5 })).length, 1);
    assert.deepEqual(await bench.claimIds({ slots: 0, ahead: 5 }), []);
  }),
];

const orderCases = [
  storeCase('claim: an exhausted queue is left out, and strict order holds among the rest', async (bench) => {
    await bench.limit({ tight: { concurrency: 1 } });
    await bench.insert(
      { id: 'a', queue: 'tight' },
      { id: 'b', queue: 'tight' },
      { id: 'c', queue: 'free', priority: 5 },
      { id: 'd', queue: 'tight', type: 'sms' },
      { id: 'e', queue: 'free', type: 'sms' },
      { id: 'f', queue: 'other', priority: 1 },
    );
    assert.deepEqual(await bench.claimIds({ types: ['mail', 'sms'], slots: 3 }), ['a', 'e', 'f']);
    assert.deepEqual(await bench.claimIds({ types: ['mail', 'sms'] }), ['c']);
  }),
  storeCase('claim: what a limit holds back is not more', async (bench) => {
    await bench.limit({ tight: { concurrency: 1 } });
    await bench.insert({ queue: 'tight' }, { queue: 'tight' }, { queue: 'free' }, { queue: 'free' });
    const first = await claim(bench.store, { slots: 2 });
    assert.deepEqual([first.jobs.length, first.more], [2, true]);
    const second = await claim(bench.store, { slots: 1 });
    assert.deepEqual([second.jobs.length, second.more], [1, false]);
    const third = await claim(bench.store);
    assert.deepEqual([third.jobs.length, third.more, third.nextDueInMs], [0, false, null]);
  }),
  storeCase('claim: jobs past their ttl use up no room of a limit', async (bench) => {
    await bench.limit({ default: { concurrency: 1, rate: { max: 1, perMs: 60_000 } } });
    await bench.insert({ ttlMs: 1_000 }, { ttlMs: 1_000 }, { id: 'alive' });
    bench.advance(1_000);
    assert.deepEqual(await bench.claimIds(), ['alive']);
  }),
  storeCase('claim: more jobs past their ttl than one pass ends let no more start than may', async (bench) => {
    await bench.limit({ default: { concurrency: 3 } });
    await bench.insert({ id: 'a', priority: -1 }, ...jobs(510, { ttlMs: 1_000 }));
    await bench.insert(...['b', 'c', 'd'].map((id) => ({ id, priority: 1 })));
    bench.advance(1_000);
    assert.deepEqual(await bench.claimIds(), ['a', 'b', 'c']);
  }),
  storeCase('claim: a turn that is held back by a limit passes on like any other', async (bench) => {
    await bench.limit({ default: { concurrency: 1 } });
    await bench.insert({ id: 'busy' }, { id: 'x1', exclusiveKey: 'x' }, { id: 'x2', exclusiveKey: 'x' });
    const hold = await bench.take();
    await bench.cancel('x1');
    await bench.settle(hold, ending.complete());
    assert.deepEqual(await bench.claimIds(), ['x2']);
  }),
];

const rateCases = [
  storeCase('claim: no more jobs start in any window than the rate allows', async (bench) => {
    await bench.limit({ default: { rate: { max: 3, perMs: 1_000 } } });
    await bench.insert(...jobs(20));
    const starts: number[] = [];
    for (let at = 0; at < 4_000; at += 130) {
      for (const hold of await takeAll(bench)) {
        starts.push(at);
        await bench.settle(hold, ending.complete());
      }
      bench.advance(130);
    }
    for (const from of starts)
      assert.ok(starts.filter((at) => at >= from && at < from + 1_000).length <= 3, `the window from ${from}`);
    assert.ok(starts.length >= 9, 'and it is used');
  }),
  storeCase('claim: a start is forgotten exactly one window later', async (bench) => {
    await bench.limit({ default: { rate: { max: 2, perMs: 1_000 } } });
    await bench.insert(...jobs(5));
    await bench.claimIds({ slots: 1 });
    bench.advance(400);
    await bench.claimIds({ slots: 1 });
    bench.advance(599);
    assert.deepEqual(await bench.claimIds(), []);
    bench.advance(1);
    assert.equal((await bench.claimIds()).length, 1);
    bench.advance(399);
    assert.deepEqual(await bench.claimIds(), []);
    bench.advance(1);
    assert.equal((await bench.claimIds()).length, 1);
  }),
  storeCase('claim: nextDueInMs says when the rate lets jobs start again', async (bench) => {
    await bench.limit({ default: { rate: { max: 2, perMs: 1_000 } } });
    await bench.insert(...jobs(3), { delay: 5_000 });
    assert.equal((await claim(bench.store, { slots: 1 })).nextDueInMs, 5_000);
    bench.advance(100);
    assert.deepEqual(await dueIn(bench, { slots: 1 }), [1, 900]);
    bench.advance(200);
    assert.deepEqual(await dueIn(bench), [0, 700]);
    assert.deepEqual(await dueIn(bench, { queues: ['other'] }), [0, 4_700]);
    bench.advance(700);
    assert.deepEqual(await dueIn(bench), [1, 100]);
  }),
  storeCase('claim: a start counts, however its job ends', async (bench) => {
    await bench.limit({ default: { rate: { max: 2, perMs: 1_000 } } });
    await bench.insert(...jobs(4));
    const [first, second] = await takeAll(bench);
    await bench.settle(first!, ending.release());
    await bench.remove(second!.id, true);
    assert.deepEqual(await bench.claimIds(), []);
  }),
  storeCase('claim: a rate counts all types and all owners', async (bench) => {
    await bench.limit({ default: { rate: { max: 3, perMs: 1_000 } } });
    await bench.insert(...jobs(2), ...jobs(2, { type: 'sms' }));
    assert.equal((await bench.claimIds({ types: ['sms'], owner: 'worker-2' })).length, 2);
    assert.equal((await bench.claimIds({ types: ['mail'] })).length, 1);
  }),
  storeCase('claim: a great rate is used to within a fiftieth of its window, and never exceeded', async (bench) => {
    const [max, perMs] = [400, 1_000];
    await bench.limit({ default: { rate: { max, perMs } } });
    const starts: { at: number; n: number }[] = [];
    for (let at = 0; at < 2_500; at += 5) {
      await bench.insert(...jobs(3));
      const { jobs: taken } = await claim(bench.store);
      starts.push({ at, n: taken.length });
      bench.advance(5);
    }
    const within = (from: number): number =>
      starts.filter(({ at }) => at >= from && at < from + perMs).reduce((sum, { n }) => sum + n, 0);
    for (const { at } of starts) assert.ok(within(at) <= max, `the window from ${at}`);
    assert.ok(within(1_100) >= max * 0.9, 'the rate is used');
  }),
  storeCase('claim: a clock that was set back holds a rate up for no longer than a window', async (bench) => {
    await bench.limit({ default: { rate: { max: 1, perMs: 1_000 } } });
    await bench.insert(...jobs(3));
    await bench.take({ slots: 1 });
    bench.advance(-3_600_000);
    assert.deepEqual(await bench.claimIds(), []);
    bench.advance(999);
    assert.deepEqual(await bench.claimIds(), []);
    bench.advance(1);
    assert.equal((await bench.claimIds()).length, 1);
  }),
  storeCase('claim: a clock that is set back for a moment and then right again exceeds no rate', async (bench) => {
    await bench.limit({ default: { rate: { max: 1, perMs: 1_000 } } });
    await bench.insert(...jobs(3));
    const begun = bench.now();
    await bench.take({ slots: 1 });
    bench.advance(-500);
    assert.deepEqual(await dueIn(bench), [0, 1_000]);
    bench.advance(100);
    assert.deepEqual(await dueIn(bench), [0, 900]);
    assert.equal((await bench.tally()).blockedUntil, begun + 500);
    bench.advance(900);
    assert.deepEqual(await dueIn(bench), [0, 500]);
    bench.advance(499);
    assert.deepEqual(await bench.claimIds(), []);
    bench.advance(1);
    assert.equal((await bench.claimIds()).length, 1);
  }),
  storeCase('claim: a clock that is set back twice forgets no start in between', async (bench) => {
    await bench.limit({ default: { rate: { max: 1, perMs: 1_000 } } });
    await bench.insert(...jobs(3));
    await bench.take({ slots: 1 });
    for (const ms of [-3_600_000, 3_600_100, -200]) {
      bench.advance(ms);
      assert.deepEqual(await bench.claimIds(), []);
    }
  }),
  storeCase('claim: a start while the clock is set back leaves earlier starts their instants', async (bench) => {
    for (const [queue, max] of [
      ['few', 2],
      ['many', 200],
    ] as const) {
      const inQueue = { queues: [queue], slots: max };
      await bench.limit({ [queue]: { rate: { max, perMs: 1_000 } } });
      await bench.insert(...jobs(3 * max, { queue }));
      assert.equal((await bench.claimIds({ ...inQueue, slots: max / 2 })).length, max / 2);
      bench.advance(-10);
      assert.equal((await bench.claimIds(inQueue)).length, max / 2);
      bench.advance(999);
      assert.deepEqual(await bench.claimIds(inQueue), []);
      bench.advance(1);
      assert.equal((await bench.claimIds(inQueue)).length, max / 2);
      bench.advance(9);
      assert.deepEqual(await dueIn(bench, inQueue), [0, 1]);
      bench.advance(1);
      assert.equal((await bench.claimIds(inQueue)).length, max / 2);
    }
  }),
];

async function dueIn({ store }: Bench, request = {}): Promise<[number, number | null]> {
  const { jobs: taken, nextDueInMs } = await claim(store, request);
  return [taken.length, nextDueInMs];
}

const keepingCases = [
  storeCase('claim: limits hold for a process that was opened without any', async (bench) => {
    const said = await bench.limit({ default: { concurrency: 1 } });
    await bench.insert(...jobs(3));
    const silent = await bench.limit({});
    const taken = [];
    for (const store of [silent, said, bench.store]) taken.push((await claim(store)).jobs.length);
    assert.deepEqual(taken, [1, 0, 0]);
  }),
  storeCase('claim: a queue gets exactly the limits that were given last, and others stay', async (bench) => {
    await bench.limit({ a: { concurrency: 1, rate: { max: 1, perMs: 1_000 } }, b: { concurrency: 1 } });
    await bench.insert(...jobs(5, { queue: 'a' }), ...jobs(5, { queue: 'b' }));
    await bench.limit({ a: { concurrency: 3 } });
    assert.equal((await bench.claimIds({ queues: ['a'] })).length, 3);
    assert.equal((await bench.claimIds({ queues: ['b'] })).length, 1);
  }),
  storeCase('claim: empty limits lift those of a queue', async (bench) => {
    await bench.limit({ default: { concurrency: 1, rate: { max: 1, perMs: 1_000 }, maxPending: 5 } });
    await bench.insert(...jobs(5));
    await bench.limit({ default: {} });
    await bench.add();
    assert.equal((await bench.claimIds()).length, 6);
  }),
  storeCase('claim: the same limits again forget no start', async (bench) => {
    const limits = { default: { rate: { max: 1, perMs: 1_000 } } };
    await bench.limit(limits);
    await bench.insert(...jobs(3));
    await bench.take({ slots: 1 });
    await bench.limit(limits);
    assert.deepEqual(await bench.claimIds(), []);
    await bench.limit({ default: { rate: { max: 2, perMs: 1_000 } } });
    assert.equal((await bench.claimIds()).length, 1);
  }),
  storeCase('claim: a rate that was lifted begins anew when it is set again', async (bench) => {
    const rate = { max: 1, perMs: 1_000 };
    await bench.limit({ default: { rate, concurrency: 9 } });
    await bench.insert(...jobs(4));
    await bench.take({ slots: 1 });
    for (const without of [{ concurrency: 9 }, {}]) {
      await bench.limit({ default: without });
      await bench.limit({ default: { rate, concurrency: 9 } });
      assert.equal((await bench.claimIds()).length, 1);
    }
  }),
  storeCase('claim: fewer than run already start nothing until enough have ended', async (bench) => {
    await bench.insert(...jobs(5));
    const holds = (await takeAll(bench)).slice(0, 3);
    await bench.insert({ id: 'next' });
    await bench.limit({ default: { concurrency: 3 } });
    for (const hold of holds.slice(0, 2)) await bench.settle(hold, ending.complete());
    assert.deepEqual(await bench.claimIds(), []);
    await bench.settle(holds[2]!, ending.complete());
    assert.deepEqual(await bench.claimIds(), ['next']);
  }),
];

const tellingCases = [
  storeCase('tally: says why a queue starts nothing, and until when', async (bench) => {
    const standing = async (): Promise<unknown[]> => {
      const { blockedBy, blockedUntil } = await bench.tally();
      return [blockedBy, blockedUntil];
    };
    await bench.limit({ default: { concurrency: 2, rate: { max: 3, perMs: 1_000 } } });
    await bench.insert(...jobs(9));
    assert.deepEqual(await standing(), [null, null]);
    const begun = bench.now();
    const holds = await takeAll(bench);
    assert.deepEqual(await standing(), ['concurrency', null]);
    await bench.settle(holds[0]!, ending.complete());
    assert.deepEqual(await standing(), [null, null]);
    bench.advance(10);
    await bench.settle(await bench.take(), ending.complete());
    assert.deepEqual(await standing(), ['rate', begun + 1_000]);
    await bench.store.pause('default', true);
    assert.deepEqual(await standing(), ['paused', null]);
    await bench.store.pause('default', false);
    bench.advance(990);
    assert.deepEqual(await standing(), [null, null]);
  }),
  storeCase('tally: a lapsed claim blocks nothing, brought back or not', async (bench) => {
    await bench.limit({ default: { concurrency: 1 } });
    await bench.add();
    await bench.take();
    assert.equal((await bench.tally()).blockedBy, 'concurrency');
    bench.advance(leaseMs);
    assert.equal((await bench.tally()).blockedBy, null);
  }),
  storeCase('tally: says when a queue is full', async (bench) => {
    await bench.limit({ default: { maxPending: 2 } });
    await bench.insert({ ttlMs: 1_000 });
    assert.equal((await bench.tally()).full, false);
    await bench.insert({ delay: 60_000 });
    assert.equal((await bench.tally()).full, true);
    bench.advance(1_000);
    assert.equal((await bench.tally()).full, false);
  }),
];

export const limitCases = [...concurrencyCases, ...orderCases, ...rateCases, ...keepingCases, ...tellingCases];
