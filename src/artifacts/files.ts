/**
 * Blobs as files. A file is named after the id that the library made, never after anything that a caller said: written
 * beside its place, synced, renamed into it, and the folder synced. What a crash leaves ends with `.part`.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readdir, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BlobInfo, BlobStore } from '../core/blobs.js';
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';
import { chunksUntil, quotaError } from './chunks.js';
import { isMissing, told } from './file-errors.js';
import { isUnlinked, makeBelow } from './folder.js';

const fileName = /^([0-9a-z]{20})(\.part)?$/;
const levelName = /^[0-9a-z]$/;
const chunkBytes = 64 * 1024;
/** Other processes write here too: what they did is seen after so long. */
const countedForMs = 60_000;

const { O_CREAT, O_EXCL, O_WRONLY, O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK } = constants;

/** `folder`: by its real path (`madeFolder`). */
export async function fileBlobs(folder: string, system: System): Promise<BlobStore> {
  const root = join(folder, 'blobs');
  await told(`The folder ${folder}`, () => makeBelow(folder, root));
  return blobsIn(root, system);
}

function blobsIn(root: string, system: System): BlobStore {
  /** A clock that tests move waits for the disk. */
  const io = <T>(work: Promise<T>): Promise<T> => system.awaiting(work);
  let counted: { bytes: number; at: number } | null = null;
  let counting: Promise<number> | null = null;
  /** What came since the last count began: it may not have seen it. */
  let come = 0;
  const note = (bytes: number): void => {
    if (counted) counted.bytes += bytes;
    come += Math.max(0, bytes);
  };

  /** Two levels of 32 folders, by the last digits: the first ones are the same for all files of a time. */
  function pathOf(id: string): string {
    if (!fileName.test(id) || id.length !== 20) throw new LastoutError('INVALID_ID', `${id} is not the id of a blob.`);
    return join(root, id[19]!, id[18]!, id);
  }

  async function write(file: FileHandle, source: AsyncIterable<Uint8Array>, maxBytes: number): Promise<BlobInfo> {
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of source) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw quotaError(maxBytes);
      hash.update(chunk);
      for (let at = 0; at < chunk.byteLength; ) at += (await io(file.write(chunk, at))).bytesWritten;
    }
    const now = system.givenNow();
    if (now !== null) await io(file.utimes(now / 1_000, now / 1_000)); // by the clock that will ask for its age
    await io(file.sync());
    return { bytes, digest: hash.digest('hex') };
  }

  async function makeFolder(folder: string): Promise<void> {
    // A folder is only there for good when the one above it knows of it.
    await io(makeBelow(dirname(root), folder, (level) => sync(dirname(level))));
  }

  async function* files(): AsyncIterable<{ id: string; path: string }> {
    if (!(await io(isUnlinked(root)))) return;
    for (const one of await io(levelsIn(root)))
      for (const two of await io(levelsIn(join(root, one))))
        for (const name of await io(namesIn(join(root, one, two)))) {
          const id = fileName.exec(name)?.[1];
          if (id !== undefined) yield { id, path: join(root, one, two, name) };
        }
  }

  async function* withSizes(): AsyncIterable<{ id: string; bytes: number; at: number }> {
    for await (const { id, path } of files()) {
      const info = await io(lstat(path)).catch(ifMissing);
      if (info) yield { id, bytes: info.size, at: info.mtimeMs };
    }
  }

  async function count(at: number): Promise<number> {
    come = 0;
    let sum = 0;
    for await (const { bytes } of withSizes()) sum += bytes;
    counted = { bytes: sum + come, at };
    return counted.bytes;
  }

  async function remove(path: string): Promise<void> {
    if (!(await io(isUnlinked(dirname(path))))) return;
    const info = await io(lstat(path)).catch(ifMissing);
    if (!info) return;
    await io(unlink(path)).catch(ifMissing);
    note(-info.size);
  }

  return {
    put: (id, chunks, { maxBytes, signal }) =>
      told('The artifact', async () => {
        const path = pathOf(id);
        const part = `${path}.part`;
        await makeFolder(dirname(path));
        const file = await io(open(part, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600));
        try {
          const written = await write(file, chunksUntil(signal, chunks), maxBytes);
          await io(file.close());
          await io(rename(part, path));
          await io(sync(dirname(path)));
          note(written.bytes);
          return written;
        } catch (error) {
          await io(file.close()).catch(() => undefined);
          await io(unlink(part)).catch(() => undefined);
          throw error;
        }
      }),
    async *read(id) {
      const path = pathOf(id);
      await io(isUnlinked(dirname(path)));
      // Whoever opens a FIFO for reading would wait for a writer.
      const file = await io(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
      try {
        if (!(await io(file.stat())).isFile()) throw new Error('it is not a file');
        for (;;) {
          const { bytesRead, buffer } = await io(file.read(new Uint8Array(chunkBytes), 0, chunkBytes));
          if (bytesRead === 0) return;
          yield buffer.subarray(0, bytesRead);
        }
      } finally {
        await io(file.close());
      }
    },
    async delete(id) {
      const path = pathOf(id);
      await remove(`${path}.part`);
      await remove(path);
    },
    async *list(olderThanMs) {
      const before = system.now() - olderThanMs;
      for await (const { id, bytes, at } of withSizes()) if (at < before) yield { id, bytes };
    },
    async used() {
      const now = system.monotonic();
      if (counted && now - counted.at < countedForMs) return counted.bytes;
      counting ??= count(now).finally(() => {
        counting = null;
      });
      return counting;
    },
  };
}

async function sync(folder: string): Promise<void> {
  const handle = await open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The folders of a level: links are none. */
async function levelsIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(noneIfMissing);
  return entries.filter((entry) => entry.isDirectory() && levelName.test(entry.name)).map(({ name }) => name);
}

function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(noneIfMissing);
}

function noneIfMissing(error: unknown): [] {
  if (isMissing(error)) return [];
  throw error;
}

function ifMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}
