/** A row as the outside sees it. */
import { shownOf } from '../../core/columns.js';
import type { State } from '../../core/job.js';
import type { StoredJob } from '../../core/store.js';
import { expiry, isExpired } from './end.js';
import { holderOf, type Step } from './step.js';
import { type ClaimRecord, Place, type Row } from './tables.js';

export function viewOf(step: Step, row: Row): StoredJob {
  if (row.state !== null) return shownOf(row, row.state, null);
  if (row.place === Place.claimed) {
    const record = holderOf(step, row);
    if (record) return processingView(row, record, !record.ahead.includes(row.seq));
  }
  if (isExpired(step, row)) {
    const view = shownOf(row, 'expired', null);
    view.completedAt = row.expiresAt;
    view.error = JSON.stringify(expiry(row));
    return view;
  }
  return shownOf(row, 'pending', row.dueAt);
}

export function stateOf(step: Step, row: Row): State {
  if (row.state !== null) return row.state;
  if (row.place === Place.claimed && holderOf(step, row)) return 'processing';
  return isExpired(step, row) ? 'expired' : 'pending';
}

/** While a claim holds a job, attempts and startedAt come from the claim: the row is written when the claim is over. */
export function processingView(row: Row, record: ClaimRecord, begun: boolean): StoredJob {
  const view = shownOf(row, 'processing', record.dueAt);
  view.epoch = record.epoch;
  view.attempts = row.attempts + (begun ? 1 : 0);
  view.startedAt = row.startedAt ?? (begun ? record.at : null);
  return view;
}
