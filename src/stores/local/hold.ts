/** Holds: what is held is not removed, by whatever path. */
import { farAway, type Move, type MoveOutcome } from '../../core/store.js';
import type { Step } from './step.js';
import type { Row } from './tables.js';

/** A hold that is over no longer counts, lifted or not. */
export function isHeld(step: Step, { heldUntil }: Row): boolean {
  return heldUntil !== null && heldUntil > step.now;
}

export function hold(step: Step, row: Row, { reason, until }: Move & { kind: 'hold' }, dryRun: boolean): MoveOutcome {
  if (!dryRun) {
    row.heldUntil = until ?? farAway;
    row.heldReason = reason;
    step.tables.hold(row);
  }
  return 'held';
}

export function unhold(step: Step, row: Row, dryRun: boolean): MoveOutcome {
  if (row.heldUntil === null) return 'not_held';
  if (!dryRun) lift(step, row);
  return 'released';
}

/** Holds that are over: what is finished returns to the orders of retention. */
export function liftHolds(step: Step, limit: number): number {
  const over = step.tables.heldPast(step.now, limit);
  for (const row of over) lift(step, row);
  return over.length;
}

function lift(step: Step, row: Row): void {
  row.heldUntil = null;
  row.heldReason = null;
  step.tables.hold(row);
}
