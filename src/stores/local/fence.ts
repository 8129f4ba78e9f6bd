/** The fence: whether a claim still holds a job. */
import { claimRecord, type Step } from './step.js';
import type { ClaimRecord, Row } from './tables.js';

interface Held {
  readonly row: Row;
  readonly record: ClaimRecord;
}

/** The record lives, it is this owner's, it names the job, and it is not over for the job. */
export function heldUnder(step: Step, owner: string, id: string, epoch: number): Held | null {
  const record = claimRecord(step, epoch);
  if (record?.owner !== owner || record.open === 0) return null;
  const row = step.tables.held?.(record, id) ?? step.tables.live(id);
  if (!row || row.epoch >= epoch || !step.tables.names(record, row)) return null;
  return { row, record };
}
