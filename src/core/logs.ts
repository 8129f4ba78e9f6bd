/** What is read besides jobs: the bounded logs, and what a store knows about itself. */
import type { EventName, JobError, State } from './job.js';
import type { CleanupPolicy } from './policy.js';
import type { StoredJob } from './stored-job.js';

/** One line of the event log. */
export interface EventRecord {
  readonly cursor: string;
  readonly at: number;
  readonly name: EventName;
  readonly id?: string;
  readonly type?: string;
  readonly queue?: string;
  readonly subject?: string;
  readonly attempt?: number;
  readonly error?: Omit<JobError, 'stack'>;
  /** JSON of a Progress. Events of version 0.1.0 have none. */
  readonly progress?: string;
}

export interface LogLine {
  readonly at: number;
  readonly message: string;
  /** JSON or null. */
  readonly fields: string | null;
}

export interface EventsRequest {
  readonly after: string | null;
  readonly limit: number;
}

export interface PageRequest {
  readonly cursor: string | null;
  readonly limit: number;
}

export interface DueRequest {
  readonly types: readonly string[];
  /** Null: every queue. */
  readonly queues: readonly string[] | null;
  readonly limit: number;
}

export interface PlanRequest extends PageRequest {
  readonly cleanup: CleanupPolicy;
  /** How many of the `owing` of the pages before stay all the same: the cap takes as many others instead. */
  readonly staying?: number;
  /** Only the rule that takes this job is looked for (`takenBy`). */
  readonly id?: string;
}

export interface OverdueRequest extends PageRequest {
  readonly types: readonly string[];
  /** Null: all of them, newest first. */
  readonly ids: readonly string[] | null;
}

export interface OverduePage {
  /** Why the answer may be out of date: the server is a replica, or lacks those that it waits for. Null: it is the primary. */
  readonly doubt: string | null;
  readonly jobs: readonly StoredJob[];
  readonly next: string | null;
}

export interface HeldClaim {
  readonly epoch: number;
  /** Not settled, not lost. */
  readonly ids: readonly string[];
}

export interface EventPage {
  readonly events: readonly EventRecord[];
  /** Where the next read goes on. */
  readonly cursor: string;
  /** The log no longer reaches back to the cursor: something was missed. */
  readonly reset: boolean;
}

/** Due jobs of one type in one queue. */
export interface DueLane {
  readonly type: string;
  readonly queue: string;
  /** The oldest, since it was due, by the store's clock. */
  readonly waitedMs: number;
}

/** What a worker takes. */
export interface Card {
  readonly name: string;
  readonly types: readonly string[];
  /** Null: every queue. */
  readonly queues: readonly string[] | null;
  /** 0: it does not run; it was here lately, and will be again. */
  readonly concurrency: number;
}

export interface WorkerCard {
  readonly owner: string;
  readonly card: Card;
  /** When it lapses unless the worker is heard of again. */
  readonly dueAt: number;
}

export type RetentionRule = 'age' | 'count' | 'cap';

/** Why a removed job went: by one of the three rules of retention, or by hand. */
export type RemovedWhy = RetentionRule | 'removed';

/** What a tombstone tells. */
export interface Gone {
  readonly at: number;
  readonly why: RemovedWhy;
  readonly type: string;
  readonly queue: string;
  /** At its removal. */
  readonly state: State;
  /** Of who removed it by hand. */
  readonly reason: string | null;
}

export interface Why {
  /** Null: removed, see `gone`. */
  readonly job: StoredJob | null;
  readonly gone: Gone | null;
  /** A pending job that is due counts as ready or behind only once it was promoted. Null: it is gone. */
  readonly place: 'ready' | 'later' | 'behind' | 'claimed' | 'finished' | null;
  /** Of a job that is behind: the id of the one that has the turn. */
  readonly turnOf: string | null;
  readonly claim: { readonly owner: string; readonly dueAt: number } | null;
  /** How many live jobs it owns. */
  readonly owns: number;
  /** Of its queue. */
  readonly paused: boolean;
  readonly blockedBy: 'concurrency' | 'rate' | null;
  readonly blockedUntil: number | null;
  /** Living cards that take its type and its queue, of workers that run. */
  readonly workers: number;
}

export interface PlanPart {
  readonly count: number;
  /** Length of the texts of input, result and error together, in UTF-16 units. */
  readonly bytes: number;
  /** The first ten ids of this page: of what goes in the order of removal, of what is held as `held` says. */
  readonly sample: readonly string[];
}

export interface PlannedOwner {
  readonly id: string;
  readonly rule: RetentionRule;
  readonly bytes: number;
}

/**
 * The sums of one page only. What owns something counts like any other; what is held is no candidate. A page that has `owing`
 * ones ends where their rule does, so that `staying` is known before the cap counts.
 */
export interface PlanPage {
  readonly age: PlanPart;
  readonly count: PlanPart;
  readonly cap: PlanPart;
  /**
   * Finished jobs that no rule looks at because they are held, by the end of their hold, then in the order of insertion. A
   * hold that is over at the plan’s instant holds nothing: a sweep lifts it before it cleans up.
   */
  readonly held: PlanPart;
  /** Of those that go, the ones that own live jobs: which rule takes them, and how long their texts are. */
  readonly owing: readonly PlannedOwner[];
  /** As in `Swept`, after everything else. */
  readonly dueThings: readonly string[];
  /** The rule that takes the job that was asked for. Null: none did so far. */
  readonly takenBy: RetentionRule | null;
  readonly next: string | null;
}

export interface LedgerPage {
  /** JSON, newest first. */
  readonly entries: readonly string[];
  readonly next: string | null;
}

/** A kind is `job`, or of a job of queue `lastout` its type. */
export interface AuditKind {
  /** Totals that only grow, written by the step that inserts or removes a row; on the first page only, else 0. */
  readonly created: number;
  readonly released: number;
  /** Rows of this page that are where they belong … */
  readonly live: number;
  /** … and those that stand nowhere (neither in a place, nor held by a living claim, nor finished), or are live and owned by a job that is not stored. */
  readonly attention: readonly string[];
}

/** At most `limit` rows; a page with a hundred that need attention ends there. */
export interface AuditPage {
  readonly kinds: { readonly [kind: string]: AuditKind };
  /** The rows of this page by queue and state, as `find` shows them: over all pages what the tally says. Replaced ones are failed, too. */
  readonly found: readonly { readonly queue: string; readonly state: State | 'replaced'; readonly n: number }[];
  readonly next: string | null;
}
