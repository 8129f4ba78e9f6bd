// Owners and holds on PostgreSQL when two get in each other's way: whoever comes second sees what the first has done, so that
// nothing is removed that owns something or is held, and nothing is owned by a job that is gone.
import type pg from 'pg';
import { expect, it } from 'vitest';
import { noFilter, type Store } from '../../src/core/store.js';
import { describeOn } from '../engines.js';
import { emptyPostgres } from '../services.js';
import { faultsIn } from './postgres-audit.js';
import { eventually, newJob, openStore, plainClient } from './postgres-support.js';

interface World {
  readonly store: Store;
  /** Another session, which can leave a step open. */
  readonly client: pg.Client;
  /** Begins, makes a call of the other session, lets `meanwhile` run into it, and commits. */
  whileOpen<T>(open: () => Promise<unknown>, meanwhile: () => Promise<T>): Promise<T>;
}

async function world(): Promise<World> {
  const url = await emptyPostgres();
  const store = await openStore(url);
  const [client, watcher] = [await plainClient(url), await plainClient(url)];
  const isWaiting = async (): Promise<boolean> =>
    (
      await watcher.query(
        `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      )
    ).rowCount !== 0;
  return {
    store,
    client,
    async whileOpen(open, meanwhile) {
      await client.query('begin');
      await open();
      const answer = meanwhile();
      await eventually('one waits for the other', isWaiting);
      await client.query('commit');
      return answer;
    },
  };
}

const cleanup = {
  jobRetentionMs: -1_000,
  maxStoredJobs: Number.POSITIVE_INFINITY,
  cleanupIntervalMs: 1_000,
  useCompletedTime: true,
};
const sweep = (store: Store) => store.sweep({ limit: 500, cleanup });
const sweepOf = (client: pg.Client) =>
  client.query(`select * from lastout.sweep_v1(null, '-', null, 500, -1000, true, null, null, null, null)`);

async function claimed(store: Store): Promise<{ id: string; epoch: number }> {
  const request = { owner: 'w', types: ['mail'], queues: null, slots: 1, ahead: 0, leaseMs: 30_000, maxStalls: 3 };
  const { jobs, epoch } = await store.claim(request);
  return { id: jobs[0]!.id, epoch };
}

async function complete(store: Store, { id, epoch }: { id: string; epoch: number }): Promise<void> {
  const settlements = [{ id, epoch, ending: { kind: 'complete', result: '1' } as const }];
  const { answers } = await store.settle({ owner: 'w', settlements, started: [], next: null });
  expect(answers).toEqual(['ok']);
}

async function finished(store: Store): Promise<string> {
  await store.insert([newJob()], { atomic: true });
  const one = await claimed(store);
  await complete(store, one);
  return one.id;
}

const thing = (ownedBy: string, under: { epoch: number; owner: string } | null = null) =>
  newJob({
    type: 'lastout.artifact',
    queue: 'lastout',
    when: { inMs: 3_600_000 },
    ownedBy,
    under: under && { ...under, id: ownedBy },
  });

const hold = (store: Store, id: string) =>
  store.move({
    filter: { ...noFilter, ids: [id] },
    move: { kind: 'hold', reason: 'wait', until: null },
    dryRun: false,
    cursor: null,
    limit: 1,
  });

const find = async (store: Store, id: string) =>
  (await store.find({ filter: { ...noFilter, ids: [id] }, cursor: null, limit: 1 })).jobs[0];

describeOn('postgres', 'owners and holds on PostgreSQL', () => {
  it.each([['its first', 0] as const, ['another', 1] as const])(
    'a job that gets %s thing to own while it is swept stays, and is named',
    async (_, before) => {
      const { store, client, whileOpen } = await world();
      const id = await finished(store);
      for (let i = 0; i < before; i++) {
        const first = thing(id);
        await store.insert([first], { atomic: true });
        await removed(store, first.id);
      }
      const open = () => store.insert([thing(id)], { atomic: true, tx: client });
      if (before === 0) {
        const swept = await whileOpen(open, () => sweep(store));
        expect([swept.owing, swept.removedBy.age]).toEqual([[id], 0]);
      } else {
        // Its row carries the mark already, and is passed over while somebody has it.
        await client.query('begin');
        await open();
        expect((await sweep(store)).removedBy.age).toBe(0);
        await client.query('commit');
        expect((await sweep(store)).owing).toEqual([id]);
      }
      expect(await faultsIn(client)).toEqual([]);
    },
  );

  it('a job that is swept while it gets something to own is gone, and owns nothing', async () => {
    const { store, client, whileOpen } = await world();
    const id = await finished(store);
    const [answer] = await whileOpen(
      () => sweepOf(client),
      () => store.insert([thing(id)], { atomic: false }),
    );
    expect(answer).toMatchObject({ outcome: 'refused', code: 'JOB_NOT_FOUND' });
    expect(await faultsIn(client)).toEqual([]);
  });

  it('a job cannot end while something is inserted under its claim', async () => {
    const { store, client, whileOpen } = await world();
    await store.insert([newJob()], { atomic: true });
    const one = await claimed(store);
    const owned = thing(one.id, { epoch: one.epoch, owner: 'w' });
    await whileOpen(
      () => store.insert([owned], { atomic: true, tx: client }),
      () => complete(store, one),
    );
    expect((await sweep(store)).owing).toEqual([one.id]);
    expect(await faultsIn(client)).toEqual([]);
  });

  it('a job that ends while it is held is held', async () => {
    const { store, client, whileOpen } = await world();
    await store.insert([newJob()], { atomic: true });
    const one = await claimed(store);
    await whileOpen(
      () =>
        client.query(
          'select lastout.fix(seq), lastout.set_hold(seq, 8640000000000000, $2) from lastout.jobs where id = $1',
          [one.id, 'wait'],
        ),
      () => complete(store, one),
    );
    expect(await find(store, one.id)).toMatchObject({ state: 'completed', heldReason: 'wait' });
    expect((await sweep(store)).removedBy.age).toBe(0);
    expect(await faultsIn(client)).toEqual([]);
  });

  it('a job that is cancelled while it is held is held', async () => {
    const { store, client, whileOpen } = await world();
    const job = newJob();
    await store.insert([job], { atomic: true });
    const move = { kind: 'cancel', reason: 'stop', force: false } as const;
    await whileOpen(
      () =>
        client.query(
          'select lastout.fix(seq), lastout.set_hold(seq, 8640000000000000, $2) from lastout.jobs where id = $1',
          [job.id, 'wait'],
        ),
      () => store.move({ filter: { ...noFilter, ids: [job.id] }, move, dryRun: false, cursor: null, limit: 1 }),
    );
    expect(await find(store, job.id)).toMatchObject({ state: 'cancelled', heldReason: 'wait' });
    expect((await sweep(store)).removedBy.age).toBe(0);
    expect(await faultsIn(client)).toEqual([]);
  });

  it('a job that is swept while it is held is gone, and nobody is told that it is held', async () => {
    const { store, client, whileOpen } = await world();
    const id = await finished(store);
    const { items } = await whileOpen(
      () => sweepOf(client),
      () => hold(store, id),
    );
    expect([items, await find(store, id)]).toEqual([[], undefined]);
    expect(await faultsIn(client)).toEqual([]);
  });

  it('whoever cleans up, at most one has the term, and it has one entry', async () => {
    const { store } = await world();
    const ask = (holder: string) => store.sweepInTerm({ holder, ttlMs: 60_000 }, { limit: 5, cleanup });
    const holders = Array.from({ length: 10 }, (_, n) => `holder-${n}`);
    const answers = await Promise.all(holders.map(ask));
    expect(answers.filter(({ term }) => term !== null)).toHaveLength(1);
    const holder = holders[answers.findIndex(({ term }) => term !== null)]!;
    const note = () => store.endTerm(holder, '{}');
    const noted = await Promise.all(Array.from({ length: 5 }, note));
    expect(noted.filter((term) => term !== null)).toHaveLength(1);
    expect((await store.readLedger({ cursor: null, limit: 10 })).entries).toEqual(['{}']);
  });

  it('many that tie, hold, let go and sweep at once leave nothing without an owner', { timeout: 60_000 }, async () => {
    const { store, client } = await world();
    for (let round = 0; round < 6; round++) {
      const ids: string[] = [];
      while (ids.length < 25) ids.push(await finished(store));
      const answers = await Promise.all([
        ...ids.map((id) => store.insert([thing(id), thing(id)], { atomic: false })),
        ...ids.slice(0, 8).map((id) => hold(store, id).then(() => [])),
        ...Array.from({ length: 3 }, () => sweep(store).then(() => [])),
      ]);
      expect(await faultsIn(client)).toEqual([]);
      for (const { id, outcome } of answers.flat()) if (outcome === 'created') await removed(store, id);
    }
    await sweep(store);
    expect(await faultsIn(client)).toEqual([]);
    const { jobs } = await store.find({ filter: { ...noFilter, queues: ['lastout'] }, cursor: null, limit: 1 });
    expect(jobs).toEqual([]);
  });
});

async function removed(store: Store, id: string): Promise<void> {
  const move = { kind: 'remove', force: false } as const;
  const { items } = await store.move({
    filter: { ...noFilter, ids: [id] },
    move,
    dryRun: false,
    cursor: null,
    limit: 1,
  });
  expect(items).toEqual([{ id, outcome: 'removed' }]);
}
