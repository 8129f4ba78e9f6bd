/**
 * Fences of subjects that have ended. An insert is refused, a claim ends a job instead of giving it out, and a sweep collects
 * what slipped in beside the fence: less and less often, because less and less of it can still be under way.
 */
import { systemQueue } from '../../core/names.js';
import { type Refusal, refusedAsEnded } from '../../core/refusal.js';
import { farAway, type MoveOutcome, type NewJob, noFilter } from '../../core/store.js';
import { firstLookMs, type StandingFence, type SubjectFence } from '../../core/subject.js';
import { endPending } from './end.js';
import { search } from './read.js';
import type { Step } from './step.js';
import type { Fence, Row } from './tables.js';
import { viewOf } from './view.js';

const fencesMax = 100;

/** The fence that stands; one that is over no longer counts, swept or not. */
function standing({ tables, now }: Step, subject: string | null): Fence | undefined {
  if (subject === null || !tables.hasFences()) return undefined;
  const fence = tables.fence(subject);
  return fence && fence.until > now ? fence : undefined;
}

export function fenceSubject(step: Step, subject: string, { reason, forMs }: SubjectFence): StandingFence {
  const { tables, now } = step;
  const before = standing(step, subject);
  const until = Math.max(before?.until ?? 0, forMs === null ? farAway : Math.min(now + forMs, farAway));
  tables.setFence({ subject, at: now, until, reason, dueAt: Math.min(now + firstLookMs, until) });
  return { at: now, until };
}

export function unfenceSubject(step: Step, subject: string): StandingFence | null {
  const before = standing(step, subject);
  step.tables.dropFence(subject);
  return before ? { at: step.now, until: before.until } : null;
}

export function refusalOfSubject(step: Step, { id, subject }: NewJob): Refusal | null {
  const fence = standing(step, subject);
  return fence ? refusedAsEnded(id, fence.subject, fence.until) : null;
}

export function isFenced(step: Step, { subject }: Row): boolean {
  return standing(step, subject) !== undefined;
}

/** True: the pending job was ended. The library's own jobs are there to end things, and go on. */
export function endFenced(step: Step, row: Row): boolean {
  const fence = row.queue === systemQueue ? undefined : standing(step, row.subject);
  if (!fence) return false;
  endPending(step, row, 'cancelled', { error: { code: 'CANCELLED', message: fence.reason } });
  return true;
}

export interface Collected {
  readonly fenced: number;
  readonly more: boolean;
}

/** Looks behind the fences that are due for it: at most `limit` jobs end. */
export function collectFenced(step: Step, limit: number): Collected {
  const { tables, now } = step;
  if (!tables.hasFences()) return { fenced: 0, more: false };
  const fences = tables.dueFences(now, fencesMax);
  let fenced = 0;
  for (const fence of fences) {
    if (fence.until <= now) {
      tables.dropFence(fence.subject);
      continue;
    }
    const filter = { ...noFilter, subject: fence.subject, states: ['pending' as const], system: false };
    const { rows } = search(step, filter, null, limit - fenced);
    for (const row of rows) endFenced(step, row);
    fenced += rows.length;
    // What a look does not reach is ended when it is claimed.
    if (fenced === limit) return { fenced, more: true };
    tables.setFence({ ...fence, dueAt: Math.min(now + Math.max(firstLookMs, now - fence.at), fence.until) });
  }
  return { fenced, more: fences.length === fencesMax };
}

/** An orphan ends; what is not pending any more is none. */
export function condemn(step: Step, row: Row, reason: string, dryRun: boolean): MoveOutcome {
  const { state } = viewOf(step, row);
  if (state !== 'pending') return 'not_pending';
  if (!dryRun) endPending(step, row, 'cancelled', { error: { code: 'ORPHANED', message: reason } });
  return 'cancelled';
}
