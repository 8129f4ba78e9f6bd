/** Empty databases for tests, quickly: each is migrated once, and emptied before it is given out again. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Client } from 'pg';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { createSystem } from '../../src/system.js';
import { resetSql } from './reset.js';

interface Database {
  readonly name: string;
  readonly url: string;
  readonly client: Client;
}

/** A database that was made by other sources of the store is not used again. */
function sourcesHash(): string {
  const folder = join(import.meta.dirname, '../../src/stores/postgres');
  const hash = createHash('sha256').update(resetSql);
  for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort())
    if (file.endsWith('.ts')) hash.update(readFileSync(join(folder, file)));
  return hash.digest('hex').slice(0, 10);
}

export function createDatabases(server: string, mark = '') {
  // Test files follow one another in a place; two places at once never meet.
  const prefix = `lastout_${sourcesHash()}_${process.env.VITEST_POOL_ID ?? '1'}${mark}`;
  const free: Database[] = [];
  const all: Database[] = [];
  let nextNo = 1;

  async function connect(name: string): Promise<Database> {
    const url = databaseUrl(server, name);
    const client = new Client({ connectionString: url });
    client.on('error', () => undefined);
    await client.connect();
    // The tests are over when they are over, whatever is connected.
    (client.connection.stream as Socket).unref();
    const made = { name, url, client };
    all.push(made);
    return made;
  }

  async function another(): Promise<Database> {
    const name = `${prefix}_${nextNo++}`;
    try {
      return await connect(name);
    } catch (error) {
      if ((error as { code?: string }).code !== '3D000') throw error;
    }
    await onServer(server, `create database ${name}`);
    const system = createSystem();
    const context = { system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
    await (await postgresStore({ url: databaseUrl(server, name) }).open(context)).close();
    const made = await connect(name);
    await made.client.query(resetSql);
    return made;
  }

  /** False: somebody is still connected, or it has been changed too much. */
  async function reset({ client }: Database): Promise<boolean> {
    const { rows } = await client.query<{ reset: boolean }>('select lastout_tests.reset()');
    return rows[0]!.reset;
  }

  /** Waits a little for connections that are being closed, before it makes one more. */
  async function take(): Promise<Database> {
    for (let tries = 0; tries < 20 && free.length > 0; tries++) {
      const next = free.shift()!;
      if (await reset(next)) return next;
      free.push(next);
      if (tries % free.length === free.length - 1) await new Promise((resolve) => setTimeout(resolve, 5));
    }
    for (;;) {
      const next = await another();
      if (await reset(next)) return next;
      free.push(next);
    }
  }
  return {
    take,
    giveBack: (database: Database) => void free.push(database),
    async close() {
      await Promise.all(all.map(({ client }) => client.end()));
    },
  };
}

export function databaseUrl(server: string, name: string): string {
  const url = new URL(server);
  url.pathname = `/${name}`;
  return url.href;
}

/** One statement, as the owner of the server. */
export async function onServer(server: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: server });
  try {
    await client.connect();
    await client.query(sql);
  } finally {
    await client.end();
  }
}
