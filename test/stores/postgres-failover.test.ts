// A server that comes back without what was last acknowledged: a lagging standby is promoted, a backup is restored. Numbers of
// claims are fencing tokens, and must not be given twice.
import { describe, expect, test } from 'vitest';
import { byIds } from '../../src/core/pages.js';
import type { ClaimRequest, Store } from '../../src/core/store.js';
import { databaseUrl, onServer } from '../services/postgres.js';
import { copyOfPostgres, dumpOfPostgres, isServed, type PostgresServer, privatePostgres } from '../services.js';
import { contextOf, eventually, newJob, openStore, plainClient, system } from './postgres-support.js';

const request: ClaimRequest = {
  owner: 'worker',
  types: ['a'],
  queues: null,
  slots: 1,
  ahead: 0,
  leaseMs: 60_000,
  maxStalls: 3,
};

/** A store whose clock is that far from the real one. */
const openAt = (url: string, offMs: number): Promise<Store> =>
  openStore(url, { system: { ...system, givenNow: () => Date.now() + offMs } });

/** The numbers of so many claims, one after the other. */
async function claims(store: Store, n: number): Promise<number[]> {
  await store.insert(
    Array.from({ length: n }, () => newJob({ type: 'a' })),
    { atomic: false },
  );
  const epochs: number[] = [];
  while (epochs.length < n) {
    const { epoch, jobs } = await store.claim(request);
    expect(jobs).toHaveLength(1);
    epochs.push(epoch);
  }
  return epochs;
}

function expectGrowing(epochs: readonly number[]): void {
  expect(epochs).toEqual([...new Set(epochs)].toSorted((a, b) => a - b));
  expect(epochs.every(Number.isSafeInteger)).toBe(true);
}

/** Follows the primary, has all that it has, and hears no more of it. */
async function laggingStandby(primary: PostgresServer): Promise<PostgresServer> {
  const standby = await copyOfPostgres(primary, { follows: true });
  await standby.start();
  const [before, after] = [await plainClient(primary.url), await plainClient(standby.url)];
  const lsn = (await before.query('select pg_current_wal_lsn() as lsn')).rows[0].lsn;
  await eventually('the standby has caught up', async () => {
    const { rows } = await after.query('select coalesce(pg_last_wal_replay_lsn() >= $1, false) as isThere', [lsn]);
    return rows[0].isthere;
  });
  await cutOff(standby, primary);
  return standby;
}

async function cutOff(standby: PostgresServer, primary: PostgresServer): Promise<void> {
  const [before, after] = [await plainClient(primary.url), await plainClient(standby.url)];
  await after.query(`alter system set primary_conninfo = ''`);
  await after.query('select pg_reload_conf()');
  await eventually('the standby hears no more', async () => {
    const { rows } = await before.query('select 1 from pg_stat_replication');
    return rows.length === 0;
  });
}

async function promote(standby: PostgresServer): Promise<void> {
  const client = await plainClient(standby.url);
  await client.query('select pg_promote()');
}

describe.skipIf(!isServed('postgres'))('numbers of claims only grow', () => {
  test.each([
    ['whose clock is right', 0],
    ['whose clock is 55 s behind', -55_000],
  ])('across the promotion of a lagging standby %s', async (_, offMs) => {
    const primary = await privatePostgres();
    const first = await openStore(primary.url);
    const known = await claims(first, 3);
    const standby = await laggingStandby(primary);
    const lost = await claims(first, 100);
    await primary.stop('immediate');
    await promote(standby);
    const after = await claims(await openAt(standby.url, offMs), 3);
    expectGrowing([...known, ...lost, ...after]);
    await promoteAgain(standby, [...known, ...lost, ...after], offMs);
  });

  /** And once more: each promotion adds its minute. */
  async function promoteAgain(primary: PostgresServer, before: readonly number[], offMs: number): Promise<void> {
    const store = await openAt(primary.url, offMs);
    const standby = await laggingStandby(primary);
    const lost = await claims(store, 40);
    await primary.stop('immediate');
    await promote(standby);
    expectGrowing([...before, ...lost, ...(await claims(await openAt(standby.url, offMs - 50_000), 3))]);
  }

  test('across a base backup that is restored, and restarts of every kind', async () => {
    const primary = await privatePostgres();
    const first = await openStore(primary.url);
    const epochs = await claims(first, 3);
    const backup = await copyOfPostgres(primary);
    epochs.push(...(await claims(first, 100)));
    for (const mode of ['fast', 'immediate'] as const) {
      await primary.stop(mode);
      await primary.start();
      epochs.push(...(await claims(first, 3)));
    }
    await primary.stop();
    await backup.start();
    epochs.push(...(await claims(await openStore(backup.url), 3)));
    expectGrowing(epochs);
  });

  test('across a dump that is restored', async () => {
    const server = await privatePostgres({ durable: false });
    const first = await openStore(server.url);
    const epochs = await claims(first, 3);
    const restore = await dumpOfPostgres(server.url);
    epochs.push(...(await claims(first, 100)));
    await onServer(server.url, 'create database restored');
    await restore(databaseUrl(server.url, 'restored'));
    epochs.push(...(await claims(await openStore(databaseUrl(server.url, 'restored')), 3)));
    expectGrowing(epochs);
  });
});

