/** The SQLite store: one file, any number of processes on one machine. */
import { stat } from 'node:fs/promises';
import { show } from '../../core/duration.js';
import { LastoutError } from '../../core/errors.js';
import { ownOptions } from '../../core/own-options.js';
import { reading } from '../../core/reading.js';
import { createShared } from '../../core/shared.js';
import type { ClaimRequest, Hint, NewJob, StoreContext, StoreFactory, StoreWarning } from '../../core/store.js';
import { type LocalEngine, openLocal } from '../local/store.js';
import type { Transact } from '../local/tables.js';
import { type Connection, type ConnectionOptions, openFile, useGiven } from './connection.js';
import { type SqliteDatabase, single } from './driver.js';
import { isBusy, mayComeUp, translate, unsureCommit } from './errors.js';
import { copyWarnings, identify, readIdentity } from './identity.js';
import { createInside, type Inside } from './inside.js';
import { migrate } from './schema.js';
import { WrongGuess } from './session.js';
import { createTables, type SqliteTables } from './tables.js';
import { busyTimeoutMs } from './transact.js';

export type SqliteSource =
  /** A path, or `:memory:`. A new file is readable by its user alone. */
  | { readonly file: string }
  /** An open connection: it is used as it is and never closed. */
  | { readonly db: SqliteDatabase };

export interface SqliteOptions {
  /** `full` (the default) survives power loss; `normal` is faster and may then lose the last moments. */
  readonly synchronous?: 'full' | 'normal';
  /** How long a call waits while another process holds the lock, in milliseconds; 10,000 unless given, 14,000 at most. */
  readonly lockWaitMs?: number;
}

const defaultLockWaitMs = 10_000;

export function sqliteStore(source: SqliteSource, options: SqliteOptions = {}): StoreFactory {
  const own = readSource(source);
  const settings = readOptions(options);
  const { acquire, release } = createShared(
    (context: StoreContext) => connect(own, settings, context),
    ({ connection }) => {
      if ('file' in own) connection.db.close();
    },
  );

  return {
    engine: 'sqlite',
    mayComeUp,
    async open(context) {
      const connected = await acquire(context);
      try {
        const namespace = await namespaceOf(connected, context);
        await identify(connected.connection, context);
        return await openLocal(engineOf(connected.connection, namespace, context, release), context);
      } catch (error) {
        await release();
        throw error;
      }
    },
  };
}

function readSource(source: SqliteSource): SqliteSource {
  const { file, db }: { file?: unknown; db?: SqliteDatabase } = ownOptions(
    source ?? null,
    ['file', 'db'],
    'The first argument of sqliteStore',
  );
  const isFile = typeof file === 'string' && file !== '';
  const isConnection = reading('db of sqliteStore', 'INVALID_URL', () => typeof db?.prepare === 'function');
  // Messages name the file, and a URL in its place would show a password.
  if (isFile && /:\/\/|:[^/\\]*@/.test(file))
    throw new LastoutError(
      'INVALID_URL',
      'The file of the SQLite store looks like an address of a server; give a path.',
    );
  if (isFile && db === undefined) return { file };
  if (isConnection && file === undefined) return { db: db! };
  const message = 'sqliteStore takes either { file } with a path, or { db } with an open connection of node:sqlite.';
  throw new LastoutError('INVALID_URL', message);
}

function readOptions(options: SqliteOptions): ConnectionOptions {
  const { synchronous = 'full', lockWaitMs = defaultLockWaitMs } = ownOptions(
    options,
    ['synchronous', 'lockWaitMs'],
    'The options of sqliteStore',
  );
  if (synchronous !== 'full' && synchronous !== 'normal') {
    throw new LastoutError('UNKNOWN_OPTION', `synchronous is ${show(synchronous)}; it is 'full' or 'normal'.`);
  }
  if (!(Number.isFinite(lockWaitMs) && lockWaitMs >= 0)) {
    throw new LastoutError('INVALID_DURATION', `lockWaitMs is ${show(lockWaitMs)}; give milliseconds from 0.`);
  }
  return { synchronous, lockWaitMs };
}

interface Connected {
  readonly connection: Connection;
  readonly namespaces: Map<string, Promise<Namespace>>;
}

/** The tables of a namespace, and who listens to them in this process. */
interface Namespace {
  readonly tables: SqliteTables;
  readonly inside: Inside;
  readonly listeners: Set<(hint: Hint) => void>;
}

async function connect(source: SqliteSource, settings: ConnectionOptions, context: StoreContext): Promise<Connected> {
  const connection = await ('file' in source
    ? openFile(source.file, settings, context.system)
    : useGiven(source.db, settings, context.system));
  return { connection, namespaces: new Map() };
}

