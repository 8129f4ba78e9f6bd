/** How much a store holds, asked of the engine itself, past the library. */
import { Redis } from 'ioredis';
import pg from 'pg';
import { loadDriver } from '../../src/stores/sqlite/driver.js';

export interface Size {
  /** Rows, or entries of keys, by table or kind of key: what grows with jobs. */
  readonly rows: { readonly [table: string]: number };
  /** The bounded logs: events, tombstones, ledger. */
  readonly logs: { readonly [table: string]: number };
}

/** The logs, and how long each may get, with what it may gather until it is cut. The event log of PostgreSQL has a row an event. */
export const longestLogs: { readonly [table: string]: number } = {
  events: 25_000,
  ev: 11_500,
  tomb: 10_500,
  tombs: 10_500,
  ledger: 1_100,
};

/** Of a store outside this process, with the default namespace. */
export async function sizeOf(url: string): Promise<Size> {
  const tables = await (url.startsWith('sqlite:')
    ? inSqlite(url)
    : url.startsWith('redis')
      ? inRedis(url)
      : inPostgres(url));
  const of = (logs: boolean) =>
    Object.fromEntries(Object.entries(tables).filter(([name, n]) => n > 0 && name in longestLogs === logs));
  return { rows: of(false), logs: of(true) };
}

export const totalOf = (counts: { readonly [table: string]: number }): number =>
  Object.values(counts).reduce((sum, n) => sum + n, 0);

type Counts = { [table: string]: number };

async function inSqlite(url: string): Promise<Counts> {
  const { DatabaseSync } = await loadDriver();
  const db = new DatabaseSync(url.slice('sqlite:'.length).split('?')[0]!);
  try {
    db.exec('pragma busy_timeout = 5000');
    const names = db.prepare(`select name from sqlite_master where type = 'table' and name like 'lastout_%'`).all();
    const counts: Counts = {};
    for (const { name } of names as { name: string }[])
      counts[name.slice('lastout_'.length)] = (
        db.prepare(`select count(*) as n from "${name}"`).get() as { n: number }
      ).n;
    return counts;
  } finally {
    db.close();
  }
}

async function inPostgres(url: string): Promise<Counts> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      `select relname as name from pg_class where relnamespace = 'lastout'::regnamespace and relkind = 'r'`,
    );
    const counts: Counts = {};
    for (const { name } of rows) {
      const found = await client.query<{ n: number }>(`select count(*)::int as n from lastout.${name}`);
      counts[name] = found.rows[0]!.n;
    }
    return counts;
  } finally {
    await client.end();
  }
}

const entriesOf: { readonly [type: string]: (client: Redis, key: string) => Promise<number> } = {
  hash: (client, key) => client.hlen(key),
  list: (client, key) => client.llen(key),
  set: (client, key) => client.scard(key),
  zset: (client, key) => client.zcard(key),
  stream: (client, key) => client.xlen(key),
  string: async () => 1,
};

async function inRedis(url: string): Promise<Counts> {
  const client = new Redis(url);
  try {
    const counts: Counts = {};
    for (const key of await client.keys('{lastout}:*')) {
      const kind = key.slice('{lastout}:'.length).split(':')[0]!;
      counts[kind] = (counts[kind] ?? 0) + ((await entriesOf[await client.type(key)]?.(client, key)) ?? 0);
    }
    return counts;
  } finally {
    client.disconnect();
  }
}
