// Whether a server has the last word, as the server itself is asked: `read` of what is overdue says so in the same step.
import { describe, expect, test } from 'vitest';
import type { Store } from '../../src/core/store.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { createSystem } from '../../src/system.js';
import { copyOfPostgres, isServed, privatePostgres, privateRedis } from '../services.js';
import { eventually, plainClient as pgClient } from '../stores/postgres-support.js';
import { openStore as openRedis, plainClient as redisClient } from '../stores/redis-support.js';

const doubtOf = async (store: Store): Promise<string | null> =>
  (await store.readOverdue({ types: ['mail'], ids: null, cursor: null, limit: 1 })).doubt;

/** A setting, and who follows, is known a moment later. */
async function becomes(store: Store, wanted: RegExp | null, what = ''): Promise<void> {
  const isSo = (doubt: string | null) => (wanted === null ? doubt === null : wanted.test(doubt ?? ''));
  for (let left = 150; left > 0 && !isSo(await doubtOf(store)); left--)
    await new Promise((resolve) => setTimeout(resolve, 100));
  if (wanted === null) expect(await doubtOf(store), what).toBeNull();
  else expect((await doubtOf(store)) ?? 'none', what).toMatch(wanted);
}

describe.skipIf(!isServed('postgres'))('on PostgreSQL', () => {
  test('a primary has it while it has the standbys that it waits for, and a standby never', async () => {
    const primary = await privatePostgres();
    const context = { system: createSystem(), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
    const store = await postgresStore({ url: primary.url }).open(context);
    const client = await pgClient(primary.url);
    const waitFor = async (names: string): Promise<void> => {
      await client.query(`alter system set synchronous_standby_names = '${names}'`);
      await client.query('select pg_reload_conf()');
      await eventually('the new setting', async () => {
        const { rows } = await client.query('show synchronous_standby_names');
        return (rows as { synchronous_standby_names: string }[])[0]!.synchronous_standby_names === names;
      });
    };
    try {
      expect(await doubtOf(store)).toBeNull();
      for (const names of ['*', 'elsewhere', 'FIRST 1 (elsewhere)', 'ANY 1 (elsewhere)', '1 (elsewhere)']) {
        await waitFor(names);
        await becomes(store, /lacks standbys/, names);
      }
      await waitFor('');
      await becomes(store, null);
      const standby = await copyOfPostgres(primary, { follows: true });
      await standby.start();
      await waitFor('*');
      await becomes(store, null);
      await waitFor('FIRST 2 (*)');
      await becomes(store, /lacks standbys/);
      await waitFor('');
      const reader = await postgresStore({ url: standby.url }).open(context);
      expect(await doubtOf(reader)).toBe('it is a standby');
      await reader.close();
    } finally {
      await store.close();
    }
  });
});

describe.skipIf(!isServed('redis'))('on Redis', () => {
  test('a primary has it while it has the replicas that are asked for, and a replica never', async () => {
    const { url } = await privateRedis();
    const store = await openRedis({ url });
    const asking = redisClient(url);
    expect(await doubtOf(store)).toBeNull();
    await asking.config('SET', 'min-replicas-to-write', '1');
    expect(await doubtOf(store)).toContain('min-replicas-to-write');
    const { port, password: masterauth } = new URL(url);
    const replica = await privateRedis({ settings: { masterauth, replicaof: `127.0.0.1 ${port}` } });
    await becomes(store, null);
    await asking.config('SET', 'min-replicas-to-write', '2');
    expect(await doubtOf(store)).toContain('min-replicas-to-write');
    await asking.config('SET', 'min-replicas-to-write', '0');
    const two = await openRedis({ url }, { replicas: 1 });
    expect(await doubtOf(two)).toBeNull();
    await replica.stop();
    await becomes(two, /^it has 0 of the 1 replicas that must have a write$/);
    expect(await doubtOf(store)).toBeNull();
    await asking.replicaof('127.0.0.1', 1);
    expect(await doubtOf(store)).toBe('it is a replica');
  });

  test('a user that may not ask cannot know', async () => {
    const { url: own } = await privateRedis();
    const admin = redisClient(own);
    const may = (...rights: string[]) =>
      admin.call('ACL', 'SETUSER', 'jobs', 'on', '>secret', '~*', '&*', '+@all', ...rights);
    await may();
    const url = new URL(own);
    url.username = 'jobs';
    url.password = 'secret';
    const store = await openRedis({ url: url.href });
    await may('-config');
    expect(await doubtOf(store)).toBeNull();
    await admin.config('SET', 'min-replicas-to-write', '1');
    expect(await doubtOf(store)).toContain('CONFIG GET');
    await admin.config('SET', 'min-replicas-to-write', '0');
    await may('-info');
    expect(await doubtOf(store)).toContain('INFO');
  });
});
