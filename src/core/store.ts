/**
 * The contract of a store, in three parts: `Store` changes jobs, one verb per transition; `Inspection` reads, one name
 * per question; `Maintenance` says who cleans up. Each call is atomic, bounded, and one round trip on a networked
 * engine. Durations go in, instants come out: the store's clock alone decides what is due. `lastout/testing` certifies a
 * store with cases named `verb: rule`.
 */
import type { Ending } from './ending.js';
import type { Code, LastoutError } from './errors.js';
import type { StalledJob } from './failures.js';
import type { SqlClient } from './job.js';
import type { Json } from './json.js';
import type { QueueLimits } from './limits.js';
import type { Inspection } from './inspection.js';
import type { Card } from './logs.js';
import type { Moved, MoveRequest } from './move.js';
import type { CleanupPolicy } from './policy.js';
import type { NewJob, StoredJob } from './stored-job.js';
import type { StandingFence, SubjectFence } from './subject.js';
import type { System } from './system.js';

export type * from './inspection.js';
export type * from './logs.js';
export type * from './move.js';
export type * from './stored-job.js';
export { noFilter } from './stored-job.js';

/** A store of somebody else has a name of its own. */
export type Engine = 'memory' | 'sqlite' | 'postgres' | 'redis' | (string & {});
export type Durability = 'process' | 'fsync' | 'everysec' | 'os' | 'replicated';

/** The last instant there is: never. */
export const farAway = 8_640_000_000_000_000;

export interface InsertOptions {
  readonly atomic: boolean;
  /**
   * An open transaction of the caller on this store's database; anything else is refused (INVALID_TRANSACTION). What is
   * decided holds until its end: no job that was matched can be claimed before. An engine whose handle is synchronous has
   * written when the call returns its promise. A refusal leaves nothing of ours in it, and the transaction alive.
   */
  readonly tx?: SqlClient;
}

export type Inserted =
  | { readonly id: string; readonly outcome: 'created' | 'skipped' | 'coalesced' | 'existing' }
  | { readonly id: string; readonly outcome: 'replaced'; readonly replaced: string }
  | {
      readonly id: string;
      readonly outcome: 'refused';
      readonly code: Code;
      readonly message: string;
      readonly details?: { readonly [name: string]: Json };
    };

export interface ClaimRequest {
  /** Random per worker start. */
  readonly owner: string;
  readonly types: readonly string[];
  /** Null: every queue. */
  readonly queues: readonly string[] | null;
  /** Jobs that start at once. */
  readonly slots: number;
  /** Jobs claimed beyond the slots, to be started soon; they are not charged if the worker dies first. */
  readonly ahead: number;
  readonly leaseMs: number;
  readonly maxStalls: number;
}

export interface Claimed {
  readonly epoch: number;
  /** The store's instant of the claim. */
  readonly at: number;
  /** In the strict order priority, dueAt, insertion; those after the slots were claimed ahead. */
  readonly jobs: readonly StoredJob[];
  /** Until the next delayed job becomes due, or the rate of a queue lets jobs start again; null: neither is waited for. */
  readonly nextDueInMs: number | null;
  /** More work was ready than was asked for; what a limit holds back does not count. */
  readonly more: boolean;
}

export interface ExtendRequest {
  readonly owner: string;
  readonly leaseMs: number;
  readonly claims: readonly {
    readonly epoch: number;
    readonly ids: readonly string[];
    /** Of those claimed ahead, the ones whose handler has begun since. */
    readonly started: readonly string[];
  }[];
  /**
   * What this worker takes, kept until `leaseMs` from now. Null leaves a card as it is; null and no claims: the worker
   * has stopped, and its card goes.
   */
  readonly card: Card | null;
}

export interface Extended {
  /** No longer held by this claim: their handlers must stop. */
  readonly lost: readonly string[];
  readonly cancelled: readonly { readonly id: string; readonly reason: string }[];
}

export interface Settlement {
  readonly id: string;
  readonly epoch: number;
  readonly ending: Ending;
  /** JSON that the job keeps from here on, for its next run. Who leaves one came through: its stalls count from 0 again. */
  readonly memo?: string;
  /**
   * Jobs inserted in the same step: only where this settlement is the one that ends the claim, never where it is stale
   * or a repetition. They pass the ordinary insert; a job that it refuses is left out, and no limit of a queue does.
   */
  readonly then?: readonly NewJob[];
}

/**
 * `ok` also answers the same ending sent a second time by the same claim. `UNSERIALIZABLE` comes from a codec before the
 * store that cannot encode what a settlement carries: it was left out, and its claim goes on.
 */
export type SettleAnswer = 'ok' | 'STALE_CLAIM' | 'ALREADY_SETTLED' | 'UNSERIALIZABLE';

export interface SettleRequest {
  readonly owner: string;
  readonly settlements: readonly Settlement[];
  /** Claimed ahead and begun since the last call. */
  readonly started: readonly { readonly id: string; readonly epoch: number }[];
  /** The next claim, in the same step. */
  readonly next: ClaimRequest | null;
}

export interface Settled {
  readonly answers: readonly SettleAnswer[];
  readonly claimed: Claimed | null;
}

export interface SweepRequest {
  /** Most rows touched by each part. */
  readonly limit: number;
  /** Null: tending only (lapsed claims, ttl, due jobs, holds that are over, fenced subjects). */
  readonly cleanup: CleanupPolicy | null;
}

export interface CleanupRequest extends SweepRequest {
  readonly cleanup: CleanupPolicy;
}

