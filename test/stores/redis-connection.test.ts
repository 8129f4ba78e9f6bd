// The connection of the Redis store: what becomes of a call when the server, the wire or the client fails.
import { execFile } from 'node:child_process';
import { inspect, promisify } from 'node:util';
import { fileURLToPath } from 'node:url';
import type { RedisOptions } from 'ioredis';
import { Redis as Redis5 } from 'ioredis-5';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noFilter } from '../../src/core/store.js';
import { type Call, createCall, type Script } from '../../src/stores/redis/call.js';
import { type Connection, createConnection } from '../../src/stores/redis/connection.js';
import { loadDriver } from '../../src/stores/redis/driver.js';
import { readSource, type RedisSource } from '../../src/stores/redis/source.js';
import { redisStore } from '../../src/stores/redis/index.js';
import type { LastoutError } from '../../src/index.js';
import { emptyRedis, privateRedis } from '../services.js';
import { describeOn } from '../engines.js';
import {
  codeOf,
  connections,
  eventually,
  killAll,
  openStore,
  plainClient,
  pretendServer,
  system,
  wireTo,
} from './redis-support.js';

/** Counts its runs, so that a second one shows. */
const count: Script = { name: 'count', text: "#!lua\nreturn redis.call('INCR', KEYS[1] .. 'runs')" };
const look: Script = { name: 'look', text: "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1] .. 'runs')" };
/** Runs for a while and then counts. It counts turns: newer servers stop the clock while a script runs. */
const linger: Script = {
  name: 'linger',
  text: `#!lua
for turn = 1, 2e7 do end
return redis.call('INCR', KEYS[1] .. 'runs')`,
};

async function connectTo(from: RedisSource): Promise<{ connection: Connection; call: Call }> {
  const connection = await createConnection(readSource(from), system);
  onTestFinished(() => connection.close());
  return { connection, call: createCall(connection, '{lastout}:') };
}

function optionsIn(url: string): RedisOptions {
  const { hostname: host, port, password, pathname } = new URL(url);
  return { host, port: Number(port), password, db: Number(pathname.slice(1)) };
}

/** The ways to give a server, where a client comes with the settings that ioredis has by itself. */
const ways: readonly (readonly [string, (url: string) => RedisSource])[] = [
  ['a URL', (url) => ({ url })],
  ['options', (url) => ({ options: optionsIn(url) })],
  ['a client', (url) => ({ client: plainClient(url) })],
  ['a client of ioredis 5', (url) => ({ client: plainClient(url, {}, Redis5) })],
];

