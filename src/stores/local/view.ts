/** A row as the outside sees it. */
import type { State } from '../../core/job.js';
import type { StoredJob } from '../../core/store.js';
import { expiry, isExpired } from './end.js';
import { holderOf, type Step } from './step.js';
import { type ClaimRecord, Place, type Row } from './tables.js';

export function viewOf(step: Step, row: Row): StoredJob {
  if (row.state !== null) return columns(row, row.state, null);
  if (row.place === Place.claimed) {
    const record = holderOf(step, row);
    if (record) return processingView(row, record, !record.ahead.includes(row.seq));
  }
  if (isExpired(step, row)) {
    const view = columns(row, 'expired', null);
    view.completedAt = row.expiresAt;
    view.error = JSON.stringify(expiry(row));
    return view;
  }
  return columns(row, 'pending', row.dueAt);
}

export function stateOf(step: Step, row: Row): State {
  if (row.state !== null) return row.state;
  if (row.place === Place.claimed && holderOf(step, row)) return 'processing';
  return isExpired(step, row) ? 'expired' : 'pending';
}

/** While a claim holds a job, attempts and startedAt come from the claim: the row is written when the claim is over. */
export function processingView(row: Row, record: ClaimRecord, begun: boolean): StoredJob {
  const view = columns(row, 'processing', record.dueAt);
  view.epoch = record.epoch;
  view.attempts = row.attempts + (begun ? 1 : 0);
  view.startedAt = row.startedAt ?? (begun ? record.at : null);
  return view;
}

/** Made in one piece and changed in place: every claim makes one for each of its jobs. */
function columns(row: Row, state: State, dueAt: number | null): { -readonly [K in keyof StoredJob]: StoredJob[K] } {
  return {
    state,
    dueAt,
    seq: row.seq,
    id: row.id,
    type: row.type,
    queue: row.queue,
    priority: row.priority,
    input: row.input,
    result: row.result,
    error: row.error,
    attempts: row.attempts,
    maxAttempts: row.maxAttempts,
    stalls: row.stalls,
    subject: row.subject,
    key: row.key,
    exclusiveKey: row.exclusiveKey,
    source: row.source,
    metadata: row.metadata,
    policy: row.policy,
    progress: row.progress,
    memo: row.memo,
    retryOf: row.retryOf,
    ownedBy: row.ownedBy,
    cancelAt: row.cancelAt,
    cancelReason: row.cancelReason,
    heldUntil: row.heldUntil,
    heldReason: row.heldReason,
    createdAt: row.createdAt,
    scheduledFor: row.dueAt,
    startedAt: row.startedAt,
    completedAt: row.completedAt,
    expiresAt: row.expiresAt,
    epoch: row.epoch,
  };
}