export interface Swept {
  readonly examined: number;
  /** Claims that lapsed, jobs that passed their ttl. */
  readonly lapsed: number;
  readonly expired: number;
  /** Pending jobs of fenced subjects that were cancelled. */
  readonly fenced: number;
  readonly removedBy: { readonly age: number; readonly count: number; readonly cap: number };
  /**
   * Finished jobs that the rules remove now, but that own live jobs: they stay until these are gone. At most `limit` per part.
   * What goes by count waits for an older one of them, for whose rank it counts.
   */
  readonly owing: readonly string[];
  /** Owned pending jobs of queue `lastout` that are due and not held, oldest first, at most `limit`. */
  readonly dueThings: readonly string[];
  /** A part reached its limit, or had to wait for one that did: sweep again. */
  readonly more: boolean;
}

/** Who cleans up, and for how long from now. */
export interface Term {
  readonly holder: string;
  readonly ttlMs: number;
}

export interface SweptInTerm extends Swept {
  /** The number of the term; null: another holder's is alive, and nothing was cleaned up. */
  readonly term: number | null;
}

/** Written under a claim: a stale one changes nothing. */
export interface Note {
  readonly id: string;
  readonly epoch: number;
  /** JSON of a Progress. */
  readonly progress: string | null;
  readonly lines: readonly { readonly message: string; readonly fields: string | null }[];
}

/** A hint that something happened; polling alone must do. */
export type Hint =
  /** '*' stands for every type. */
  | { readonly kind: 'ready'; readonly types: ReadonlySet<string> }
  | { readonly kind: 'later'; readonly inMs: number }
  | { readonly kind: 'cancel' }
  /** A queue was paused: what is claimed and not begun goes back. */
  | { readonly kind: 'pause' }
  | { readonly kind: 'events' }
  | { readonly kind: 'cap' };

/** What a caller may need to know of a store. */
export interface Traits {
  /** Its jobs end with the process: what opens it again is another store. */
  readonly isVolatile: boolean;
  /** How many batches of inserts one process has under way at once: more than one where client and server work side by side. */
  readonly insertsAbreast: number;
  /** The smallest part of a cleanup that is worth a call: less where every claim waits behind it. */
  readonly leastSweep: number;
}

/** Who cleans up: one holder at a time has the term. */
export interface Maintenance {
  /**
   * A sweep under the holder's term, which is taken or renewed in the same step. Each change of holder, and each term that is taken
   * anew after it lapsed or ended, has the next number. While another holder's term is alive, nothing is cleaned up.
   */
  sweepInTerm(term: Term, request: CleanupRequest): Promise<SweptInTerm>;
  /**
   * Appends an entry (JSON of a report) to the ledger and ends the holder's term, if it is the last one and has no entry yet.
   * Answers its number; null: nothing was written.
   */
  endTerm(holder: string, entry: string): Promise<number | null>;
}

export interface Store extends Inspection, Maintenance {
  readonly engine: Engine;
  readonly traits: Traits;
  readonly durability: Durability;
  /** Answers and refuses per job, or all or none with `atomic`. */
  insert(jobs: readonly NewJob[], options: InsertOptions): Promise<readonly Inserted[]>;
  claim(request: ClaimRequest): Promise<Claimed>;
  extend(request: ExtendRequest): Promise<Extended>;
  settle(request: SettleRequest): Promise<Settled>;
  note(owner: string, notes: readonly Note[]): Promise<readonly SettleAnswer[]>;
  sweep(request: SweepRequest): Promise<Swept>;
  move(request: MoveRequest): Promise<Moved>;
  /**
   * Null: every queue but the library's own; resuming every queue also lifts single pauses. A queue that is resumed while every
   * queue is paused runs by itself, until it or every queue is paused again.
   */
  pause(queue: string | null, paused: boolean): Promise<void>;
  /**
   * A fence on a subject: an insert of its jobs is refused (SUBJECT_ENDED), a claim and the sweep cancel what is pending. A second
   * one gives its reason from then on, and never ends before the first. Answers the fence that stands. The library's own jobs
   * are refused like others, and never cancelled.
   */
  fence(subject: string, fence: SubjectFence): Promise<StandingFence>;
  /** Answers the fence that was lifted; null: there was none. */
  unfence(subject: string): Promise<StandingFence | null>;
  /**
   * `here`: for who has a rhythm besides. He hears what this process does, and of others what is heard anyway: for him alone no
   * connection listens, on which a process that only enqueues would hear nothing but its own echo.
   */
  subscribe(listener: (hint: Hint) => void, from?: 'here'): () => void;
  close(): Promise<void>;
}

export interface StoreContext {
  readonly system: System;
  readonly namespace: string;
  /** Above it, an insert or an ending hints `cap`. */
  readonly maxStoredJobs: number;
  /** Kept for every process: these queues get exactly these limits, the others stay as they are. */
  readonly limits?: ReadonlyMap<string, QueueLimits>;
  /** The store gets another identity, from here on, for every process. Without it, it keeps what it has; a new one gets one. */
  readonly identity?: 'new';
  /** Only to a store that `takesReplicas`: so many replicas must have what is acknowledged. */
  readonly replicas?: number;
  /** Called after a step of a call of this store, and of no other, has ended jobs as STALLED. */
  readonly stalled?: (jobs: readonly StalledJob[]) => void;
}

/** What `open` takes besides a URL. Several queues may share one. */
export interface StoreFactory {
  readonly engine: Engine;
  /** Known before it is opened: the defaults of `open` depend on it. */
  readonly isVolatile?: true;
  /** It knows the option `replicas`. */
  readonly takesReplicas?: true;
  open(context: StoreContext): Promise<Store>;
  /** Whether a store that could not be opened may be up soon. Without it, one that is STORE_UNAVAILABLE may. */
  mayComeUp?(failure: LastoutError): boolean;
}
