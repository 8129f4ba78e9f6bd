/** The slot: at most one pending job per type and key, on every path back to pending. */
import assert from 'node:assert/strict';
import { type Bench, ending, type Hold, type JobSketch, storeCase } from './bench.js';

const slotted: JobSketch = { key: 'k', deduplication: 'skip' };

/** One job runs, its successor stands in the slot. */
async function runnerAndSuccessor({ add, take }: Bench, sketch: JobSketch = {}): Promise<[Hold, string]> {
  await add({ ...slotted, ...sketch });
  const hold = await take();
  return [hold, await add({ ...slotted, delay: 1_000 })];
}

const paths: { readonly [path: string]: (bench: Bench, hold: Hold) => Promise<unknown> } = {
  retry: ({ settle }, hold) => settle(hold, ending.retry(0)),
  snooze: ({ settle }, hold) => settle(hold, ending.snooze(0)),
  'hand-back': ({ settle }, hold) => settle(hold, ending.release()),
  lapse: ({ lapse }) => lapse(),
};

const superseded = Object.entries(paths).map(([path, leave]) =>
  storeCase(`settle: ${path} into a taken slot ends the job as SUPERSEDED`, async (bench) => {
    const [hold, successor] = await runnerAndSuccessor(bench);
    const news = await bench.watch();
    await leave(bench, hold);
    assert.equal((await bench.job(hold.id)).state, 'cancelled');
    assert.equal((await bench.error(hold.id))?.code, 'SUPERSEDED');
    assert.equal((await bench.job(successor)).state, 'pending');
    assert.ok(
      (await news()).some(
        ({ name, id, error }) => name === 'cancelled' && id === hold.id && error?.code === 'SUPERSEDED',
      ),
    );
    assert.deepEqual(await bench.drain(), [successor]);
  }),
);

export const slotCases = [
  ...superseded,
  storeCase('settle: another run into a taken slot ends the job as SUPERSEDED', async (bench) => {
    const id = await bench.add({ key: 'k', deduplication: 'coalesce' });
    const hold = await bench.take();
    await bench.insert({ key: 'k', deduplication: 'coalesce' });
    const [successor] = await bench.insert({ key: 'k', deduplication: 'replace' });
    assert.equal(successor?.outcome, 'created');
    await bench.settle(hold, ending.complete());
    assert.equal((await bench.error(id))?.code, 'SUPERSEDED');
    assert.deepEqual(await bench.drain(), [successor.id]);
  }),
  storeCase('settle: two runs of one slot that lapse together leave one pending', async (bench) => {
    await bench.add(slotted);
    await bench.take();
    await bench.add(slotted);
    await bench.take();
    await bench.lapse();
    const states = await Promise.all((await bench.find()).map(async (id) => (await bench.job(id)).state));
    assert.deepEqual(states.toSorted(), ['cancelled', 'pending']);
  }),
  storeCase('settle: a job without deduplication is never superseded', async (bench) => {
    const id = await bench.add({ key: 'k' });
    const hold = await bench.take();
    const other = await bench.add(slotted);
    await bench.settle(hold, ending.retry(0));
    assert.equal((await bench.job(id)).state, 'pending');
    assert.deepEqual((await bench.drain()).toSorted(), [id, other].toSorted());
  }),
  storeCase('settle: a job without deduplication takes no slot', async (bench) => {
    const id = await bench.add(slotted);
    const hold = await bench.take();
    await bench.add({ key: 'k', deduplication: 'none' });
    await bench.settle(hold, ending.snooze(0));
    assert.equal((await bench.job(id)).state, 'pending');
  }),
  storeCase('settle: the slot without a key is one of its own', async (bench) => {
    await bench.add({ deduplication: 'skip' });
    const hold = await bench.take();
    await bench.add(slotted);
    await bench.settle(hold, ending.retry(0));
    assert.equal((await bench.job(hold.id)).state, 'pending');
  }),
  storeCase('settle: completing next to a successor is no conflict', async (bench) => {
    const [hold, successor] = await runnerAndSuccessor(bench);
    assert.equal(await bench.settle(hold, ending.complete()), 'ok');
    assert.equal((await bench.job(hold.id)).state, 'completed');
    assert.deepEqual(await bench.drain(), [successor]);
  }),
  storeCase('settle: a slot whose pending job is past its ttl is free', async (bench) => {
    await bench.add(slotted);
    const hold = await bench.take();
    const successor = await bench.add({ ...slotted, ttlMs: 1_000 });
    bench.advance(1_000);
    assert.equal((await bench.job(successor)).state, 'expired');
    await bench.settle(hold, ending.retry(0));
    assert.equal((await bench.job(hold.id)).state, 'pending');
    assert.equal((await bench.job(successor)).state, 'expired');
    assert.deepEqual(await bench.drain(), [hold.id]);
  }),
  ...['cancel', 'remove'].map((way) =>
    storeCase(`move: ${way} frees the slot`, async ({ add, insert, cancel, remove }) => {
      const id = await add(slotted);
      await (way === 'cancel' ? cancel(id) : remove(id));
      assert.equal((await insert(slotted))[0]?.outcome, 'created');
    }),
  ),
  storeCase('claim: claiming frees the slot for one successor', async ({ add, take, insert }) => {
    await add(slotted);
    await take();
    const answers = await insert(slotted, slotted);
    assert.deepEqual(
      answers.map(({ outcome }) => outcome),
      ['created', 'skipped'],
    );
  }),
];
