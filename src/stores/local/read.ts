/** Find and tally: reading without changing. */
import type { State } from '../../core/job.js';
import { isAllPaused, isPaused, namesIn } from '../../core/pauses.js';
import type { CleanupPolicy } from '../../core/policy.js';
import { seqOf } from '../../core/refusal.js';
import {
  type DueLane,
  type FindRequest,
  type HeldClaim,
  type JobFilter,
  type LedgerPage,
  noFilter,
  type OverduePage,
  type OverdueRequest,
  type PageRequest,
  type StoredJob,
  type Tally,
} from '../../core/store.js';
import { type Counts, emptyCounts, isWorthTelling } from '../../core/tally.js';
import { allowancesOf, blockOf } from './limits.js';
import type { Step } from './step.js';
import { bounds, type ClaimRecord, type Row } from './tables.js';
import { viewOf } from './view.js';

const pageOfScan = 500;
const live: readonly State[] = ['pending', 'processing'];

export function find(step: Step, { filter, cursor, limit }: FindRequest): { jobs: StoredJob[]; next: string | null } {
  const { rows, next } = search(step, filter, cursor, limit);
  return { jobs: rows.map((row) => viewOf(step, row)), next };
}

/** Newest first. Looks at a bounded number of rows: a page may be short and still have a next one. */
export function search(
  step: Step,
  filter: JobFilter,
  cursor: string | null,
  limit: number,
): { rows: Row[]; next: string | null } {
  const rows: Row[] = [];
  let before = cursor === null ? Number.MAX_SAFE_INTEGER : seqOf(cursor);
  for (let left: number = bounds.examinedMax; left > 0; ) {
    const asked = Math.min(limit - rows.length + 1, pageOfScan);
    const found = step.tables.scan({ filter, before, limit: asked, examinedMax: left, now: step.now });
    for (const row of found.rows) {
      if (filter.states === null || filter.states.includes(viewOf(step, row).state)) {
        if (rows.length === limit) return { rows, next: before.toString(36) };
        rows.push(row);
      }
      before = row.seq;
    }
    if (found.next === null) return { rows, next: null };
    before = found.next;
    left -= found.examined;
  }
  return { rows, next: before.toString(36) };
}

export function claimsOf(step: Step, owner: string): readonly HeldClaim[] {
  return step.tables.claimsOf(owner).map((record) => ({ epoch: record.epoch, ids: heldIds(step, record) }));
}

/** There is one copy of it, here: nothing to doubt. A step that might change it comes before this one, or after. */
export function overdueOf(step: Step, { types, ids, cursor, limit }: OverdueRequest): OverduePage {
  const { jobs, next } = find(step, { filter: { ...noFilter, states: live, types, ids }, cursor, limit });
  return { doubt: null, jobs: jobs.filter(({ dueAt }) => dueAt !== null && dueAt <= step.now), next };
}

export function lanes({ tables, now }: Step): readonly DueLane[] {
  const oldest = new Map<string, DueLane>();
  for (const lane of tables.dueLanes(now)) {
    const name = `${lane.queue} ${lane.type}`;
    const waitedMs = Math.max(0, now - lane.dueAt);
    if (waitedMs >= (oldest.get(name)?.waitedMs ?? 0))
      oldest.set(name, { type: lane.type, queue: lane.queue, waitedMs });
  }
  return [...oldest.values()];
}

export function ledger({ tables }: Step, { cursor, limit }: PageRequest): LedgerPage {
  const below = cursor === null ? Number.MAX_SAFE_INTEGER : seqOf(cursor);
  const found = tables.entries(below, limit + 1);
  const page = found.slice(0, limit);
  return {
    entries: page.map(({ body }) => body),
    next: found.length > limit ? page.at(-1)!.no.toString(36) : null,
  };
}

function heldIds(step: Step, { epoch, seqs }: ClaimRecord): string[] {
  const rows = seqs.map((seq) => step.tables.liveAt(seq));
  return rows.filter((row) => row !== undefined && row.epoch < epoch).map((row) => row!.id);
}

export function tally(step: Step, cleanup: CleanupPolicy): Tally {
  const { tables, now } = step;
  const paused = tables.paused();
  const queues = new Map<string, Counts>();
  const of = (queue: string): Counts => {
    const known = queues.get(queue);
    if (known) return known;
    const counts = emptyCounts(queue, isPaused(paused, queue));
    queues.set(queue, counts);
    return counts;
  };
  const named = new Set(namesIn(paused));
  for (const name of named) of(name);
  for (const { queue, state, n } of tables.tallies()) of(queue)[state] += n;
  for (const { queue, expired, expiredLater, due } of tables.untold(now)) {
    const counts = of(queue);
    counts.pending -= expired;
    counts.expired += expired;
    counts.delayed -= expiredLater + due;
  }
  for (const { queue, n } of tables.stalledByQueue(now)) of(queue).stalled += n;
  for (const { queue, dueAt } of tables.oldestDue(now)) of(queue).oldestDueAgeMs = Math.max(0, now - dueAt);
  addLimits(step, queues.values());
  return {
    queues: [...queues.values()].filter((counts) => named.has(counts.queue) || isWorthTelling(counts)),
    paused: isAllPaused(paused),
    overdue: overdue(step, cleanup),
  };
}

function addLimits({ tables, now }: Step, queues: Iterable<Counts>): void {
  const limits = tables.limits();
  const allowances = allowancesOf(tables, now, null);
  for (const counts of queues) {
    const { queue, paused, stalled, pending } = counts;
    Object.assign(counts, blockOf(paused, allowances.get(queue), stalled));
    counts.full = pending >= (limits.get(queue)?.maxPending ?? Number.POSITIVE_INFINITY);
  }
}

/** Finished jobs that the cleanup should have removed a whole interval ago. */
function overdue({ tables, now }: Step, cleanup: CleanupPolicy): number {
  const { jobRetentionMs: retentionMs, useCompletedTime, cleanupIntervalMs } = cleanup;
  return tables.countOverAge(now - cleanupIntervalMs, { retentionMs, useCompletedTime });
}
