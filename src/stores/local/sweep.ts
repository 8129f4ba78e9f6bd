/** Sweep: tending, and the removal of finished jobs by age, by count and by the cap, each part bounded. */
import type { Swept, SweepRequest } from '../../core/store.js';
import { tend } from './claim.js';
import { removeRow } from './move.js';
import type { Step } from './step.js';
import type { Row } from './tables.js';

export function sweep(step: Step, { limit, cleanup }: SweepRequest): Swept {
  const tended = tend(step);
  const removedBy = { age: 0, count: 0, cap: 0 };
  if (!cleanup) return { examined: tended.lapsed + tended.expired, ...tended, removedBy, more: tended.more };
  const { jobRetentionMs: retentionMs, useCompletedTime, maxStoredJobs } = cleanup;
  removedBy.age = removeAll(step, step.tables.overAge(step.now, { retentionMs, useCompletedTime }, limit));
  removedBy.count = removeAll(step, step.tables.overCount(limit));
  // The excess is what is left after the age rule; only finished jobs go, so live ones may keep it above the cap.
  const excess = Math.min(step.tables.storedTotal() - maxStoredJobs, limit);
  if (excess > 0) removedBy.cap = removeAll(step, step.tables.oldestFinished(excess));
  const removed = removedBy.age + removedBy.count + removedBy.cap;
  if (removed > 0) step.events.push([{ name: 'swept' }, null]);
  const more = tended.more || Object.values(removedBy).some((n) => n === limit);
  return { examined: tended.lapsed + tended.expired + removed, ...tended, removedBy, more };
}

function removeAll(step: Step, rows: readonly Row[]): number {
  for (const row of rows) removeRow(step, row);
  return rows.length;
}
