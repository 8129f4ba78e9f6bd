/** What a settlement carries besides its ending: the job's memo, and jobs that are inserted in the same step. */
import assert from 'node:assert/strict';
import type { SettleAnswer, Settlement } from '../../core/store.js';
import { type Bench, cleanupOf, claim, ending, filterOf, type Hold, newJob, storeCase } from './bench.js';

type Extra = Pick<Settlement, 'memo' | 'then'>;

async function settleWith(bench: Bench, hold: Hold, how: Settlement['ending'], extra: Extra): Promise<SettleAnswer> {
  const { id, epoch, owner } = hold;
  const settlements = [{ id, epoch, ending: how, ...extra }];
  const { answers } = await bench.store.settle({ owner, settlements, started: [], next: null });
  return answers[0]!;
}

export const successorCases = [
  storeCase('settle: a memo stays with the job, over its next runs and beyond its end', async (bench) => {
    const id = await bench.add();
    assert.equal((await bench.job(id)).memo, null);
    await settleWith(bench, await bench.take(), ending.snooze(0), { memo: '{"n":1}' });
    assert.equal((await bench.job(id)).memo, '{"n":1}');
    const { jobs, epoch } = await claim(bench.store);
    assert.equal(jobs[0]?.memo, '{"n":1}');
    await bench.settle({ id, epoch, owner: 'worker-1' }, ending.release());
    await bench.settle(await bench.take(), ending.retry(0));
    assert.equal((await bench.job(id)).memo, '{"n":1}');
    await settleWith(bench, await bench.take(), ending.complete(), { memo: '{"n":2}' });
    assert.equal((await bench.job(id)).memo, '{"n":2}');
  }),
  storeCase('settle: a claim that lapses leaves the memo as it was', async (bench) => {
    const id = await bench.add();
    await settleWith(bench, await bench.take(), ending.snooze(0), { memo: '"kept"' });
    const late = await bench.take();
    await bench.lapse();
    assert.equal(await settleWith(bench, late, ending.snooze(0), { memo: '"late"' }), 'STALE_CLAIM');
    assert.equal((await bench.job(id)).memo, '"kept"');
  }),
  storeCase('settle: who leaves a memo came through, and its stalls count from 0 again', async (bench) => {
    const id = await bench.add();
    const stall = async (): Promise<number> => {
      await bench.take();
      await bench.lapse();
      return (await bench.job(id)).stalls;
    };
    assert.equal(await stall(), 1);
    await bench.settle(await bench.take(), ending.snooze(0));
    assert.equal((await bench.job(id)).stalls, 1);
    for (let round = 0; round < 4; round++) {
      await settleWith(bench, await bench.take(), ending.snooze(0), { memo: String(round) });
      const { scheduledFor, stalls } = await bench.job(id);
      assert.equal(stalls, 0);
      assert.equal(await stall(), 1);
      assert.equal((await bench.job(id)).scheduledFor, scheduledFor, 'and it is not parted from its neighbours');
    }
  }),
  storeCase('settle: a job that is handed back is ready at once, and whoever listens is told', async (bench) => {
    const id = await bench.add();
    const hold = await bench.take();
    let stop = (): void => undefined;
    const told = new Promise<void>((resolve) => {
      stop = bench.store.subscribe((hint) => {
        if (hint.kind === 'ready' && (hint.types.has('mail') || hint.types.has('*'))) resolve();
      });
    });
    await bench.settle(hold, ending.release());
    await told;
    stop();
    assert.deepEqual(await bench.claimIds(), [id]);
  }),
  storeCase(
    'settle: a snooze until an instant is due at that instant, and at once when it has passed',
    async (bench) => {
      const id = await bench.add();
      const at = bench.now() + 5_000;
      await bench.settle(await bench.take(), { kind: 'snooze', when: { at } });
      assert.equal((await bench.job(id)).dueAt, at);
      bench.advance(4_999);
      assert.deepEqual(await bench.claimIds(), []);
      bench.advance(1);
      await bench.settle(await bench.take(), { kind: 'snooze', when: { at: at - 60_000 } });
      assert.equal((await bench.job(id)).dueAt, bench.now());
    },
  ),
  storeCase('claim: tells the instant at which it was made', async (bench) => {
    assert.equal((await claim(bench.store)).at, bench.now());
    await bench.add({ delay: 10 });
    bench.advance(12_345);
    const claimed = await claim(bench.store);
    assert.deepEqual([claimed.at, claimed.jobs.length], [bench.now(), 1]);
  }),
  storeCase('settle: jobs that go with it are there when it is answered', async (bench) => {
    await bench.add({ type: 'sms' });
    const hold = await bench.take({ types: ['sms'] });
    const then = [newJob({ priority: 1 }), newJob({ delay: 50 }), newJob({ priority: -1 })];
    const told = await bench.watch();
    assert.equal(await settleWith(bench, hold, ending.complete(), { then }), 'ok');
    assert.deepEqual(await bench.claimIds(), [then[2]!.id, then[0]!.id]);
    assert.equal((await bench.job(then[1]!.id)).dueAt, bench.now() + 50);
    const created = (await told()).filter(({ name }) => name === 'created').map(({ id }) => id);
    assert.deepEqual(
      created,
      then.map(({ id }) => id),
    );
    assert.equal((await bench.tally()).pending, 1);
  }),
  storeCase('settle: sent again it answers ok and inserts nothing', async (bench) => {
    await bench.add();
    const hold = await bench.take();
    const first = newJob({ type: 'sms' });
    assert.equal(await settleWith(bench, hold, ending.snooze(1_000), { memo: '1', then: [first] }), 'ok');
    const again = { memo: '2', then: [newJob({ type: 'sms' })] };
    assert.equal(await settleWith(bench, hold, ending.snooze(1_000), again), 'ok');
    assert.deepEqual(await bench.find({ types: ['sms'] }), [first.id]);
    assert.equal((await bench.job(hold.id)).memo, '1');
  }),
  storeCase('settle: sent again it inserts nothing, also when the first job is gone', async (bench) => {
    await bench.add();
    const hold = await bench.take();
    const job = newJob({ type: 'sms' });
    await settleWith(bench, hold, ending.snooze(1_000), { then: [job] });
    assert.equal(await bench.remove(job.id), 'removed');
    assert.equal(await settleWith(bench, hold, ending.snooze(1_000), { then: [job] }), 'ok');
    assert.deepEqual(await bench.find({ types: ['sms'] }), []);
  }),
  storeCase('settle: a stale one inserts nothing', async (bench) => {
    const id = await bench.add();
    const lapsed = await bench.take();
    await bench.lapse();
    const holder = await bench.take({ owner: 'worker-2' });
    const then = (): Extra => ({ then: [newJob({ type: 'sms' })] });
    assert.equal(await settleWith(bench, lapsed, ending.snooze(0), then()), 'STALE_CLAIM');
    assert.equal(await settleWith(bench, { ...holder, owner: 'worker-1' }, ending.snooze(0), then()), 'STALE_CLAIM');
    await bench.remove(id, true);
    assert.equal(await settleWith(bench, holder, ending.snooze(0), then()), 'STALE_CLAIM');
    assert.deepEqual(await bench.find({ types: ['sms'] }), []);
  }),
  storeCase('settle: jobs that go with it are deduplicated like any other', async (bench) => {
    const pending = await bench.add({ type: 'sms', key: 'k', delay: 500 });
    await bench.add();
    const then = [
      newJob({ type: 'sms', key: 'k', deduplication: 'skip' }),
      newJob({ type: 'sms', key: 'l', deduplication: 'skip' }),
      newJob({ type: 'sms', key: 'l', deduplication: 'skip' }),
    ];
    assert.equal(await settleWith(bench, await bench.take(), ending.complete(), { then }), 'ok');
    assert.deepEqual(await bench.find({ types: ['sms'] }), [then[1]!.id, pending]);
  }),
  storeCase('settle: a job with a known id is left out, and the others go in', async (bench) => {
    await bench.insert({ id: 'known', given: true, type: 'sms', delay: 500 });
    await bench.add();
    const other = newJob({ type: 'sms' });
    const then = [
      newJob({ id: 'known', given: true, type: 'sms' }),
      newJob({ id: 'known', given: true, type: 'sms', input: '"another"' }),
      other,
    ];
    assert.equal(await settleWith(bench, await bench.take(), ending.complete(), { then }), 'ok');
    assert.deepEqual(await bench.find({ types: ['sms'] }), [other.id, 'known']);
    assert.equal((await bench.job('known')).input, newJob().input);
  }),
  storeCase(
    'settle: a job whose slot was taken meanwhile is superseded, and what goes with it is inserted',
    async (bench) => {
      const id = await bench.add({ key: 'k', deduplication: 'skip' });
      const hold = await bench.take();
      const [successor] = await bench.insert({ key: 'k', deduplication: 'replace', delay: 500 });
      assert.equal(successor?.outcome, 'created');
      const job = newJob({ type: 'sms' });
      assert.equal(await settleWith(bench, hold, ending.snooze(0), { then: [job] }), 'ok');
      assert.equal((await bench.error(id))?.code, 'SUPERSEDED');
      assert.ok(await bench.exists(job.id));
    },
  ),
  storeCase('settle: the next claim of the same step sees the jobs that went with it', async (bench) => {
    await bench.add();
    const { id, epoch, owner } = await bench.take();
    const job = newJob();
    const { claimed } = await bench.store.settle({
      owner,
      settlements: [{ id, epoch, ending: ending.complete(), then: [job] }],
      started: [],
      next: { owner, types: ['mail'], queues: null, slots: 5, ahead: 0, leaseMs: 1_000, maxStalls: 3 },
    });
    assert.deepEqual(
      claimed?.jobs.map((next) => next.id),
      [job.id],
    );
  }),

  storeCase('find: without the system, jobs of queue lastout are left out', async (bench) => {
    const system = await bench.add({ queue: 'lastout', subject: 'trip:1', key: 'k' });
    const own = await bench.add({ subject: 'trip:1', key: 'k' });
    for (const filter of [{}, { subject: 'trip:1' }, { key: 'k' }, { types: ['mail'] }]) {
      assert.deepEqual(await bench.find({ ...filter, system: false }), [own]);
      assert.deepEqual(await bench.find(filter), [own, system]);
    }
    await bench.cancel(own);
    await bench.cancel(system);
    assert.deepEqual(await bench.find({ states: ['cancelled'], system: false }), [own]);
    assert.deepEqual(await bench.find({ states: ['cancelled'] }), [own, system]);
  }),
  storeCase('move: without the system, jobs of queue lastout are not touched', async (bench) => {
    const system = await bench.add({ queue: 'lastout' });
    const own = await bench.add();
    const { items } = await bench.store.move({
      filter: filterOf({ system: false }),
      move: { kind: 'cancel', reason: 'stop', force: false },
      dryRun: false,
      cursor: null,
      limit: 10,
    });
    assert.deepEqual(
      items.map(({ id }) => id),
      [own],
    );
    assert.equal((await bench.job(system)).state, 'pending');
  }),
  storeCase('pause: every queue but lastout, which stops where it is named', async (bench) => {
    const system = await bench.add({ queue: 'lastout' });
    await bench.add();
    await bench.store.pause(null, true);
    assert.deepEqual(await bench.claimIds({ queues: ['default'] }), []);
    const hold = await bench.take();
    assert.equal(hold.id, system);
    await bench.settle(hold, ending.release());
    const pausedNow = async (): Promise<unknown> => {
      const { queues, paused } = await bench.store.tally(cleanupOf());
      return [paused, Object.fromEntries(queues.map((queue) => [queue.queue, queue.paused]))];
    };
    assert.deepEqual(await pausedNow(), [true, { default: true, lastout: false }]);
    await bench.store.pause('lastout', true);
    assert.deepEqual(await bench.claimIds({ queues: ['lastout'] }), []);
    assert.deepEqual(await bench.claimIds(), []);
    assert.deepEqual(await pausedNow(), [true, { default: true, lastout: true }]);
    await bench.store.pause(null, false);
    assert.deepEqual(await pausedNow(), [false, { default: false, lastout: false }]);
    assert.equal((await bench.claimIds()).length, 2);
  }),
];
