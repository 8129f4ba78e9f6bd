/** SQLite's result codes in our words. */
import { type Code, LastoutError } from '../../core/errors.js';

/** Primary result codes, https://sqlite.org/rescode.html. The drivers give extended ones; the low byte is the primary. */
const result = {
  error: 1,
  perm: 3,
  busy: 5,
  locked: 6,
  readonly: 8,
  io: 10,
  corrupt: 11,
  full: 13,
  cantOpen: 14,
  protocol: 15,
  auth: 23,
  notADatabase: 26,
} as const;

/** Extended: SQLITE_BUSY_SNAPSHOT. */
const busySnapshot = 517;

export function resultCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | null | undefined)?.errcode;
  return typeof code === 'number' ? code & 0xff : undefined;
}

/** Another connection holds a lock that it will give back: worth another try. */
export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  if (code === result.busy || code === result.locked || code === result.protocol) return true;
  // The caller's own transaction on a connection that was given to us.
  return code === result.error && /within a transaction/.test(String((error as Error).message));
}

/** The transaction reads an older state than the last one written, so it can write no more. */
export function isOldSnapshot(error: unknown): boolean {
  return (error as { errcode?: unknown } | null | undefined)?.errcode === busySnapshot;
}

/**
 * What a failed commit has left on the disk may come back when the log is next read from the start, after a crash.
 * Until then nobody sees it. A full disk is told before the commit is marked, so there it is certain.
 */
export function unsureCommit(error: unknown, where: string): unknown {
  if (resultCode(error) !== result.io) return error;
  const message = `${where} failed while it was committed: whether it was stored is not known. Look before you repeat it.`;
  return new LastoutError('RESULT_UNKNOWN', message, { sqliteCode: result.io }, error);
}

/** A table that is not there is how a new file shows itself. */
export function isMissingTable(error: unknown): boolean {
  return resultCode(error) === result.error && /no such table/.test(String((error as Error).message));
}

/** A lock is given back, and a folder may be made or mounted; a file that is no database, or a damaged one, stays so. */
export function mayComeUp({ code, details = {} }: LastoutError): boolean {
  const isSpoilt = details['sqliteCode'] === result.notADatabase || details['sqliteCode'] === result.corrupt;
  return (code === 'STORE_UNAVAILABLE' && !isSpoilt) || details['missingFolder'] !== undefined;
}

/** What a caller gets to see; anything that SQLite did not raise passes as it is. */
export function translate(error: unknown, where: string): unknown {
  const code = resultCode(error);
  if (code === undefined || error instanceof LastoutError) return error;
  const [name, message] = describe(code, where);
  const text = String((error as Error).message);
  return new LastoutError(name, `${message} (SQLite: ${text})`, { sqliteCode: code }, error);
}

function describe(code: number, where: string): [Code, string] {
  switch (code) {
    case result.busy:
    case result.locked:
    case result.protocol:
      return ['STORE_UNAVAILABLE', `${where} stayed locked; a write transaction elsewhere is open for too long.`];
    case result.full:
      return ['STORE_FULL', `${where} cannot grow: the disk is full or a size limit is reached. Nothing was written.`];
    case result.readonly:
      return ['STORE_READONLY', `${where} cannot be written: allow this user to write the file and its folder.`];
    case result.cantOpen:
    case result.auth:
    case result.perm:
      return ['STORE_DENIED', `${where} cannot be opened: check that the folder exists and this user may write in it.`];
    case result.notADatabase:
      return ['STORE_UNAVAILABLE', `${where} is not an SQLite database; name another file.`];
    case result.corrupt:
      return ['STORE_UNAVAILABLE', `${where} is damaged; restore a copy, or recover it with "sqlite3 FILE .recover".`];
    default:
      return ['STORE_UNAVAILABLE', `${where} could not be read or written.`];
  }
}
