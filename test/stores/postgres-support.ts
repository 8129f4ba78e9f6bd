// What the tests of the PostgreSQL store share: plain clients, who is connected, and a wire that can be tampered with.
import { once } from 'node:events';
import { type AddressInfo, connect as dial, createServer, type Socket } from 'node:net';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import type { Store, StoreContext } from '../../src/core/store.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { createSystem } from '../../src/system.js';
import type { Afterwards } from '../services.js';

export { newJob } from './new-job.js';

export const system = createSystem();

/** A client of the test's own, as a user has one. */
export async function plainClient(
  url: string,
  options: object = {},
  afterwards: Afterwards = onTestFinished,
): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, ...options });
  client.on('error', () => undefined);
  await client.connect();
  afterwards(() => client.end());
  return client;
}

/** A pool of the test's own. */
export function plainPool(url: string, options: object = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...options });
  pool.on('error', () => undefined);
  onTestFinished(() => pool.end());
  return pool;
}

export async function openStore(url: string, context: Partial<StoreContext> = {}): Promise<Store> {
  const store = await postgresStore({ url }).open(contextOf(context));
  onTestFinished(() => store.close());
  return store;
}

export function contextOf(context: Partial<StoreContext> = {}): StoreContext {
  return { system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY, ...context };
}

/** A URL whose connections can be told from those of others: by the name that they give themselves. */
export function named(url: string, name: string): string {
  const own = new URL(url);
  own.searchParams.set('application_name', name);
  return own.href;
}

/** The server's processes that work for connections of that name. */
export async function pidsOf(client: pg.Client, name: string): Promise<number[]> {
  const text = 'select pid from pg_stat_activity where application_name = $1 order by pid';
  return (await client.query<{ pid: number }>(text, [name])).rows.map(({ pid }) => pid);
}

/** Ends them as an administrator does; resolves when they are gone. */
export async function cutOff(client: pg.Client, name: string): Promise<number> {
  const pids = await pidsOf(client, name);
  await client.query('select pg_terminate_backend(pid) from unnest($1::int[]) pid', [pids]);
  await eventually('the connections are gone', async () => {
    const left = await pidsOf(client, name);
    return !left.some((pid) => pids.includes(pid));
  });
  return pids.length;
}

/** Asks until the answer is yes. */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  withinMs = 10_000,
): Promise<void> {
  const until = performance.now() + withinMs;
  while (!(await isSo())) {
    if (performance.now() > until) expect.unreachable(`not within ${withinMs} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** A way to the server that can be tampered with. */
export interface Wire {
  readonly url: string;
  /** Nothing passes from now on, and nobody is told. */
  silence(): void;
  /** New connections work; the old ones do not come back. */
  heal(): void;
  /** Ends what there is. */
  cut(): void;
  /** And takes no more. */
  close(): Promise<void>;
  reopen(): Promise<void>;
}

export async function throughWire(url: string): Promise<Wire> {
  const target = new URL(url);
  const pairs = new Set<readonly [Socket, Socket]>();
  /** Connections made while it is silent stay silent, as behind a router that has forgotten them. */
  let silent = false;
  const server = createServer((near) => {
    const far = dial(Number(target.port), target.hostname);
    const pair = [near, far] as const;
    pairs.add(pair);
    for (const socket of pair) {
      socket.on('error', () => undefined);
      socket.on('close', () => {
        pairs.delete(pair);
        for (const other of pair) other.destroy();
      });
    }
    near.on('data', (bytes) => void far.write(bytes));
    far.on('data', (bytes) => void near.write(bytes));
    if (silent) hush(pair);
  });
  function hush([near, far]: readonly [Socket, Socket]): void {
    for (const socket of [near, far]) socket.removeAllListeners('data').resume();
  }
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    for (const pair of [...pairs]) for (const socket of pair) socket.destroy();
  };
  const close = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, 'close');
    server.close();
    cut();
    await closed;
  };
  onTestFinished(close);
  const near = new URL(url);
  near.port = String((server.address() as AddressInfo).port);
  return {
    url: near.href,
    silence() {
      silent = true;
      for (const pair of pairs) hush(pair);
    },
    heal() {
      silent = false;
    },
    cut,
    close,
    async reopen() {
      server.listen(Number(near.port), '127.0.0.1');
      await once(server, 'listening');
    },
  };
}
