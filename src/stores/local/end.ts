/** The one door into a finished state, and the ways out of a claim. */
import type { LeavingKind } from '../../core/ending.js';
import type { FinishedState, JobError } from '../../core/job.js';
import { policyOf } from '../../core/policy.js';
import { replacedError } from '../../core/replaced.js';
import { leavePlace, passTurn, standAgain } from './place.js';
import { deltaOf, type Step, tell, touchClaim } from './step.js';
import type { ClaimRecord, Row } from './tables.js';

export interface EndingFields {
  readonly error?: JobError;
  /** JSON of the result. */
  readonly result?: string;
  /** JSON of the error as its worker sent it; made from `error` where absent. */
  readonly errorText?: string;
  readonly at?: number;
}

/** A pending job ends: cancelled, expired, replaced or superseded. */
export function endPending(step: Step, row: Row, state: FinishedState, fields: EndingFields): void {
  leavePlace(step, row);
  deltaOf(step, row.queue).pending -= 1;
  enter(step, row, state, fields);
}

export function replace(step: Step, row: Row): void {
  row.replaced = true;
  endPending(step, row, 'failed', { error: replacedError });
}

/** A claimed job ends; whatever its handler still says is refused from here on. */
export function endClaimed(
  step: Step,
  row: Row,
  record: ClaimRecord | undefined,
  kind: LeavingKind,
  state: FinishedState,
  fields: EndingFields,
): void {
  leaveClaim(step, row, record, kind);
  if (row.exclusiveKey !== null) passTurn(step, row);
  enter(step, row, state, fields);
}

/** A claimed job goes back to pending, unless its ttl is over or another job has taken its slot meanwhile. */
export function backToPending(step: Step, row: Row, record: ClaimRecord, kind: LeavingKind, dueAt: number): void {
  const { tables } = step;
  if (row.expiresAt !== null && row.expiresAt <= step.now) {
    return endClaimed(step, row, record, kind, 'expired', { error: expiry(row) });
  }
  const owner = slotOwner(step, row);
  if (owner) return endClaimed(step, row, record, kind, 'cancelled', { error: superseded(owner) });
  leaveClaim(step, row, record, kind);
  row.dueAt = dueAt;
  row.againAt = null;
  deltaOf(step, row.queue).pending += 1;
  tables.save(row);
  standAgain(step, row);
}

/** The pending job in a row's slot. One that is past its ttl is ended first, and then stands in nobody's way. */
function slotOwner(step: Step, row: Row): Row | undefined {
  const owner = row.slot === null ? undefined : step.tables.slotOwner(row.type, row.slot);
  if (!owner || !isExpired(step, owner)) return owner;
  expire(step, owner);
  return undefined;
}

/** Ends a pending job that is past its ttl, at the instant it passed it: swept early or late, it reads the same. */
export function expire(step: Step, row: Row): void {
  endPending(step, row, 'expired', { error: expiry(row), at: row.expiresAt! });
}

export function isExpired(step: Step, row: Row): boolean {
  return row.expiresAt !== null && row.expiresAt <= step.now;
}

export function expiry(row: Row): JobError {
  return { code: 'EXPIRED', message: `Not started within its ttl of ${row.ttlMs} ms` };
}

function superseded(owner: Row): JobError {
  return { code: 'SUPERSEDED', message: `Job ${owner.id} took its deduplication slot while it ran` };
}

/** The claim is over for this job: its epoch becomes the row's, and no later word under it counts. */
export function leaveClaim(step: Step, row: Row, record: ClaimRecord | undefined, kind: LeavingKind): void {
  const delta = deltaOf(step, row.queue);
  delta.processing -= 1;
  delta.freed += 1;
  row.left = kind;
  if (!record) return;
  row.epoch = record.epoch;
  // A job that was claimed ahead has begun if its handler had a last word.
  const begun = (kind !== 'release' && kind !== 'lapse') || !record.ahead.includes(row.seq);
  if (begun) row.startedAt ??= record.at;
  record.open -= 1;
  touchClaim(step, record);
}

function enter(step: Step, row: Row, state: FinishedState, { error, errorText, result, at }: EndingFields): void {
  const keep = policyOf(row.policy).keep[state];
  row.state = state;
  row.completedAt = at ?? step.now;
  row.error = error ? (errorText ?? JSON.stringify(error)) : null;
  row.result = result ?? null;
  row.againAt = null;
  row.keepMs = keep?.ageMs;
  row.keepCount = keep?.count ?? null;
  step.tables.finish(row);
  deltaOf(step, row.queue)[state] += 1;
  if (row.replaced) deltaOf(step, row.queue).replaced += 1;
  step.mayExceedCap = true;
  tell(step, row.replaced ? 'replaced' : state, row, row.attempts, error);
}
