/** Why a job is where it is, who could take it, and why a removed one went. */
import assert from 'node:assert/strict';
import type { Card, Store, Why } from '../../core/store.js';
import { type Bench, completed, ending, leaseMs, storeCase } from './bench.js';

async function why({ store }: { readonly store: Store }, id: string): Promise<Why> {
  const found = await store.readWhy(id);
  assert.ok(found, `${id} is known`);
  return found;
}

async function part<K extends keyof Why>(on: Bench, id: string, ...names: K[]): Promise<Pick<Why, K>> {
  const found = await why(on, id);
  return Object.fromEntries(names.map((name) => [name, found[name]])) as Pick<Why, K>;
}

const card: Card = { name: 'w', types: ['mail'], queues: null, concurrency: 3 };

const show = (store: Store, owner: string, shown: Card | null, lease = leaseMs): Promise<unknown> =>
  store.extend({ owner, leaseMs: lease, claims: [], card: shown });

const places = [
  storeCase('readWhy: of an id that nobody heard of, there is no why', async ({ store }) => {
    assert.equal(await store.readWhy('nobody'), null);
  }),
  storeCase('readWhy: tells the job and nothing else of a free one', async (bench) => {
    const id = await bench.add();
    assert.deepEqual(await why(bench, id), {
      job: await bench.job(id),
      gone: null,
      place: 'ready',
      turnOf: null,
      claim: null,
      owns: 0,
      paused: false,
      blockedBy: null,
      blockedUntil: null,
      workers: 0,
    } satisfies Why);
  }),
  storeCase('readWhy: tells what is not due, and what runs under whose claim', async (bench) => {
    const later = await bench.add({ delay: 5_000 });
    assert.equal((await why(bench, later)).place, 'later');
    const id = await bench.add();
    await bench.take({ owner: 'worker-9' });
    assert.deepEqual(await part(bench, id, 'place', 'claim'), {
      place: 'claimed',
      claim: { owner: 'worker-9', dueAt: bench.now() + leaseMs },
    });
    assert.deepEqual((await why(bench, id)).job, await bench.job(id));
  }),
  storeCase('readWhy: tells who has the turn that a job stands behind', async (bench) => {
    const first = await bench.add({ exclusiveKey: 'k' });
    const second = await bench.add({ exclusiveKey: 'k' });
    assert.deepEqual(await part(bench, second, 'place', 'turnOf'), { place: 'behind', turnOf: first });
    const hold = await bench.take();
    assert.deepEqual(await part(bench, second, 'place', 'turnOf'), { place: 'behind', turnOf: first });
    assert.deepEqual(await part(bench, first, 'place', 'turnOf'), { place: 'claimed', turnOf: null });
    await bench.settle(hold, ending.complete());
    assert.deepEqual(await part(bench, second, 'place', 'turnOf'), { place: 'ready', turnOf: null });
    assert.equal((await why(bench, first)).place, 'finished');
  }),
  storeCase('readWhy: counts what a job owns while it lives', async (bench) => {
    const [id] = await completed(bench, 1);
    const owned = [await bench.add({ ownedBy: id! }), await bench.add({ ownedBy: id! })];
    assert.equal((await why(bench, id!)).owns, 2);
    await bench.cancel(owned[0]!);
    assert.equal((await why(bench, id!)).owns, 1);
  }),
];

const gone = [
  storeCase('readWhy: tells how a removed job went, and what it was', async (bench) => {
    const [byAge] = await completed(bench, 1, { policy: { keep: { completed: { ageMs: 1 } } }, queue: 'q' });
    const [byCount] = await completed(bench, 1, { policy: { keep: { completed: { count: 0 } } } });
    const failed = await bench.add();
    await bench.settle(await bench.take(), ending.fail());
    bench.advance(10);
    await bench.cleanUp({ maxStoredJobs: 0 });
    const expected = { at: bench.now(), type: 'mail', queue: 'default', state: 'completed', reason: null };
    assert.deepEqual((await why(bench, byAge!)).gone, { ...expected, why: 'age', queue: 'q' });
    assert.deepEqual((await why(bench, byCount!)).gone, { ...expected, why: 'count' });
    assert.deepEqual((await why(bench, failed)).gone, { ...expected, why: 'cap', state: 'failed' });
    const { job, place, owns, workers } = await why(bench, failed);
    assert.deepEqual({ job, place, owns, workers }, { job: null, place: null, owns: 0, workers: 0 });
  }),
  storeCase('readWhy: tells of a job that was removed by hand what it was doing', async (bench) => {
    const pending = await bench.add({ type: 'sms' });
    const running = await bench.add();
    await bench.take();
    for (const id of [pending, running]) await bench.remove(id, true);
    const expected = { at: bench.now(), why: 'removed', queue: 'default', reason: null };
    assert.deepEqual((await why(bench, pending)).gone, { ...expected, type: 'sms', state: 'pending' });
    assert.deepEqual((await why(bench, running)).gone, { ...expected, type: 'mail', state: 'processing' });
  }),
  storeCase('readWhy: tells of a job that was removed by hand the reason that was given', async (bench) => {
    const [done] = await completed(bench, 1);
    const [pending, running] = [await bench.add({ delay: 60_000 }), await bench.add()];
    await bench.take();
    await bench.move([done!, pending, running], { kind: 'remove', force: true, reason: 'request 77' });
    for (const id of [done!, pending, running]) assert.equal((await why(bench, id)).gone?.reason, 'request 77');
  }),
];

