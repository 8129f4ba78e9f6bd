// Transactions of the caller, as far as they depend on the driver and on other processes. The rest: test/transactions.test.ts.
import { type ChildProcess, spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { describe, expect, onTestFinished, test } from 'vitest';
import { noFilter, type Store } from '../../src/core/store.js';
import { type Job, open, type Queue } from '../../src/index.js';
import type { SqliteDatabase, SqliteStatement } from '../../src/stores/sqlite/driver.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { seeded } from '../crash/seeded.js';
import { compilePrograms } from '../programs.js';
import { expectCode, temporaryFolder } from '../support.js';
import { connect, newJob, openStore, valueOf } from './sqlite-support.js';

/** A store and a handle for the caller: the one that the store was given, or another one to the same file. */
const handles: readonly [string, () => Promise<{ store: Store; db: SqliteDatabase }>][] = [
  [
    'the given connection',
    async () => {
      const db = await connect(newFile());
      return { db, store: await openStore(sqliteStore({ db })) };
    },
  ],
  [
    'another connection',
    async () => {
      const file = newFile();
      const store = await openStore(file);
      return { store, db: await connect(file) };
    },
  ],
  [
    'a driver that does not tell whether a transaction is open',
    async () => {
      const file = newFile();
      const store = await openStore(file);
      const db = await connect(file);
      const exec = (text: string) => db.exec(text);
      return { store, db: { exec, prepare: (text) => db.prepare(text), close: () => db.close() } };
    },
  ],
];

describe.each(handles)('on %s', (_, make) => {
  test('a commit brings the jobs, a rollback leaves no trace', async () => {
    const { store, db } = await made(make);
    db.exec('create table mine (n)');
    await store.insert([newJob({ id: 'before', policy: policyOf(1) })], { atomic: true });
    const before = dump(db);
    db.exec('begin; insert into mine values (1)');
    await store.insert([newJob({ policy: policyOf(2) }), newJob({ exclusiveKey: 'x' })], { atomic: true, tx: db });
    await store.insert([newJob({ policy: policyOf(2), ttlMs: 5_000 })], { atomic: true, tx: db });
    db.exec('rollback');
    expect(dump(db)).toEqual(before);
    // What was drawn in the rolled back one is drawn again, for something else.
    for (const n of [2, 3]) {
      db.exec(`begin; insert into mine values (${n})`);
      await store.insert([newJob({ id: `inside${n}`, policy: policyOf(n) })], { atomic: true, tx: db });
      db.exec('commit');
    }
    await store.insert([newJob({ id: 'after', policy: policyOf(4) })], { atomic: true });
    expect(valueOf(db, 'select group_concat(n) from mine')).toBe('2,3');
    const [before1, inside2, inside3, after] = [1, 2, 3, 4].map(policyOf);
    expect(policiesById(db)).toEqual({ before: before1, inside2, inside3, after });
    const { jobs } = await store.find({ filter: noFilter, cursor: null, limit: 9 });
    expect(jobs.map(({ id }) => id)).toEqual(['after', 'inside3', 'inside2', 'before']);
  });

  test('a rollback to a savepoint of the caller takes the job along, and no more', async () => {
    const { store, db } = await made(make);
    db.exec('begin');
    await store.insert([newJob({ id: 'outer' })], { atomic: true, tx: db });
    db.exec('savepoint mine');
    await store.insert([newJob({ id: 'inner' })], { atomic: true, tx: db });
    db.exec('rollback to mine; release mine; commit');
    expect(valueOf(db, 'select group_concat(id) from lastout_jobs')).toBe('outer');
    expect(valueOf(db, "select n from lastout_counts where name = 'pending'")).toBe(1);
  });

  test('a failure in the midst of a batch leaves nothing of it, and the transaction alive', async () => {
    const { store, db } = await made(make);
    db.exec(
      'create table mine (n); create temp trigger refuse before insert on main.lastout_jobs ' +
        `when new.input = '"bad"' begin select raise(abort, 'refused'); end`,
    );
    const before = dump(db);
    db.exec('begin; insert into mine values (1)');
    const batch = [newJob({ policy: policyOf(1) }), newJob({ input: '"bad"' })];
    await expect(store.insert(batch, { atomic: true, tx: db })).rejects.toThrow(/refused/);
    await store.insert([newJob({ id: 'next' })], { atomic: true, tx: db });
    db.exec("rollback; begin; insert into mine values ('kept')");
    await expect(store.insert(batch, { atomic: true, tx: db })).rejects.toThrow(/refused/);
    db.exec('commit');
    expect(valueOf(db, 'select group_concat(n) from mine')).toBe('kept');
    db.exec('delete from mine');
    expect(dump(db)).toEqual(before);
  });

  test('without an open transaction nothing is written', async () => {
    const { store, db } = await made(make);
    await expectCode('INVALID_TRANSACTION', () => store.insert([newJob()], { atomic: true, tx: db }));
    db.exec('begin immediate; commit');
    await expectCode('INVALID_TRANSACTION', () => store.insert([newJob()], { atomic: true, tx: db }));
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
    db.close();
    await expectCode('INVALID_TRANSACTION', () => store.insert([newJob()], { atomic: true, tx: db }));
  });

  test('what the caller has read may be out of date: refused at once, and the transaction lives on', async () => {
    const { store, db } = await made(make);
    const other = await connect(String(valueOf(db, 'select file from pragma_database_list')));
    other.exec('pragma journal_mode = wal; create table mine (n); insert into mine values (1)');
    db.exec('begin');
    expect(valueOf(db, 'select count(*) from mine')).toBe(1);
    other.exec('insert into mine values (2)');
    const refusal = await expectCode('STORE_UNAVAILABLE', () => store.insert([newJob()], { atomic: true, tx: db }));
    expect(refusal.message).toMatch(/changed by others since this transaction first read.*BEGIN IMMEDIATE/);
    expect(valueOf(db, 'select count(*) from mine')).toBe(1);
    db.exec('rollback; begin immediate');
    await store.insert([newJob()], { atomic: true, tx: db });
    db.exec('commit');
    expect(valueOf(other, 'select count(*) from lastout_jobs')).toBe(1);
    other.close();
  });

  test('the lock is held from the call to the commit, also when nothing is inserted', async () => {
    const { store, db } = await made(make);
    const other = await connect(String(valueOf(db, 'select file from pragma_database_list')));
    await store.insert([newJob({ key: 'k', deduplication: 'skip' })], { atomic: true });
    db.exec('begin');
    const twin = newJob({ key: 'k', deduplication: 'skip' });
    expect(await store.insert([twin], { atomic: true, tx: db })).toMatchObject([{ outcome: 'skipped' }]);
    expect(() => other.exec('begin immediate')).toThrow(/locked/);
    const refusal = await expectCode('STORE_UNAVAILABLE', () => {
      other.exec('begin');
      return openInside(store, other);
    });
    expect(refusal.message).toMatch(/is locked by another transaction.*BEGIN IMMEDIATE/);
    db.exec('commit');
    other.exec('rollback; begin immediate; rollback');
    other.close();
  });

  test('a full database is told, with what became of the transaction', async () => {
    const { store, db } = await made(make);
    const jobs = Array.from({ length: 50 }, () => newJob({ input: JSON.stringify('x'.repeat(4_000)) }));
    db.exec(`create table mine (n); pragma max_page_count = ${Number(valueOf(db, 'pragma page_count')) + 9}`);
    const before = dump(db);
    db.exec('begin immediate; insert into mine values (1)');
    const refusal = await expectCode('STORE_FULL', () => store.insert(jobs, { atomic: true, tx: db }));
    const isOpen = isInTransaction(db);
    expect(/has rolled back the whole transaction/.test(refusal.message)).toBe(!isOpen);
    expect(refusal.details?.rolledBack ?? false).toBe(!isOpen);
    if (isOpen) db.exec('rollback');
    expect(dump(db)).toEqual(before);
    db.exec('pragma max_page_count = 100000; begin immediate');
    await store.insert(jobs, { atomic: true, tx: db });
    db.exec('commit');
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(50);
  });

  test('a connection that may not write is told so', async () => {
    const { store, db } = await made(make);
    db.exec('pragma query_only = on; begin');
    await expectCode('STORE_READONLY', () => store.insert([newJob()], { atomic: true, tx: db }));
    db.exec('rollback; pragma query_only = off');
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
  });
});

test('a transaction on another database is refused, whatever the tables in it', async () => {
  const store = await openStore(newFile());
  onTestFinished(() => store.close());
  const elsewhere = newFile();
  await (await openStore(elsewhere)).close();
  for (const file of [elsewhere, ':memory:']) {
    const db = await connect(file);
    db.exec('begin');
    const refusal = await expectCode('INVALID_TRANSACTION', () => openInside(store, db));
    expect(refusal.message).toContain('on another database');
    db.exec('rollback');
    db.close();
  }
});

test('a transaction on another database is refused also when its file is gone', async () => {
  const store = await openStore(newFile());
  onTestFinished(() => store.close());
  const file = newFile();
  const db = await connect(file);
  onTestFinished(() => void db.close());
  db.exec('create table mine (n); begin');
  rmSync(file);
  const refusal = await expectCode('INVALID_TRANSACTION', () => openInside(store, db));
  expect(refusal.message).toContain('on another database');
});

describe('a handle that fails by itself', () => {
  const failing = (db: SqliteDatabase, spoil: Partial<SqliteDatabase>): SqliteDatabase => ({
    exec: (text) => db.exec(text),
    prepare: (text) => db.prepare(text),
    close: () => db.close(),
    ...spoil,
  });
  const broken = (): never => {
    throw new TypeError('worn out');
  };
  const spoils: readonly [string, (db: SqliteDatabase) => Partial<SqliteDatabase>][] = [
    ['at its first statement', () => ({ prepare: broken })],
    [
      'in the middle',
      (db) => ({ prepare: (text) => ({ ...bound(db.prepare(text)), ...(/^insert/.test(text) && { run: broken }) }) }),
    ],
    ['at the savepoint', (db) => ({ exec: (text) => (/^savepoint/.test(text) ? broken() : db.exec(text)) })],
    ['at the end', (db) => ({ exec: (text) => (/^release/.test(text) ? broken() : db.exec(text)) })],
  ];

  test.each(spoils)('%s is refused, and has done nothing', async (_, spoil) => {
    const { store, db } = await made(handles[1]![1]);
    db.exec('create table mine (n)');
    const before = dump(db);
    db.exec('begin; insert into mine values (1)');
    const refusal = await expectCode('INVALID_TRANSACTION', () => openInside(store, failing(db, spoil(db))));
    expect(refusal.message).toContain('worn out');
    expect(refusal.cause).toBeInstanceOf(TypeError);
    db.exec('commit');
    expect(valueOf(db, 'select count(*) from mine')).toBe(1);
    expect(dump(db)).toEqual(before);
  });

  test('and cannot even undo it says that the result is unknown', async () => {
    const { store, db } = await made(handles[1]![1]);
    const exec = (text: string): unknown => (/^(release|rollback)/.test(text) ? broken() : db.exec(text));
    db.exec('begin');
    const refusal = await expectCode('RESULT_UNKNOWN', () => openInside(store, failing(db, { exec })));
    expect(refusal.message).toMatch(/worn out.*[Rr]oll back/);
    db.exec('rollback');
  });
});

test.each(handles.slice(0, 2))('%s may be closed and opened again', async (_, make) => {
  const { store, db } = await made(make);
  const count = (): unknown => valueOf(db, 'select count(*) from lastout_jobs');
  for (let round = 0; round < 3; round++) {
    db.exec('begin');
    await openInside(store, db);
    db.exec('rollback');
    expect(count()).toBe(round);
    db.exec('begin immediate');
    await openInside(store, db);
    db.exec('commit');
    expect(count()).toBe(round + 1);
    db.close();
    (db as SqliteDatabase & { open(): void }).open();
  }
});

test('the given connection may be opened again before it first has a transaction', async () => {
  const { store, db } = await made(handles[0]![1]);
  db.close();
  (db as SqliteDatabase & { open(): void }).open();
  db.exec('begin');
  await openInside(store, db);
  db.exec('rollback');
  expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
});

test('a database in memory has only the connection that was given', async () => {
  const [db, other] = [await connect(':memory:'), await connect(':memory:')];
  const store = await openStore(sqliteStore({ db }));
  other.exec('begin');
  await expectCode('INVALID_TRANSACTION', () => openInside(store, other));
  db.exec('begin');
  await openInside(store, db);
  db.exec('commit');
  expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(1);
  await store.close();
});

test('a connection for each transaction: any number, one after the other and side by side', async () => {
  const file = newFile();
  const store = await openStore(file);
  for (let round = 0; round < 3; round++) {
    const dbs = await Promise.all(Array.from({ length: 12 }, () => connect(file)));
    for (const db of dbs) {
      db.exec('begin immediate');
      await openInside(store, db);
      db.exec('commit');
    }
    for (const db of dbs) db.close();
  }
  expect((await store.find({ filter: noFilter, cursor: null, limit: 99 })).jobs).toHaveLength(36);
  await store.close();
});

test('namespaces keep to themselves inside a transaction too', async () => {
  const db = await connect(newFile());
  const factory = sqliteStore({ db });
  const [one, two] = [await openStore(factory, { namespace: 'one' }), await openStore(factory, { namespace: 'two' })];
  db.exec('begin');
  await openInside(one, db);
  await openInside(two, db);
  await openInside(two, db);
  db.exec('commit');
  expect([valueOf(db, 'select count(*) from one_jobs'), valueOf(db, 'select count(*) from two_jobs')]).toEqual([1, 2]);
  await one.close();
  await expectCode('CLOSED', () => openInside(one, db));
  await two.close();
});

describe('with other processes', () => {
  test('a skipped job sees what was committed with the skip: 200 races with a worker', async () => {
    const file = await fileWithChanges();
    const builder = await startChild('builder', file, 'ready');
    const queue = await open(`sqlite:${file}?synchronous=normal`);
    const db = await connect(file);
    db.exec('pragma busy_timeout = 2000');
    const seed = 7;
    const chance = seeded(seed);
    const outcomes = { created: 0, skipped: 0 };
    const change = async (n: number, holdMs: number): Promise<string> => {
      // Nothing of the caller's own holds the lock while the matched job waits.
      db.exec('begin');
      const { id, outcome } = await queue.enqueue('build', n, { tx: db, deduplication: 'skip' });
      await pass(holdMs);
      db.exec(`insert into changes values (${n}); commit`);
      outcomes[outcome as 'created' | 'skipped'] += 1;
      return id;
    };
    for (let n = 1; n <= 400; n += 2) {
      const first = await change(n, 0);
      await pass(chance.below(60) / 10);
      const second = await change(n + 1, chance.below(40) / 10);
      const [one, two] = [await finished(queue, first), await finished(queue, second)];
      expect(one.result, `seed ${seed}, change ${n}`).toBeGreaterThanOrEqual(n);
      expect(two.result, `seed ${seed}, change ${n + 1}`).toBeGreaterThanOrEqual(n + 1);
    }
    expect(outcomes.skipped).toBeGreaterThan(0);
    expect(outcomes.created).toBeGreaterThan(200);
    await queue.close();
    db.close();
    builder.kill('SIGKILL');
  }, 60_000);

  test('a process that is killed between enqueue and commit leaves nothing', async () => {
    const file = await fileWithChanges();
    const queue = await open(`sqlite:${file}`);
    await queue.enqueue('build', 1, { timeout: 1_000 });
    const db = await connect(file);
    const before = dump(db);
    for (let round = 0; round < 3; round++) {
      const child = await startChild('undecided', file, 'created');
      const died = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await died;
      expect(dump(db)).toEqual(before);
      expect(valueOf(db, 'select count(*) from changes')).toBe(0);
    }
    expect(valueOf(db, 'pragma integrity_check')).toBe('ok');
    const child = await startChild('decided', file, 'committed');
    child.kill('SIGKILL');
    expect(valueOf(db, 'select count(*) from changes')).toBe(1);
    expect((await queue.stats()).total.pending).toBe(2);
    await queue.close();
    db.close();
  }, 60_000);
});

/** Asks again and again: waiting for a hint would make the races rare. */
async function finished(queue: Queue, id: string): Promise<Job> {
  for (const until = performance.now() + 10_000; performance.now() < until; ) {
    const job = await queue.get(id);
    if (job?.completedAt) return job;
    await pass(1);
  }
  throw new Error(`job ${id} did not end`);
}

function newFile(): string {
  return join(temporaryFolder(), 'jobs.db');
}

async function made(make: () => Promise<{ store: Store; db: SqliteDatabase }>) {
  const both = await make();
  both.db.exec('pragma journal_mode = wal; pragma busy_timeout = 5');
  onTestFinished(() => both.store.close());
  return both;
}

function openInside(store: Store, db: SqliteDatabase): Promise<unknown> {
  return store.insert([newJob()], { atomic: true, tx: db });
}

/** A statement whose methods can be taken over one by one. */
function bound(statement: SqliteStatement): SqliteStatement {
  return {
    run: (...values) => statement.run(...values),
    get: (...values) => statement.get(...values),
    all: (...values) => statement.all(...values),
  };
}

function isInTransaction(db: SqliteDatabase): boolean {
  try {
    db.exec('begin');
  } catch {
    return true;
  }
  db.exec('rollback');
  return false;
}

function policyOf(timeoutMs: number): string {
  return JSON.stringify({ backoff: null, timeoutMs, keep: {} });
}

function policiesById(db: SqliteDatabase): unknown {
  const text = 'select json_group_object(id, body) from lastout_jobs join lastout_policies on no = policy';
  return JSON.parse(String(valueOf(db, text)));
}

/** Every row of the store. */
/** Everything stored, but for the passes of cleanup, which every process makes. */
function dump(db: SqliteDatabase): Record<string, unknown[]> {
  const tables = db.prepare("select name from sqlite_schema where type = 'table' and name like 'lastout%'").all();
  const names = tables.map((table) => (table as { name: string }).name);
  const compared = names.filter((name) => !['lastout_ledger', 'lastout_term'].includes(name));
  return Object.fromEntries(compared.map((name) => [name, db.prepare(`select * from "${name}"`).all()]));
}

async function fileWithChanges(): Promise<string> {
  const file = newFile();
  const db = await connect(file);
  db.exec('pragma journal_mode = wal; create table changes (n integer)');
  db.close();
  return file;
}

/** By the clock, because both sides of a race move on while it passes. */
async function pass(ms: number): Promise<void> {
  const until = performance.now() + ms;
  while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve));
}

async function startChild(mode: string, file: string, awaited: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [compilePrograms().sqliteTransactions, mode, file], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '', NODE_NO_WARNINGS: '1' },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  for await (const line of createInterface({ input: child.stdout })) if (line === awaited) return child;
  throw new Error(`the child ended before it said "${awaited}"`);
}
