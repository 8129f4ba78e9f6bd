/** The tables of a namespace, made and upgraded by numbered migrations. A migration that was released never changes. */
import { LastoutError } from '../../core/errors.js';
import { replacedText } from '../../core/replaced.js';
import { prepare, rollBack, type SqliteDatabase, type Value } from './driver.js';
import { isMissingTable } from './errors.js';

/** Quoted names of a namespace's tables and indices. */
export type Names = (name: string) => string;

export function namesOf(namespace: string): Names {
  if (namespace.toLowerCase() === 'sqlite') {
    throw new LastoutError('INVALID_NAME', 'The namespace "sqlite" is kept by SQLite for itself; take another one.');
  }
  return (name) => `"${namespace}_${name}"`;
}

/**
 * A row of `jobs` is written once and stays until its job goes for good; a plain job is never written again. `pending` has
 * the jobs that wait, `done` what became of those that have ended, and a live job is one that is not in `done`. `ended`
 * says the same, but only of jobs that are looked for by subject or key. A row of `pending` stands for the jobs from `seq` to
 * `last`: plain jobs that came together and are ready are one run, every other one has a row of its own. A run that is open
 * ends behind its last job (open-run.ts). `owned` has a row for
 * each job that another one owns (`due_at`: pending, of the library's queue and not held), `holds` for each job that is held.
 */
const first = (n: Names): string => `
  create table ${n('jobs')} (
    seq integer primary key, id text not null, type text not null, queue text not null,
    priority integer not null, due_at integer not null, created_at integer not null, max_attempts integer not null,
    policy integer not null, input text not null, subject text, key text, source text, rest text,
    ended integer not null default 0
  ) strict;
  create unique index ${n('jobs_id')} on ${n('jobs')} (id);
  create index ${n('jobs_key')} on ${n('jobs')} (key, ended, type, seq) where key is not null;
  create index ${n('jobs_subject')} on ${n('jobs')} (subject, ended, seq) where subject is not null;

  create table ${n('pending')} (
    place integer not null, type text not null, queue text not null, priority integer not null,
    due_at integer not null, seq integer not null, last integer not null, slot text, xkey text, expires_at integer,
    primary key (place, type, queue, priority, due_at, seq)
  ) strict, without rowid;
  create unique index ${n('pending_type')} on ${n('pending')} (type, seq);
  create unique index ${n('pending_slot')} on ${n('pending')} (type, slot) where slot is not null;
  create index ${n('pending_later')} on ${n('pending')} (due_at, seq) where place = 1;
  create index ${n('pending_behind')} on ${n('pending')} (type, queue, xkey, priority, due_at, seq) where place = 2;
  create index ${n('pending_expiry')} on ${n('pending')} (expires_at, seq) where expires_at is not null;

  create table ${n('turns')} (
    type text not null, queue text not null, xkey text not null, seq integer not null, primary key (type, queue, xkey)
  ) strict, without rowid;

  create table ${n('claims')} (
    epoch integer primary key, owner text not null, at integer not null, max_stalls integer not null,
    seqs text not null, due_at integer not null, ahead text not null, open integer not null, queues text not null
  ) strict;
  create index ${n('claims_due')} on ${n('claims')} (due_at, epoch);
  create index ${n('claims_owner')} on ${n('claims')} (owner, epoch);

  create table ${n('done')} (
    seq integer primary key, type text not null, created_at integer not null, state integer not null,
    completed_at integer not null, started_at integer, attempts integer not null, epoch integer not null,
    "left" integer, result text, rest text, keep_ms integer, keep_count integer, go_at integer
  ) strict;
  create index ${n('done_type')} on ${n('done')} (type, state, seq);
  create index ${n('done_age')} on ${n('done')} (completed_at, seq) where keep_ms is null;
  create index ${n('done_kept')} on ${n('done')} (completed_at, seq) where keep_ms >= -1;
  create index ${n('done_go')} on ${n('done')} (go_at, seq) where go_at is not null;
  create index ${n('done_count')} on ${n('done')} (type, state, keep_count) where keep_count is not null;

  create table ${n('counts')} (
    name text not null, part text not null, n integer not null, primary key (name, part)
  ) strict, without rowid;
  create table ${n('events')} (no integer primary key, at integer not null, body text not null) strict;
  create table ${n('lines')} (
    seq integer not null, no integer not null, at integer not null, message text not null, fields text,
    primary key (seq, no)
  ) strict, without rowid;
  create table ${n('tombs')} (
    no integer primary key, id text not null unique, at integer not null, why integer not null, type text not null,
    queue text not null, state integer not null, reason text, print text not null, epoch integer not null,
    "left" integer
  ) strict;

  create table ${n('owned')} (
    seq integer primary key, owner text not null, ended integer not null default 0, due_at integer
  ) strict;
  create index ${n('owned_owner')} on ${n('owned')} (owner, ended, seq);
  create index ${n('owned_due')} on ${n('owned')} (due_at, seq) where due_at is not null;
  create table ${n('holds')} (seq integer primary key, until integer not null) strict;
  create index ${n('holds_until')} on ${n('holds')} (until, seq);
  create table ${n('term')} (
    one integer primary key, no integer not null, holder text not null, until integer not null, noted integer not null
  ) strict;
  create table ${n('ledger')} (no integer primary key, body text not null) strict;
  create table ${n('cards')} (
    owner text primary key, card text not null, due_at integer not null
  ) strict, without rowid;

  create table ${n('queues')} (name text primary key) strict, without rowid;
  create table ${n('fences')} (
    subject text primary key, at integer not null, until integer not null, reason text not null, due_at integer not null
  ) strict, without rowid;
  create index ${n('fences_due')} on ${n('fences')} (due_at);
  create table ${n('limits')} (
    queue text primary key, max_pending integer, concurrency integer, rate_max integer, rate_per_ms integer, starts text
  ) strict, without rowid;
  create table ${n('policies')} (no integer primary key, body text not null) strict;
  create index ${n('policies_body')} on ${n('policies')} (body);
`;

