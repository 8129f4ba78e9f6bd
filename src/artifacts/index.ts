/** Blobs with an owner: what handlers put, what callers read, and how it ends. */
import type { Artifact, Artifacts } from '../core/artifact.js';
import type { BlobStore, TempFolders } from '../core/blobs.js';
import { LastoutError } from '../core/errors.js';
import { notLate } from '../core/harmless.js';
import type { Logger } from '../core/job.js';
import { checkId } from '../core/names.js';
import type { Asker, Belongings, BelongingsOf, Finalizer, Freeing } from '../core/owned.js';
import { byIds, everyPage } from '../core/pages.js';
import { type JobFilter, noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { belongingsOf, ownedBy } from './belongings.js';
import { corrupt, verified } from './chunks.js';
import { type ArtifactLimits, quotaOf } from './quota.js';
import {
  artifactType,
  checkArtifactName,
  isElsewhere,
  isShortLink,
  placeOf,
  readArtifact,
  sizeOf,
  subjectOf,
  tempType,
} from './records.js';

/** Where the bytes are; null: `open` was given no place for them. */
export interface Place extends ArtifactLimits {
  readonly blobs: BlobStore;
  readonly temp: TempFolders;
}

export interface ArtifactParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly place: Place | null;
}

export function belongingsOn({ place, ...parts }: ArtifactParts, freeing: Freeing): BelongingsOf {
  if (!place) return () => nowhere;
  const quota = quotaOf(place.blobs, place);
  return (asker: Asker) => belongingsOf({ ...parts, ...place, quota, freeing }, asker);
}

const nowhere: Belongings = {
  put: () => Promise.reject(placeMissing()),
  tempDir: () => Promise.reject(placeMissing()),
  end: () => Promise.resolve(),
};

function placeMissing(): LastoutError {
  const message =
    'This queue was opened without a place for artifacts and temporary folders: open(…, { artifacts: { dir } }).';
  return new LastoutError('ARTIFACTS_MISSING', message);
}

export function finalizerOf(place: Place | null, system: System): Finalizer {
  const never = (): boolean => false;
  if (!place)
    return {
      knows: never,
      end: () => Promise.reject(placeMissing()),
      isElsewhere: never,
      isInUse: never,
      sizeOf: () => 0,
      list: none,
    };
  const { blobs, temp } = place;
  return {
    knows: (type) => type === artifactType || type === tempType,
    end: (record) =>
      record.type === tempType ? temp.delete(record.id, placeOf(record).within) : blobs.delete(record.id),
    isElsewhere: (record) => isElsewhere(record, temp, system.now()),
    isInUse: ({ type, key }, owner) =>
      type === tempType && owner?.state === 'processing' && String(owner.epoch) === key,
    sizeOf,
    async *list(olderThanMs) {
      for await (const { id, bytes } of notLate(blobs.list(olderThanMs)))
        yield { id, bytes, end: () => blobs.delete(id) };
      for await (const { id } of temp.list(olderThanMs))
        yield { id, bytes: 0, end: () => temp.delete(id, temp.within) };
    },
  };
}

async function* none(): AsyncIterable<never> {
  yield* [];
}

export function artifactsOn({ store, system, place }: ArtifactParts, freeing: Freeing): Artifacts {
  const find = async (filter: Partial<JobFilter>): Promise<StoredJob | undefined> => {
    const asked = { ...noFilter, types: [artifactType], states: ['pending' as const], ...filter };
    // Newest first; of one name there may be an unconfirmed one, and one that is about to go.
    for await (const record of everyPage(store, asked, 100))
      if (readArtifact(record, system.now()) !== null) return record;
    return undefined;
  };
  const view = (record: StoredJob | undefined): Artifact | null => (record ? readArtifact(record, system.now()) : null);

  return {
    async get(jobId, name) {
      return view(await find({ ownedBy: checkId(jobId), key: checkArtifactName(name) }));
    },
    async list(jobId) {
      const byName = new Map<string, Artifact>();
      for await (const record of ownedBy(store, checkId(jobId), artifactType)) {
        const artifact = view(record);
        if (artifact && !byName.has(artifact.name)) byName.set(artifact.name, artifact);
      }
      return [...byName.values()].reverse();
    },
    async byLink(shortLink) {
      return isShortLink(shortLink) ? view(await find({ subject: subjectOf(shortLink) })) : null;
    },
    async read(id) {
      const artifact = view(await find({ ids: [checkId(id, 'The id of the artifact')] }));
      if (!artifact) throw new LastoutError('JOB_NOT_FOUND', `There is no artifact ${id}, or it has expired.`);
      if (!place) throw placeMissing();
      return verified(id, told(id, notLate(place.blobs.read(id))), artifact);
    },
    async remove(id) {
      const records = await byIds(store, [checkId(id, 'The id of the artifact')]);
      const artifacts = records.filter(({ type }) => type === artifactType);
      if (artifacts.length === 0) return false;
      const { freed, failed } = await freeing.endThings(artifacts);
      for (const error of failed.values()) throw error;
      return freed.length > 0;
    },
  };
}

/** Bytes that are not there are as bad as wrong ones. */
async function* told(id: string, chunks: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
  try {
    yield* chunks;
  } catch (error) {
    throw corrupt(id, 'its bytes cannot be read', error);
  }
}
