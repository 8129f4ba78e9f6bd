/** Steps inside a transaction of the caller: on the connection that was given to us, or on another one to the same file. */
import { realpathSync } from 'node:fs';
import { LastoutError } from '../../core/errors.js';
import { reading } from '../../core/reading.js';
import type { SqlClient } from '../../core/job.js';
import type { Tables } from '../local/tables.js';
import { prepare, single, type SqliteDatabase, type Statement } from './driver.js';
import { isBusy, isOldSnapshot, translate } from './errors.js';
import { namesOf } from './schema.js';
import type { SqliteTables } from './tables.js';

/** Runs the work at once, or throws with nothing of it left in the caller's transaction. */
export type Inside = <T>(tx: SqlClient, work: (tables: Tables) => T) => T;

/** A connection with what is prepared on it. */
interface Guest {
  readonly release: Statement;
  /** A write that changes nothing: it takes the lock, and fails where the caller has read what others have changed since. */
  readonly lock: Statement;
  readonly tables: SqliteTables;
}

export interface InsideParts {
  readonly db: SqliteDatabase;
  readonly where: string;
  readonly namespace: string;
  /** Our own connection gets tables apart too: those of our own steps may stay behind when it is opened again. */
  tablesOn(db: SqliteDatabase): SqliteTables;
}

/** A connection for each transaction is common; what was prepared on the last few is kept. */
const guestsMax = 8;
const savepoint = 'lastout_step';
const probe = 'lastout_probe';

export function createInside({ db: own, where, namespace, tablesOn }: InsideParts): Inside {
  const lockText = `delete from ${namesOf(namespace)('meta')} where name = ''`;
  const guests = new Map<SqliteDatabase, Guest>();

  function guestOf(db: SqliteDatabase): Guest {
    const known = guests.get(db);
    const guest = known && isOf(known, db) ? known : admit(db);
    guests.delete(db);
    guests.set(db, guest);
    for (const oldest of guests.keys()) if (guests.size > guestsMax) guests.delete(oldest);
    return guest;
  }
  function admit(db: SqliteDatabase): Guest {
    if (db !== own && !isSameFile(db, own)) throw otherDatabase(where);
    return { release: prepare(db, `release ${probe}`), lock: prepare(db, lockText), tables: tablesOn(db) };
  }

  function run<T>(db: SqliteDatabase, work: (tables: Tables) => T): T {
    const { lock, tables } = guestOf(db);
    lock.run();
    try {
      tables.begin(true);
      const value = work(tables);
      tables.flush();
      return value;
    } finally {
      // The caller may still roll back: nothing that was read or drawn in here is known from now on.
      tables.forget();
    }
  }

  return (tx, work) => {
    const db = handleIn(tx);
    if (!isInTransaction(db)) throw noTransaction();
    try {
      db.exec(`savepoint ${savepoint}`);
    } catch (error) {
      throw explain(error, where, isInTransaction(db));
    }
    try {
      const value = run(db, work);
      db.exec(`release ${savepoint}`);
      return value;
    } catch (error) {
      undo(db, error);
      throw explain(error, where, isInTransaction(db));
    }
  };
}

/**
 * A handle that was closed and opened again is another connection. What was prepared on the last one fails, or, with some
 * drivers, goes on to work there, outside of this transaction. So a savepoint that only this one has must be known to it.
 */
function isOf({ release }: Guest, db: SqliteDatabase): boolean {
  db.exec(`savepoint ${probe}`);
  try {
    release.run();
    return true;
  } catch {
    return false; // the probe goes with our savepoint
  }
}

function handleIn(tx: SqlClient): SqliteDatabase {
  const isHandle = reading('tx', 'INVALID_TRANSACTION', () => {
    const { prepare, exec } = tx as Partial<SqliteDatabase>;
    return typeof prepare === 'function' && typeof exec === 'function';
  });
  if (isHandle) return tx as unknown as SqliteDatabase;
  const message = 'tx is no SQLite handle: give the DatabaseSync that has the transaction, with prepare and exec.';
  throw new LastoutError('INVALID_TRANSACTION', message);
}

/** Older drivers do not tell; there, a second begin is refused inside of a transaction. A closed handle has none. */
function isInTransaction(db: SqliteDatabase): boolean {
  try {
    if (db.isTransaction !== undefined) return db.isTransaction;
    db.exec('begin');
  } catch (error) {
    return /within a transaction/.test(String((error as Error).message));
  }
  db.exec('rollback');
  return false;
}

/** The path is what counts: SQLite finds the log beside the file by its name. A database in memory has none. */
function isSameFile(one: SqliteDatabase, other: SqliteDatabase): boolean {
  const [a, b] = [fileOf(one), fileOf(other)];
  if (a === '' || b === '') return false;
  return a === b || realPath(a) === realPath(b);
}

/** Of a file that is gone, its name. */
function realPath(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return file;
  }
}

function fileOf(db: SqliteDatabase): string {
  return String(single(db, "select file from pragma_database_list where name = 'main'") ?? '');
}

/** Some errors, such as a full disk, have ended the caller's transaction already. */
function undo(db: SqliteDatabase, reason: unknown): void {
  if (!isInTransaction(db)) return;
  try {
    db.exec(`rollback to ${savepoint}; release ${savepoint}`);
  } catch (error) {
    const message = `tx failed (${textOf(reason)}), and what was begun could not be undone (${textOf(error)}). Roll back.`;
    throw new LastoutError('RESULT_UNKNOWN', message, undefined, error);
  }
}

/** Whatever it was, nothing of ours is left: so each error is a refusal. */
function explain(error: unknown, where: string, isOpen: boolean): LastoutError {
  const told = isBusy(error) ? busy(error, where) : translate(error, where);
  const known = told instanceof LastoutError ? told : unfit(error);
  if (isOpen) return known;
  const message = `${known.message} SQLite has rolled back the whole transaction.`;
  return new LastoutError(known.code, message, { ...known.details, rolledBack: true }, known.cause);
}

/** SQLite did not raise it, so it is the handle that cannot be used. */
function unfit(error: unknown): LastoutError {
  const message = `tx could not be used (${textOf(error)}). Nothing was written.`;
  return new LastoutError('INVALID_TRANSACTION', message, undefined, error);
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Waiting is for who begins the transaction: in here nothing else of this process could go on. */
function busy(error: unknown, where: string): LastoutError {
  const why = isOldSnapshot(error)
    ? 'was changed by others since this transaction first read from it'
    : 'is locked by another transaction';
  const message = `${where} ${why}. Nothing was written: roll back, and begin with BEGIN IMMEDIATE, which waits for its turn.`;
  return new LastoutError('STORE_UNAVAILABLE', message, undefined, error);
}

function noTransaction(): LastoutError {
  const message = 'tx has no open transaction: run BEGIN IMMEDIATE on it first, and COMMIT after this call.';
  return new LastoutError('INVALID_TRANSACTION', message);
}

function otherDatabase(where: string): LastoutError {
  const message = `tx is a transaction on another database. ${where} needs one of its own: the job could not be committed with yours.`;
  return new LastoutError('INVALID_TRANSACTION', message);
}
