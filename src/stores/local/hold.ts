/** Holds: what is held is not removed, by whatever path; and what is on its way out is not held any more. */
import { systemQueue } from '../../core/names.js';
import { farAway, type Move, type MoveOutcome, noFilter } from '../../core/store.js';
import { leavePlace, stand } from './place.js';
import { search } from './read.js';
import type { Step } from './step.js';
import type { Row } from './tables.js';
import { viewOf } from './view.js';

const pageLimit = 500;

/** A hold that is over no longer counts, lifted or not; nor does one without a reason, which only sets a job aside. */
export function isHeld(step: Step, { heldUntil, heldReason }: Row): boolean {
  return heldUntil !== null && heldReason !== null && heldUntil > step.now;
}

export function hold(step: Step, row: Row, { reason, until }: Move & { kind: 'hold' }, dryRun: boolean): MoveOutcome {
  if (isLosing(step, row)) return 'going';
  if (!dryRun) set(step, row, until ?? farAway, reason);
  return 'held';
}

export function unhold(step: Step, row: Row, dryRun: boolean): MoveOutcome {
  if (row.heldReason === null) return 'not_held';
  if (!dryRun) set(step, row, null, null);
  return 'released';
}

export function defer(step: Step, row: Row, { forMs }: Move & { kind: 'defer' }, dryRun: boolean): MoveOutcome {
  if (isHeld(step, row)) return 'held';
  if (forMs === null && row.heldUntil === null) return 'not_held';
  if (!dryRun) set(step, row, forMs === null ? null : step.now + forMs, null);
  return forMs === null ? 'released' : 'moved';
}

/** Holds that are over: what is finished returns to the orders of retention. */
export function liftHolds(step: Step, limit: number): number {
  const over = step.tables.heldPast(step.now, limit);
  for (const row of over) set(step, row, null, null);
  return over.length;
}

function set(step: Step, row: Row, until: number | null, reason: string | null): void {
  row.heldUntil = until;
  row.heldReason = reason;
  step.tables.hold(row);
}

/** Not where it or its owner is held: exactly one of the two wins. */
export function dismiss(step: Step, row: Row, { reason }: Move & { kind: 'dismiss' }, dryRun: boolean): MoveOutcome {
  const { ownedBy, queue } = row;
  if (ownedBy === null || queue !== systemQueue || viewOf(step, row).state !== 'pending') return 'not_pending';
  const owner = step.tables.live(ownedBy) ?? step.tables.finished(ownedBy);
  if (isHeld(step, row) || (owner && isHeld(step, owner))) return 'held';
  if (dryRun) return 'going';
  leavePlace(step, row);
  row.cancelAt ??= step.now;
  row.cancelReason = reason ?? row.cancelReason;
  row.dueAt = Math.min(row.dueAt, step.now);
  step.tables.save(row);
  stand(step, row);
  return 'going';
}

/** It is dismissed, or owns what is. */
export function isLosing(step: Step, row: Row): boolean {
  if (isDismissed(step, row)) return true;
  if (step.tables.owning([row.id]).size === 0) return false;
  const filter = { ...noFilter, ownedBy: row.id };
  for (let cursor: string | null = null; ; ) {
    const { rows, next }: ReturnType<typeof search> = search(step, filter, cursor, pageLimit);
    if (rows.some((owned) => isDismissed(step, owned))) return true;
    if (next === null) return false;
    cursor = next;
  }
}

function isDismissed(step: Step, row: Row): boolean {
  return (
    row.ownedBy !== null && row.queue === systemQueue && row.cancelAt !== null && viewOf(step, row).state === 'pending'
  );
}
