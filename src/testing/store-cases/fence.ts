/** The fence: a word under a claim that is over changes nothing; the same ending twice is ok both times. */
import assert from 'node:assert/strict';
import type { Ending } from '../../core/ending.js';
import { type Bench, claim, ending, type Hold, leaseMs, storeCase } from './bench.js';

/** How a hold becomes stale; the hold to speak under. */
const stale: { readonly [how: string]: (bench: Bench) => Promise<Hold> } = {
  'under an old epoch': async ({ add, take, settle }) => {
    await add();
    const hold = await take();
    await settle(hold, ending.release());
    await settle(await take({ owner: 'worker-2' }), ending.release());
    return hold;
  },
  'for a job that left a claim which still holds others': async ({ store, insert, take, settle }) => {
    await insert({ id: 'left' }, { id: 'stays' });
    const { epoch } = await claim(store);
    const hold = { id: 'left', epoch, owner: 'worker-1' };
    await settle(hold, ending.release());
    await settle(await take({ owner: 'worker-2' }), ending.release());
    await take({ owner: 'worker-3' });
    return hold;
  },
  'by another owner': async ({ add, take }) => {
    await add();
    return { ...(await take()), owner: 'worker-2' };
  },
  'for an unknown id': async ({ add, take }) => {
    await add();
    return { ...(await take()), id: 'nobody' };
  },
  'for a job of another claim': async ({ add, take }) => {
    await add();
    const { id } = await take();
    await add();
    return { ...(await take()), id };
  },
  'for a pending job': async ({ add, take }) => {
    await add();
    const hold = await take();
    return { ...hold, id: await add() };
  },
  'after a forced cancel': async ({ add, take, cancel }) => {
    await add();
    const hold = await take();
    await cancel(hold.id, { force: true });
    return hold;
  },
  'after a forced removal': async ({ add, take, remove }) => {
    await add();
    const hold = await take();
    await remove(hold.id, true);
    return hold;
  },
  'after a lapse': async ({ add, take, lapse }) => {
    await add();
    const hold = await take();
    await lapse();
    return hold;
  },
  'after a lapse and a claim by another': async ({ add, take, lapse }) => {
    await add();
    const hold = await take();
    await lapse();
    await take({ owner: 'worker-2' });
    return hold;
  },
};

const snapshot = async ({ find, job }: Bench): Promise<unknown> => Promise.all((await find()).map(job));

async function refuses(bench: Bench, hold: Hold, speak: () => Promise<void>): Promise<void> {
  const before = await snapshot(bench);
  const tallyBefore = await bench.tally();
  await speak();
  assert.deepEqual(await snapshot(bench), before);
  assert.deepEqual(await bench.tally(), tallyBefore);
}

const staleCases = Object.entries(stale).flatMap(([how, prepare]) => [
  storeCase(`settle: ${how} answers STALE_CLAIM and changes nothing`, async (bench) => {
    const hold = await prepare(bench);
    await refuses(bench, hold, async () => {
      assert.equal(await bench.settle(hold, ending.complete()), 'STALE_CLAIM');
      assert.equal(await bench.settle(hold, ending.retry(0)), 'STALE_CLAIM');
    });
  }),
  storeCase(`note: ${how} answers STALE_CLAIM and writes nothing`, async (bench) => {
    const hold = await prepare(bench);
    await refuses(bench, hold, async () => {
      assert.equal(await bench.note(hold, { progress: '{"percent":50}', lines: ['late'] }), 'STALE_CLAIM');
    });
    assert.deepEqual(await bench.store.readLines(hold.id), []);
  }),
  storeCase(`extend: ${how} answers lost and changes nothing`, async (bench) => {
    const hold = await prepare(bench);
    const { id, epoch, owner } = hold;
    // A claim that still holds other jobs is extended, so the one in question is compared alone.
    const before = (await bench.exists(id)) ? await bench.job(id) : null;
    const { lost, cancelled } = await bench.store.extend({
      owner,
      leaseMs: 99_000,
      claims: [{ epoch, ids: [id], started: [id] }],
      card: null,
    });
    assert.deepEqual({ lost, cancelled }, { lost: [id], cancelled: [] });
    assert.deepEqual((await bench.exists(id)) ? await bench.job(id) : null, before);
  }),
]);

