// What the tests of the Redis store share: stores by the real clock, plain clients, and a wire that can be tampered with.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Redis } from 'ioredis';
import type { Redis as Redis5 } from 'ioredis-5';
import { expect, onTestFinished } from 'vitest';
import type { Store, StoreContext } from '../../src/core/store.js';
import { redisStore } from '../../src/stores/redis/index.js';
import type { RedisSource } from '../../src/stores/redis/source.js';
import { createSystem } from '../../src/system.js';

export { newJob } from './new-job.js';

export const system = createSystem();

export async function openStore(from: RedisSource, context: Partial<StoreContext> = {}): Promise<Store> {
  const store = await redisStore(from).open({
    system,
    namespace: 'lastout',
    maxStoredJobs: Number.POSITIVE_INFINITY,
    ...context,
  });
  onTestFinished(() => store.close());
  return store;
}

/** A client of the test's own, as a user has one. */
export function plainClient<C extends Redis | Redis5 = Redis>(
  url: string,
  options: object = {},
  Client: new (url: string, options: object) => C = Redis as never,
): C {
  const client = new Client(url, options);
  client.on('error', () => undefined);
  onTestFinished(() => client.disconnect());
  return client;
}

/** Asks until the answer is yes. */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  withinMs = 10_000,
): Promise<void> {
  const end = system.monotonic() + withinMs;
  while (!(await isSo())) {
    if (system.monotonic() > end) throw new Error(`${what}: not within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Who is connected to the database of a URL besides the one that asks: ids. */
export async function connections(asking: Redis, url: string): Promise<readonly string[]> {
  const own = String(await asking.client('ID'));
  const db = ` db=${new URL(url).pathname.slice(1) || '0'} `;
  const lines = String(await asking.client('LIST')).split('\n');
  const ids = lines.filter((line) => line.includes(db)).map((line) => /^id=(\d+)/.exec(line)![1]!);
  return ids.filter((id) => id !== own);
}

export async function killAll(asking: Redis, url: string): Promise<number> {
  const ids = await connections(asking, url);
  for (const id of ids) await asking.client('KILL', 'ID', id).catch(() => undefined);
  return ids.length;
}

export interface Wire {
  /** The same server, by this wire. */
  readonly url: string;
  /** Swallow: what the server answers does not arrive. Dead: nothing arrives anywhere, and nobody is told. */
  mode: 'open' | 'swallow' | 'dead';
  /** When the server has answered something that was swallowed. */
  swallowed(): Promise<void>;
  /** Resets every connection. */
  cut(): void;
}

/** A wire to the server of a URL. What a dead wire has met stays dead; later connections are open again when it is. */
export async function wireTo(url: string): Promise<Wire> {
  const target = new URL(url);
  const sockets = new Set<Socket>();
  const listening = createServer();
  listening.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  const by = new URL(url);
  by.port = String((listening.address() as AddressInfo).port);
  let onSwallowed = (): void => undefined;
  const wire: Wire = {
    url: by.href,
    mode: 'open',
    swallowed: () => new Promise((resolve) => (onSwallowed = resolve)),
    cut() {
      for (const socket of sockets) socket.resetAndDestroy();
    },
  };
  listening.on('connection', (near) => {
    const far = connect(Number(target.port), target.hostname);
    let isDead = false;
    const join = (from: Socket, to: Socket, pass: (data: Buffer) => void): void => {
      sockets.add(from);
      from.on('error', () => undefined);
      from.on('close', () => {
        sockets.delete(from);
        if (!isDead) to.destroy();
      });
      from.on('data', (data) => {
        isDead ||= wire.mode === 'dead';
        if (!isDead) pass(data);
      });
    };
    join(near, far, (data) => far.write(data));
    join(far, near, (data) => (wire.mode === 'open' ? near.write(data) : onSwallowed()));
  });
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    listening.close();
  });
  return wire;
}

/** Something that says this of itself when it is asked, and OK to everything else. */
export async function pretendServer(info: string): Promise<string> {
  const sockets = new Set<Socket>();
  const listening = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
    socket.on('data', (data) => {
      for (const [, command] of data.toString().matchAll(/\*\d+\r\n\$\d+\r\n([a-z]+)/gi))
        socket.write(command!.toLowerCase() === 'info' ? `$${info.length}\r\n${info}\r\n` : '+OK\r\n');
    });
  });
  listening.listen(0, '127.0.0.1');
  await once(listening, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    listening.close();
  });
  return `redis://127.0.0.1:${(listening.address() as AddressInfo).port}`;
}

export async function codeOf(call: Promise<unknown>): Promise<string> {
  const error: unknown = await call.then(
    () => expect.fail('it was not refused'),
    (reason: unknown) => reason,
  );
  return (error as { code: string }).code;
}
