// Between its steps a store remembers numbers, pauses, limits and how far ids go. Whatever others write, it knows it at once.
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type NewJob, noFilter, type Store, type StoreContext } from '../../src/core/store.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { claim, cleanupOf } from '../../src/testing/store-cases/bench.js';
import { temporaryFolder } from '../support.js';
import { connect, newJob, openStore } from './sqlite-support.js';

type Opener = (context?: Partial<StoreContext>) => Promise<Store>;

const ways: Readonly<Record<string, () => Promise<Opener>>> = {
  async 'another connection'() {
    const file = join(temporaryFolder(), 'jobs.db');
    return (context) => openStore(file, context);
  },
  async 'another store on the same connection'() {
    const db = await connect(join(temporaryFolder(), 'jobs.db'));
    return (context) => openStore(sqliteStore({ db }), context);
  },
  async 'another user of the same store'() {
    const factory = sqliteStore({ file: join(temporaryFolder(), 'jobs.db') });
    return (context) => openStore(factory, context);
  },
};

const created = { outcome: 'created' };
const add = (store: Store, ...jobs: NewJob[]) => store.insert(jobs, { atomic: false });

describe.each(Object.keys(ways))('%s', (way) => {
  async function twoStores(): Promise<{ store: Store; other: Store; open: Opener }> {
    const open = await ways[way]!();
    const [store, other] = [await open(), await open()];
    await add(store, newJob());
    await add(other, newJob());
    return { store, other, open };
  }

  test('adds jobs in turns: each has its own number, and all are counted', async () => {
    const { store, other } = await twoStores();
    for (let i = 0; i < 3; i++) {
      await expect(add(store, newJob(), newJob())).resolves.toMatchObject([created, created]);
      await expect(add(other, newJob())).resolves.toMatchObject([created]);
    }
    const { jobs } = await claim(store, { slots: 20 });
    expect(jobs.map(({ seq }) => seq)).toEqual(Array.from({ length: 11 }, (_, index) => index + 1));
    expect((await other.tally(cleanupOf())).queues).toMatchObject([{ pending: 0, processing: 11 }]);
    await Promise.all([store.close(), other.close()]);
  });

  test('takes the last job of a policy: it is there again with the next one', async () => {
    const { store, other } = await twoStores();
    const { jobs } = await claim(other, { slots: 20 });
    const ids = jobs.map(({ id }) => id);
    await other.move({
      filter: { ...noFilter, ids },
      move: { kind: 'remove', force: true },
      dryRun: false,
      limit: 10,
      cursor: null,
    });
    await add(store, newJob());
    expect((await claim(other)).jobs).toMatchObject([{ policy: newJob().policy }]);
    await Promise.all([store.close(), other.close()]);
  });

  test('stores a job: its id is known, one or many', async () => {
    const { store, other } = await twoStores();
    const [first, second, third] = [newJob(), newJob(), newJob()];
    await add(other, first, second);
    expect(await add(store, second)).toEqual([{ id: second.id, outcome: 'existing' }]);
    expect(await add(store, third, first)).toEqual([
      { id: third.id, outcome: 'created' },
      { id: first.id, outcome: 'existing' },
    ]);
    expect(await add(store, third)).toEqual([{ id: third.id, outcome: 'existing' }]);
    await Promise.all([store.close(), other.close()]);
  });

  test('pauses and resumes a queue: the next claim obeys', async () => {
    const { store, other } = await twoStores();
    expect((await claim(store, { slots: 1 })).jobs).toHaveLength(1);
    await other.pause('default', true);
    await other.pause('aside', true);
    expect((await claim(store, { slots: 1 })).jobs).toHaveLength(0);
    await other.pause(null, false);
    expect((await claim(store, { slots: 1 })).jobs).toHaveLength(1);
    await Promise.all([store.close(), other.close()]);
  });

  test('fences a subject and lifts it: the next insert and the next claim know', async () => {
    const { store, other } = await twoStores();
    const subject = 'trip:42';
    await expect(add(store, newJob({ type: 'sms', subject }))).resolves.toMatchObject([{ outcome: 'created' }]);
    await other.fence(subject, { reason: 'gone', forMs: 60_000 });
    await expect(add(store, newJob({ subject }))).resolves.toMatchObject([{ outcome: 'refused' }]);
    expect((await claim(store, { types: ['sms'] })).jobs).toHaveLength(0);
    await other.unfence(subject);
    await expect(add(store, newJob({ subject }))).resolves.toMatchObject([{ outcome: 'created' }]);
    await Promise.all([store.close(), other.close()]);
  });

  test('limits a queue: the next job is refused', async () => {
    const { store, other, open } = await twoStores();
    const limits = new Map([['default', { maxPending: 2, concurrency: null, rate: null }]]);
    const third = await open({ limits });
    await expect(add(store, newJob())).resolves.toMatchObject([{ outcome: 'refused' }]);
    await Promise.all([store.close(), other.close(), third.close()]);
  });
});
