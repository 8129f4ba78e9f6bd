/** Retry by hand: a new job like the old one. The old record stays as it ended, and says that it was retried. */
import { type Mutable, plainJob, retriedColumns } from '../../core/columns.js';
import type { Move, Moved, NewJob } from '../../core/store.js';
import { expire, isExpired } from './end.js';
import { create } from './insert.js';
import type { Step } from './step.js';
import { isFenced } from './subjects.js';
import type { Row } from './tables.js';
import { viewOf } from './view.js';

type Retry = Move & { kind: 'retry' };
type Answer = Omit<Moved['items'][number], 'id'>;
type Copy = { readonly newId: string | undefined; readonly input: string };

export function retry(step: Step, rows: readonly Row[], move: Retry, dryRun: boolean): Moved['items'] {
  const fresh = freshOf(step, move.newIds);
  const copyOf = ({ id, input }: Row): Copy | undefined => {
    if (!move.copies) return { newId: fresh.next().value, input };
    const copy = move.copies[id];
    return copy && !step.tables.isKnown(copy.newId) ? copy : undefined;
  };
  return rows.flatMap((row) => {
    const answer =
      answerOf(step, row, move) ?? (dryRun ? ({ outcome: 'retried' } as const) : repeat(step, row, copyOf(row)));
    return answer === 'passed' ? [] : [{ id: row.id, ...answer }];
  });
}

/** An id that is known stands for a job that an earlier sending of this call has made. */
function* freshOf({ tables }: Step, newIds: readonly string[]): Generator<string, undefined> {
  for (const id of newIds) if (!tables.isKnown(id)) yield id;
}

/** Null: it is to be retried. */
function answerOf(step: Step, row: Row, { newIds, again, failuresOnly }: Retry): Answer | 'passed' | null {
  const { state } = viewOf(step, row);
  if (state === 'pending' || state === 'processing') return { outcome: 'not_finished' };
  if (failuresOnly && row.replaced) return 'passed';
  if (row.retriedAs !== null) {
    if (newIds.includes(row.retriedAs)) return { outcome: 'retried', newId: row.retriedAs };
    if (!again) return { outcome: 'already_retried', newId: row.retriedAs };
  }
  const owner = slotOwner(step, row);
  if (owner && !isExpired(step, owner)) return { outcome: 'skipped', newId: owner.id };
  return isFenced(step, row) ? { outcome: 'skipped' } : null;
}

function repeat(step: Step, row: Row, copy: Copy | undefined): Answer {
  const newId = copy?.newId;
  // All of its ids are used: it comes late, and another call has retried the job since.
  if (newId === undefined)
    return row.retriedAs === null ? { outcome: 'skipped' } : { outcome: 'already_retried', newId: row.retriedAs };
  // Both may be past their ttl without having been swept, and may be one and the same.
  for (const late of new Set([slotOwner(step, row), row])) if (late?.state === null) expire(step, late);
  create(step, likeRow(row, newId, copy!.input), row.id);
  row.retriedAs = newId;
  step.tables.retried(row);
  return { outcome: 'retried', newId };
}

function slotOwner({ tables }: Step, row: Row): Row | undefined {
  return row.slot === null ? undefined : tables.slotOwner(row.type, row.slot);
}

function likeRow(row: Row, id: string, input: string): NewJob {
  const { type, queue, maxAttempts, policy } = row;
  const deduplication = row.slot === null ? 'none' : 'skip';
  const job: Mutable<NewJob> = { ...plainJob, id, type, queue, maxAttempts, policy, input, deduplication };
  for (const { keep } of retriedColumns) keep(row as never, job);
  job.input = input;
  return job;
}
