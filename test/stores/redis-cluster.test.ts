// Redis Cluster: every rule of the store contract on a cluster of one node, by a Cluster client and by a plain one.
import { inspect } from 'node:util';
import { Cluster, Redis } from 'ioredis';
import { Cluster as Cluster5 } from 'ioredis-5';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { noFilter, type StoreFactory } from '../../src/core/store.js';
import { createCall, type Script } from '../../src/stores/redis/call.js';
import { createConnection } from '../../src/stores/redis/connection.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { readSource, type RedisSource } from '../../src/stores/redis/source.js';
import { storeCases } from '../../src/testing/index.js';
import { describeOn } from '../engines.js';
import { privateRedis, type RedisServer } from '../services.js';
import { harnessOn } from './harness.js';
import { codeOf, eventually, newJob, openStore, plainClient, system, wireTo } from './redis-support.js';

let server: RedisServer;
/** A node that has met no other does not know how it is reached. */
const settings = { 'cluster-announce-ip': '127.0.0.1' };

type ClusterOf = new (nodes: { host: string; port: number }[], options: object) => Cluster | Cluster5;

function clusterClient(Client: ClusterOf = Cluster, options: object = {}, port = server.port): Cluster | Cluster5 {
  const redisOptions = { password: server.password };
  const client = new Client([{ host: '127.0.0.1', port }], { redisOptions, ...options });
  client.on('error', () => undefined);
  return client;
}

const ways: readonly (readonly [string, () => RedisSource])[] = [
  ['a Cluster of ioredis 6', () => ({ client: clusterClient() })],
  ['a Cluster of ioredis 5', () => ({ client: clusterClient(Cluster5) })],
  ['a plain client', () => ({ url: server.url })],
];

describeOn('redis', 'a Redis cluster of one node', () => {
  beforeAll(async () => {
    server = await privateRedis({ cluster: true, settings }, afterAll);
  });

  describe.each(ways)('by %s', (_, sourceOf) => {
    let factory: StoreFactory;
    let asking: Redis;
    beforeAll(async () => {
      const source = sourceOf();
      asking = new Redis(server.url);
      factory = redisStore(source);
      // Stays open, so that the cases share its connections.
      const store = await factory.open({ system, namespace: 'other', maxStoredJobs: Number.POSITIVE_INFINITY });
      return async () => {
        await store.close();
        asking.disconnect();
        if ('client' in source) (source.client as Cluster).disconnect();
      };
    });

    for (const { name, run } of storeCases) {
      it(name, async () => {
        await asking.flushall();
        const harness = await harnessOn(factory);
        await expect(run(harness).finally(() => harness.dispose())).resolves.toBeUndefined();
        expect((await asking.keys('*')).filter((key) => !key.startsWith('{lastout}:'))).toEqual([]);
      });
    }
  });
});

const count: Script = { name: 'count', text: "#!lua\nreturn redis.call('INCR', KEYS[1] .. 'runs')" };

describeOn('redis', 'a call by a Cluster client', () => {
  beforeAll(async () => {
    server = await privateRedis({ cluster: true, appendfsync: 'always', settings }, afterAll);
  });

  describe.each([
    ['ioredis 6', Cluster as ClusterOf],
    ['ioredis 5', Cluster5 as ClusterOf],
  ])('of %s', (_, Client) => {
    async function connectTo(options: object = {}, port?: number) {
      const client = clusterClient(Client, options, port);
      const connection = await createConnection(readSource({ client }), system);
      onTestFinished(async () => {
        await connection.close();
        client.disconnect();
      });
      await plainClient(server.url).flushall();
      return { connection, call: createCall(connection, '{lastout}:') };
    }

    it('whose answer is lost is RESULT_UNKNOWN, and is not sent again', async () => {
      const wire = await wireTo(server.url);
      const { port } = new URL(wire.url);
      const natMap = { [`127.0.0.1:${server.port}`]: { host: '127.0.0.1', port: Number(port) } };
      const { call } = await connectTo({ natMap }, Number(port));
      expect(await call(count, [])).toBe(1);
      wire.mode = 'swallow';
      const swallowed = wire.swallowed();
      const lost = codeOf(call(count, []));
      await swallowed;
      wire.cut();
      wire.mode = 'open';
      expect(await lost).toBe('RESULT_UNKNOWN');
      expect(await call(count, [])).toBe(3);
    });

    it('waits for the cluster to come back', async () => {
      const { call } = await connectTo();
      expect(await call(count, [])).toBe(1);
      await server.kill();
      await server.start();
      const isDone = async (): Promise<boolean> => (await call(count, []).catch(() => 0)) !== 0;
      await eventually('it goes on', isDone);
      expect(await plainClient(server.url).get('{lastout}:runs')).toBe('2');
    });

    it('by a client with a key prefix uses keys with that prefix', async () => {
      await plainClient(server.url).flushall();
      const client = clusterClient(Client, { redisOptions: { password: server.password, keyPrefix: 'mine:' } });
      onTestFinished(() => client.disconnect());
      const store = await openStore({ client });
      await store.insert([newJob()], { atomic: false });
      expect((await store.find({ filter: noFilter, cursor: null, limit: 10 })).jobs).toHaveLength(1);
      const keys = await plainClient(server.url).keys('*');
      expect(keys.filter((key) => !key.startsWith('mine:{lastout}:'))).toEqual([]);
    });

    it('with a wrong password is STORE_DENIED at once, without showing it', async () => {
      const client = clusterClient(Client, { redisOptions: { password: 'guessed-secret' } });
      onTestFinished(() => client.disconnect());
      const error: unknown = await openStore({ client }).catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: 'STORE_DENIED' });
      expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('guessed-secret');
    });

    it('hears what other processes say', async () => {
      const client = clusterClient(Client);
      onTestFinished(() => client.disconnect());
      const one = await openStore({ client });
      const two = await openStore({ url: server.url });
      const heard: string[] = [];
      one.subscribe((hint) => heard.push(hint.kind));
      await eventually('it is heard', async () => {
        await two.pause('mail', true);
        return heard.includes('pause');
      });
    });
  });

  it('to a database other than 0 is refused: a cluster has no other', async () => {
    expect(await codeOf(openStore({ url: `${server.url}/1` }))).toBe('STORE_DENIED');
  });
});
