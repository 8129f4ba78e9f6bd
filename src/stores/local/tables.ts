/**
 * What the verbs need from an engine that runs inside this process. Memory and SQLite keep the same tables and differ
 * only here; the verbs beside this file are written once. Everything is synchronous: a verb is one step that nobody sees
 * half done. Every method is bounded by its arguments and reads only what it returns (plus a constant).
 */
import type { Kept } from '../../core/columns.js';
import type { LeavingKind } from '../../core/ending.js';
import { type FinishedState, finishedStates } from '../../core/job.js';
import type { QueueLimits } from '../../core/limits.js';
import type { Pauses } from '../../core/pauses.js';
import type { Card, EventRecord, Gone, JobFilter, LogLine, WorkerCard } from '../../core/store.js';
import type { Run } from './runs.js';

/** Where a live job stands. A claim reads `ready` only. */
export const Place = { ready: 0, later: 1, behind: 2, claimed: 3 } as const;
export type Place = (typeof Place)[keyof typeof Place];

/** A stored job. Verbs change a row and then say so to the tables (`save`, `put`, `take`, `finish`, …). */
export interface Row extends Omit<Kept, 'priority'> {
  readonly seq: number;
  readonly createdAt: number;
  /** `key ?? ''` of a job whose strategy is not none: at most one pending job per type and slot. */
  readonly slot: string | null;
  readonly retryOf: string | null;
  /** Of a finished job: the last job that a retry by hand has made of it, stored or not. */
  retriedAs: string | null;
  place: Place;
  priority: number;
  /** scheduledFor: when it is (or was last) due to run. */
  dueAt: number;
  expiresAt: number | null;
  startedAt: number | null;
  attempts: number;
  stalls: number;
  /** Never claimed ahead again: its worker died once while it was. */
  wary: boolean;
  /** The last claim that is over for this job; a finished job's: the claim that ended it. 0: none. */
  epoch: number;
  /** How that claim was left. */
  left: LeavingKind | null;
  cancelAt: number | null;
  cancelReason: string | null;
  /** Marked to run again, due then. */
  againAt: number | null;
  progress: string | null;
  /** What its last run left for the next one. */
  memo: string | null;
  error: string | null;
  /** Not removed before then, and while it is finished on a shelf of its own; null: not held. */
  heldUntil: number | null;
  heldReason: string | null;
  // Of a finished job:
  state: FinishedState | null;
  completedAt: number | null;
  result: string | null;
  /** Failed because a newer job has taken its place. */
  replaced: boolean;
  /** Own age rule: milliseconds; null: for ever; undefined: the cleanup policy's. */
  keepMs: number | null | undefined;
  /** Own count rule. */
  keepCount: number | null;
  // For an engine that keeps the rows themselves: where it stands, and which record holds it.
  entry?: unknown;
  claim?: ClaimRecord | undefined;
}

/** One per claim call: who holds which jobs until when. A job is processing while a record names it. */
export interface ClaimRecord {
  readonly epoch: number;
  readonly owner: string;
  readonly at: number;
  readonly maxStalls: number;
  readonly seqs: readonly number[];
  dueAt: number;
  /** Of `seqs`, claimed ahead and not begun. */
  ahead: number[];
  /** How many of `seqs` are still held; at 0 the record goes. */
  open: number;
  /** The queues of its jobs, each once: what runs in a queue is counted without looking at other records. */
  readonly queues: readonly string[];
}

/** A subject has ended: none of its jobs comes in or starts. */
export interface Fence {
  readonly subject: string;
  readonly at: number;
  readonly until: number;
  readonly reason: string;
  /** When a sweep looks for jobs that slipped in beside it, or lets it go. */
  readonly dueAt: number;
}

/** Jobs that started between two instants, as one. */
export interface Starts {
  readonly from: number;
  /** The last of them. */
  readonly at: number;
  readonly n: number;
  /** When they were first seen to be in the future, because the clock was set back; null: they are not. */
  readonly aheadAt: number | null;
}

export interface Tombstone extends Gone {
  readonly id: string;
  /** So that a given id stays idempotent after its job went. */
  readonly print: string;
  readonly epoch: number;
  readonly left: LeavingKind | null;
}

export const tallyStates = ['pending', 'delayed', 'processing', ...finishedStates, 'replaced'] as const;
export type TallyState = (typeof tallyStates)[number];

/** Retention of finished jobs that have no age rule of their own. */
export interface AgeRule {
  readonly retentionMs: number;
  readonly useCompletedTime: boolean;
}

/** Finished rows that are not held, in one of their orders. */
export type FinishedOrder =
  /** With an age of their own that is over, by the instant at which it was. */
  | { readonly by: 'goes'; readonly before: number }
  /** With no age of their own, by the instant from which the cleanup policy counts. */
  | { readonly by: 'completed' | 'created'; readonly before: number }
  | { readonly by: 'ended' }
  /** Of one type and state, newest first. */
  | { readonly by: 'rank'; readonly type: string; readonly state: FinishedState };

export interface CountGroup {
  readonly type: string;
  readonly state: FinishedState;
}

