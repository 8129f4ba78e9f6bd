/** Folders for the scratch files of running jobs. */
import { lstat, mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { TempFolders } from '../core/blobs.js';
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';
import { isMissing, told } from './file-errors.js';

const folderName = /^[0-9a-z]{20}$/;

/** `dir`: shared by all processes that have it, and so are the folders in it. Null: a folder of this process alone. */
export function tempFolders(dir: string | null, system: System): TempFolders {
  const io = <T>(work: Promise<T>): Promise<T> => system.awaiting(work);
  let own: Promise<string> | null = null;
  const made = (): Promise<string> | null => (dir === null ? own : Promise.resolve(join(resolve(dir), 'temp')));
  const root = (): Promise<string> => made() ?? (own = mkdtemp(join(tmpdir(), 'lastout-')));
  const remove = (path: string): Promise<void> => io(rm(path, { recursive: true, force: true, maxRetries: 2 }));

  return {
    make: (id) =>
      told('The temporary folder', async () => {
        const path = join(await root(), checked(id));
        await io(mkdir(path, { recursive: true, mode: 0o700 }));
        return path;
      }),
    async delete(id) {
      const at = await made();
      if (at !== null) await remove(join(at, checked(id)));
    },
    async *list(olderThanMs) {
      const before = system.now() - olderThanMs;
      const at = await made();
      if (at === null) return;
      for (const id of await io(namesIn(at))) {
        if (!folderName.test(id)) continue;
        const info = await io(lstat(join(at, id))).catch(() => null);
        if (info && info.mtimeMs < before) yield { id };
      }
    },
    async close() {
      if (own !== null) await remove(await own);
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
