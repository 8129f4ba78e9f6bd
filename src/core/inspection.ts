/** The part of a store's contract that reads: which jobs there are, and what the store knows about them and itself. */
import type {
  AuditPage,
  DueLane,
  DueRequest,
  EventPage,
  EventsRequest,
  HeldClaim,
  LedgerPage,
  LogLine,
  OverduePage,
  OverdueRequest,
  PageRequest,
  PlanPage,
  PlanRequest,
  Why,
  WorkerCard,
} from './logs.js';
import type { CleanupPolicy } from './policy.js';
import type { JobFilter, StoredJob } from './stored-job.js';

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

/** What only the store can know. */
export interface StoreWarning {
  readonly code: string;
  readonly message: string;
  /** It refuses to be written, and says so by itself: no write that is under way will be done after all. */
  readonly blocks?: true;
}

/** Reading, without changing anything. */
export interface Inspection {
  find(request: FindRequest): Promise<{ readonly jobs: readonly StoredJob[]; readonly next: string | null }>;
  tally(cleanup: CleanupPolicy): Promise<Tally>;
  /** The event log after a cursor; null: from now on. */
  readEvents(request: EventsRequest): Promise<EventPage>;
  /** The log lines of a job. */
  readLines(id: string): Promise<readonly LogLine[]>;
  /** What an owner holds, for one that does not know how its last claim went. */
  readClaims(owner: string): Promise<readonly HeldClaim[]>;
  /** How many jobs are due and do not run, whatever holds them back; counted up to the limit. */
  countDue(request: DueRequest): Promise<number>;
  /** The types that have due jobs, by queue, and how long the oldest has been due; those past their ttl are left out. */
  readLanes(): Promise<readonly DueLane[]>;
  /** Why a job is where it is. Null: nobody knows it. */
  readWhy(id: string): Promise<Why | null>;
  /** What a cleanup by this policy removes, page by page. */
  readPlan(request: PlanRequest): Promise<PlanPage>;
  readLedger(request: PageRequest): Promise<LedgerPage>;
  readAudit(request: PageRequest): Promise<AuditPage>;
  /** The cards that live. */
  readWorkers(): Promise<readonly WorkerCard[]>;
  /** The identity of the store, as it is now: another process may have given it a new one. */
  readIdentity(): Promise<string>;
  /**
   * Live jobs of these types whose time is over by the store's clock: pending and due, or held by a claim that has lapsed; and
   * for so long that no call that was made before can change it any more. In one step with whether this server has the last
   * word on them. Answers as long as the server can be read.
   */
  readOverdue(request: OverdueRequest): Promise<OverduePage>;
  /** Throws when the store cannot be reached. */
  check(): Promise<readonly StoreWarning[]>;
}