describeOn('redis', 'a call on the Redis store', () => {
  describe.each(ways)('by %s', (_, sourceOf) => {
    it('whose answer is lost is RESULT_UNKNOWN, and is not sent again', async () => {
      const server = await privateRedis();
      const wire = await wireTo(server.url);
      const { call } = await connectTo(sourceOf(wire.url));
      await call(count, []);
      wire.mode = 'swallow';
      const swallowed = wire.swallowed();
      const lost = codeOf(call(count, []));
      await swallowed;
      wire.cut();
      wire.mode = 'open';
      expect(await lost).toBe('RESULT_UNKNOWN');
      expect(await call(count, [])).toBe(3); // the first, the lost one once, this one
    });

    it('that finds the connection killed waits for the next one', async () => {
      const url = await emptyRedis();
      const { call, connection } = await connectTo(sourceOf(url));
      const asking = plainClient(url);
      for (let runs = 1; runs <= 10; runs++) {
        expect(await call(count, [])).toBe(runs);
        const closed = new Promise<void>((resolve) => connection.client.on('close', resolve));
        await killAll(asking, url);
        await closed;
      }
    });

    it('that can be written nowhere is STORE_UNAVAILABLE after a while, and is never done', async () => {
      const server = await privateRedis({ appendfsync: 'always' });
      const { call } = await connectTo(sourceOf(server.url));
      expect(await call(count, [])).toBe(1);
      await server.kill();
      expect(await codeOf(call(count, []))).toBe('STORE_UNAVAILABLE');
      await server.start();
      expect(await call(count, [])).toBe(2);
    });
  });

  it('that waits while the server restarts goes on when it is back', async () => {
    const server = await privateRedis({ appendfsync: 'always' });
    const { call } = await connectTo({ url: server.url });
    expect(await call(count, [])).toBe(1);
    await server.kill();
    const waiting = call(count, []);
    await server.start();
    expect(await waiting).toBe(2);
  });

  it('on a wire that died silently is RESULT_UNKNOWN, and the next one goes by a new connection', async () => {
    const server = await privateRedis();
    const wire = await wireTo(server.url);
    const { call } = await connectTo({ url: wire.url });
    expect(await call(count, [])).toBe(1);
    wire.mode = 'dead';
    const lost = codeOf(call(count, []));
    expect(await lost).toBe('RESULT_UNKNOWN');
    wire.mode = 'open';
    expect(await call(count, [])).toBe(2);
  });

  it('that only looks is STORE_UNAVAILABLE when its answer is lost: it may simply be repeated', async () => {
    const server = await privateRedis();
    const wire = await wireTo(server.url);
    const { call } = await connectTo({ url: wire.url });
    await call(count, []);
    expect(await call(look, [])).toBe('1');
    wire.mode = 'swallow';
    const swallowed = wire.swallowed();
    const lost = codeOf(call(look, []));
    await swallowed;
    wire.cut();
    expect(await lost).toBe('STORE_UNAVAILABLE');
  });

  it('whose connection is killed while its script runs is done once', async () => {
    const url = await emptyRedis();
    const { call, connection } = await connectTo({ url });
    const asking = plainClient(url);
    await call(linger, []);
    const closed = new Promise<void>((resolve) => connection.client.on('close', resolve));
    const running = call(linger, []).catch((error: LastoutError) => error.code);
    await killAll(asking, url);
    const outcome = await running;
    await closed;
    expect(['RESULT_UNKNOWN', 2]).toContain(outcome);
    expect(await call(count, [])).toBe(3);
  });

  it('goes through after the scripts were flushed', async () => {
    const url = await emptyRedis();
    const { call } = await connectTo({ url });
    const asking = plainClient(url);
    expect(await call(count, [])).toBe(1);
    await asking.script('FLUSH');
    expect(await Promise.all([call(count, []), call(count, []), call(look, [])])).toEqual([2, 3, '3']);
  });

  it('is refused after the store was closed, and nothing hangs', async () => {
    const { connection, call } = await connectTo({ url: await emptyRedis() });
    await call(count, []);
    await connection.close();
    expect(await codeOf(call(count, []))).toBe('CLOSED');
  });

  it('that waits for a server is let go with CLOSED by the close', async () => {
    const server = await privateRedis();
    const { connection, call } = await connectTo({ url: server.url });
    await call(count, []);
    await server.kill();
    const waiting = codeOf(call(count, []));
    await connection.close();
    expect(await waiting).toBe('CLOSED');
  });
});

describeOn('redis', 'errors of the server', () => {
  it.each([
    ['OOM no memory', 'STORE_FULL'],
    ['READONLY a replica', 'STORE_READONLY'],
    ['LOADING data', 'STORE_UNAVAILABLE'],
    ['BUSY with a script', 'STORE_UNAVAILABLE'],
    ['MISCONF the disk', 'STORE_UNAVAILABLE'],
    ['NOREPLICAS there', 'STORE_UNAVAILABLE'],
    ['CLUSTERDOWN today', 'STORE_UNAVAILABLE'],
    ['MOVED 1 127.0.0.1:1', 'STORE_UNAVAILABLE'],
    ['CROSSSLOT keys', 'STORE_UNAVAILABLE'],
    ['WRONGTYPE of a key', 'STORE_UNAVAILABLE'],
    ['NOPERM for this user', 'STORE_DENIED'],
    ['NOAUTH given', 'STORE_DENIED'],
    ['ERR anything else', 'STORE_UNAVAILABLE'],
  ])('%s is %s', async (reply, code) => {
    const { call } = await connectTo({ url: await emptyRedis() });
    const refusing = { name: 'refuse', text: `#!lua\nreturn redis.error_reply('${reply}')` };
    expect(await codeOf(call(refusing, []))).toBe(code);
  });

  it('inside a script that had begun are RESULT_UNKNOWN: how far it came is not known', async () => {
    const { call } = await connectTo({ url: await emptyRedis() });
    const broken = { name: 'broken', text: "#!lua\nredis.call('INCR', KEYS[1] .. 'runs')\nreturn nothing.there" };
    expect(await codeOf(call(broken, []))).toBe('RESULT_UNKNOWN');
    expect(await call(look, [])).toBe('1');
  });

  it('carry neither payloads nor passwords', async () => {
    const server = await privateRedis();
    const { call } = await connectTo({ url: server.url });
    const refusing = { name: 'refuse', text: "#!lua\nreturn redis.error_reply('OOM no memory')" };
    const error: unknown = await call(refusing, ['a payload']).catch((reason: unknown) => reason);
    expect(inspect(error, { depth: 10 })).toContain('OOM');
    expect(inspect(error, { depth: 10, showHidden: true })).not.toContain('a payload');
  });
});