/** Where a row stands in such an order: by this instant, then by its seq. */
export interface Position {
  readonly at: number;
  readonly seq: number;
}

/** Who cleans up. */
export interface StoredTerm {
  readonly no: number;
  readonly holder: string;
  readonly until: number;
  /** Its entry is in the ledger: it has ended. */
  readonly noted: boolean;
}

export interface ScanRequest {
  readonly filter: JobFilter;
  /** Only rows with a lower seq. */
  readonly before: number;
  readonly limit: number;
  /** However few rows pass the filter, no more are looked at. */
  readonly examinedMax: number;
  readonly now: number;
}

export interface Scanned {
  readonly rows: readonly Row[];
  readonly examined: number;
  /** Below this seq nothing was looked at; null: nothing is left there. */
  readonly next: number | null;
}

export interface Tables {
  /** Numbers that only grow, and survive a restart. */
  nextSeq(): number;
  /** Greater than all before it, and not below this. */
  nextEpoch(least: number): number;
  /** 0: there was none. */
  lastEpoch(): number;

  /** Whether a live or finished row or a tombstone has this id. */
  isKnown(id: string): boolean;
  /** What the step asks for next, so that an engine may look for all of it at once: ids that should be new … */
  expectNew?(ids: readonly string[]): void;
  /** … and jobs that are to leave their claims. */
  expectHeld?(endings: readonly { readonly id: string; readonly epoch: number }[]): void;
  /** A live job that a record names, where an engine comes by it more cheaply than by its id. */
  held?(record: ClaimRecord, id: string): Row | undefined;
  /** The seq of a claimed job, where an engine knows it without reading the job. */
  seqHeld?(id: string, epoch: number): number | undefined;

  // Live jobs (pending and processing).
  live(id: string): Row | undefined;
  liveAt(seq: number): Row | undefined;
  /** Adds a new live row; its place follows by `put`. */
  add(row: Row): void;
  /** Writes the changed columns of a live row, place and its index excepted. */
  save(row: Row): void;
  /** Live jobs of a type, newest first; with a key only those with an equal one. Lazy: read what you need. */
  matches(type: string, key: string | null): Iterable<Row>;

  // The three places of pending jobs.
  /** Into ready, later or behind. Writes place, priority, dueAt; call `save` for the rest. */
  put(row: Row, place: Exclude<Place, 3>): void;
  /** Out of its place; the row is then `claimed` until it is put back, finished or dropped. */
  take(row: Row): void;
  /**
   * The first ready rows of these lanes, strictly by priority, dueAt, seq; they stay where they are. Of a queue that has
   * an entry in `room`, at most so many, and no more are read.
   */
  ready(
    types: readonly string[],
    queues: readonly string[] | null,
    room: ReadonlyMap<string, number>,
    limit: number,
  ): readonly Row[];
  /** Rows in `later` that are due, in order of dueAt. */
  due(now: number, limit: number): readonly Row[];
  nextDueAt(): number | null;
  /** Pending rows past their expiresAt, oldest first. */
  expired(now: number, limit: number): readonly Row[];
  /** The pending job that owns a slot. */
  slotOwner(type: string, slot: string): Row | undefined;

  // Turns of exclusive keys, within type and queue.
  turnOf(row: Row): number | undefined;
  setTurn(row: Row): void;
  clearTurn(row: Row): void;
  /** The first row behind the key of this one, by priority, dueAt, seq. */
  firstBehind(row: Row): Row | undefined;

  // Claim records.
  claim(epoch: number): ClaimRecord | undefined;
  /** `rows` are those that it names, in its order. */
  addClaim(record: ClaimRecord, rows: readonly Row[]): void;
  /** Whether a record names a row. */
  names(record: ClaimRecord, row: Row): boolean;
  /** Writes dueAt, ahead and open. */
  saveClaim(record: ClaimRecord): void;
  dropClaim(record: ClaimRecord): void;
  /** Records whose dueAt is not after now, oldest first. */
  lapsedClaims(now: number, limit: number): readonly ClaimRecord[];
  claimsOf(owner: string): readonly ClaimRecord[];
  /** The record that holds a claimed row. */
  claimOf(row: Row): ClaimRecord | undefined;

  // Finished jobs.
  finished(id: string): Row | undefined;
  /** Moves a live, taken row to the finished ones. */
  finish(row: Row): void;
  /** retriedAs of a finished row was changed. */
  retried(row: Row): void;
  /** Removes a live (taken) or finished row and its log lines for good. */
  drop(row: Row): void;
  // Finished rows that are not held, in the orders of retention.
  /** Past their age, oldest first. */
  overAge(now: number, rule: AgeRule, limit: number): readonly Row[];
  countOverAge(now: number, rule: AgeRule): number;
  /** Beyond the newest n of their own count rule, oldest first. */
  overCount(limit: number): readonly Row[];
  /** Oldest completedAt first. */
  oldestFinished(limit: number): readonly Row[];
  /** A page of an order, after a position. */
  finishedAfter(order: FinishedOrder, after: Position | null, limit: number): readonly Row[];
  /** The types and states of which a row has a count rule, one after the other. */
  countGroupAfter(after: CountGroup | null): CountGroup | null;
  /** All rows but the live ones that are owned. */
  storedTotal(): number;

