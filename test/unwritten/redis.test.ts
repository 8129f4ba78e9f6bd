// Redis that can be read and not written: what is expired goes where the server is the primary for certain, and else stays.
import { mkdirSync, rmdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import { isServed, privateRedis } from '../services.js';
import type { Afterwards } from '../engines.js';
import { eventually, expectDestroyed, expectEnded, expectKept, leased } from './support.js';

describe.skipIf(!isServed('redis'))('on Redis', { timeout: 150_000, concurrent: true }, () => {
  function redisClient(url: string, afterwards: Afterwards): Redis {
    const client = new Redis(url);
    client.on('error', () => undefined);
    afterwards(() => client.disconnect());
    return client;
  }

  /** The server cannot write its snapshot any more, and takes no writes for that. */
  async function misconfigured(asking: Redis): Promise<() => Promise<void>> {
    const [, folder] = (await asking.config('GET', 'dir')) as [string, string];
    const [, file] = (await asking.config('GET', 'dbfilename')) as [string, string];
    const snapshot = join(folder, file);
    const saved = (status: string) => async () => {
      const info = await asking.info('persistence');
      return info.includes('rdb_bgsave_in_progress:0') && info.includes(`rdb_last_bgsave_status:${status}`);
    };
    await asking.config('SET', 'save', '3600 1000000');
    rmSync(snapshot, { force: true });
    mkdirSync(snapshot);
    await asking.bgsave();
    await eventually('a snapshot that fails', saved('err'));
    return async () => {
      rmdirSync(snapshot);
      await asking.bgsave();
      await eventually('a snapshot', saved('ok'));
    };
  }

  test('without memory left the ordinary ending goes on', async ({ onTestFinished }) => {
    const { url } = await privateRedis({}, onTestFinished);
    const it = await leased(url, onTestFinished);
    const asking = redisClient(url, onTestFinished);
    await asking.config('SET', 'maxmemory', '1');
    await eventually('its end', () => it.room.names().length === 1);
    expect((await it.queue.health()).ok).toBe(false);
    await asking.config('SET', 'maxmemory', '0');
    await expectEnded(it);
  });

  test('one that cannot write its snapshot (MISCONF)', async ({ onTestFinished }) => {
    const { url } = await privateRedis({}, onTestFinished);
    const it = await leased(url, onTestFinished);
    const mend = await misconfigured(redisClient(url, onTestFinished));
    await expectDestroyed(it);
    await mend();
    await expectEnded(it);
  });

  test('one that lets this user only read', async ({ onTestFinished }) => {
    const { url: own } = await privateRedis({}, onTestFinished);
    const admin = redisClient(own, onTestFinished);
    const may = (...rights: string[]) =>
      admin.call('ACL', 'SETUSER', 'jobs', 'on', '>secret', '~*', '&*', '+@all', ...rights);
    await may();
    const url = new URL(own);
    url.username = 'jobs';
    url.password = 'secret';
    const it = await leased(url.href, onTestFinished);
    await may('-@write');
    await expectDestroyed(it);
    await may();
    await expectEnded(it);
  });

  test('a replica is not believed', async ({ onTestFinished }) => {
    const { url } = await privateRedis({}, onTestFinished);
    const it = await leased(url, onTestFinished);
    const asking = redisClient(url, onTestFinished);
    await asking.replicaof('127.0.0.1', 1); // nobody is there: it keeps what it has
    await expectKept(it);
    await asking.replicaof('NO', 'ONE');
    await expectEnded(it);
  });

  test('nor is one that lacks the replicas that it wants, whatever else it refuses for', async ({ onTestFinished }) => {
    const { url } = await privateRedis({}, onTestFinished);
    const it = await leased(url, onTestFinished);
    const asking = redisClient(url, onTestFinished);
    await asking.config('SET', 'min-replicas-to-write', '1');
    const mend = await misconfigured(asking);
    await expectKept(it);
    await mend();
    expect(it.room.names()).toHaveLength(2); // refused for the replicas alone
    await asking.config('SET', 'min-replicas-to-write', '0');
    await expectEnded(it);
  });

  test('nor is one that lacks the replicas that `replicas` asks for', async ({ onTestFinished }) => {
    const { url } = await privateRedis({}, onTestFinished);
    const { port, password: masterauth } = new URL(url);
    const replica = await privateRedis({ settings: { masterauth, replicaof: `127.0.0.1 ${port}` } }, onTestFinished);
    const asking = redisClient(url, onTestFinished);
    await eventually('it follows', async () => (await asking.info('replication')).includes('state=online'));
    const it = await leased(url, onTestFinished, { replicas: 1 });
    const mend = await misconfigured(asking);
    await replica.stop();
    await expectKept(it);
    await mend();
    await replica.start();
    await expectEnded(it);
  });
});
