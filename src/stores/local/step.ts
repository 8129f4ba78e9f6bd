/** One atomic step: its instant, what it told the event log, and the hints to give once it is committed. */
import { clip } from '../../core/coded.js';
import type { StalledJob } from '../../core/failures.js';
import type { JobError } from '../../core/job.js';
import { systemQueue } from '../../core/names.js';
import type { EventRecord, Hint } from '../../core/store.js';
import { freesSlot } from './limits.js';
import { eventOf, type Run, tellIn } from './runs.js';
import { type ClaimRecord, type Row, type Tables, type TallyState, tallyStates } from './tables.js';

export type StepEvent = Omit<EventRecord, 'cursor' | 'at'>;

export interface Step {
  readonly tables: Tables;
  /** The store's clock, read once: everything in a step happens at one instant. */
  readonly now: number;
  readonly events: Run[];
  readonly readyTypes: Set<string>;
  /** Records that were looked up, and those that were changed; null: none, as in every insert. */
  claims: Map<number, ClaimRecord> | null;
  touchedClaims: Set<ClaimRecord> | null;
  readonly deltas: Map<string, Delta>;
  /** The one that was asked for last: most steps are about one queue. */
  delta: Delta | null;
  /** What this step adds to the totals, by kind. */
  readonly totals: Total[];
  /** Jobs that have ended as STALLED; null: none. */
  stalled: StalledJob[] | null;
  earliestLaterAt: number | null;
  cancelRequested: boolean;
  paused: boolean;
  /** A job was added or ended: the number of stored jobs may be above the cap, with some that may go. */
  mayExceedCap: boolean;
}

/** What a step changes in the counts of a queue. */
export interface Delta extends Record<TallyState, number> {
  readonly queue: string;
  /** The claims that ended less those that were made. */
  freed: number;
}

/** Rows that a step added and removed, of one kind. */
export interface Total {
  readonly kind: string;
  created: number;
  released: number;
}

export function beginStep(tables: Tables, now: number): Step {
  return {
    tables,
    now,
    events: [],
    readyTypes: new Set(),
    claims: null,
    touchedClaims: null,
    deltas: new Map(),
    delta: null,
    totals: [],
    stalled: null,
    earliestLaterAt: null,
    cancelRequested: false,
    paused: false,
    mayExceedCap: false,
  };
}

/** Writes what the step gathered; the last thing before the commit. */
export function closeStep(step: Step): void {
  for (const record of step.touchedClaims ?? []) {
    if (record.open === 0) step.tables.dropClaim(record);
    else step.tables.saveClaim(record);
  }
  for (const delta of step.deltas.values()) {
    for (const state of tallyStates) if (delta[state] !== 0) step.tables.count(delta.queue, state, delta[state]);
  }
  for (const { kind, created, released } of step.totals) step.tables.addTotal(kind, created, released);
  if (freesSlot(step)) step.readyTypes.add('*');
  if (step.events.length > 0) step.tables.addEvents(step.now, step.events);
}

export function hintsOf(step: Step, maxStoredJobs: number): Hint[] {
  const hints: Hint[] = [];
  if (step.readyTypes.size > 0) hints.push({ kind: 'ready', types: step.readyTypes });
  if (step.earliestLaterAt !== null) hints.push({ kind: 'later', inMs: Math.max(0, step.earliestLaterAt - step.now) });
  if (step.cancelRequested) hints.push({ kind: 'cancel' });
  if (step.paused) hints.push({ kind: 'pause' });
  if (step.events.length > 0) hints.push({ kind: 'events' });
  if (step.mayExceedCap && maxStoredJobs !== Number.POSITIVE_INFINITY && step.tables.storedTotal() > maxStoredJobs)
    hints.push({ kind: 'cap' });
  return hints;
}

/** What this step counts is written when it is closed, once for each queue and state. */
export function deltaOf(step: Step, queue: string): Delta {
  if (step.delta?.queue === queue) return step.delta;
  let delta = step.deltas.get(queue);
  if (!delta) step.deltas.set(queue, (delta = noDelta(queue)));
  step.delta = delta;
  return delta;
}

/** A job, or of the library's own ones each type for itself. */
export function kindOf(row: Pick<Row, 'queue' | 'type'>): string {
  return row.queue === systemQueue ? row.type : 'job';
}

export function totalOf(step: Step, row: Row): Total {
  const kind = kindOf(row);
  for (const total of step.totals) if (total.kind === kind) return total;
  const total = { kind, created: 0, released: 0 };
  step.totals.push(total);
  return total;
}

function noDelta(queue: string): Delta {
  const finished = { completed: 0, failed: 0, replaced: 0, cancelled: 0, expired: 0 };
  return { queue, freed: 0, pending: 0, delayed: 0, processing: 0, ...finished };
}

/** The record of a claim, the same object throughout the step. */
export function claimRecord(step: Step, epoch: number): ClaimRecord | undefined {
  const known = step.claims?.get(epoch);
  if (known) return known;
  const record = step.tables.claim(epoch);
  if (record) (step.claims ??= new Map()).set(epoch, record);
  return record;
}

/** A record that was changed is written when the step is closed. */
export function touchClaim(step: Step, record: ClaimRecord): void {
  (step.touchedClaims ??= new Set()).add(record);
}

/** The record that holds a claimed row, the same object throughout the step. */
export function holderOf(step: Step, row: Row): ClaimRecord | undefined {
  const record = step.tables.claimOf(row);
  return record && (claimRecord(step, record.epoch) ?? record);
}

export function tellProgress(step: Step, row: Row, progress: string): void {
  step.events.push([eventOf('progress', row, { progress }), [row.id]]);
}

export function tell(step: Step, name: StepEvent['name'], row: Row, attempt?: number, error?: JobError): void {
  tellIn(
    step.events,
    name,
    row,
    attempt,
    error && { message: clip(error.message), ...(error.code !== undefined && { code: error.code }) },
  );
}
