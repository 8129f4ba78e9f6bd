// The identity of a store: made once, the same to everybody, brought by the upgrade; a copy is noticed and gets its own.
import { copyFileSync, existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { identityPattern } from '../src/core/identity.js';
import type { StoreFactory } from '../src/core/store.js';
import { open, type OpenOptions } from '../src/index.js';
import { postgresStore } from '../src/stores/postgres/index.js';
import { redisStore } from '../src/stores/redis/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { createSystem } from '../src/system.js';
import { describeOn, emptyStore } from './engines.js';
import { dumpOfPostgres, emptyPostgres, emptyRedis, privateRedis } from './services.js';
import { plainClient as redisClient } from './stores/redis-support.js';
import { plainClient } from './stores/postgres-support.js';
import { closedAfterwards, expectCode, temporaryFolder } from './support.js';
import { restore } from './upgrade/restore.js';
import { readStored, versions } from './upgrade/stored.js';

const factories = {
  sqlite: (url: string) => sqliteStore({ file: url.slice('sqlite:'.length).split('?')[0]! }),
  postgres: (url: string) => postgresStore({ url }),
  redis: (url: string) => redisStore({ url }),
};
type Kept = keyof typeof factories;
const kept: readonly Kept[] = ['sqlite', 'postgres', 'redis'];

async function identityOf(factory: StoreFactory): Promise<string> {
  const context = { system: createSystem(), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
  const store = await factory.open(context);
  try {
    return await store.readIdentity();
  } finally {
    await store.close();
  }
}

async function warningsOf(url: string, options: OpenOptions = {}): Promise<string[]> {
  const queue = closedAfterwards(await open(url, options));
  const { ok, warnings } = await queue.health();
  expect(ok).toBe(true);
  return warnings.map(({ code }) => code).filter((code) => code === 'STORE_COPIED');
}

for (const engine of kept)
  describeOn(engine, `the identity of a store on ${engine}`, () => {
    test('is one, though many open a new store at once, and stays when all have closed it', async () => {
      const { connect } = await emptyStore[engine]();
      const seen = await Promise.all(Array.from({ length: 4 }, () => identityOf(connect())));
      expect(seen[0]).toMatch(identityPattern);
      expect(new Set([...seen, await identityOf(connect())]).size).toBe(1);
    });

    test('differs from that of another store', async () => {
      const [one, another] = [await emptyStore[engine](), await emptyStore[engine]()];
      expect(await identityOf(one.connect())).not.toBe(await identityOf(another.connect()));
    });

    test.each(versions())('is made by the upgrade from %s, once for all who come together', async (version) => {
      const url = await restore[engine](readStored(version, engine).data);
      const seen = await Promise.all(Array.from({ length: 4 }, () => identityOf(factories[engine](url))));
      expect(seen[0]).toMatch(identityPattern);
      expect(new Set(seen).size).toBe(1);
      expect(await warningsOf(url)).toEqual([]);
    });

    test('is new where that is asked for, and stays that one', async () => {
      const { url, connect } = await emptyStore[engine]();
      const first = await identityOf(connect());
      await (await open(url, { identity: 'new' })).close();
      const second = await identityOf(connect());
      expect(second).not.toBe(first);
      await (await open(url)).close();
      expect(await identityOf(connect())).toBe(second);
    });
  });

test('a memory store has a new one at each start', async () => {
  const [one, another] = [await emptyStore.memory(), await emptyStore.memory()];
  expect(await identityOf(one.connect())).toBe(await identityOf(one.connect()));
  expect(await identityOf(one.connect())).not.toBe(await identityOf(another.connect()));
});

test('identity takes nothing else than "new"', async () => {
  for (const identity of ['old', '', null, true, 'NEW'])
    await expectCode('UNKNOWN_OPTION', () => open('memory:', { identity } as never));
});

describeOn('sqlite', 'a copy of a file', () => {
  const fileIn = (folder: string, name = 'jobs.db') => join(folder, name);

  test('is noticed until it gets an identity of its own; the other one is not touched', async () => {
    const folder = temporaryFolder();
    const [file, copy] = [fileIn(folder), fileIn(folder, 'copy.db')];
    expect(await warningsOf(`sqlite:${file}`)).toEqual([]);
    await (await open(`sqlite:${file}`)).close();
    eachFile(copyFileSync, file, copy);
    const first = await identityOf(sqliteStore({ file }));
    expect(await warningsOf(`sqlite:${copy}`)).toEqual(['STORE_COPIED']);
    expect(await identityOf(sqliteStore({ file: copy }))).toBe(first);
    expect(await warningsOf(`sqlite:${copy}`, { identity: 'new' })).toEqual([]);
    expect(await warningsOf(`sqlite:${copy}`)).toEqual([]);
    expect(await identityOf(sqliteStore({ file: copy }))).not.toBe(first);
    expect(await identityOf(sqliteStore({ file }))).toBe(first);
    expect(await warningsOf(`sqlite:${file}`)).toEqual([]);
  });

  test('is none where a file was moved, or put back from a backup at its old place', async () => {
    const folder = temporaryFolder();
    const [file, backup, moved] = [fileIn(folder), fileIn(folder, 'backup.db'), fileIn(folder, 'moved.db')];
    await (await open(`sqlite:${file}`)).close();
    eachFile(renameSync, file, moved);
    expect(await warningsOfClosed(moved)).toEqual([]);
    eachFile(copyFileSync, moved, backup);
    eachFile(renameSync, backup, moved); // another inode, the same path
    expect(await warningsOfClosed(moved)).toEqual([]);
  });

  async function warningsOfClosed(file: string): Promise<string[]> {
    const queue = await open(`sqlite:${file}`);
    const { warnings } = await queue.health();
    await queue.close();
    return warnings.map(({ code }) => code);
  }
});

/** The log beside a file belongs to it. */
function eachFile(act: (from: string, to: string) => void, from: string, to: string): void {
  for (const suffix of ['', '-wal', '-shm']) if (existsSync(from + suffix)) act(from + suffix, to + suffix);
}

describeOn('postgres', 'a copy of a database', () => {
  test('is noticed until it gets an identity of its own', async () => {
    const [from, to] = [await emptyPostgres(), await emptyPostgres()];
    await (await plainClient(to)).query('drop schema lastout cascade');
    expect(await warningsOf(from)).toEqual([]);
    const first = await identityOf(postgresStore({ url: from }));
    await (await dumpOfPostgres(from))(to);
    expect(await identityOf(postgresStore({ url: to }))).toBe(first);
    expect(await warningsOf(to)).toEqual(['STORE_COPIED']);
    expect(await warningsOf(to, { identity: 'new' })).toEqual([]);
    expect(await identityOf(postgresStore({ url: to }))).not.toBe(first);
    expect(await identityOf(postgresStore({ url: from }))).toBe(first);
    expect(await warningsOf(from)).toEqual([]);
  });

  test('is told by its database alone where the number of the server is secret', async () => {
    const url = await emptyPostgres();
    await (await open(url)).close();
    const client = await plainClient(url);
    const { rows } = await client.query<{ value: string }>(`select value from lastout.meta where name = 'place'`);
    const [server, database] = rows[0]!.value.split('/');
    expect(server).toMatch(/^\d+$/);
    const note = (place: string) => client.query(`update lastout.meta set value = $1 where name = 'place'`, [place]);
    await note(`/${database!}`);
    expect(await warningsOf(url)).toEqual([]);
    await note(`1/${database!}`);
    expect(await warningsOf(url)).toEqual(['STORE_COPIED']);
  });
});

describeOn('redis', 'a copy of a namespace', () => {
  test('in another database of the server is noticed until it gets an identity of its own', async () => {
    const { url } = await privateRedis({ appendfsync: 'always' });
    const copy = `${url.replace(/\/\d*$/, '')}/1`;
    expect(await warningsOf(url)).toEqual([]);
    const first = await identityOf(redisStore({ url }));
    const client = redisClient(url);
    for (const key of await client.keys('*')) await client.call('copy', [key, key, 'db', '1']);
    expect(await warningsOf(copy)).toEqual(['STORE_COPIED']);
    expect(await warningsOf(copy, { identity: 'new' })).toEqual([]);
    expect(await identityOf(redisStore({ url: copy }))).not.toBe(first);
    expect(await identityOf(redisStore({ url }))).toBe(first);
  });

  test('who has the data open when they are lost brings their identity back', async () => {
    const url = await emptyRedis();
    const system = createSystem();
    const store = await redisStore({ url }).open({ system, namespace: 'lastout', maxStoredJobs: Infinity });
    const first = await store.readIdentity();
    await redisClient(url).flushdb();
    expect(await store.readIdentity()).toBe(first);
    expect(await identityOf(redisStore({ url }))).toBe(first);
    await store.close();
  });
});
