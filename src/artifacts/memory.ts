/** Blobs in the memory of this process; they go with it. */
import { createHash } from 'node:crypto';
import type { BlobInfo, BlobStore } from '../core/blobs.js';
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';
import { chunksUntil, quotaError } from './chunks.js';

interface Blob extends BlobInfo {
  readonly chunks: readonly Uint8Array[];
  readonly at: number;
}

export function memoryBlobs(system: Pick<System, 'now'>): BlobStore {
  const blobs = new Map<string, Blob>();
  return {
    async put(id, chunks, { maxBytes, signal }) {
      const hash = createHash('sha256');
      const kept: Uint8Array[] = [];
      let bytes = 0;
      for await (const chunk of chunksUntil(signal, chunks)) {
        bytes += chunk.byteLength;
        if (bytes > maxBytes) throw quotaError(maxBytes);
        const copy = Uint8Array.from(chunk); // the caller may use its buffer again
        hash.update(copy);
        kept.push(copy);
      }
      const digest = hash.digest('hex');
      blobs.set(id, { chunks: kept, bytes, digest, at: system.now() });
      return { bytes, digest };
    },
    async *read(id) {
      const blob = blobs.get(id);
      if (!blob) throw new LastoutError('ARTIFACT_CORRUPT', `There are no bytes of artifact ${id} in this process.`);
      for (const chunk of blob.chunks) yield Uint8Array.from(chunk);
    },
    async delete(id) {
      blobs.delete(id);
    },
    async *list(olderThanMs) {
      const before = system.now() - olderThanMs;
      for (const [id, { bytes, at }] of blobs) if (at < before) yield { id, bytes };
    },
    async used() {
      let sum = 0;
      for (const { bytes } of blobs.values()) sum += bytes;
      return sum;
    },
  };
}
