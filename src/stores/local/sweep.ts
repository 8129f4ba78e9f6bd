/**
 * Sweep: tending, and the removal of finished jobs by age, by count and by the cap, each part bounded. A part acts only
 * when those before it have nothing left to remove, so that in the end exactly the same jobs go, whatever the limit.
 */
import type { CleanupPolicy } from '../../core/policy.js';
import type { CleanupRequest, RemovedWhy, SweepRequest, Swept, SweptInTerm, Term } from '../../core/store.js';
import { tend } from './claim.js';
import { liftHolds } from './hold.js';
import { removeRow } from './move.js';
import type { Step } from './step.js';
import { collectFenced } from './subjects.js';
import type { Row } from './tables.js';
import { takeTerm } from './term.js';

const liftedMax = 500;

const nothing: Swept = {
  examined: 0,
  lapsed: 0,
  expired: 0,
  fenced: 0,
  removedBy: { age: 0, count: 0, cap: 0 },
  owing: [],
  dueThings: [],
  more: false,
};

export function sweep(step: Step, { limit, cleanup }: SweepRequest): Swept {
  const tended = tendAll(step, limit);
  return cleanup ? cleanUpAfter(step, tended, cleanup, limit) : tended;
}

/** Another's term keeps from cleaning up, not from tending. */
export function sweepInTerm(step: Step, term: Term, { limit, cleanup }: CleanupRequest): SweptInTerm {
  const tended = tendAll(step, limit);
  const no = takeTerm(step, term);
  return { ...(no === null ? tended : cleanUpAfter(step, tended, cleanup, limit)), term: no };
}

function tendAll(step: Step, limit: number): Swept {
  const lifted = liftHolds(step, liftedMax);
  const { lapsed, expired, more } = tend(step);
  const { fenced, more: moreFenced } = collectFenced(step, limit);
  return {
    ...nothing,
    examined: lapsed + expired + fenced,
    lapsed,
    expired,
    fenced,
    more: more || moreFenced || lifted === liftedMax,
  };
}

function cleanUpAfter(step: Step, tended: Swept, cleanup: CleanupPolicy, limit: number): Swept {
  step.tables.dropCards(step.now);
  const cleaned = cleanUp(step, cleanup, limit);
  const dueThings = step.tables.dueThings(step.now, null, limit).map(({ id }) => id);
  const removed = Object.values(cleaned.removedBy).reduce((sum, n) => sum + n, 0);
  if (removed > 0) step.events.push([{ name: 'swept' }, null]);
  return {
    ...tended,
    ...cleaned,
    examined: tended.examined + removed + cleaned.owing.length,
    dueThings,
    more: tended.more || cleaned.more || dueThings.length === limit,
  };
}

function cleanUp(
  step: Step,
  { jobRetentionMs: retentionMs, useCompletedTime, maxStoredJobs }: CleanupPolicy,
  limit: number,
): Pick<Swept, 'removedBy' | 'owing' | 'more'> {
  const { tables, now } = step;
  const removedBy = { age: 0, count: 0, cap: 0 };
  /** Whether the next part may act. */
  function part(why: RemovedWhy & keyof typeof removedBy, rows: readonly Row[]): Pick<Swept, 'owing' | 'more'> {
    const owing = tables.owning(rows.map(({ id }) => id));
    const first = rows.findIndex(({ id }) => owing.has(id));
    // What is newer counts for the rank of an older one: it does not go before one that still owns something.
    const before = why === 'count' && first >= 0 ? rows.slice(0, first) : rows;
    const going = before.filter(({ id }) => !owing.has(id));
    for (const row of going) removeRow(step, row, why);
    removedBy[why] = going.length;
    return { owing: rows.filter(({ id }) => owing.has(id)).map(({ id }) => id), more: rows.length === limit };
  }
  const isOver = ({ owing, more }: Pick<Swept, 'owing' | 'more'>): boolean => owing.length === 0 && !more;

  let last = part('age', tables.overAge(now, { retentionMs, useCompletedTime }, limit));
  if (isOver(last)) last = part('count', tables.overCount(limit));
  if (isOver(last)) {
    // The excess is what the other rules left; only finished jobs go, so live ones may keep it above the cap.
    const excess = Math.min(tables.storedTotal() - maxStoredJobs, limit);
    if (excess > 0) last = part('cap', tables.oldestFinished(excess));
  }
  return { removedBy, ...last };
}
