/** The SQLite driver: the runtime's own where it has one, else `@photostructure/sqlite`, which has the same interface. */
import { LastoutError } from '../../core/errors.js';

export type Value = string | number | null;
export type Values = readonly Value[];

/** What is used of a prepared statement. The optional methods are younger than Node 22.13. */
export interface SqliteStatement {
  run(...values: Value[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint };
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
  setReadBigInts?(on: boolean): unknown;
  setReturnArrays?(on: boolean): unknown;
}

/** What is used of a connection: the common part of `node:sqlite` and `@photostructure/sqlite`. */
export interface SqliteDatabase {
  exec(text: string): unknown;
  prepare(text: string): SqliteStatement;
  close(): unknown;
  readonly isTransaction?: boolean;
}

export interface SqliteDriver {
  readonly DatabaseSync: new (file: string) => SqliteDatabase;
}

/** Where drivers come from; tests give their own. */
export interface DriverSources {
  builtIn(): unknown;
  installed(): Promise<unknown>;
}

const sources: DriverSources = {
  // Not an import: neither Node 20, nor a bundler, nor types made for Node 20 know the module's name.
  builtIn: () => process.getBuiltinModule?.('node:sqlite'),
  installed: () => import('@photostructure/sqlite'),
};

/** Kept once loaded: a process may give up the right to read its own packages and still open files. */
const loaded = new WeakMap<DriverSources, SqliteDriver>();

export async function loadDriver(from: DriverSources = sources): Promise<SqliteDriver> {
  const known = loaded.get(from) ?? from.builtIn();
  if (isDriver(known)) return known;
  let cause: unknown;
  try {
    const peer = await from.installed();
    if (isDriver(peer)) {
      loaded.set(from, peer);
      return peer;
    }
  } catch (error) {
    cause = error;
  }
  const message =
    'The SQLite store needs a driver, and neither node:sqlite nor @photostructure/sqlite can be loaded: ' +
    'run "npm install @photostructure/sqlite", or use Node 22.13 or newer, which has one built in.';
  throw new LastoutError('DRIVER_MISSING', message, undefined, cause);
}

function isDriver(module: unknown): module is SqliteDriver {
  return typeof (module as SqliteDriver | undefined)?.DatabaseSync === 'function';
}

/** A statement whose rows are arrays of text, numbers and nulls, in the order of its columns. */
export interface Statement {
  run(...values: Value[]): { readonly changes: number | bigint; readonly lastInsertRowid: number | bigint };
  get(...values: Value[]): Values | undefined;
  all(...values: Value[]): readonly Values[];
}

/** A limit as a parameter. SQLite looks into a bare one when it plans, and would compile the statement at each run. */
export const limited = 'limit ? + 0';

/** Arrays cost half of what objects do; a driver without them gives objects, whose values are in the same order. */
export function prepare(db: SqliteDatabase, text: string): Statement {
  const statement = db.prepare(text);
  statement.setReadBigInts?.(false); // a given connection may be set otherwise
  if (statement.setReturnArrays) {
    statement.setReturnArrays(true);
    return statement as Statement;
  }
  const valuesOf = (row: unknown): Values => Object.values(row as Record<string, Value>);
  return {
    run: (...values) => statement.run(...values),
    get(...values) {
      const row = statement.get(...values);
      return row === undefined || row === null ? undefined : valuesOf(row);
    },
    all: (...values) => statement.all(...values).map(valuesOf),
  };
}

/** Some errors, such as a full disk, have ended the transaction already: then there is nothing left to undo. */
export function rollBack(db: SqliteDatabase): void {
  if (db.isTransaction === false) return;
  try {
    db.exec('rollback');
  } catch {
    // A driver without isTransaction: no transaction is open any more.
  }
}

/** The value of a pragma, or of any statement with one row and one column. */
export function single(db: SqliteDatabase, text: string): Value | undefined {
  return prepare(db, text).get()?.[0];
}
