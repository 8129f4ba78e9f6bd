/** The identity of a namespace, and the file in which it got it. Who moves or restores a file changes its path or its inode, who copies it both. */
import { realpathSync } from 'node:fs';
import { copyWarning } from '../../core/identity.js';
import type { StoreContext, StoreWarning } from '../../core/store.js';
import type { Connection } from './connection.js';
import { rollBack, single } from './driver.js';
import { namesOf, readMeta, writeMeta } from './schema.js';

interface Place {
  readonly path: string;
  readonly inode: number;
}

/** Null: it has no file, or one that somebody else has opened. */
function placeOf({ path, inode }: Connection): Place | null {
  return path === null || inode === null ? null : { path: realpathSync(path), inode };
}

/** At each opening: notes where the file is, and gives it a new identity where that is asked for. */
export function identify(connection: Connection, { namespace, identity, system }: StoreContext): Promise<void> {
  const { db, line } = connection;
  const names = namesOf(namespace);
  return line.writing.run(() => {
    const here = placeOf(connection);
    const noted = notedPlace(connection, namespace);
    const isSame = here === null || (noted?.path === here.path && noted.inode === here.inode);
    if (identity !== 'new' && (isSame || isCopy(noted, here))) return;
    db.exec('begin immediate');
    try {
      if (identity === 'new') writeMeta(db, names, 'identity', single(db, 'select lower(hex(randomblob(10)))')!);
      writeMeta(db, names, 'place', here && JSON.stringify(here));
      db.exec('commit');
    } catch (error) {
      rollBack(db);
      throw error;
    }
  }, system);
}

export function readIdentity({ db }: Connection, namespace: string): string {
  return String(readMeta(db, namesOf(namespace), 'identity'));
}

export function copyWarnings(connection: Connection, namespace: string): readonly StoreWarning[] {
  const here = placeOf(connection);
  const noted = notedPlace(connection, namespace);
  return noted && here && isCopy(noted, here) ? [copyWarning(connection.where, noted.path, here.path)] : [];
}

function notedPlace({ db }: Connection, namespace: string): Place | null {
  const noted = readMeta(db, namesOf(namespace), 'place') ?? null;
  return noted === null ? null : (JSON.parse(String(noted)) as Place);
}

function isCopy(noted: Place | null, here: Place): boolean {
  return noted !== null && noted.path !== here.path && noted.inode !== here.inode;
}
