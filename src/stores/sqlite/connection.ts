/** One connection to a database, shared by the queues that are opened on it. */
import { closeSync, constants, openSync } from 'node:fs';
import { access, stat, statfs } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { LastoutError } from '../../core/errors.js';
import type { Durability } from '../../core/store.js';
import type { System } from '../../core/system.js';
import { loadDriver, type SqliteDatabase, single } from './driver.js';
import { busyTimeoutMs, createLine, createTransactions, type Line, type Transactions } from './transact.js';

export interface Connection {
  readonly db: SqliteDatabase;
  /** How messages name it. */
  readonly where: string;
  /** Opened here: nobody else has it. */
  readonly isOurs: boolean;
  /** Absolute; null: in memory, or a connection that was given. */
  readonly path: string | null;
  /** Of the file when it was opened. */
  readonly inode: number | null;
  readonly durability: Durability;
  /** Reads have a line of their own: a write that waits for another program's lock holds none of them up. */
  readonly line: { readonly writing: Line; readonly reading: Line };
  readonly transactions: Transactions;
  /** Whether a cleanup is under way, which writes to many pages. */
  setCleaning(on: boolean): void;
}

export interface ConnectionOptions {
  readonly synchronous: 'full' | 'normal';
  /** How long a call waits for a lock that another process holds. */
  readonly lockWaitMs: number;
}

const inMemory = ':memory:';

export async function openFile(file: string, options: ConnectionOptions, system: System): Promise<Connection> {
  const path = file === inMemory ? null : resolve(file);
  const where = path === null ? 'The database in memory' : `The database ${path}`;
  const { DatabaseSync } = await loadDriver();
  if (path !== null) await createPrivately(path);
  const line = linesOf(where, options);
  const db = await line.writing.run(() => new DatabaseSync(path ?? inMemory), system);
  try {
    await line.writing.run(() => configure(db, options), system);
    const durability = path === null ? 'process' : options.synchronous === 'full' ? 'fsync' : 'os';
    const inode = path === null ? null : (await stat(path)).ino;
    const transactions = createTransactions(db, where);
    return { db, where, isOurs: true, path, inode, durability, line, transactions, setCleaning: checkpointsOf(db) };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** A connection that the caller has set up stays as it is. */
export async function useGiven(db: SqliteDatabase, options: ConnectionOptions, system: System): Promise<Connection> {
  const where = 'The given SQLite connection';
  const line = linesOf(where, options);
  const durability = await line.writing.run(() => durabilityOf(db), system);
  const transactions = createTransactions(db, where);
  return {
    db,
    where,
    isOurs: false,
    path: null,
    inode: null,
    durability,
    line,
    transactions,
    setCleaning: () => undefined,
  };
}

function linesOf(where: string, { lockWaitMs }: ConnectionOptions): Connection['line'] {
  return { writing: createLine(where, lockWaitMs), reading: createLine(where, lockWaitMs) };
}

function durabilityOf(db: SqliteDatabase): Durability {
  const file = single(db, "select file from pragma_database_list where name = 'main'");
  if (file === '' || file === null) return 'process';
  return Number(single(db, 'pragma synchronous')) >= 2 ? 'fsync' : 'os';
}

/**
 * How many pages gather before one commit copies them all back. Usually four times SQLite's own number: the pages that every
 * small step writes are then copied less often. A cleanup fills them with many others, and the commit that copies them would
 * keep everybody waiting.
 */
const walPages = { usual: 4_000, cleaning: 1_000 } as const;

function setWalPages(db: SqliteDatabase, pages: number): void {
  db.exec(`pragma wal_autocheckpoint = ${pages}`);
}

function checkpointsOf(db: SqliteDatabase): Connection['setCleaning'] {
  let cleaning = false;
  return (on) => {
    if (on === cleaning) return;
    cleaning = on;
    setWalPages(db, on ? walPages.cleaning : walPages.usual);
  };
}

function configure(db: SqliteDatabase, { synchronous }: ConnectionOptions): void {
  db.exec(`pragma busy_timeout = ${busyTimeoutMs}`);
  db.exec('pragma journal_mode = wal');
  setWalPages(db, walPages.usual);
  db.exec(`pragma synchronous = ${synchronous === 'full' ? 'full' : 'normal'}`);
  db.exec('pragma foreign_keys = on');
  db.exec('pragma trusted_schema = off');
}

/**
 * Made before SQLite makes it, so that only its user may read it; the files beside it get the same mode. A file that
 * exists is not opened here: closing it would give up the locks that other connections of this process hold on it.
 */
async function createPrivately(path: string): Promise<void> {
  const folder = dirname(path);
  const found = await stat(path).catch(() => null);
  if (found?.isDirectory()) throw denied(path, 'it is a folder; name a file in it');
  if (found && !found.isFile()) throw denied(path, 'it is no file but a device, a socket or a FIFO');
  if (!found && !(await reaches(folder, constants.F_OK)))
    throw denied(path, `the folder ${folder} does not exist`, undefined, { missingFolder: folder });
  await refuseNetwork(folder);
  if (found) return checkAccess(path);
  try {
    closeSync(openSync(path, 'wx', 0o600));
  } catch (error) {
    // Another process was faster; or SQLite would follow a link, and make a file that everybody may read.
    if ((error as { code?: unknown }).code === 'EEXIST') {
      if (await reaches(path, constants.F_OK)) return;
      throw denied(path, 'it is a link to a file that does not exist; make the file, or name its place');
    }
    throw denied(path, `this user may not create files in ${folder}`, error);
  }
}

async function checkAccess(path: string): Promise<void> {
  if (!(await reaches(path, constants.R_OK))) throw denied(path, 'this user may not read it');
  if (await reaches(path, constants.W_OK)) return;
  throw new LastoutError('STORE_READONLY', `The database ${path} cannot be written: this user may only read it.`);
}

function reaches(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

/** File systems of other machines: NFS and the three ages of SMB. Their locks do not hold what WAL needs. */
const networkTypes: ReadonlySet<number> = new Set([0x6969, 0x517b, 0xff534d42, 0xfe534d42]);

async function refuseNetwork(folder: string): Promise<void> {
  const type = await statfs(folder).then(
    (found) => found.type >>> 0,
    () => 0,
  );
  if (networkTypes.has(type)) {
    throw denied(folder, 'it is on a network file system, where SQLite loses data; keep it on a local disk');
  }
}

function denied(
  path: string,
  why: string,
  cause?: unknown,
  details?: { readonly missingFolder: string },
): LastoutError {
  return new LastoutError('STORE_DENIED', `The database ${path} cannot be opened: ${why}.`, details, cause);
}
