/** Move: changing jobs by hand. Each job is looked at and changed in the same step, and answered for by itself. */
import { printIn } from '../../core/print.js';
import type { Move, Moved, MoveOutcome, MoveRequest, NewJob, RemovedWhy } from '../../core/store.js';
import { endClaimed, endPending, expire, isExpired, leaveClaim } from './end.js';
import { defer, dismiss, hold, isHeld, unhold } from './hold.js';
import { create } from './insert.js';
import { instantOf } from './instant.js';
import { confirm } from './own.js';
import { leavePlace, passTurn, stand } from './place.js';
import { search } from './read.js';
import { deltaOf, holderOf, type Step, tell, totalOf } from './step.js';
import { condemn, isFenced } from './subjects.js';
import { Place, type Row } from './tables.js';
import { viewOf } from './view.js';

type Answer = { outcome: MoveOutcome; newId?: string };

export function move(step: Step, request: MoveRequest): Moved {
  const { rows, next } = search(step, request.filter, request.cursor, request.limit);
  let retried = 0;
  const items = rows.map((row) => {
    const newId = request.move.kind === 'retry' ? request.move.newIds[retried] : undefined;
    const answer = act(step, row, request.move, request.dryRun, newId);
    if (answer.outcome === 'retried') retried += 1;
    return { id: row.id, ...answer };
  });
  return { items, next };
}

function act(step: Step, row: Row, move: Move, dryRun: boolean, newId: string | undefined): Answer {
  switch (move.kind) {
    case 'cancel':
      return { outcome: cancel(step, row, move, dryRun) };
    case 'condemn':
      return { outcome: condemn(step, row, move.reason, dryRun) };
    case 'remove':
      return { outcome: remove(step, row, move, dryRun) };
    case 'retry':
      return retry(step, row, dryRun, newId);
    case 'reschedule':
      return { outcome: reschedule(step, row, move, dryRun) };
    case 'hold':
      return { outcome: hold(step, row, move, dryRun) };
    case 'unhold':
      return { outcome: unhold(step, row, dryRun) };
    case 'defer':
      return { outcome: defer(step, row, move, dryRun) };
    case 'confirm':
      return { outcome: confirm(step, row, move, dryRun) };
    case 'dismiss':
      return { outcome: dismiss(step, row, move, dryRun) };
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

/** A new job like the old one; the old record stays as it ended. */
function retry(step: Step, row: Row, dryRun: boolean, newId: string | undefined): Answer {
  const { state } = viewOf(step, row);
  if (state === 'pending' || state === 'processing') return { outcome: 'not_finished' };
  const owner = row.slot === null ? undefined : step.tables.slotOwner(row.type, row.slot);
  if (owner && !isExpired(step, owner)) return { outcome: 'skipped', newId: owner.id };
  if (isFenced(step, row)) return { outcome: 'skipped' };
  if (dryRun || newId === undefined) return { outcome: 'retried' };
  if (step.tables.isKnown(newId)) return { outcome: 'retried', newId }; // this call comes again, or late
  // Both may be past their ttl without having been swept, and may be one and the same.
  for (const late of new Set([owner, row])) if (late?.state === null) expire(step, late);
  create(step, likeRow(row, newId), row.id);
  return { outcome: 'retried', newId };
}

function likeRow(row: Row, id: string): NewJob {
  const { type, queue, priority, ttlMs, maxAttempts, subject, key, exclusiveKey, source, metadata, policy, input } =
    row;
  const deduplication = row.slot === null ? 'none' : 'skip';
  return {
    id,
    idGiven: false,
    print: null,
    type,
    queue,
    priority,
    when: { inMs: 0 },
    ttlMs,
    maxAttempts,
    subject,
    key,
    exclusiveKey,
    deduplication,
    source,
    metadata,
    policy,
    input,
    ownedBy: null,
    under: null,
  };
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