const queues = [
  storeCase('readWhy: tells that the queue is paused', async (bench) => {
    const [id, system] = [await bench.add(), await bench.add({ queue: 'lastout' })];
    await bench.store.pause('default', true);
    assert.deepEqual(await part(bench, id, 'paused', 'blockedBy'), { paused: true, blockedBy: null });
    await bench.store.pause('default', false);
    await bench.store.pause(null, true);
    assert.deepEqual([(await why(bench, id)).paused, (await why(bench, system)).paused], [true, false]);
  }),
  storeCase('readWhy: tells which limit of the queue is in the way', async (bench) => {
    await bench.limit({ narrow: { concurrency: 1 }, slow: { rate: { max: 1, perMs: 60_000 } } });
    for (const queue of ['narrow', 'slow']) await bench.add({ queue });
    assert.equal((await bench.claimIds()).length, 2);
    const [narrow, slow, free] = [
      await bench.add({ queue: 'narrow' }),
      await bench.add({ queue: 'slow' }),
      await bench.add(),
    ];
    const block = (id: string) => part(bench, id, 'blockedBy', 'blockedUntil', 'paused');
    assert.deepEqual(await block(narrow), { blockedBy: 'concurrency', blockedUntil: null, paused: false });
    assert.deepEqual(await block(slow), { blockedBy: 'rate', blockedUntil: bench.now() + 60_000, paused: false });
    assert.deepEqual(await block(free), { blockedBy: null, blockedUntil: null, paused: false });
  }),
];

const workers = [
  storeCase(
    'extend: a card is kept for the lease, and for another with each heartbeat',
    async ({ store, advance, now }) => {
      await show(store, 'worker-1', card);
      assert.deepEqual(await store.readWorkers(), [{ owner: 'worker-1', card, dueAt: now() + leaseMs }]);
      advance(leaseMs - 1);
      const wider = { ...card, types: ['mail', 'sms'], queues: ['default'] };
      await show(store, 'worker-1', wider);
      advance(leaseMs - 1);
      assert.deepEqual(await store.readWorkers(), [{ owner: 'worker-1', card: wider, dueAt: now() + 1 }]);
      advance(1);
      assert.deepEqual(await store.readWorkers(), []);
    },
  ),
  storeCase('extend: a worker that stops takes its card along', async ({ store }) => {
    await show(store, 'worker-1', card);
    await show(store, 'worker-2', card);
    await show(store, 'worker-1', null);
    assert.deepEqual(
      (await store.readWorkers()).map(({ owner }) => owner),
      ['worker-2'],
    );
  }),
  storeCase('extend: claims alone leave the card as it is', async (bench) => {
    await show(bench.store, 'worker-1', card);
    await bench.add();
    const { id, epoch, owner } = await bench.take();
    await bench.store.extend({ owner, leaseMs, claims: [{ epoch, ids: [id], started: [] }], card: null });
    assert.equal((await bench.store.readWorkers()).length, 1);
  }),
  storeCase('readWhy: counts the workers that live and take the type and the queue', async (bench) => {
    const [mail, sms] = [await bench.add(), await bench.add({ type: 'sms', queue: 'fast' })];
    const cards: Card[] = [
      card,
      { ...card, types: ['sms', 'mail'] },
      { ...card, queues: ['fast'] },
      { ...card, types: ['sms'], queues: ['slow', 'fast'] },
    ];
    for (const [n, shown] of cards.entries()) await show(bench.store, `worker-${n}`, shown);
    await show(bench.store, 'worker-8', { ...card, concurrency: 0 }); // was here, and does not run
    await show(bench.store, 'worker-9', card, 10);
    assert.deepEqual([(await why(bench, mail)).workers, (await why(bench, sms)).workers], [3, 2]);
    bench.advance(10);
    assert.deepEqual([(await why(bench, mail)).workers, (await why(bench, sms)).workers], [2, 2]);
  }),
];

export const whyCases = [...places, ...gone, ...queues, ...workers];