/** One for all who open it: what its tables remember is true as long as nobody else writes to them by the connection. */
function namespaceOf({ connection, namespaces }: Connected, context: StoreContext): Promise<Namespace> {
  const known = namespaces.get(context.namespace);
  if (known) return known;
  const opening = openNamespace(connection, context);
  namespaces.set(context.namespace, opening);
  opening.catch(() => namespaces.delete(context.namespace));
  return opening;
}

function openNamespace(
  { db, where, isOurs, line }: Connection,
  { namespace, system }: StoreContext,
): Promise<Namespace> {
  return line.writing.run(() => {
    migrate(db, namespace, where);
    const tables = createTables(db, namespace, isOurs);
    const tablesOn = (on: SqliteDatabase): SqliteTables => createTables(on, namespace, false);
    return { tables, inside: createInside({ db, where, namespace, tablesOn }), listeners: new Set() };
  }, system);
}

function engineOf(
  connection: Connection,
  { tables, inside, listeners }: Namespace,
  { system, namespace }: StoreContext,
  release: () => Promise<void>,
): LocalEngine {
  const { where, line, transactions } = connection;
  let closed = false;

  const step =
    (kind: 'writing' | 'reading'): Transact =>
    (work) =>
      line[kind].run(() => {
        if (closed) throw new LastoutError('CLOSED', 'The store is closed.');
        const attempt = () => transactions[kind](tables, () => work(tables));
        try {
          return attempt();
        } catch (error) {
          if (error instanceof WrongGuess) return attempt(); // nothing is remembered now
          throw error;
        }
      }, system);

  return {
    engine: 'sqlite',
    traits: { isVolatile: false, insertsAbreast: 1, leastSweep: 50 },
    durability: connection.durability,
    transact: step('writing'),
    reading: step('reading'),
    inside(tx, work) {
      if (closed) throw new LastoutError('CLOSED', 'The store is closed.');
      return inside(tx, work);
    },
    listeners,
    join(job: NewJob, now: number) {
      if (closed || !line.writing.isFree()) return false;
      try {
        return tables.join(job, now);
      } catch (error) {
        if (isBusy(error)) return false; // the step waits
        tables.forget();
        throw translate(unsureCommit(error, where), where);
      }
    },
    quiet(request: ClaimRequest, now: number) {
      if (closed) return null;
      try {
        return tables.quiet(request, now);
      } catch (error) {
        if (isBusy(error)) return null; // the claim itself waits
        throw translate(error, where);
      }
    },
    swept(more) {
      if (!closed) connection.setCleaning(more);
    },
    identity: () => step('reading')(() => readIdentity(connection, namespace)),
    async check() {
      const warnings = [
        ...(await warningsOf(connection)),
        ...(await refusalOf(step('writing')(() => tables.rewrite()))),
      ];
      return warnings.length > 0 ? warnings : step('reading')(() => copyWarnings(connection, namespace));
    },
    async close() {
      if (closed) return;
      closed = true;
      await release();
    },
  };
}

/** A disk that is full, or a file that may not be written, is refused for certain; a lock that lasts is not. */
async function refusalOf(written: Promise<void>): Promise<readonly StoreWarning[]> {
  try {
    await written;
    return [];
  } catch (error) {
    const { code, message } = error as LastoutError;
    if (code !== 'STORE_FULL' && code !== 'STORE_READONLY') throw error;
    return [{ code, message, blocks: true }];
  }
}

async function warningsOf({ db, where, path, inode }: Connection): Promise<readonly StoreWarning[]> {
  try {
    single(db, 'select count(*) from sqlite_schema');
  } catch (error) {
    throw translate(error, where);
  }
  return path === null ? warningsOfGiven(db) : warningsOfFile(path, inode, where);
}

async function warningsOfFile(path: string, inode: number | null, where: string): Promise<readonly StoreWarning[]> {
  const found = await stat(path).catch(() => null);
  if (found?.ino === inode) return [];
  return [
    { code: 'FILE_GONE', message: `${where} was moved or deleted while open: what is written now will be lost.` },
  ];
}

function warningsOfGiven(db: SqliteDatabase): readonly StoreWarning[] {
  const timeout = Number(single(db, 'pragma busy_timeout') ?? 0);
  if (timeout <= 4 * busyTimeoutMs) return [];
  const message =
    `The given SQLite connection has a busy_timeout of ${timeout} ms: while another process writes, ` +
    'this one stands still for that long. Set it to 20 or less; lastout itself waits without stopping.';
  return [{ code: 'BUSY_TIMEOUT', message }];
}
