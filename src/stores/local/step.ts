/** One atomic step: its instant, what it told the event log, and the hints to give once it is committed. */
import { isCoded } from '../../core/coded.js';
import type { JobError } from '../../core/job.js';
import type { EventRecord, Hint } from '../../core/store.js';
import { freesSlot } from './limits.js';
import type { ClaimRecord, Row, Tables } from './tables.js';

export type StepEvent = Omit<EventRecord, 'cursor' | 'at'>;

export interface Step {
  readonly tables: Tables;
  /** The store's clock, read once: everything in a step happens at one instant. */
  readonly now: number;
  readonly events: StepEvent[];
  readonly readyTypes: Set<string>;
  readonly claims: Map<number, ClaimRecord>;
  readonly touchedClaims: Set<ClaimRecord>;
  /** By queue, the claims that ended less those that were made. */
  readonly freed: Map<string, number>;
  earliestLaterAt: number | null;
  cancelRequested: boolean;
  paused: boolean;
  /** A job was added or ended: the number of stored jobs may be above the cap, with some that may go. */
  mayExceedCap: boolean;
}

export function beginStep(tables: Tables, now: number): Step {
  return {
    tables,
    now,
    events: [],
    readyTypes: new Set(),
    claims: new Map(),
    touchedClaims: new Set(),
    freed: new Map(),
    earliestLaterAt: null,
    cancelRequested: false,
    paused: false,
    mayExceedCap: false,
  };
}

/** Writes what the step gathered; the last thing before the commit. */
export function closeStep(step: Step): void {
  for (const record of step.touchedClaims) {
    if (record.open === 0) step.tables.dropClaim(record);
    else step.tables.saveClaim(record);
  }
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

/** A claim on a job of this queue ended (1) or was made (-1). */
export function countFreed(step: Step, queue: string, delta: 1 | -1): void {
  step.freed.set(queue, (step.freed.get(queue) ?? 0) + delta);
}

/** The record of a claim, the same object throughout the step. */
export function claimRecord(step: Step, epoch: number): ClaimRecord | undefined {
  const known = step.claims.get(epoch);
  if (known) return known;
  const record = step.tables.claim(epoch);
  if (record) step.claims.set(epoch, record);
  return record;
}

/** The record that holds a claimed row, the same object throughout the step. */
export function holderOf(step: Step, row: Row): ClaimRecord | undefined {
  const record = step.tables.claimOf(row);
  return record && (claimRecord(step, record.epoch) ?? record);
}

export function tell(
  step: Step,
  name: StepEvent['name'],
  row: Row,
  extra: { attempt?: number; error?: JobError } = {},
): void {
  const { attempt, error } = extra;
  const event: { -readonly [K in keyof StepEvent]: StepEvent[K] } = {
    name,
    id: row.id,
    type: row.type,
    queue: row.queue,
  };
  if (row.subject !== null) event.subject = row.subject;
  if (attempt !== undefined) event.attempt = attempt;
  if (error) event.error = { message: clip(error.message), ...(error.code !== undefined && { code: error.code }) };
  step.events.push(event);
}

/** Events are many and short-lived: a long message stays with the job. A coded one could not be decoded if it were cut. */
function clip(message: string): string {
  return message.length > 200 && !isCoded(message) ? `${message.slice(0, 200).toWellFormed()}…` : message;
}
