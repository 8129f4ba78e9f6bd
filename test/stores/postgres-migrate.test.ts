// The schema: made and upgraded once by whoever comes first, never half, and only where it belongs.
import type { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { defineJob, open } from '../../src/index.js';
import {
  firstPlan,
  type Layout,
  migrate,
  type MigrateParts,
  type Migration,
  planOf,
  versionOf,
} from '../../src/stores/postgres/migrate.js';
import { migrationPlan, postgresStore } from '../../src/stores/postgres/index.js';
import { layout as released } from '../../src/stores/postgres/schema.js';
import { serverOf } from '../../src/stores/postgres/server.js';
import { databaseUrl, onServer } from '../services/postgres.js';
import { emptyPostgres, postgresUrl } from '../services.js';
import { closedAfterwards, expectCode } from '../support.js';
import { contextOf, eventually, plainClient, plainPool, system } from './postgres-support.js';

const tables: Migration = (schema) => `
  create table ${schema}.notes (n int);
  insert into ${schema}.notes values (1);
`;
const code: Migration = (schema) => `
  create or replace function ${schema}.note_v1() returns int language plpgsql as $$
  begin return (select count(*) from ${schema}.notes); end $$;
`;
const more: Migration = (schema) => `alter table ${schema}.notes add column more text default ';';`;
const broken: Migration = (schema) => `create table ${schema}.extra (n int); select 1 / 0;`;

/** Versions of a layout, each of which changes the tables of the one before. */
function layoutOf(...upgrades: readonly Migration[]): Layout {
  const create: Migration = (schema) => [tables, ...upgrades, code].map((part) => part(schema)).join('');
  return { create, upgrades, replace: code };
}
const first = layoutOf();
const second = layoutOf(more);

/** A namespace of its own, gone after the test. */
async function place(layout: Layout, url = postgresUrl()): Promise<MigrateParts & { client: Client }> {
  const namespace = `n.${system.id()}`;
  const { pool, where } = await serverOf({ url }, { listen: false })(system);
  const client = await plainClient(postgresUrl());
  onTestFinished(async () => {
    await pool.end();
    await client.query(`drop schema if exists "${namespace}" cascade`);
  });
  return { pool, where, system, namespace, layout, client };
}

async function versionIn({ client, namespace }: { client: Client; namespace: string }): Promise<string> {
  return (await client.query(`select value from "${namespace}".meta where name = 'schema'`)).rows[0].value;
}

async function tablesOf({ client, namespace }: { client: Client; namespace: string }): Promise<string[]> {
  const text = 'select tablename from pg_tables where schemaname = $1 order by 1';
  return (await client.query(text, [namespace])).rows.map((row) => row.tablename);
}

describe('a schema', () => {
  test('is made once where ten open at once, and they agree on whose it is', async () => {
    const there = await place(second);
    const places = await Promise.all(Array.from({ length: 10 }, () => migrate(there)));
    expect(new Set(places.map(({ identity }) => identity)).size).toBe(1);
    expect((await there.client.query(`select n, more from "${there.namespace}".notes`)).rows).toEqual([
      { n: 1, more: ';' },
    ]);
    expect(await versionIn(there)).toBe('2');
  });

  test('is upgraded, with what is in it', async () => {
    const there = await place(first);
    const before = await migrate(there);
    await there.client.query(`insert into "${there.namespace}".notes values (2)`);
    const after = await migrate({ ...there, layout: second });
    expect(after.identity).toBe(before.identity);
    expect(await versionIn(there)).toBe('2');
    expect((await there.client.query(`select n, more from "${there.namespace}".notes order by n`)).rows).toEqual([
      { n: 1, more: ';' },
      { n: 2, more: ';' },
    ]);
  });

  test('is left as it was by an upgrade that fails, which can be tried again', async () => {
    const there = await place(layoutOf(broken));
    const { message } = await expectCode('STORE_UNAVAILABLE', () => migrate(there));
    expect(message).toContain('division by zero');
    expect(await tablesOf(there)).toEqual([]);
    await migrate({ ...there, layout: second });
    expect(await tablesOf(there)).toEqual(['meta', 'notes']);
  });

  test('of a later version is refused, and told apart from a broken one', async () => {
    const there = await place(second);
    await migrate(there);
    const refusal = await expectCode('STORE_NEWER', () => migrate({ ...there, layout: first }));
    expect(refusal.message).toMatch(
      /holds version 2 of the schema .*, and this lastout knows version 1: upgrade lastout/,
    );
    expect(refusal.details).toEqual({ found: 2, known: 1 });
  });

  test('is looked at again by who has waited for another to make it', async () => {
    const there = await place(first);
    const lock = `select pg_advisory_xact_lock(hashtextextended('lastout "${there.namespace}"', 0))`;
    await there.client.query(`begin; ${lock}`);
    const migrating = migrate(there);
    await eventually('it waits', async () => {
      const text = `select 1 from pg_locks where locktype = 'advisory' and not granted`;
      return (await there.client.query(text)).rows.length > 0;
    });
    await there.client.query(
      firstPlan(there.namespace, first)
        .sql.replace('begin;', '')
        .replace(/commit;\s*$/, ''),
    );
    await there.client.query('commit');
    await migrating;
    expect((await there.client.query(`select count(*)::int from "${there.namespace}".notes`)).rows).toEqual([
      { count: 1 },
    ]);
  });
});

describe('a dry run', () => {
  test('says what would be run, and changes nothing', async () => {
    const there = await place(second);
    const plan = await planOf(there);
    expect(plan).toMatchObject({ from: 0, to: 2 });
    expect(plan.sql).toMatch(
      new RegExp(`^begin isolation level read committed;[^]*create schema "${there.namespace}";[^]*commit;\n$`),
    );
    expect(await tablesOf(there)).toEqual([]);
    await there.client.query(plan.sql);
    expect(await planOf(there)).toEqual({ from: 2, to: 2, sql: '' });
    await migrate(there);
    expect(await versionIn(there)).toBe('2');
  });

  test('of a later version has only what is missing', async () => {
    const there = await place(first);
    await migrate(there);
    const plan = await planOf({ ...there, layout: second });
    expect(plan).toMatchObject({ from: 1, to: 2 });
    expect(plan.sql).not.toMatch(/create (table|function)/);
    expect(plan.sql).toContain('create or replace function');
    await there.client.query(plan.sql);
    expect(await versionIn(there)).toBe('2');
  });

  test('needs no database for a new one, and takes the namespace of open', async () => {
    const plan = await migrationPlan(null, { namespace: 'mail' });
    expect(plan).toEqual(firstPlan('mail'));
    expect((await migrationPlan(null)).sql).toContain('create schema "lastout";');
    await expectCode('INVALID_NAME', () => migrationPlan(null, { namespace: 'public' }));
  });

  test('tells of a store that it is up to date, by URL and by pool', async () => {
    const url = await emptyPostgres();
    const upToDate = { from: versionOf(released), to: versionOf(released), sql: '' };
    expect(await migrationPlan({ url })).toEqual(upToDate);
    expect(await migrationPlan({ pool: plainPool(url) })).toEqual(upToDate);
  });
});

describe('names', () => {
  test.each(['public', 'PUBLIC', 'information_schema', 'pg_catalog', 'pg_mine', 'PG_mine', 'a'.repeat(64)])(
    'the namespace %s is refused',
    async (namespace) => {
      const there = await place(first);
      await expectCode('INVALID_NAME', () => migrate({ ...there, namespace }));
    },
  );

  test.each(['a'.repeat(63), 'Mail', 'mail', 'a-b.c_d', 'select', '0'])(
    'the namespace %s is a schema of its own',
    async (name) => {
      const url = await emptyPostgres();
      const queue = closedAfterwards(await open(url, { namespace: name }));
      const other = closedAfterwards(await open(url, { namespace: `${name.slice(0, 60)}.x` }));
      await queue.enqueue('mail', 1);
      expect((await queue.find()).items).toHaveLength(1);
      expect((await other.find()).items).toHaveLength(0);
    },
  );

  test('a schema that holds something else is left alone', async () => {
    const there = await place(first);
    await there.client.query(`create schema "${there.namespace}"; create table "${there.namespace}".orders (n int)`);
    const { message } = await expectCode('INVALID_NAME', () => migrate(there));
    expect(message).toContain('"orders"');
    await there.client.query(`create table "${there.namespace}".meta (name text, value text)`);
    await expectCode('INVALID_NAME', () => migrate(there));
    expect(await tablesOf(there)).toEqual(['meta', 'orders']);
  });

  test('an empty schema that somebody has made is used', async () => {
    const there = await place(first);
    await there.client.query(`create schema "${there.namespace}"`);
    await migrate(there);
    expect(await tablesOf(there)).toEqual(['meta', 'notes']);
  });
});

describe('a role that may not create a schema', () => {
  /** A role that may log in to a database of its own, and nothing else. */
  async function lowly() {
    const role = `r_${system.id().toLowerCase()}`;
    const name = `d_${system.id().toLowerCase()}`;
    await onServer(postgresUrl(), `create role "${role}" login password 'pw'`);
    await onServer(postgresUrl(), `create database ${name}`);
    onTestFinished(async () => {
      await onServer(postgresUrl(), `drop database ${name} with (force)`);
      await onServer(postgresUrl(), `drop role "${role}"`);
    });
    const admin = databaseUrl(postgresUrl(), name);
    const url = Object.assign(new URL(admin), { username: role, password: 'pw' }).href;
    return { role, admin, url };
  }

  test('is told which statement an administrator runs, and that statement is enough', async () => {
    const { role, admin, url } = await lowly();
    const { message, details } = await expectCode('STORE_DENIED', () => open(url));
    expect(details).toEqual({ sqlState: '42501' });
    const statement = `create schema "lastout" authorization "${role}"`;
    expect(message).toContain(`${statement};`);
    await onServer(admin, statement);
    const queue = closedAfterwards(await open(url));
    expect(await queue.enqueue('mail', 1)).toMatchObject({ outcome: 'created' });
  });

  test('is told the grant where the schema is there already', async () => {
    const { role, admin, url } = await lowly();
    await onServer(admin, 'create schema lastout');
    const { message } = await expectCode('STORE_DENIED', () => open(url));
    const grant = `grant create, usage on schema "lastout" to "${role}"`;
    expect(message).toContain(`${grant};`);
    await onServer(admin, grant);
    const queue = closedAfterwards(await open(url));
    expect(await queue.enqueue('mail', 1)).toMatchObject({ outcome: 'created' });
  });

  test('works on what an administrator has made by the plan, with the grants that the message names', async () => {
    const { admin, url } = await lowly();
    const denied = await expectCode('STORE_DENIED', () => open(url));
    await onServer(admin, (await migrationPlan({ url: admin })).sql);
    const again = await expectCode('STORE_DENIED', () => open(url));
    const grants = (message: string): string => /grant usage on schema .*;/.exec(message)![0];
    expect(grants(again.message)).toBe(grants(denied.message));
    await onServer(admin, grants(again.message));
    const queue = closedAfterwards(await open(url, { queues: { default: { maxPending: 10 } } }));
    const mail = defineJob<number, number>('mail', { run: ({ input }) => input + 1 });
    const { id } = await queue.enqueue(mail, 1);
    await queue.work([mail]);
    expect(await queue.wait(id)).toMatchObject({ state: 'completed', result: 2 });
    expect((await queue.stats()).total.completed).toBe(1);
    await queue.sweep();
  });
});

test('a database whose encoding cannot hold every text is refused', async () => {
  const name = `d_${system.id().toLowerCase()}`;
  const text = `create database ${name} encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0`;
  await onServer(postgresUrl(), text);
  onTestFinished(() => onServer(postgresUrl(), `drop database ${name} with (force)`));
  const url = databaseUrl(postgresUrl(), name);
  const { message } = await expectCode('STORE_DENIED', () => postgresStore({ url }).open(contextOf()));
  expect(message).toContain('LATIN1');
});
