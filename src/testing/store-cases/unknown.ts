/** What a caller needs when an answer was lost: reading what it holds, and sending a job again without storing it twice. */
import assert from 'node:assert/strict';
import { type Bench, claim, ending, leaseMs, newJob, storeCase } from './bench.js';

const held = ({ store }: Bench, owner = 'worker-1') => store.readClaims(owner);

export const unknownCases = [
  storeCase('readClaims: the claims of an owner, each with the jobs it still holds', async (bench) => {
    await bench.insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    const first = await claim(bench.store, { slots: 2 });
    const second = await claim(bench.store, { slots: 1 });
    await bench.settle({ id: 'a', epoch: first.epoch, owner: 'worker-1' }, ending.complete());
    assert.deepEqual(await held(bench), [
      { epoch: first.epoch, ids: ['b'] },
      { epoch: second.epoch, ids: ['c'] },
    ]);
  }),
  storeCase('readClaims: the claims of one owner are not those of another', async (bench) => {
    await bench.add();
    await bench.take({ owner: 'worker-2' });
    assert.deepEqual(await held(bench), []);
  }),
  storeCase('readClaims: a claim holds no job that went back and was claimed again', async (bench) => {
    await bench.insert({ id: 'a' }, { id: 'b' });
    const { epoch } = await claim(bench.store, { slots: 2 });
    await bench.settle({ id: 'a', epoch, owner: 'worker-1' }, ending.release());
    await bench.take({ owner: 'worker-2' });
    assert.deepEqual(await held(bench), [{ epoch, ids: ['b'] }]);
  }),
  storeCase('readClaims: lapsed and settled claims are gone', async (bench) => {
    await bench.insert({ id: 'a' }, { id: 'b' });
    await bench.settle(await bench.take({ slots: 1 }), ending.complete());
    await bench.take({ slots: 1, leaseMs });
    await bench.lapse();
    assert.deepEqual(await held(bench), []);
  }),
  storeCase('readClaims: claimed ahead is held too', async (bench) => {
    await bench.insert({ id: 'a' }, { id: 'b' });
    const { epoch } = await claim(bench.store, { slots: 1, ahead: 1 });
    assert.deepEqual(await held(bench), [{ epoch, ids: ['a', 'b'] }]);
  }),

  storeCase('insert: a job that is sent again while it waits is not stored twice', async (bench) => {
    const job = newJob();
    for (let times = 0; times < 2; times++) await bench.store.insert([job], { atomic: false });
    assert.deepEqual(await bench.find(), [job.id]);
    assert.equal((await bench.tally()).pending, 1);
  }),
  storeCase('insert: a job that is sent again answers existing, whatever became of it', async (bench) => {
    const job = newJob();
    const again = async () => (await bench.store.insert([job], { atomic: false }))[0];
    await bench.store.insert([job], { atomic: false });
    const hold = await bench.take();
    assert.deepEqual(await again(), { id: job.id, outcome: 'existing' });
    await bench.settle(hold, ending.complete());
    assert.deepEqual(await again(), { id: job.id, outcome: 'existing' });
    await bench.remove(job.id);
    assert.deepEqual(await again(), { id: job.id, outcome: 'existing' });
    assert.deepEqual(await bench.find(), []);
  }),
  storeCase('insert: a job that is sent again and never arrived is stored', async (bench) => {
    const job = newJob();
    const answers = await bench.store.insert([job], { atomic: true });
    assert.deepEqual(answers, [{ id: job.id, outcome: 'created' }]);
    assert.deepEqual(await bench.find(), [job.id]);
  }),
  storeCase('insert: a job that arrives late, after it was sent again and has gone, is not stored', async (bench) => {
    const job = newJob({ deduplication: 'coalesce' });
    await bench.store.insert([job], { atomic: true });
    await bench.settle(await bench.take(), ending.complete());
    await bench.remove(job.id);
    const answers = await bench.store.insert([newJob({ id: 'other' }), job], { atomic: true });
    assert.deepEqual(answers[1], { id: job.id, outcome: 'existing' });
    assert.deepEqual(await bench.find(), ['other']);
  }),
  storeCase('move: a retry that arrives late makes its new job once', async (bench) => {
    const id = await bench.add();
    await bench.cancel(id);
    const retry = { kind: 'retry', newIds: ['new'] } as const;
    const first = await bench.move([id], retry);
    assert.deepEqual(first, [{ id, outcome: 'retried', newId: 'new' }]);
    assert.deepEqual(await bench.move([id], retry), first);
    await bench.remove('new');
    assert.deepEqual(await bench.move([id], retry), first);
    assert.deepEqual(await bench.find(), [id]);
  }),
  storeCase('insert: a job that is sent again answers existing before deduplication looks', async (bench) => {
    const job = newJob({ deduplication: 'replace' });
    await bench.store.insert([job], { atomic: false });
    const answers = await bench.store.insert([job], { atomic: false });
    assert.deepEqual(answers, [{ id: job.id, outcome: 'existing' }]);
    assert.equal((await bench.job(job.id)).state, 'pending');
  }),
];