describeOn('redis', 'opening the Redis store', () => {
  it('fails with STORE_UNAVAILABLE in bounded time where no server is', async () => {
    const server = await privateRedis();
    await server.kill();
    const error = (await openStore({ url: server.url }).catch((reason: unknown) => reason)) as LastoutError;
    expect(error.code).toBe('STORE_UNAVAILABLE');
    expect(error.message).toContain(`127.0.0.1:${server.port}`);
    expect(error.message).toContain('ECONNREFUSED');
  });

  it('waits a while for a server that is starting', async () => {
    const server = await privateRedis();
    await server.kill();
    const opening = openStore({ url: server.url });
    await server.start();
    expect((await opening).engine).toBe('redis');
  });

  it.each([
    ['a wrong password', (url: URL) => void (url.password = 'guessed-secret'), 'STORE_DENIED'],
    ['no password', (url: URL) => void (url.password = ''), 'STORE_DENIED'],
    ['a database that is not there', (url: URL) => void (url.pathname = '/9999'), 'STORE_DENIED'],
    ['an unknown user', (url: URL) => void (url.username = 'nobody'), 'STORE_DENIED'],
  ])('with %s is refused at once, and no message has the password', async (_, change, code) => {
    const server = await privateRedis();
    const url = new URL(server.url);
    change(url);
    const error: unknown = await openStore({ url: url.href }).catch((reason: unknown) => reason);
    expect((error as LastoutError).code).toBe(code);
    const shown = inspect(error, { depth: 10, showHidden: true });
    expect(shown).not.toContain('guessed-secret');
    expect(shown).not.toContain(server.password);
  });

  it('refuses a server that is too old for the scripts, naming both versions', async () => {
    const url = await pretendServer('redis_version:6.2.14\r\nrole:master\r\n');
    const error = (await openStore({ url }).catch((reason: unknown) => reason)) as LastoutError;
    expect(error.code).toBe('STORE_DENIED');
    expect(error.message).toMatch(/6\.2\.14.*7\.0/);
  });

  it('does not wait for ever for a server that is loading its data', async () => {
    const url = await pretendServer('redis_version:7.0.15\r\nloading:1\r\nloading_eta_seconds:3600\r\n');
    expect(await codeOf(openStore({ url }))).toBe('STORE_UNAVAILABLE');
  });

  it('by rediss:// on a server without TLS fails in bounded time', async () => {
    const url = (await emptyRedis()).replace('redis:', 'rediss:');
    expect(await codeOf(openStore({ url }))).toBe('STORE_UNAVAILABLE');
  });

  it('refuses a replica, which cannot be written', async () => {
    const primary = await privateRedis();
    const replica = await privateRedis({
      settings: { replicaof: `127.0.0.1 ${primary.port}`, masterauth: primary.password },
    });
    expect(await codeOf(openStore({ url: replica.url }))).toBe('STORE_READONLY');
  });

  it.each([
    'redis://:hush@[not a host',
    'redis://:hush@host/jobs',
    'redis://:hush@host/1/2',
    'redis://:hush@host/-1',
    'redis://:hush@host/1?family=6',
    'redis://:hush%@host',
    'http://:hush@host',
    '',
  ])('refuses the URL %j without showing its password', (url) => {
    const refusal = expect.objectContaining({ code: 'INVALID_URL' }) as Error;
    expect(() => redisStore({ url })).toThrow(refusal);
    expect(() => redisStore({ url })).not.toThrow(/hush/);
  });

  it.each([
    [{}, 'takes one of'],
    [{ url: 'redis://host', options: {} }, 'takes one of'],
    [{ client: {} }, 'Redis or Cluster of ioredis'],
    [{ client: null }, 'Redis or Cluster of ioredis'],
    [{ options: 5 }, 'options of ioredis'],
    [{ uri: 'redis://host' }, 'Did you mean url'],
  ])('refuses %j', (from, words) => {
    expect(() => redisStore(from as unknown as RedisSource)).toThrow(words);
  });

  it('says what to install where the driver is missing', async () => {
    const missing = { installed: () => Promise.reject(new Error('Cannot find package')) };
    await expect(loadDriver(missing)).rejects.toThrow('npm install ioredis');
    await expect(loadDriver({ installed: async () => ({}) })).rejects.toMatchObject({ code: 'DRIVER_MISSING' });
  });
});

