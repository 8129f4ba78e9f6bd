/** A job as a store is given it, hands it out, and is asked for it. columns.ts says of each field what stores make of it. */
import type { DeduplicationStrategy, State } from './job.js';

/** When a job is due: after a delay by the store's clock, or at an instant. */
export type When = { readonly inMs: number } | { readonly at: number };

/** The claim under which something is written. */
export interface Under {
  readonly epoch: number;
  readonly owner: string;
}

/** The claim must hold this job. */
export interface UnderJob extends Under {
  readonly id: string;
}

/** A validated job on its way in. Texts marked JSON are opaque to the store. */
export interface NewJob {
  readonly id: string;
  /**
   * The caller chose the id, so a second insert of it is compared. An id that the library made stands for one job: while
   * its row or tombstone exists, a second insert answers `existing`, whether it was sent again or only arrives late.
   */
  readonly idGiven: boolean;
  /** Of a given id: what another insert of it is compared by (`printIn` of core/print.ts, where it is null). */
  readonly print: string | null;
  readonly type: string;
  readonly queue: string;
  readonly priority: number;
  readonly when: When;
  readonly ttlMs: number | null;
  readonly maxAttempts: number;
  readonly subject: string | null;
  readonly key: string | null;
  readonly exclusiveKey: string | null;
  readonly deduplication: DeduplicationStrategy;
  readonly source: string | null;
  /** JSON, or null for {}. */
  readonly metadata: string | null;
  /** JSON of a StoredPolicy. */
  readonly policy: string;
  /** JSON. */
  readonly input: string;
  /**
   * The job that owns this one, live or finished: it is not removed before. It must be stored before this call, else the
   * insert is refused (JOB_NOT_FOUND). Null for ordinary jobs.
   */
  readonly ownedBy: string | null;
  /** That job must be held by this living claim, else the insert is refused (STALE_CLAIM). Of an owned job it is the owner. */
  readonly under: UnderJob | null;
}

/** A job as a store hands it out: instants in milliseconds, JSON as text. */
export interface StoredJob {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly state: State;
  readonly priority: number;
  readonly input: string;
  readonly result: string | null;
  readonly error: string | null;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly stalls: number;
  readonly subject: string | null;
  readonly key: string | null;
  readonly exclusiveKey: string | null;
  readonly source: string | null;
  readonly metadata: string | null;
  readonly policy: string;
  readonly progress: string | null;
  /** What its last run left for the next one: JSON, or null. */
  readonly memo: string | null;
  readonly retryOf: string | null;
  /** The id of the job that owns it. */
  readonly ownedBy: string | null;
  readonly cancelAt: number | null;
  readonly cancelReason: string | null;
  /** Not removed before this instant; null: not held. `farAway` is for ever. */
  readonly heldUntil: number | null;
  readonly heldReason: string | null;
  readonly createdAt: number;
  readonly scheduledFor: number;
  readonly startedAt: number | null;
  readonly completedAt: number | null;
  readonly expiresAt: number | null;
  /** Due to run or due back; of a finished job null (its retention is the cleanup policy's business). */
  readonly dueAt: number | null;
  readonly epoch: number;
}

/** Which jobs: all fields must hold. Lists mean "one of". */
export interface JobFilter {
  readonly ids: readonly string[] | null;
  readonly states: readonly State[] | null;
  readonly types: readonly string[] | null;
  readonly queues: readonly string[] | null;
  readonly subject: string | null;
  readonly key: string | null;
  readonly source: string | null;
  /** The id of the owner. */
  readonly ownedBy: string | null;
  /** createdAt, exclusive. */
  readonly before: number | null;
  readonly after: number | null;
  /** False leaves out the library's own jobs: those of queue `lastout`. */
  readonly system: boolean;
}

/** Every job. */
export const noFilter: JobFilter = {
  ids: null,
  states: null,
  types: null,
  queues: null,
  subject: null,
  key: null,
  source: null,
  ownedBy: null,
  before: null,
  after: null,
  system: true,
};
