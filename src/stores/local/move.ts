/** Move: changing jobs by hand. Each job is looked at and changed in the same step, and answered for by itself. */
import { printIn } from '../../core/print.js';
import type { Move, Moved, MoveOutcome, MoveRequest, RemovedWhy } from '../../core/store.js';
import { endClaimed, endPending, leaveClaim } from './end.js';
import { defer, dismiss, hold, isHeld, unhold } from './hold.js';
import { instantOf } from './instant.js';
import { confirm } from './own.js';
import { leavePlace, passTurn, stand } from './place.js';
import { search } from './read.js';
import { retry } from './retry.js';
import { deltaOf, holderOf, type Step, tell, totalOf } from './step.js';
import { condemn } from './subjects.js';
import { Place, type Row } from './tables.js';
import { viewOf } from './view.js';

export function move(step: Step, request: MoveRequest): Moved {
  const { rows, next } = search(step, request.filter, request.cursor, request.limit);
  if (request.move.kind === 'retry') return { items: retry(step, rows, request.move, request.dryRun), next };
  const { move, dryRun } = request;
  return { items: rows.map((row) => ({ id: row.id, outcome: act(step, row, move, dryRun) })), next };
}

function act(step: Step, row: Row, move: Exclude<Move, { kind: 'retry' }>, dryRun: boolean): MoveOutcome {
  switch (move.kind) {
    case 'cancel':
      return cancel(step, row, move, dryRun);
    case 'condemn':
      return condemn(step, row, move.reason, dryRun);
    case 'remove':
      return remove(step, row, move, dryRun);
    case 'reschedule':
      return reschedule(step, row, move, dryRun);
    case 'hold':
      return hold(step, row, move, dryRun);
    case 'unhold':
      return unhold(step, row, dryRun);
    case 'defer':
      return defer(step, row, move, dryRun);
    case 'confirm':
      return confirm(step, row, move, dryRun);
    case 'dismiss':
      return dismiss(step, row, move, dryRun);
  }
}

function cancel(
  step: Step,
  row: Row,
  { reason, force }: { reason: string; force: boolean },
  dryRun: boolean,
): MoveOutcome {
  const { state } = viewOf(step, row);
  if (state !== 'pending' && state !== 'processing') return `already:${state}`;
  const error = { code: 'CANCELLED', message: reason };
  if (state === 'pending') {
    if (!dryRun) endPending(step, row, 'cancelled', { error });
    return 'cancelled';
  }
  if (force) {
    if (!dryRun) {
      endClaimed(step, row, holderOf(step, row), 'lapse', 'cancelled', { error });
      step.cancelRequested = true; // its handler learns that it has lost the claim
    }
    return 'cancelled';
  }
  if (!dryRun && row.cancelAt === null) {
    row.cancelAt = step.now;
    row.cancelReason = reason;
    step.tables.save(row);
    step.cancelRequested = true;
  }
  return 'requested';
}

function remove(step: Step, row: Row, { force, reason }: Move & { kind: 'remove' }, dryRun: boolean): MoveOutcome {
  if (isHeld(step, row)) return 'held';
  if (row.state === null && row.place === Place.claimed && !force) return 'not_finished';
  if (step.tables.owning([row.id]).size > 0) {
    if (row.state === null && row.place !== Place.claimed)
      cancel(step, row, { reason: reason ?? 'Removed', force }, dryRun);
    return 'owing';
  }
  if (!dryRun) removeRow(step, row, 'removed', reason);
  return 'removed';
}

/** Takes a row out of wherever it is, with all that hangs on it, and leaves a tombstone: not for what another job owned. */
export function removeRow(step: Step, row: Row, why: RemovedWhy, reason: string | null = null): void {
  const { tables } = step;
  const state = row.state ?? viewOf(step, row).state;
  if (row.state !== null) {
    deltaOf(step, row.queue)[row.state] -= 1;
    if (row.replaced) deltaOf(step, row.queue).replaced -= 1;
  } else if (row.place === Place.claimed) {
    leaveClaim(step, row, holderOf(step, row), 'lapse');
    if (row.exclusiveKey !== null) passTurn(step, row);
    step.cancelRequested = true; // its handler learns at the next heartbeat, at once in this process
  } else {
    leavePlace(step, row);
    deltaOf(step, row.queue).pending -= 1;
  }
  tables.drop(row);
  totalOf(step, row).released += 1;
  if (row.ownedBy === null) {
    const { id, type, queue, epoch, left } = row;
    tables.addTombstone({ id, at: step.now, why, type, queue, state, reason, print: printIn(row), epoch, left });
  }
  tell(step, 'removed', row);
}

function reschedule(
  step: Step,
  row: Row,
  { when, priority }: Move & { kind: 'reschedule' },
  dryRun: boolean,
): MoveOutcome {
  if (viewOf(step, row).state !== 'pending') return 'not_pending';
  if (dryRun) return 'moved';
  leavePlace(step, row);
  if (when) row.dueAt = instantOf(step, when);
  if (priority !== null) row.priority = priority;
  step.tables.save(row);
  stand(step, row);
  return 'moved';
}
