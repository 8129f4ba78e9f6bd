// Transactions of callers, through the clients that people use. Each adapter is a recipe of docs/transactions.md.
import { sql } from 'drizzle-orm';
import { drizzle as drizzleOverPg } from 'drizzle-orm/node-postgres';
import { drizzle as drizzleOverPostgres } from 'drizzle-orm/postgres-js';
import postgres from 'postgres';
import { onTestFinished } from 'vitest';
import type { SqlClient } from '../../src/index.js';
import { plainClient, plainPool } from './postgres-support.js';

/** A transaction as the test sees it: what `enqueue` takes, and plain statements in the same one. */
export interface Inside {
  readonly tx: SqlClient;
  run(text: string): Promise<unknown>;
}

/** Commits when the work is done, rolls back when it throws. */
export type Transact = <T>(work: (inside: Inside) => Promise<T>, isolation?: Isolation) => Promise<T>;
type Isolation = 'read committed' | 'repeatable read' | 'serializable';

export const clients: readonly [string, (url: string) => Promise<Transact>][] = [
  ['pg, a client', async (url) => byStatements(await plainClient(url))],
  [
    'pg, a client of a pool',
    async (url) => {
      const pool = plainPool(url, { max: 2 });
      return async (work, isolation) => {
        const client = await pool.connect();
        try {
          return await byStatements(client)(work, isolation);
        } finally {
          client.release();
        }
      };
    },
  ],
  [
    'postgres.js',
    async (url) => {
      const client = postgres(url, { max: 2, onnotice: () => undefined });
      onTestFinished(() => client.end());
      return (work, isolation = 'read committed') =>
        client.begin(`isolation level ${isolation}`, (tx) =>
          work({ tx: overPostgres(tx), run: (text) => tx.unsafe(text) }),
        ) as ReturnType<typeof work>;
    },
  ],
  [
    'Drizzle over pg',
    async (url) => {
      const db = drizzleOverPg({ client: plainPool(url, { max: 2 }) });
      return (work, isolationLevel = 'read committed') =>
        db.transaction((tx) => work({ tx: overDrizzle(tx), run: (text) => tx.execute(sql.raw(text)) }), {
          isolationLevel,
        });
    },
  ],
  [
    'Drizzle over postgres.js',
    async (url) => {
      const client = postgres(url, { max: 2, onnotice: () => undefined });
      onTestFinished(() => client.end());
      const db = drizzleOverPostgres({ client });
      return (work, isolationLevel = 'read committed') =>
        db.transaction((tx) => work({ tx: overDrizzle(tx), run: (text) => tx.execute(sql.raw(text)) }), {
          isolationLevel,
        });
    },
  ],
];

function byStatements(client: SqlClient & { query: NonNullable<SqlClient['query']> }): Transact {
  return async (work, isolation = 'read committed') => {
    await client.query(`begin isolation level ${isolation}`, []);
    try {
      const value = await work({ tx: client, run: (text) => client.query(text, []) });
      await client.query('commit', []);
      return value;
    } catch (error) {
      await client.query('rollback', []);
      throw error;
    }
  };
}

/** postgres.js: `sql.begin((tx) => queue.enqueue(mail, input, { tx: overPostgres(tx) }))` */
export function overPostgres(tx: postgres.TransactionSql): SqlClient {
  return { query: async (text, values) => ({ rows: await tx.unsafe(text, values as never[]) }) };
}

interface DrizzleTransaction {
  execute(query: ReturnType<typeof sql>): PromiseLike<unknown>;
}

/** Drizzle, over `pg` (whose answer has rows) or postgres.js (whose answer is the rows). */
export function overDrizzle(tx: DrizzleTransaction): SqlClient {
  return {
    async query(text, values) {
      const [head, ...rest] = text.split(/\$\d+/);
      const parts = rest.flatMap((part, index) => [sql.param(values[index]), sql.raw(part)]);
      const answer = await tx.execute(sql.join([sql.raw(head!), ...parts]));
      return Array.isArray(answer) ? { rows: answer } : (answer as { rows: unknown[] });
    },
  };
}