describe.skipIf(!isServed('postgres'))('a primary that is killed under load, and its standby promoted', () => {
  /** Ten callers, until `happen` has ended the server. */
  async function acknowledgedUntil(
    store: Store,
    happen: (soFar: readonly string[]) => Promise<void>,
  ): Promise<string[]> {
    const acknowledged: string[] = [];
    let isOver = false;
    const produce = async (): Promise<void> => {
      while (!isOver) {
        const job = newJob({ type: 'a' });
        const insert = store.insert([job], { atomic: false });
        if (await insert.then(Boolean, () => false)) acknowledged.push(job.id);
        else isOver = true;
      }
    };
    const producing = Array.from({ length: 10 }, produce);
    await eventually('there is a load', () => acknowledged.length >= 100);
    await happen(acknowledged);
    await Promise.all(producing);
    return acknowledged;
  }

  test.each([
    ['an asynchronous standby loses what it has not heard', ''],
    ['with a synchronous one nothing is lost: what it has not heard was not acknowledged', '*'],
  ])('%s', async (_, names) => {
    const primary = await privatePostgres();
    const store = await openStore(primary.url);
    const standby = await copyOfPostgres(primary, { follows: true });
    await standby.start();
    const client = await plainClient(primary.url);
    await client.query(`alter system set synchronous_standby_names = '${names}'`);
    await client.query('select pg_reload_conf()');
    const question = `select 1 from pg_stat_replication where state = 'streaming' and (sync_state = 'async') = ($1 = '')`;
    await eventually('the standby follows', async () => (await client.query(question, [names])).rows.length === 1);
    const waiting = `select 1 from pg_stat_activity where wait_event = 'SyncRep'`;
    const acknowledged = await acknowledgedUntil(store, async (soFar) => {
      await cutOff(standby, primary);
      const wanted = soFar.length + 50;
      const goesOn = async (): Promise<boolean> =>
        names === '' ? soFar.length >= wanted : (await client.query(waiting)).rows.length > 0;
      await eventually('callers go on, or wait', goesOn);
      await primary.stop('immediate');
    });
    await promote(standby);
    const stored = new Set((await byIds(await openStore(standby.url), acknowledged)).map(({ id }) => id));
    const lost = acknowledged.filter((id) => !stored.has(id));
    console.log(`standby "${names}": ${lost.length} of ${acknowledged.length} acknowledged jobs lost`);
    if (names === '') expect(lost.length).toBeGreaterThanOrEqual(50);
    else expect(lost).toEqual([]);
  });
});

describe.skipIf(!isServed('postgres'))('the clock of the store', () => {
  test('may go back, stand still, or be centuries ahead: numbers grow, and stay safe integers', async () => {
    const server = await privatePostgres({ durable: false });
    const epochs: number[] = [];
    for (const offMs of [0, -3_600_000, 3_600_000, 0, 8_000 * 365 * 86_400_000, 0])
      epochs.push(...(await claims(await openAt(server.url, offMs), 3)));
    expectGrowing(epochs);
    const still = await openStore(server.url, { system: { ...system, givenNow: () => 1_000 } });
    expectGrowing([...epochs, ...(await claims(still, 3))]);
  });

  test('is ahead for many at once: no number is given twice, and each of them sees its own grow', async () => {
    const server = await privatePostgres({ durable: false });
    let offMs = 0;
    const stores = await Promise.all(
      Array.from({ length: 6 }, () =>
        openStore(server.url, contextOf({ system: { ...system, givenNow: () => Date.now() + (offMs += 100) } })),
      ),
    );
    const each = await Promise.all(stores.map((store) => claims(store, 40)));
    for (const epochs of each) expectGrowing(epochs);
    expect(new Set(each.flat()).size).toBe(240);
  });

  test('is enough for a role that may not ask for the timeline, and has no more rights than the docs tell', async () => {
    const server = await privatePostgres({ durable: false });
    await openStore(server.url);
    const admin = await plainClient(server.url);
    await admin.query(`create role plain login password 'secret'; grant usage on schema lastout to plain;
      grant select, insert, update, delete on all tables in schema lastout to plain;
      grant usage on all sequences in schema lastout to plain;
      revoke execute on function pg_current_wal_lsn() from public`);
    const url = new URL(server.url);
    url.username = 'plain';
    url.password = 'secret';
    const [epoch] = await claims(await openStore(url.href), 1);
    expect(epoch).toBeGreaterThanOrEqual((Date.now() - 30_000) * 1_000);
    expect(epoch).toBeLessThan((Date.now() + 30_000) * 1_000);
  });
});
