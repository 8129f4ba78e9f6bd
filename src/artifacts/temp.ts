/** Folders for the scratch files of running jobs. */
import { lstat, mkdir, readdir, rm, rmdir } from 'node:fs/promises';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TempFolders } from '../core/blobs.js';
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';
import { isMissing, told } from './file-errors.js';
import { isUnlinked, makeBelow } from './folder.js';

const folderName = /^[0-9a-z]{20}$/;
const withinName = /^lastout-[0-9a-z]{16,20}$/;

/**
 * `dir`, by its real path (`madeFolder`): shared by all processes that have it, and so are the folders in it. Null: in a folder of this process alone, of
 * the system's folder for temporary files; what a dead process left there, others of this machine find by its name.
 */
export function tempFolders(dir: string | null, system: System): TempFolders {
  const io = <T>(work: Promise<T>): Promise<T> => system.awaiting(work);
  const base = tmpdir();
  const within = dir === null ? `lastout-${system.id()}` : null;
  const root = within === null ? join(dir!, 'temp') : join(base, within);
  const remove = (path: string): Promise<void> => io(rm(path, { recursive: true, force: true, maxRetries: 2 }));
  let own: Promise<unknown> | null = null;
  /** Not where somebody else has already made a folder of that name. */
  const makeOwn = (): Promise<unknown> =>
    (own ??= io(mkdir(root, { mode: 0o700 })).catch((error: unknown) => {
      own = null; // the next one tries again
      throw error;
    }));

  /** Not where somebody has put a link in its place. */
  const isOurs = async (): Promise<boolean> => within !== null || io(isUnlinked(root));

  async function removeOfOthers(id: string, place: string): Promise<void> {
    const path = join(base, place);
    const info = await io(lstat(path)).catch(() => null);
    if (!withinName.test(place) || !info?.isDirectory() || info.uid !== (process.getuid?.() ?? info.uid)) return;
    await remove(join(path, id));
    await io(rmdir(path)).catch(() => undefined); // the last one takes it away
  }

  return {
    within,
    host: `${hostname()} ${base}`,
    make: (id) =>
      told('The temporary folder', async () => {
        const path = join(root, checked(id));
        if (within === null) await io(makeBelow(dir!, path));
        else {
          await makeOwn();
          await io(mkdir(path, { recursive: true, mode: 0o700 }));
        }
        return path;
      }),
    async delete(id, place) {
      if (place !== null && place !== within) return removeOfOthers(checked(id), place);
      if (await isOurs()) await remove(join(root, checked(id)));
    },
    async *list(olderThanMs) {
      if (!(await isOurs())) return;
      const before = system.now() - olderThanMs;
      for (const id of await io(namesIn(root))) {
        if (!folderName.test(id)) continue;
        const info = await io(lstat(join(root, id))).catch(() => null);
        if (info && info.mtimeMs < before) yield { id };
      }
    },
    async close() {
      if (own !== null) await remove(root);
      own = null;
    },
  };
}

/** An id that the library made: never a path. */
function checked(id: string): string {
  if (folderName.test(id)) return id;
  throw new LastoutError('INVALID_ID', `${id} is not the id of a temporary folder.`);
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
}
