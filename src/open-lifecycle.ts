/** Wires what ends things: artifacts, the freeing of jobs, the sweeper; and what tells about it. */
import { artifactsOn, belongingsOn, finalizerOf, type Place } from './artifacts/index.js';
import { fileBlobs } from './artifacts/files.js';
import { madeFolder } from './artifacts/folder.js';
import { memoryBlobs } from './artifacts/memory.js';
import { defaultLimits } from './artifacts/quota.js';
import { tempFolders } from './artifacts/temp.js';
import type { Artifacts } from './core/artifact.js';
import type { BlobStore } from './core/blobs.js';
import type { Logger } from './core/job.js';
import { isLease, isLeaseType } from './core/lease-record.js';
import type { Meters } from './core/meters.js';
import type { BelongingsOf, Finalizer, Freeing } from './core/owned.js';
import type { CleanupPolicy } from './core/policy.js';
import type { Store, StoredJob } from './core/store.js';
import type { AskSubject, Certificate, SubjectRule, SubjectSweep } from './core/subject.js';
import type { System } from './core/system.js';
import { endSubjectOn, type EndSubjectOptions } from './lifecycle/end-subject.js';
import { freeingOn } from './lifecycle/freeing.js';
import { createOrphanSweeper } from './lifecycle/orphan-sweeper.js';
import { presencesOn } from './lifecycle/presence.js';
import { createSweeper, type Sweeper } from './lifecycle/sweeper.js';
import { thingsOn } from './lifecycle/things.js';
import type { ArtifactSettings } from './open-options.js';

export interface Lifecycle {
  readonly artifacts: Artifacts;
  readonly belongingsOf: BelongingsOf;
  readonly freeing: Freeing;
  readonly finalizer: Finalizer;
  readonly sweeper: Sweeper;
  readonly endSubject: (subject: string, reason: string, options?: EndSubjectOptions) => Promise<Certificate>;
  readonly liftSubject: (subject: string) => Promise<boolean>;
  readonly defineSubject: (kind: string, rule: SubjectRule) => void;
  readonly sweepSubjects: (kind: string) => Promise<SubjectSweep | null>;
  readonly askSubject: AskSubject;
  /** Confirmed orphans that are still there. */
  readonly orphansLeft: () => Promise<number>;
  /** Kinds of subjects whose last sweep for orphans failed. */
  readonly failingSweeps: ReadonlySet<string>;
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
  readonly meters: Meters;
  readonly leases: LeaseEnds;
}

export function lifecycleOn(parts: Parts, alsoTend: () => Promise<void>): Lifecycle {
  const { store, system, logger, place, leases, meters } = parts;
  const finalizer = withLeases(finalizerOf(place, system), leases);
  const freeing = freeingOn(store, system, finalizer);
  const things = thingsOn({ ...parts, finalizer, freeing });
  const presences = presencesOn(system, logger);
  const orphans = createOrphanSweeper({ store, system, logger, meters, presences }, () => sweeper.noteSoon());
  const sweeper = createSweeper({ ...parts, things, orphans, by: system.id() }, async () => {
    await orphans.tend();
    await alsoTend();
  });
  return {
    artifacts: artifactsOn(parts, freeing),
    belongingsOf: belongingsOn(parts, freeing),
    freeing,
    finalizer,
    sweeper,
    ...endSubjectOn(store, freeing),
    defineSubject: (kind, rule) => orphans.add(presences.define(kind, rule)),
    sweepSubjects: (kind) => orphans.sweepNow(kind),
    askSubject: presences.ask,
    orphansLeft: () => orphans.left(),
    failingSweeps: orphans.failing,
    async close() {
      await orphans.stop();
      await place?.temp.close();
    },
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

/** With the folder that must be taken for the store (`takeFolder`) before anything is put there. */
export async function openPlace(
  settings: ArtifactSettings | null,
  where: unknown,
  system: System,
  namespace: string,
): Promise<(Place & { readonly folder: string | null }) | null> {
  if (!settings) return null;
  const { maxBytes, maxBytesPerJob } = settings;
  const limits = settings.in === 'memory' ? defaultLimits.memory : defaultLimits.files;
  const dir = settings.in !== 'memory' && 'dir' in settings.in ? await madeFolder(settings.in.dir, namespace) : null;
  return {
    folder: dir,
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
