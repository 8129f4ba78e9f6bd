/** Jobs that belong to other jobs: who may own, and what is in the way of an owner's removal. */
import { systemQueue } from '../../core/names.js';
import { type Refusal, refusedAsStale, refusedAsUnowned } from '../../core/refusal.js';
import type { Move, MoveOutcome, NewJob } from '../../core/store.js';
import { farAway } from '../../core/store.js';
import { heldUnder } from './fence.js';
import { instantOf } from './instant.js';
import { leavePlace, stand } from './place.js';
import type { Step } from './step.js';
import type { Row } from './tables.js';
import { viewOf } from './view.js';

export function refusalOfOwner(step: Step, { id, ownedBy, under }: NewJob): Refusal | null {
  if (ownedBy !== null && !step.tables.live(ownedBy) && !step.tables.finished(ownedBy))
    return refusedAsUnowned(id, ownedBy);
  if (under !== null && !heldUnder(step, under.owner, under.id, under.epoch)) return refusedAsStale(id, under.id);
  return null;
}

/** What was announced exists now: it is kept until then. One that is due, or was claimed, may be about to be cleared away. */
export function confirm(
  step: Step,
  row: Row,
  { memo, when, under }: Move & { kind: 'confirm' },
  dryRun: boolean,
): MoveOutcome {
  const { ownedBy, queue } = row;
  if (queue !== systemQueue || viewOf(step, row).state !== 'pending') return 'not_pending';
  if (row.dueAt <= step.now || row.epoch > 0) return 'stale';
  if (under !== null && (ownedBy === null || !heldUnder(step, under.owner, ownedBy, under.epoch))) return 'stale';
  if (dryRun) return 'confirmed';
  leavePlace(step, row);
  row.memo = memo ?? row.memo;
  row.dueAt = when === null ? farAway : instantOf(step, when);
  step.tables.save(row);
  stand(step, row);
  return 'confirmed';
}
