/**
 * Whose folder it is. A store deletes the files that it does not know, so two of them in one folder would delete the files of each other: the
 * first that comes leaves a marker with its name, and the others are refused.
 */
import { constants } from 'node:fs';
import { link, open, rename, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';
import { errnoOf, isMissing, told } from './file-errors.js';
import { isUnlinked } from './folder.js';

export interface FolderOwner {
  readonly engine: string;
  /** It is new at every start: what the one before has left is nobody's. */
  readonly isVolatile: boolean;
  /** Of the store: what its jobs are called by, wherever they are. */
  readonly identity: string;
}

const markerName = 'store.json';
const markerBytesMax = 1_000;
/** What a file system says that has no hard links. */
const noLinks: ReadonlySet<string | undefined> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;

/** `folder`: by its real path. Refuses with ARTIFACTS_IN_USE one that is another store's. */
export async function takeFolder(folder: string, owner: FolderOwner, system: System): Promise<void> {
  const marker = join(folder, markerName);
  await told(`The marker ${marker}`, async () => {
    await isUnlinked(folder);
    const part = `${marker}.${system.id()}`;
    const first = (await ownerIn(marker)) ?? (await claim(marker, part, owner)) ?? (await ownerIn(marker));
    if (first === null) throw unreadable(marker);
    if (first.engine === owner.engine && first.identity === owner.identity) return;
    if (!first.isVolatile || !owner.isVolatile) throw inUse(folder, marker, first, owner);
    await write(part, owner);
    await rename(part, marker);
  });
}

/** Null: another one was faster. */
async function claim(marker: string, part: string, owner: FolderOwner): Promise<FolderOwner | null> {
  await write(part, owner);
  try {
    // It appears whole, and only where there is none.
    await link(part, marker);
    return owner;
  } catch (error) {
    if (errnoOf(error) === 'EEXIST') return null;
    if (!noLinks.has(errnoOf(error))) throw error;
    return await write(marker, owner).then(
      () => owner,
      (again: unknown) => {
        if (errnoOf(again) === 'EEXIST') return null;
        throw again;
      },
    );
  } finally {
    await unlink(part);
  }
}

async function write(path: string, owner: FolderOwner): Promise<void> {
  await writeFile(path, `${JSON.stringify(owner)}\n`, { flag: 'wx', mode: 0o600, flush: true });
}

/** Null: there is no marker. */
async function ownerIn(marker: string): Promise<FolderOwner | null> {
  const file = await open(marker, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: unknown) => {
    if (isMissing(error)) return null;
    if (errnoOf(error) === 'ELOOP') throw unreadable(marker);
    throw error;
  });
  if (!file) return null;
  try {
    if (!(await file.stat()).isFile()) throw unreadable(marker);
    const { bytesRead, buffer } = await file.read(Buffer.alloc(markerBytesMax), 0, markerBytesMax, 0);
    const owner = parsed(buffer.toString('utf8', 0, bytesRead));
    if (!owner) throw unreadable(marker);
    return owner;
  } finally {
    await file.close();
  }
}

function parsed(text: string): FolderOwner | null {
  try {
    const { engine, isVolatile = false, identity } = JSON.parse(text) as Partial<FolderOwner>;
    return typeof engine === 'string' && typeof identity === 'string' ? { engine, isVolatile, identity } : null;
  } catch {
    return null;
  }
}

function unreadable(marker: string): LastoutError {
  const message = `${marker} does not say which store the folder belongs to. Delete it if no other store uses the folder.`;
  return new LastoutError('ARTIFACTS_IN_USE', message, { marker });
}

function inUse(folder: string, marker: string, owner: FolderOwner, store: FolderOwner): LastoutError {
  const message =
    `The folder ${folder} belongs to the ${owner.engine} store ${owner.identity}; this is the ${store.engine} store ${store.identity}. ` +
    `Give this one a dir of its own, or the two delete the files of each other. If the other one is gone, delete ${marker}.`;
  return new LastoutError('ARTIFACTS_IN_USE', message, { owner: { ...owner }, store: { ...store }, marker });
}
