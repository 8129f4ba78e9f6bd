/** Settle: the fence, and what each ending becomes. Notes pass the same fence. */
import { type Ending, verdictOf } from '../../core/ending.js';
import type { JobError } from '../../core/job.js';
import { byteLength } from '../../core/json.js';
import type { LogLine, Note, SettleAnswer, Settled, Settlement, SettleRequest } from '../../core/store.js';
import { claim, markStarted } from './claim.js';
import { backToPending, endClaimed } from './end.js';
import { heldUnder } from './fence.js';
import { insertThen } from './insert.js';
import { instantOf } from './instant.js';
import { claimRecord, type Step, tell, tellProgress } from './step.js';
import { bounds, type ClaimRecord, type Row } from './tables.js';

export function settle(step: Step, request: SettleRequest): Settled {
  step.tables.expectHeld?.(request.settlements);
  const answers = request.settlements.map((settlement) => settleOne(step, request.owner, settlement));
  for (const epoch of new Set(request.started.map((one) => one.epoch))) {
    const record = claimRecord(step, epoch);
    const ids = request.started.filter((one) => one.epoch === epoch).map(({ id }) => id);
    if (record?.owner === request.owner) markStarted(step, record, ids);
  }
  return { answers, claimed: request.next && claim(step, request.next) };
}

function settleOne(step: Step, owner: string, { id, epoch, ending, memo, then }: Settlement): SettleAnswer {
  const held = heldUnder(step, owner, id, epoch);
  if (!held) return answerForOver(step, id, epoch, ending);
  if (memo !== undefined) remember(held.row, memo);
  leave(step, held.row, held.record, ending);
  for (const job of then ?? []) insertThen(step, job);
  return 'ok';
}

/** A job that lives for years meets a crash now and then; that is no reason to part it from its neighbours. */
function remember(row: Row, memo: string): void {
  row.memo = memo;
  row.stalls = 0;
}

/** The claim is over for this job. If it ended in just this way, the reply was lost: say ok again. */
function answerForOver(step: Step, id: string, epoch: number, ending: Ending): SettleAnswer {
  const row = step.tables.live(id) ?? step.tables.finished(id);
  const trace = row ?? step.tables.tombstone(id);
  if (!trace || trace.epoch !== epoch || trace.left === 'lapse' || trace.left === null) return 'STALE_CLAIM';
  const same =
    trace.left === ending.kind &&
    (ending.kind !== 'complete' || row?.state !== 'completed' || row.result === ending.result);
  return same ? 'ok' : 'ALREADY_SETTLED';
}

function leave(step: Step, row: Row, record: ClaimRecord, ending: Ending): void {
  const verdict = verdictOf(ending.kind, { cancelRequested: row.cancelAt !== null, runAgain: row.againAt !== null });
  if (verdict === 'completed') {
    row.attempts += 1;
    return endClaimed(step, row, record, ending.kind, verdict, ending as { result: string });
  }
  const errorText = 'error' in ending ? ending.error : undefined;
  const error = errorText === undefined ? undefined : toldOf(ending, errorText);
  const failure = { ...(error && { error }), ...(errorText !== undefined && { errorText }) };
  switch (verdict) {
    case 'failed':
      row.attempts += 1;
      return endClaimed(step, row, record, ending.kind, 'failed', failure);
    case 'cancelled':
      if (ending.kind !== 'release') row.attempts += 1;
      return endClaimed(
        step,
        row,
        record,
        ending.kind,
        'cancelled',
        row.cancelAt === null ? failure : { error: cancellation(row) },
      );
    case 'retry':
      row.attempts += 1;
      row.error = errorText ?? null;
      tell(step, 'retried', row, row.attempts, error);
      return backToPending(step, row, record, ending.kind, dueAfter(step, ending));
    case 'snooze':
      tell(step, 'snoozed', row);
      return backToPending(step, row, record, ending.kind, dueAfter(step, ending));
    case 'again':
      return runAgain(step, row, record, ending, Math.max(row.againAt!, step.now));
    case 'again-or-snooze':
      return runAgain(step, row, record, ending, Math.min(Math.max(row.againAt!, step.now), dueAfter(step, ending)));
    case 'back':
    case 'stall':
      return backToPending(step, row, record, ending.kind, row.dueAt);
  }
}

/** What an event tells of an error. */
function toldOf(ending: Ending, errorText: string): JobError {
  const brief = 'brief' in ending ? ending.brief : undefined;
  return brief === undefined ? (JSON.parse(errorText) as JobError) : { message: brief };
}

/** A coalesced event came while the job ran: it starts over, with all its attempts and a new ttl. */
function runAgain(step: Step, row: Row, record: ClaimRecord, ending: Ending, dueAt: number): void {
  row.attempts = 0;
  row.error = null;
  if (row.ttlMs !== null) row.expiresAt = step.now + row.ttlMs;
  tell(step, ending.kind === 'snooze' ? 'snoozed' : 'retried', row, 0);
  backToPending(step, row, record, ending.kind, dueAt);
}

function dueAfter(step: Step, ending: Ending): number {
  if (ending.kind === 'snooze') return instantOf(step, ending.when);
  return step.now + (ending.kind === 'retry' ? ending.inMs : 0);
}

function cancellation(row: Row): JobError {
  return { code: 'CANCELLED', message: row.cancelReason! };
}

export function note(step: Step, owner: string, notes: readonly Note[]): SettleAnswer[] {
  return notes.map(({ id, epoch, progress, lines }) => {
    const held = heldUnder(step, owner, id, epoch);
    if (!held) return 'STALE_CLAIM';
    if (progress !== null) {
      held.row.progress = progress;
      step.tables.save(held.row);
      tellProgress(step, held.row, progress);
    }
    if (lines.length > 0) addLines(step, held.row, lines);
    return 'ok';
  });
}

/** At most 1,000 lines and 256 KiB a job, then one line that says so. */
function addLines(step: Step, row: Row, lines: Note['lines']): void {
  const stored = step.tables.lines(row.id);
  if (stored.at(-1)?.fields === truncated.fields) return;
  let count = stored.length;
  let bytes = stored.reduce((sum, line) => sum + sizeOf(line), 0);
  const added: LogLine[] = [];
  for (const line of lines) {
    count += 1;
    bytes += sizeOf(line);
    const full = count > bounds.linesMax || bytes > bounds.lineBytesMax;
    added.push({ at: step.now, ...(full ? truncated : line) });
    if (full) break;
  }
  step.tables.addLines(row, added);
}

const truncated = { message: 'truncated', fields: '{"truncated":true}' };

function sizeOf({ message, fields }: { message: string; fields: string | null }): number {
  return byteLength(message) + (fields === null ? 0 : byteLength(fields));
}