describeOn('redis', 'connections of the Redis store', () => {
  it('are two, however often they are lost', { timeout: 180_000 }, async () => {
    const { url } = await privateRedis();
    const asking = plainClient(url);
    await asking.ping();
    const ours = async (): Promise<number> => (await connections(asking, url)).length;
    const store = await openStore({ url });
    const look = (): Promise<unknown> => store.find({ filter: noFilter, cursor: null, limit: 1 });
    store.subscribe(() => undefined);
    await eventually('both are there', async () => (await ours()) === 2);
    for (let lost = 0; lost < 1_000; ) {
      lost += await killAll(asking, url);
      await look().catch(() => undefined); // a call may be on its way when it happens
      expect(await ours()).toBeLessThanOrEqual(2);
    }
    await eventually('both are there again', async () => (await ours()) === 2);
    await look();
    await store.close();
    await eventually('none is left', async () => (await ours()) === 0);
  });

  it('are one while nobody listens', async () => {
    const { url } = await privateRedis();
    const asking = plainClient(url);
    const ours = async (): Promise<number> => (await connections(asking, url)).length;
    const store = await openStore({ url });
    expect(await ours()).toBe(1);
    const stop = store.subscribe(() => undefined);
    await eventually('a second one listens', async () => (await ours()) === 2);
    stop();
    await eventually('it goes with the listener', async () => (await ours()) === 1);
  });

  it('are shared by the queues that are opened on one factory, and go with the last of them', async () => {
    const { url } = await privateRedis();
    const asking = plainClient(url);
    const ours = async (): Promise<number> => (await connections(asking, url)).length;
    const factory = redisStore({ url });
    const context = { system, maxStoredJobs: Number.POSITIVE_INFINITY };
    const one = await factory.open({ ...context, namespace: 'one' });
    const two = await factory.open({ ...context, namespace: 'two' });
    expect(await ours()).toBe(1);
    await one.close();
    expect(await codeOf(one.pause(null, true))).toBe('CLOSED');
    await two.pause(null, true);
    await two.close();
    await eventually('none is left', async () => (await ours()) === 0);
  });

  it('of a given client are made by its settings; it is sent nothing and never closed', async () => {
    const { url } = await privateRedis();
    const client = plainClient(url, { keyPrefix: 'mine:', connectionName: 'mine', maxRetriesPerRequest: null });
    const store = await openStore({ client });
    await store.pause('mail', true);
    await store.close();
    expect(client.status).toBe('ready');
    const asking = plainClient(url);
    const keys = await asking.keys('*');
    expect(keys.length).toBeGreaterThan(0);
    expect(keys.filter((key) => !key.startsWith('mine:{lastout}:'))).toEqual([]);
    expect(await client.ping()).toBe('PONG');
  });

  it('keep no process alive', async () => {
    const server = await privateRedis();
    const program = `
      const { redisStore } = await import(${JSON.stringify(new URL('../../src/stores/redis/index.js', import.meta.url).href)});
      const { createSystem } = await import(${JSON.stringify(new URL('../../src/system.js', import.meta.url).href)});
      const context = { system: createSystem(), namespace: 'lastout', maxStoredJobs: 1 };
      const store = await redisStore({ url: ${JSON.stringify(server.url)} }).open(context);
      store.subscribe(() => undefined);
      process.stdout.write('opened');
    `;
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--import', 'tsx', '--input-type=module', '--eval', program],
      { cwd: fileURLToPath(new URL('../..', import.meta.url)), timeout: 30_000 },
    );
    expect(stdout).toBe('opened');
  });
});