const all: { readonly [kind: string]: Ending } = {
  complete: ending.complete(),
  retry: ending.retry(1_000),
  exhaust: ending.exhaust(),
  fail: ending.fail(),
  snooze: ending.snooze(1_000),
  cancel: ending.cancel(),
  release: ending.release(),
};

const twice = Object.entries(all).flatMap(([kind, how]) => [
  storeCase(`settle: ${kind} sent twice answers ok twice and counts once`, async (bench) => {
    await bench.add();
    const hold = await bench.take();
    assert.equal(await bench.settle(hold, how), 'ok');
    await refuses(bench, hold, async () => assert.equal(await bench.settle(hold, how), 'ok'));
  }),
  storeCase(`settle: another ending after ${kind} answers ALREADY_SETTLED`, async (bench) => {
    await bench.add();
    const hold = await bench.take();
    await bench.settle(hold, how);
    const other = kind === 'complete' ? ending.fail() : ending.complete();
    await refuses(bench, hold, async () => assert.equal(await bench.settle(hold, other), 'ALREADY_SETTLED'));
  }),
]);

export const fenceCases = [
  ...staleCases,
  ...twice,
  storeCase('settle: the same ending twice in one call answers ok twice', async ({ store, add, take, job }) => {
    await add();
    const { id, epoch, owner } = await take();
    const settlements = [
      { id, epoch, ending: ending.retry(0) },
      { id, epoch, ending: ending.retry(0) },
    ];
    const { answers } = await store.settle({ owner, settlements, started: [], next: null });
    assert.deepEqual(answers, ['ok', 'ok']);
    assert.equal((await job(id)).attempts, 1);
  }),
  storeCase(
    'settle: of two claims of one job in one call, the first that is named is answered first',
    async ({ store, add, take, settle, job }) => {
      const id = await add();
      const { epoch: before, owner } = await take();
      await settle({ id, epoch: before, owner }, ending.release());
      const other = await add();
      const { epoch } = await claim(store, { owner, slots: 2 });
      const settlements = [
        { id: other, epoch, ending: ending.complete() },
        { id, epoch: before, ending: ending.complete() },
        { id, epoch, ending: ending.complete() },
        { id, epoch: before, ending: ending.complete() },
      ];
      const { answers } = await store.settle({ owner, settlements, started: [], next: null });
      assert.deepEqual(answers, ['ok', 'ALREADY_SETTLED', 'ok', 'STALE_CLAIM']);
      assert.equal((await job(id)).attempts, 1);
    },
  ),
  storeCase('settle: another result of the same claim answers ALREADY_SETTLED', async ({ add, take, settle, job }) => {
    const id = await add();
    const hold = await take();
    await settle(hold, ending.complete('first'));
    assert.equal(await settle(hold, ending.complete('second')), 'ALREADY_SETTLED');
    assert.equal((await job(id)).result, '"first"');
  }),
  storeCase(
    'settle: an ending sent again after its job was removed answers ok and brings nothing back',
    async (bench) => {
      const id = await bench.add();
      const hold = await bench.take();
      await bench.settle(hold, ending.complete());
      await bench.remove(id);
      assert.equal(await bench.settle(hold, ending.complete()), 'ok');
      assert.equal(await bench.exists(id), false);
    },
  ),
  storeCase('settle: before the sweep a late ending still counts', async ({ add, take, settle, advance, job }) => {
    const id = await add();
    const hold = await take();
    advance(leaseMs + 1);
    assert.equal(await settle(hold, ending.complete()), 'ok');
    assert.equal((await job(id)).state, 'completed');
  }),
  storeCase(
    'settle: one stale job of a claim does not spoil the others',
    async ({ store, insert, claimIds, cancel, job }) => {
      await insert({ id: 'a' }, { id: 'b' });
      await claimIds();
      const { epoch } = await job('a');
      await cancel('a', { force: true });
      const settlements = ['a', 'b'].map((id) => ({ id, epoch, ending: ending.complete() }));
      const { answers } = await store.settle({ owner: 'worker-1', settlements, started: [], next: null });
      assert.deepEqual(answers, ['STALE_CLAIM', 'ok']);
    },
  ),
];
