/**
 * Blobs as files. A file is named after the id that the library made, never after anything that a caller said: written
 * beside its place, synced, renamed into it, and the folder synced. What a crash leaves ends with `.part`.
 */
import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir, realpath, rename, unlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { BlobInfo, BlobStore } from '../core/blobs.js';
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';
import { chunksUntil, quotaError } from './chunks.js';
import { isMissing, told } from './file-errors.js';

const fileName = /^([0-9a-z]{20})(\.part)?$/;
const levelName = /^[0-9a-z]$/;
const chunkBytes = 64 * 1024;
/** Other processes write here too: what they did is seen after so long. */
const countedForMs = 60_000;

const { O_CREAT, O_EXCL, O_WRONLY, O_RDONLY, O_NOFOLLOW } = constants;

/** Makes the folder if there is none, so that a wrong path shows when the queue is opened. */
export async function fileBlobs(dir: string, system: System): Promise<BlobStore> {
  const blobs = join(dir, 'blobs');
  await told(`The folder ${dir}`, () => mkdir(blobs, { recursive: true, mode: 0o700 }));
  return blobsIn(await realpath(blobs), system);
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
    const made = await io(mkdir(folder, { recursive: true, mode: 0o700 }));
    // A folder is only there for good when the one above it knows of it.
    if (made !== undefined) for (let at = folder; at !== root; at = dirname(at)) await io(sync(dirname(at)));
  }

  async function* files(): AsyncIterable<{ id: string; path: string }> {
    for (const one of await io(readdir(root)))
      for (const two of levelName.test(one) ? await io(namesIn(join(root, one))) : [])
        for (const name of levelName.test(two) ? await io(namesIn(join(root, one, two))) : []) {
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
      const file = await io(open(pathOf(id), O_RDONLY | O_NOFOLLOW));
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
  const handle = await open(folder, O_RDONLY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
}

function ifMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}
