/** The schema of a namespace, made and upgraded once, by whoever comes first. */
import { LastoutError } from '../../core/errors.js';
import type { Durability } from '../../core/store.js';
import type { System } from '../../core/system.js';
import { type PgClient, type PgQuery, types } from './driver.js';
import { isCutOff, isLost, lost, refused, state, stateOf } from './errors.js';
import type { Lent, Pool } from './pool.js';
import { layout as current } from './schema.js';

/** SQL for a schema, given by its quoted name. */
export type Migration = (schema: string) => string;

/** What a schema should look like, and how one that is there gets to look like it. */
export interface Layout {
  /** A new schema, at the newest version. */
  readonly create: Migration;
  /** From each released version to the next; there is one version more than there are upgrades. */
  readonly upgrades: readonly Migration[];
  /** Follows the upgrades. */
  readonly replace: Migration;
}

export const versionOf = ({ upgrades }: Layout): number => upgrades.length + 1;

/** What opening a store would do to the database. */
export interface MigrationPlan {
  /** The version that is there; 0: none. */
  readonly from: number;
  readonly to: number;
  /** What leads from one to the other, to be run as it is; empty: nothing is to be done. */
  readonly sql: string;
}

/** What is known of a database once its schema is up to date. */
export interface Place {
  /** Tells this schema from one of the same name in another database. */
  readonly identity: string;
  readonly durability: Durability;
  /** Whether it is noted where the store got its identity. */
  readonly isNoted: boolean;
}

export interface MigrateParts {
  readonly pool: Pool;
  readonly namespace: string;
  readonly where: string;
  readonly system: System;
  /** Tests bring some of their own. */
  readonly layout?: Layout;
}

/** The functions need no younger one; tested from 15 on. */
const oldestServer = 14;
const nameBytesMax = 63;
/** Another process may be at it; and a table that a long transaction of others has in use is not waited for without end. */
const lockMs = { others: 60_000, tables: 10_000 } as const;

/** The quoted name of a namespace's schema. */
export function schemaOf(namespace: string): string {
  if (/^pg_/i.test(namespace) || /^(information_schema|public)$/i.test(namespace)) {
    const message = `The namespace "${namespace}" is the name of a schema that is not for lastout alone; take another one.`;
    throw new LastoutError('INVALID_NAME', message);
  }
  if (namespace.length > nameBytesMax || !/^[A-Za-z0-9._-]+$/.test(namespace)) {
    const message = `The namespace "${namespace}" cannot be the name of a schema: PostgreSQL takes ${nameBytesMax} characters.`;
    throw new LastoutError('INVALID_NAME', message);
  }
  return `"${namespace}"`;
}

export async function migrate(parts: MigrateParts): Promise<Place> {
  const { where, layout = current } = parts;
  const schema = schemaOf(parts.namespace);
  return onOne(parts, async (client) => {
    const look = () => lookAround(client, parts, schema);
    let found = await look();
    if (found.version < versionOf(layout)) {
      await upgrade(client, parts, schema, look);
      found = await look();
    }
    if (found.identity === null) throw refused(new Error('the schema was dropped meanwhile'), where);
    const { identity, database, isSafe, isNoted } = found;
    return { identity: `${identity} ${database}`, durability: isSafe ? 'fsync' : 'os', isNoted };
  });
}

export function planOf(parts: MigrateParts): Promise<MigrationPlan> {
  const { layout = current } = parts;
  const schema = schemaOf(parts.namespace);
  return onOne(parts, async (client) => {
    const { version, hasSchema } = await lookAround(client, parts, schema);
    return { from: version, to: versionOf(layout), sql: sqlOf(schema, version, hasSchema, layout) };
  });
}

/** What a database without the schema needs. */
export function firstPlan(namespace: string, layout: Layout = current): MigrationPlan {
  return { from: 0, to: versionOf(layout), sql: sqlOf(schemaOf(namespace), 0, false, layout) };
}

function sqlOf(schema: string, version: number, hasSchema: boolean, layout: Layout): string {
  const steps = stepsOf(schema, version, hasSchema, layout);
  return steps.length === 0 ? '' : `${[begin, lockText(schema), ...steps, 'commit'].join(';\n')};\n`;
}

async function onOne<T>({ pool, where }: MigrateParts, work: (client: PgClient) => Promise<T>): Promise<T> {
  const lent: Lent = await pool.lend();
  let broken = false;
  try {
    return await work(lent.client);
  } catch (error) {
    broken = !(error instanceof LastoutError) && (isLost(error) || isCutOff(error));
    if (error instanceof LastoutError) throw error;
    // A migration that was begun is done or taken back, and seen when the store is next opened.
    throw isLost(error) ? lost(error, where, 'reading') : refused(error, where);
  } finally {
    lent.giveBack(broken);
  }
}

interface Found {
  readonly version: number;
  readonly identity: string | null;
  readonly isNoted: boolean;
  readonly database: string;
  readonly role: string;
  readonly hasSchema: boolean;
  /** What is acknowledged is on disk. */
  readonly isSafe: boolean;
}

async function lookAround(client: PgClient, parts: MigrateParts, schema: string): Promise<Found> {
  const { where, namespace, system, layout = current } = parts;
  const ask = (query: PgQuery) => rowsFrom(client, query, system);
  const [around] = await ask({ text: aroundText, values: [namespace] });
  const [server, encoding, isSafe, database, role, hasSchema, hasMeta, strangers] = around as AroundRow;
  if (server < oldestServer * 10_000) throw tooOld(where, server);
  if (encoding !== 'UTF8') throw unfitEncoding(where, encoding);
  const known = { database, role, hasSchema, isSafe };
  if (!hasMeta) {
    if (strangers !== null) throw notOurs(where, namespace, strangers);
    return { ...known, version: 0, identity: null, isNoted: false };
  }
  try {
    const rows = await ask({ text: `select name, value from ${schema}.meta` });
    const meta = new Map(rows as readonly (readonly [string, string])[]);
    const version = Number(meta.get('schema'));
    if (!Number.isInteger(version)) throw notOurs(where, namespace, 'meta');
    if (version > versionOf(layout)) throw newer(where, namespace, version, versionOf(layout));
    return { ...known, version, identity: meta.get('identity') ?? null, isNoted: meta.has('place') };
  } catch (error) {
    if (stateOf(error) === state.denied) throw denied(error, where, role, grantsOf(schema, role));
    throw error;
  }
}

