// A store that was upgraded looks like a new one: nothing of a layout is made in one of the two ways only.
import { join } from 'node:path';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { open } from '../src/index.js';
import { loadDriver } from '../src/stores/sqlite/driver.js';
import { describeOn } from './engines.js';
import { emptyPostgres } from './services.js';
import { temporaryFolder } from './support.js';
import { restore } from './upgrade/restore.js';
import { readStored, versions } from './upgrade/stored.js';

/** What the functions of earlier versions are called that only processes of these versions still call. */
const leftForOthers = ['lock_types', 'mend_turns', 'read_audit_v1', 'read_events_v1', 'stand_again', 'take_turn'];

/** Made by the first who needs it, in a new store as in an old one. */
const onDemand = ['lastout_done_rank', 'lastout_done_created'];

const layoutText = `
  select c.relkind::text || ' ' || c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || a.attnotnull
    || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') || ' ' || coalesce(a.attstattarget::text, '') as part
  from pg_attribute a join pg_class c on c.oid = a.attrelid left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  where c.relnamespace = 'lastout'::regnamespace and a.attnum > 0 and not a.attisdropped
  union all select 'index ' || pg_get_indexdef(i.indexrelid) from pg_index i join pg_class c on c.oid = i.indexrelid
  where c.relnamespace = 'lastout'::regnamespace
  union all select 'view ' || v.viewname || ' ' || v.definition from pg_views v where v.schemaname = 'lastout'
  union all select 'function ' || p.proname || pg_get_functiondef(p.oid) from pg_proc p
  where p.pronamespace = 'lastout'::regnamespace and p.proname <> all ($1)`;

async function layoutOf(url: string): Promise<string[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<{ part: string }>(layoutText, [leftForOthers]);
  await client.end();
  return rows.map(({ part }) => part).sort();
}

async function tablesOf(file: string): Promise<unknown[]> {
  const { DatabaseSync } = await loadDriver();
  const db = new DatabaseSync(file);
  const ours = `m.name like 'lastout%' and m.name not in ('${onDemand.join("', '")}')`;
  const names = `select m.type, m.name, m.tbl_name from sqlite_master m where ${ours} order by m.name`;
  const columns = `select m.name as "table", c.name, c.type, c."notnull", c.dflt_value, c.pk
    from sqlite_master m, pragma_table_xinfo(m.name) c where m.type = 'table' and ${ours} order by 1, 2`;
  const keys = `select m.name as "index", c.seqno, c.name from sqlite_master m, pragma_index_info(m.name) c
    where m.type = 'index' and ${ours} order by 1, 2`;
  const found = [names, columns, keys].map((text) => db.prepare(text).all());
  db.close();
  return found;
}

for (const version of versions()) {
  describeOn('postgres', `a schema of ${version}`, () => {
    test('has the tables, types, views and functions of a new one', async () => {
      const url = await restore.postgres(readStored(version, 'postgres').data);
      await (await open(url)).close();
      expect(await layoutOf(url)).toEqual(await layoutOf(await emptyPostgres()));
    });
  });

  test(`a file of ${version} has the tables and indices of a new one`, async () => {
    const url = await restore.sqlite(readStored(version, 'sqlite').data);
    const fresh = join(temporaryFolder(), 'jobs.db');
    await (await open(url)).close();
    await (await open(`sqlite:${fresh}`)).close();
    const file = url.slice('sqlite:'.length).split('?')[0]!;
    expect(await tablesOf(file)).toEqual(await tablesOf(fresh));
  });
}
