/** The bytes of an artifact on their way: whatever the handler gave, as chunks, counted and hashed. */
import { createHash } from 'node:crypto';
import type { ArtifactBody } from '../core/artifact.js';
import type { BlobInfo } from '../core/blobs.js';
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { harmless } from '../core/harmless.js';
import { isOf, reading } from '../core/reading.js';

export function chunksOf(body: ArtifactBody): AsyncIterable<Uint8Array> {
  if (typeof body === 'string') return single(new TextEncoder().encode(body.toWellFormed()));
  if (isOf(body, Uint8Array)) return single(body);
  const source = body as Partial<AsyncIterable<unknown>> | null;
  const isSource = (): boolean => typeof source === 'object' && typeof source?.[Symbol.asyncIterator] === 'function';
  if (reading('The body of the artifact', 'UNSERIALIZABLE', isSource)) return checked(source as AsyncIterable<unknown>);
  throw new LastoutError(
    'UNSERIALIZABLE',
    `The body of the artifact is ${show(body)}; give a Uint8Array, a text, or an async iterable of Uint8Array.`,
  );
}

async function* single(chunk: Uint8Array): AsyncIterable<Uint8Array> {
  yield chunk;
}

async function* checked(chunks: AsyncIterable<unknown>): AsyncIterable<Uint8Array> {
  for await (const chunk of chunks) {
    if (!(chunk instanceof Uint8Array))
      throw new LastoutError('UNSERIALIZABLE', `A chunk of the artifact is ${show(chunk)}; give Uint8Array.`);
    yield chunk;
  }
}

/** Ends with the signal, also while the source has nothing to say. */
export async function* chunksUntil(signal: AbortSignal, chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  const source = chunks[Symbol.asyncIterator]();
  let stop: () => void = () => undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
  });
  aborted.catch(() => undefined); // heard where it is raced
  let ended = false;
  try {
    for (;;) {
      const next = await Promise.race([aborted, source.next()]);
      if (next.done) {
        ended = true;
        return;
      }
      yield next.value;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    // Not awaited: a source that hangs would keep us.
    if (!ended)
      harmless(
        () => source.return?.(),
        () => undefined,
      );
  }
}

/** Counts and hashes what passes; `take` may refuse. */
export function metered(chunks: AsyncIterable<Uint8Array>, take: (bytes: number) => void) {
  const hash = createHash('sha256');
  let bytes = 0;
  async function* through(): AsyncIterable<Uint8Array> {
    for await (const chunk of chunks) {
      take(chunk.byteLength);
      bytes += chunk.byteLength;
      hash.update(chunk);
      yield chunk;
    }
  }
  return { chunks: through(), total: (): BlobInfo => ({ bytes, digest: hash.digest('hex') }) };
}

/** Passes the bytes on, and fails where they are not those that were put. */
export async function* verified(
  id: string,
  chunks: AsyncIterable<Uint8Array>,
  { bytes, digest }: BlobInfo,
): AsyncIterable<Uint8Array> {
  const hash = createHash('sha256');
  let seen = 0;
  for await (const chunk of chunks) {
    seen += chunk.byteLength;
    if (seen > bytes) throw corrupt(id, `it has more than its ${bytes} bytes`);
    hash.update(chunk);
    yield chunk;
  }
  if (seen !== bytes) throw corrupt(id, `${seen} of its ${bytes} bytes are left`);
  if (hash.digest('hex') !== digest) throw corrupt(id, 'its bytes are not those that were put');
}

export function corrupt(id: string, fault: string, cause?: unknown): LastoutError {
  return new LastoutError('ARTIFACT_CORRUPT', `Artifact ${id} cannot be trusted: ${fault}.`, { id }, cause);
}

export function quotaError(maxBytes: number): LastoutError {
  const message = `The artifact goes beyond the ${maxBytes} bytes that are left of the quota; nothing of it was kept.`;
  return new LastoutError('ARTIFACT_QUOTA', message, { maxBytes });
}
