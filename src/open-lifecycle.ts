/** Wires what ends things: artifacts, the freeing of jobs, the sweeper; and what tells about it. */
import { artifactsOn, belongingsOn, finalizerOf, type Place } from './artifacts/index.js';
import { fileBlobs } from './artifacts/files.js';
import { folderOf } from './artifacts/folder.js';
import { memoryBlobs } from './artifacts/memory.js';
import { defaultLimits } from './artifacts/quota.js';
import { tempFolders } from './artifacts/temp.js';
import type { Artifacts } from './core/artifact.js';
import type { BlobStore } from './core/blobs.js';
import type { Logger } from './core/job.js';
import { isLease, isLeaseType } from './core/lease-record.js';
import type { BelongingsOf, Finalizer, Freeing } from './core/owned.js';
import type { CleanupPolicy } from './core/policy.js';
import type { Store, StoredJob } from './core/store.js';
import type { System } from './core/system.js';
import { freeingOn } from './lifecycle/freeing.js';
import { createSweeper, type Sweeper } from './lifecycle/sweeper.js';
import { thingsOn } from './lifecycle/things.js';
import type { ArtifactSettings } from './open-options.js';

export interface Lifecycle {
  readonly artifacts: Artifacts;
  readonly belongingsOf: BelongingsOf;
  readonly freeing: Freeing;
  readonly finalizer: Finalizer;
  readonly sweeper: Sweeper;
  /** After the sweeper has stopped. */
  close(): Promise<void>;
}

/** How leases end for the sake of their owners. */
export interface LeaseEnds {
  /** Whether this process can end leases of this type. */
  knows(type: string): boolean;
  /** Rejects where it has not ended. */
  end(record: StoredJob): Promise<void>;
}

interface Parts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly cleanup: CleanupPolicy;
  readonly place: Place | null;
  readonly leases: LeaseEnds;
}

export function lifecycleOn(parts: Parts, alsoTend: () => Promise<void>): Lifecycle {
  const { store, system, place, leases } = parts;
  const finalizer = withLeases(finalizerOf(place, system), leases);
  const freeing = freeingOn(store, system, finalizer);
  const things = thingsOn({ ...parts, finalizer, freeing });
  return {
    artifacts: artifactsOn(parts, freeing),
    belongingsOf: belongingsOn(parts, freeing),
    freeing,
    finalizer,
    sweeper: createSweeper({ ...parts, things, by: system.id() }, alsoTend),
    close: async () => place?.temp.close(),
  };
}

function withLeases(things: Finalizer, leases: LeaseEnds): Finalizer {
  return {
    ...things,
    knows: (type) => (isLeaseType(type) ? leases.knows(type) : things.knows(type)),
    end: (record) => (isLease(record) ? leases.end(record) : things.end(record)),
    // Those that are due have workers of their own.
    isInUse: (record, owner) => isLease(record) || things.isInUse(record, owner),
  };
}

/** Queues that share a store in memory share its artifacts too. */
const sharedBlobs = new WeakMap<object, BlobStore>();

export async function openPlace(
  settings: ArtifactSettings | null,
  where: unknown,
  system: System,
  namespace: string,
): Promise<Place | null> {
  if (!settings) return null;
  const { maxBytes, maxBytesPerJob } = settings;
  const limits = settings.in === 'memory' ? defaultLimits.memory : defaultLimits.files;
  const dir = settings.in !== 'memory' && 'dir' in settings.in ? folderOf(settings.in.dir, namespace) : null;
  return {
    blobs: dir === null ? blobsOf(settings.in, where, system) : await fileBlobs(dir, system),
    temp: tempFolders(dir, system),
    maxBytes: maxBytes ?? limits.maxBytes,
    maxBytesPerJob: maxBytesPerJob ?? Math.min(limits.maxBytesPerJob, maxBytes ?? limits.maxBytes),
  };
}

function blobsOf(place: ArtifactSettings['in'], where: unknown, system: System): BlobStore {
  if (place !== 'memory' && 'blobs' in place) return place.blobs;
  const shared = typeof where === 'object' && where !== null ? sharedBlobs.get(where) : undefined;
  const blobs = shared ?? memoryBlobs(system);
  if (typeof where === 'object' && where !== null) sharedBlobs.set(where, blobs);
  return blobs;
}