  // Holds and owned jobs.
  /** heldUntil and heldReason of a row were changed: a finished one leaves the orders of retention, or returns to them. */
  hold(row: Row): void;
  /** Rows whose hold is over, oldest first. */
  heldPast(now: number, limit: number): readonly Row[];
  /** A page of all held rows, live ones too, by the end of their hold, after a position. */
  heldAfter(after: Position, limit: number): readonly Row[];
  /** Of these ids, those of jobs that own live ones. */
  owning(ids: readonly string[]): ReadonlySet<string>;
  /** How many live jobs a job owns. */
  ownedCount(id: string): number;
  /** A page of the owned pending rows of the library's queue that are due and not held, by dueAt, after a position. */
  dueThings(now: number, after: Position | null, limit: number): readonly Pick<Row, 'id' | 'dueAt' | 'seq'>[];

  // Reading.
  /** Rows that pass a filter, newest first; its states select only between live and each finished state. */
  scan(request: ScanRequest): Scanned;
  /** Counts kept by `count`, per queue. */
  tallies(): Iterable<{ queue: string; state: TallyState; n: number }>;
  count(queue: string, state: TallyState, delta: number): void;
  /** Rows that were ever added and removed, by kind. */
  addTotal(kind: string, created: number, released: number): void;
  totals(): Iterable<{ kind: string; created: number; released: number }>;
  /** Pending rows past expiresAt, and rows in `later` that are due: what the tally has yet to learn. */
  untold(now: number): Iterable<{ queue: string; expired: number; expiredLater: number; due: number }>;
  /** Due and pending rows of these types and queues, those past expiresAt left out; counted up to the limit. */
  countDue(types: readonly string[], queues: readonly string[] | null, now: number, limit: number): number;
  stalledByQueue(now: number): Iterable<{ queue: string; n: number }>;
  /** dueAt of the oldest due job per queue: ready, behind or not yet promoted; those past expiresAt left out. */
  oldestDue(now: number): Iterable<{ queue: string; dueAt: number }>;
  /** The same per type and queue; one may come several times. */
  dueLanes(now: number): Iterable<{ type: string; queue: string; dueAt: number }>;

  // Limits of queues; a queue that has none is not named.
  limits(): ReadonlyMap<string, QueueLimits>;
  /** Without a rate, what started is forgotten. */
  setLimits(queue: string, limits: QueueLimits): void;
  /** Jobs of these queues that a claim holds, counted from the living records. */
  running(queues: readonly string[]): ReadonlyMap<string, number>;
  /** What started in a queue with a rate, oldest first. */
  starts(queue: string): readonly Starts[];
  setStarts(queue: string, starts: readonly Starts[]): void;
  /** The count of pending jobs, as kept by `count`. */
  pendingIn(queue: string): number;
  /** How many of them are past their expiresAt; counted up to the limit. */
  expiredIn(queue: string, now: number, limit: number): number;

  paused(): Pauses;
  /** A word of them comes or goes. */
  setPaused(word: string, paused: boolean): void;

  // Fences of subjects.
  /** Whether there is any, also one that is over. */
  hasFences(): boolean;
  fence(subject: string): Fence | undefined;
  setFence(fence: Fence): void;
  dropFence(subject: string): void;
  /** Those whose dueAt is not after now, in order of it. */
  dueFences(now: number, limit: number): readonly Fence[];

  // Bounded logs.
  /** Appends the events of one step as one record, and trims to the newest records. */
  addEvents(at: number, events: readonly Run[]): void;
  /** From the cursor on; `reset` when records after it were trimmed. */
  events(after: string | null, limit: number): { events: readonly EventRecord[]; cursor: string; reset: boolean };
  addLines(row: Row, lines: readonly LogLine[]): void;
  lines(id: string): readonly LogLine[];
  tombstone(id: string): Tombstone | undefined;
  addTombstone(tombstone: Tombstone): void;

  // The maintainer's term and its ledger.
  term(): StoredTerm | undefined;
  setTerm(term: StoredTerm): void;
  /** Appends, and trims to the newest entries. */
  addEntry(body: string): void;
  /** Below a number, newest first. */
  entries(below: number, limit: number): readonly { readonly no: number; readonly body: string }[];

  // Cards of workers.
  setCard(owner: string, card: Card | null, dueAt: number): void;
  cards(): readonly WorkerCard[];
  /** Forgets those that have lapsed. */
  dropCards(now: number): void;
}

export const bounds = {
  eventRecordsMax: 10_000,
  eventAgeMs: 600_000,
  tombstonesMax: 10_000,
  linesMax: 1_000,
  lineBytesMax: 256 * 1024,
  ledgerMax: 1_000,
  /** Rows that one find may look at. */
  examinedMax: 10_000,
} as const;

/** Runs one verb as one atomic step: commit on return, roll back on throw. May wait for another process's lock. */
export type Transact = <T>(work: (tables: Tables) => T) => Promise<T>;
