/**
 * The contract of a store: eleven verbs, one per transition. Each takes and returns a batch, is atomic, is bounded,
 * and costs one round trip on a networked engine. Durations go in, instants come out: the store's clock alone decides
 * what is due. `lastout/testing` certifies a store with cases named `verb: rule`.
 */
import type { Ending } from './ending.js';
import type { Code, LastoutError } from './errors.js';
import type { StalledJob } from './failures.js';
import type { SqlClient, State } from './job.js';
import type { Json } from './json.js';
import type { QueueLimits } from './limits.js';
import type {
  AuditPage,
  Card,
  DueLane,
  EventPage,
  HeldClaim,
  LedgerPage,
  LogLine,
  OverduePage,
  PlanPage,
  ReadRequest,
  Why,
  WorkerCard,
} from './logs.js';
import type { Moved, MoveRequest } from './move.js';
import type { CleanupPolicy } from './policy.js';
import type { JobFilter, NewJob, StoredJob } from './stored-job.js';
import type { StandingFence, SubjectFence } from './subject.js';
import type { System } from './system.js';

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
  /**
   * Who cleans up, for how long from now: one holder at a time has the term. Each change of holder, and each term that is
   * taken anew after it lapsed or ended, has the next number. Null: no term is asked for.
   */
  readonly term: { readonly holder: string; readonly ttlMs: number } | null;
  /**
   * JSON of a report. With `term`, nothing else is done than to append it to the ledger and to end the term: if the
   * holder's term is the last one, and has no entry yet. Else nothing is written, and `term` answers null.
   */
  readonly entry: string | null;
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
  /** The term under which this ran; null: none was asked for, or it was another's. */
  readonly term: number | null;
  /** Another holder's term is alive: nothing was cleaned up. */
  readonly busy: boolean;
  /** A part reached its limit, or had to wait for one that did: sweep again. */
  readonly more: boolean;
}

export interface FindRequest {
  readonly filter: JobFilter;
  readonly cursor: string | null;
  readonly limit: number;
}

export interface QueueTally {
  readonly queue: string;
  readonly pending: number;
  /** The part of `pending` that is not due yet. */
  readonly delayed: number;
  readonly processing: number;
  /** The part of `processing` whose claim has lapsed. */
  readonly stalled: number;
  readonly completed: number;
  readonly failed: number;
  /** The part of `failed` that a newer job has replaced. */
  readonly replaced: number;
  readonly cancelled: number;
  readonly expired: number;
  readonly paused: boolean;
  /** How long the oldest due job has waited, also behind an exclusive key; past its ttl it no longer counts. */
  readonly oldestDueAgeMs: number | null;
  /** Why none of its jobs starts now, whether or not one waits; the first reason that holds. */
  readonly blockedBy: 'paused' | 'concurrency' | 'rate' | null;
  /** When the rate lets jobs start again; null unless that is the reason. */
  readonly blockedUntil: number | null;
  /** As many jobs are pending as may be: an insert that would add one is refused. */
  readonly full: boolean;
}

export interface Tally {
  readonly queues: readonly QueueTally[];
  /** Every queue is paused, also one that has no jobs yet; false where one was resumed by its name. */
  readonly paused: boolean;
  /** Finished jobs that are past retention by more than one cleanup interval. */
  readonly overdue: number;
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

export interface Store {
  readonly engine: Engine;
  readonly durability: Durability;
  /** Answers and refuses per job, or all or none with `atomic`. */
  insert(jobs: readonly NewJob[], options: InsertOptions): Promise<readonly Inserted[]>;
  claim(request: ClaimRequest): Promise<Claimed>;
  extend(request: ExtendRequest): Promise<Extended>;
  settle(request: SettleRequest): Promise<Settled>;
  sweep(request: SweepRequest): Promise<Swept>;
  move(request: MoveRequest): Promise<Moved>;
  /**
   * Null: every queue but the library's own; resuming every queue also lifts single pauses. A queue that is resumed while every
   * queue is paused runs by itself, until it or every queue is paused again.
   */
  pause(queue: string | null, paused: boolean): Promise<void>;
  /**
   * A fence on a subject: an insert of its jobs is refused (SUBJECT_ENDED), a claim and the sweep cancel what is pending. A second
   * one takes the reason of the first and never ends before it. Null lifts it. Answers the fence that stands, or that was
   * lifted; null: there is none. The library's own jobs are refused like others, and never cancelled.
   */
  pause(subject: { readonly subject: string }, fence: SubjectFence | null): Promise<StandingFence | null>;
  find(request: FindRequest): Promise<{ readonly jobs: readonly StoredJob[]; readonly next: string | null }>;
  tally(cleanup: CleanupPolicy): Promise<Tally>;
  read(request: ReadRequest & { log: 'events' }): Promise<EventPage>;
  read(request: ReadRequest & { log: 'job' }): Promise<readonly LogLine[]>;
  read(request: ReadRequest & { log: 'claims' }): Promise<readonly HeldClaim[]>;
  read(request: ReadRequest & { log: 'due' }): Promise<number>;
  read(request: ReadRequest & { log: 'lanes' }): Promise<readonly DueLane[]>;
  read(request: ReadRequest & { log: 'why' }): Promise<Why | null>;
  read(request: ReadRequest & { log: 'plan' }): Promise<PlanPage>;
  read(request: ReadRequest & { log: 'ledger' }): Promise<LedgerPage>;
  read(request: ReadRequest & { log: 'audit' }): Promise<AuditPage>;
  read(request: ReadRequest & { log: 'workers' }): Promise<readonly WorkerCard[]>;
  read(request: ReadRequest & { log: 'identity' }): Promise<string>;
  read(request: ReadRequest & { log: 'overdue' }): Promise<OverduePage>;
  note(owner: string, notes: readonly Note[]): Promise<readonly SettleAnswer[]>;
  /**
   * `here`: for who has a rhythm besides. He hears what this process does, and of others what is heard anyway: for him alone no
   * connection listens, on which a process that only enqueues would hear nothing but its own echo.
   */
  subscribe(listener: (hint: Hint) => void, from?: 'here'): () => void;
  /** Throws when the store cannot be reached. */
  check(): Promise<readonly StoreWarning[]>;
  close(): Promise<void>;
}

/** What only the store can know. */
export interface StoreWarning {
  readonly code: string;
  readonly message: string;
  /** It refuses to be written, and says so by itself: no write that is under way will be done after all. */
  readonly blocks?: true;
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
  /** Only to a store of engine `redis`: so many replicas must have what is acknowledged. */
  readonly replicas?: number;
  /** Called after a step of a call of this store, and of no other, has ended jobs as STALLED. */
  readonly stalled?: (jobs: readonly StalledJob[]) => void;
}

/** What `open` takes besides a URL. Several queues may share one. */
export interface StoreFactory {
  readonly engine: Engine;
  open(context: StoreContext): Promise<Store>;
  /** Whether a store that could not be opened may be up soon. Without it, one that is STORE_UNAVAILABLE may. */
  mayComeUp?(failure: LastoutError): boolean;
}
