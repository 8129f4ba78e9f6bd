/**
 * What jobs own outside their rows: each thing has a record, a job of queue `lastout` that names its owner and is inserted
 * before the thing exists. These are the interfaces through which the makers of things, the workers whose handlers ask for
 * them, and the cleanup that ends them meet.
 */
import type { Artifact, ArtifactBody, ArtifactOptions } from './artifact.js';
import type { Context } from './definition.js';
import type { Duration } from './duration.js';
import type { LastoutError } from './errors.js';
import type { Enqueued, JobOptions } from './job.js';
import { systemQueue } from './names.js';
import type { Lease, Resource } from './resource.js';
import type { UnderJob } from './store.js';
import type { StoredJob } from './stored-job.js';

/** Whose handler asks: a job under a living claim. */
export interface Asker {
  readonly id: string;
  readonly epoch: number;
  /** Of the claim. */
  readonly owner: string;
  readonly signal: AbortSignal;
  /** Of the job. */
  readonly subject: string | null;
  /** For how long each heartbeat extends the claim. */
  readonly leaseMs: number;
  /** Ends the handler's work: its signal aborts with this reason. */
  abort(reason: LastoutError): void;
}

/** What one attempt makes and leaves. */
export interface Belongings {
  put(name: string, body: ArtifactBody, options?: ArtifactOptions): Promise<Artifact>;
  tempDir(): Promise<string>;
  /** The handler has ended: what was only for the time of its run goes. Never rejects. */
  end(): Promise<void>;
}

/** What a handler reaches of the queue that it works for. */
export interface Reach {
  readonly queue: Context<never>['queue'];
  enqueue(under: UnderJob, type: unknown, input: unknown, options?: JobOptions): Promise<Enqueued>;
}

export type BelongingsOf = (asker: Asker) => Belongings;

/** The leases that one attempt takes: they last as long as its claim. */
export interface BoundLeases {
  take<S, I>(resource: Resource<S, I>, spec: S, options?: { ttl?: Duration }): Promise<Lease<I>>;
  /** The claim was extended, and so are they. Never rejects. */
  beat(): Promise<void>;
  /** The attempt has ended, in whatever way. Never rejects. */
  end(): Promise<void>;
}

export type BoundLeasesOf = (asker: Asker) => BoundLeases;

/** How things end. */
export interface Finalizer {
  /** Whether it can end what stands behind records of this type. */
  knows(type: string): boolean;
  /** Ends the thing behind a record. One that is gone already is fine; rejects where it is still there. */
  end(record: StoredJob): Promise<void>;
  /** It is on another machine, which is waited for: here it cannot be ended. */
  isElsewhere(record: StoredJob): boolean;
  /** A thing that is due may still be in use by the attempt that made it. */
  isInUse(record: StoredJob, owner: StoredJob | undefined): boolean;
  /** How large the thing behind a record is, as far as the record tells; else 0. */
  sizeOf(record: StoredJob): number;
  /** Things that are older than this and may have lost their record. */
  list(olderThanMs: number): AsyncIterable<Listed>;
}

export interface Listed {
  readonly id: string;
  /** 0 where that is not known. */
  readonly bytes: number;
  end(): Promise<void>;
}

/** Frees jobs of what they own, so that they can be removed: first the thing goes, then its record. */
export interface Freeing {
  /** Jobs, by id. */
  free(owners: readonly string[]): Promise<Freed>;
  /** Records of things. */
  endThings(records: readonly StoredJob[]): Promise<Freed>;
}

/** Ids of what was asked for. A store that does not answer rejects the whole call instead. */
export interface Freed {
  readonly freed: readonly string[];
  /** Somebody holds it, or its owner: nothing of it was touched. */
  readonly held: readonly string[];
  /** Why its things could not be ended. */
  readonly failed: ReadonlyMap<string, LastoutError>;
  /** How many things ended. */
  readonly things: number;
}

/** Its thing is about to go, or has gone. */
export function isGoing({ ownedBy, queue, state, cancelAt }: StoredJob): boolean {
  return ownedBy !== null && queue === systemQueue && state === 'pending' && cancelAt !== null;
}

/** A hold that is over no longer counts, whether or not the store has lifted it; what is only set aside has no reason. */
export function isHeld({ heldUntil, heldReason }: StoredJob, now: number): boolean {
  return heldUntil !== null && heldReason !== null && heldUntil > now;
}