/** All changes since 0.1.0: the store has an identity, and a finished job knows its retry and whether it was replaced. */
const second = (n: Names): string => `
  insert into ${n('meta')} (name, value) values ('identity', lower(hex(randomblob(10))));
  update ${n('done')} set rest = json_set(rest, '$.replaced', json('true'))
  where state = 1 and rest ->> '$.error' = '${replacedText}';
  insert into ${n('counts')} (name, part, n)
  select 'replaced', j.queue, count(*) from ${n('done')} d cross join ${n('jobs')} j on j.seq = d.seq
  where d.state = 1 and d.rest ->> '$.replaced' group by j.queue;
  update ${n('done')} set rest = json_set(ifnull(${n('done')}.rest, '{}'), '$.retriedAs', r.id)
  from (
    select j.rest ->> '$.retryOf' as of, j.id, max(j.seq) from ${n('jobs')} j where j.rest like '%"retryOf":"%' group by 1
  ) r cross join ${n('jobs')} o on o.id = r.of
  where ${n('done')}.seq = o.seq;
`;

const migrations: readonly ((names: Names) => string)[] = [first, second];

/** Brings the tables up to date, once: whoever comes second finds the work done, because the lock is taken first. */
export function migrate(db: SqliteDatabase, namespace: string, where: string): void {
  const names = namesOf(namespace);
  if (readVersion(db, names, namespace, where) === migrations.length) return;
  db.exec('begin immediate');
  try {
    const version = readVersion(db, names, namespace, where);
    if (version === 0) createMeta(db, names, namespace);
    for (const migration of migrations.slice(version)) db.exec(migration(names));
    writeMeta(db, names, 'schema', migrations.length);
    db.exec('commit');
  } catch (error) {
    rollBack(db);
    throw error;
  }
}

function createMeta(db: SqliteDatabase, names: Names, namespace: string): void {
  db.exec(`create table ${names('meta')} (name text primary key, value any) strict, without rowid`);
  writeMeta(db, names, 'schema', 0);
  writeMeta(db, names, 'namespace', namespace);
}

/** 0: a new file. */
function readVersion(db: SqliteDatabase, names: Names, namespace: string, where: string): number {
  const version = Number(readMeta(db, names, 'schema') ?? 0);
  if (version > migrations.length) {
    const message =
      `${where} holds version ${version} of the tables of namespace "${namespace}", ` +
      `and this lastout knows version ${migrations.length}: upgrade lastout.`;
    throw new LastoutError('STORE_NEWER', message, { found: version, known: migrations.length });
  }
  // SQLite takes table names without regard to case, so "Mail" would silently work on the tables of "mail".
  const owner = readMeta(db, names, 'namespace');
  if (owner !== undefined && owner !== namespace) {
    const message = `${where} has a namespace "${String(owner)}"; "${namespace}" differs from it only in case.`;
    throw new LastoutError('INVALID_NAME', message);
  }
  return version;
}

export function readMeta(db: SqliteDatabase, names: Names, name: string): Value | undefined {
  try {
    return prepare(db, `select value from ${names('meta')} where name = ?`).get(name)?.[0];
  } catch (error) {
    if (isMissingTable(error)) return undefined;
    throw error;
  }
}

export function writeMeta(db: SqliteDatabase, names: Names, name: string, value: Value): void {
  prepare(db, `insert or replace into ${names('meta')} (name, value) values (?, ?)`).run(name, value);
}
