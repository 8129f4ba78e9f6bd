/**
 * The folder of one namespace: what it cannot find in its own store, it takes for lost, so it sees only its own files. The folder that
 * the user named may be a link; below it none is followed, or its files would be written and deleted elsewhere.
 */
import { createHash } from 'node:crypto';
import { lstat, mkdir, realpath } from 'node:fs/promises';
import { dirname, join, relative, resolve, sep } from 'node:path';
import { LastoutError } from '../core/errors.js';
import { errnoOf, isMissing, told } from './file-errors.js';

/** The same on every file system: no capitals, and no dot at the end. */
const plainName = /^[0-9a-z](?:[0-9a-z._-]*[0-9a-z_-])?$/;

export function folderOf(dir: string, namespace: string): string {
  if (plainName.test(namespace)) return join(dir, `ns-${namespace}`);
  return join(dir, `nsx-${createHash('sha256').update(namespace).digest('hex')}`);
}

/** Makes the folder if there is none, so that a wrong path shows when the queue is opened. Its real path. */
export function madeFolder(dir: string, namespace: string): Promise<string> {
  return told(`The folder ${dir}`, async () => {
    await mkdir(resolve(dir), { recursive: true, mode: 0o700 });
    const folder = folderOf(await realpath(dir), namespace);
    await makeBelow(dirname(folder), folder);
    return folder;
  });
}

/**
 * Makes `folder`, which is below `base`, one level after the other, or what lies behind a link would be written
 * to. `made` is told of each that was not there.
 */
export async function makeBelow(base: string, folder: string, made?: (level: string) => Promise<void>): Promise<void> {
  if (await isUnlinked(folder)) return;
  await mkdir(base, { recursive: true, mode: 0o700 });
  let level = base;
  for (const name of relative(base, folder).split(sep)) {
    level = join(level, name);
    if (await makeOne(level)) await made?.(level);
  }
  await isUnlinked(folder);
}

/** Makes one folder where there is none; whether it did. */
async function makeOne(folder: string): Promise<boolean> {
  const made = await mkdir(folder, { mode: 0o700 }).then(
    () => true,
    (error: unknown) => {
      if (errnoOf(error) !== 'EEXIST') throw error;
      return false;
    },
  );
  if (!made && !(await lstat(folder)).isDirectory()) throw notAFolder(folder);
  return made;
}

/**
 * Refuses a folder, given by its real path when it was made, that is reached by a link now. False: there is none. Asked right before
 * each use, because a link may be put in its place at any time.
 */
export async function isUnlinked(folder: string): Promise<boolean> {
  const real = await realpath(folder).catch((error: unknown) => {
    if (isMissing(error)) return null;
    throw error;
  });
  if (real !== null && real !== folder) throw notAFolder(folder);
  return real !== null;
}

function notAFolder(folder: string): LastoutError {
  const message = `${folder} is a link, is reached by one, or is no folder: links below the folder for artifacts are not followed. Remove it.`;
  return new LastoutError('STORE_DENIED', message);
}