type AroundRow = readonly [number, string, boolean, string, string, boolean, boolean, string | null];

/** `regclass` of a schema that this role may not use is an error; the catalogue tells everybody. */
const aroundText = `select current_setting('server_version_num')::int, current_setting('server_encoding'),
  current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off', current_database(), current_user,
  n.oid is not null,
  exists (select from pg_catalog.pg_class c where c.relnamespace = n.oid and c.relname = 'meta'),
  (select min(c.relname) from pg_catalog.pg_class c where c.relnamespace = n.oid and c.relkind in ('r', 'v', 'm', 'f', 'p'))
from (select) one left join pg_catalog.pg_namespace n on n.nspname = $1`;

/** Who waited for the lock must see what was done meanwhile, whatever the session begins with. */
const begin = 'begin isolation level read committed';

/** The advisory lock lets one at a time through; who comes second looks again and finds the work done. */
async function upgrade(
  client: PgClient,
  { system, where, layout = current }: MigrateParts,
  schema: string,
  look: () => Promise<Found>,
): Promise<void> {
  const run = (text: string) => rowsFrom(client, { text }, system);
  await run(begin);
  try {
    await run(`set local statement_timeout = 0; set local lock_timeout = ${lockMs.others}`);
    await run(lockText(schema));
    await run(`set local lock_timeout = ${lockMs.tables}`);
    const found = await look();
    try {
      for (const step of stepsOf(schema, found.version, found.hasSchema, layout)) await run(step);
    } catch (error) {
      throw stateOf(error) === state.denied ? mayNotCreate(error, where, schema, found) : error;
    }
    await run('commit');
  } catch (error) {
    if (error instanceof LastoutError || !(isLost(error) || isCutOff(error))) await run('rollback');
    throw error;
  }
}

function stepsOf(schema: string, version: number, hasSchema: boolean, layout: Layout): string[] {
  const newest = versionOf(layout);
  if (version === newest) return [];
  const meta = [
    ...(hasSchema ? [] : [`create schema ${schema}`]),
    `create table ${schema}.meta (name text primary key, value text not null)`,
    `insert into ${schema}.meta values ('schema', '0'), ('identity', gen_random_uuid()::text)`,
  ];
  const wanted = version === 0 ? [layout.create] : [...layout.upgrades.slice(version - 1), layout.replace];
  const steps = wanted.map((step) => step(schema).trim().replace(/;$/, '')).filter((step) => step !== '');
  const last = `update ${schema}.meta set value = '${newest}' where name = 'schema'`;
  return [...(version === 0 ? meta : []), ...steps, last];
}

function lockText(schema: string): string {
  return `select pg_advisory_xact_lock(hashtextextended('lastout ${schema}', 0))`;
}

async function rowsFrom(client: PgClient, query: PgQuery, system: System): Promise<readonly unknown[]> {
  return (await system.awaiting(client.query({ ...query, rowMode: 'array', types }))).rows;
}

function newer(where: string, namespace: string, found: number, known: number): LastoutError {
  const message =
    `${where} holds version ${found} of the schema "${namespace}", and this lastout knows version ${known}: ` +
    'upgrade lastout. Workers that were running when it was upgraded go on until they are restarted.';
  return new LastoutError('STORE_NEWER', message, { found, known });
}

function mayNotCreate(
  cause: unknown,
  where: string,
  schema: string,
  { role, database, hasSchema }: Found,
): LastoutError {
  const remedy = hasSchema
    ? `grant create, usage on schema ${schema} to ${quoted(role)}`
    : `create schema ${schema} authorization ${quoted(role)}`;
  const plan = `Or let it run the SQL of migrationPlan() from lastout/postgres, and then: ${grantsOf(schema, role)}`;
  return denied(cause, where, role, `${remedy}; (in the database ${quoted(database)}). ${plan}`);
}

function denied(cause: unknown, where: string, role: string, remedy: string): LastoutError {
  const message = `${where} does not let the role "${role}" make or use the schema. Let a role that may run: ${remedy}`;
  return new LastoutError('STORE_DENIED', message, { sqlState: state.denied }, cause);
}

function grantsOf(schema: string, role: string): string {
  const to = `in schema ${schema} to ${quoted(role)}`;
  return (
    `grant usage on schema ${schema} to ${quoted(role)}; grant select, insert, update, delete on all tables ${to}; ` +
    `grant usage on all sequences ${to};`
  );
}

function notOurs(where: string, namespace: string, found: string): LastoutError {
  const message = `${where} has a schema "${namespace}" with something else in it ("${found}"): take another namespace.`;
  return new LastoutError('INVALID_NAME', message);
}

function tooOld(where: string, version: number): LastoutError {
  const message = `${where} is version ${Math.floor(version / 10_000)}; lastout needs PostgreSQL ${oldestServer} or newer.`;
  return new LastoutError('STORE_DENIED', message);
}

function unfitEncoding(where: string, encoding: string): LastoutError {
  const message = `${where} has the encoding ${encoding}, which cannot hold every text; lastout needs UTF8.`;
  return new LastoutError('STORE_DENIED', message);
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
