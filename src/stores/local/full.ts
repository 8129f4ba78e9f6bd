/** maxPending: whether one more job may wait in a queue. What would not add one is never refused. */
import { type Refusal, refusedAsFull, refusedBatch } from '../../core/refusal.js';
import type { NewJob } from '../../core/store.js';
import { type Matches, matchesOf } from './matches.js';
import type { Step } from './step.js';
import type { Row } from './tables.js';

/** A job whose id is known is answered and not created. */
type IsKnown = (job: NewJob) => boolean;

/** The jobs of a batch that are refused, by index; each of the others is taken, or answered, for itself. */
export function refusalsOfFull(
  step: Step,
  jobs: readonly NewJob[],
  isKnown: IsKnown,
): ReadonlyMap<number, Refusal> | null {
  let refusals: Map<number, Refusal> | null = null;
  for (const { index, job, most, pending } of withoutRoom(step, jobs, isKnown))
    (refusals ??= new Map()).set(index, refusedAsFull(job.id, job.queue, most, pending));
  return refusals;
}

/** All or none. */
export function refuseFullBatch(step: Step, jobs: readonly NewJob[], isKnown: IsKnown): void {
  for (const { index, job, most, stored } of withoutRoom(step, jobs, isKnown))
    throw refusedBatch(refusedAsFull(job.id, job.queue, most, stored), index);
}

interface WithoutRoom {
  readonly index: number;
  readonly job: NewJob;
  readonly most: number;
  /** What waits before the batch, and at this job's turn. */
  readonly stored: number;
  readonly pending: number;
}

/** The batch is gone through in thought, in call order, before anything is written. */
function* withoutRoom(step: Step, jobs: readonly NewJob[], isKnown: IsKnown): Generator<WithoutRoom> {
  const mostIn = pendingLimits(step);
  if (mostIn.size === 0) return;
  const coming = new Map<string, number>();
  for (const { queue } of jobs) if (mostIn.has(queue)) coming.set(queue, (coming.get(queue) ?? 0) + 1);
  const storedIn = new Map([...coming].map(([queue, n]) => [queue, waitingIn(step, queue, mostIn.get(queue)! - n)]));
  if ([...coming].every(([queue, n]) => storedIn.get(queue)! + n <= mostIn.get(queue)!)) return;
  const foresight = foresee(step);
  for (const [index, job] of jobs.entries()) {
    if (isKnown(job) || foresight.isKnown(job)) continue;
    const most = mostIn.get(job.queue) ?? Number.POSITIVE_INFINITY;
    const stored = storedIn.get(job.queue) ?? 0;
    const pending = stored + foresight.grownIn(job.queue);
    if (!foresight.play(job, pending < most)) yield { index, job, most, stored, pending };
  }
}

/** Jobs past their ttl wait no longer, swept or not. As many of them are counted as make a difference: `few` is few enough. */
function waitingIn({ tables, now }: Step, queue: string, few: number): number {
  const pending = tables.pendingIn(queue);
  return pending <= few ? pending : pending - tables.expiredIn(queue, now, pending - few);
}

/** What will have become of the queues after the jobs of a batch that were looked at so far. */
function foresee(step: Step) {
  const ended = new Set<Row>();
  const again = new Set<Row>();
  const grown = new Map<string, number>();
  const ids = new Set<string>();
  let created: NewJob[] = [];
  const grow = (queue: string, by: number): void => void grown.set(queue, (grown.get(queue) ?? 0) + by);
  const isMatch = (job: NewJob, other: NewJob): boolean =>
    other.type === job.type && (job.key === null || other.key === job.key);
  function create(job: NewJob): void {
    ids.add(job.id);
    created.push(job);
    grow(job.queue, 1);
  }
  function replace(job: NewJob, pending: readonly Row[], siblings: readonly NewJob[]): void {
    for (const row of pending) ended.add(row);
    created = created.filter((other) => !siblings.includes(other));
    for (const { queue } of [...pending, ...siblings]) grow(queue, -1);
    create(job);
  }

  return {
    grownIn: (queue: string): number => grown.get(queue) ?? 0,
    isKnown: (job: NewJob): boolean => job.idGiven && ids.has(job.id),
    /** Plays the strategy of a job. False: it would add one where there is no room, and then nothing has happened. */
    play(job: NewJob, hasRoom: boolean): boolean {
      const { pending, processing } = job.deduplication === 'none' ? noMatches : matchesOf(step, job, { ended, again });
      const siblings = job.deduplication === 'none' ? [] : created.filter((other) => isMatch(job, other));
      const isMet = pending.length > 0 || siblings.length > 0;
      if (job.deduplication === 'replace' && isMet) {
        // Where it takes the place of one in its queue, it adds none.
        if (!hasRoom && ![...pending, ...siblings].some(({ queue }) => queue === job.queue)) return false;
        replace(job, pending, siblings);
      } else if (job.deduplication === 'coalesce' && !isMet && processing) {
        again.add(processing);
      } else if (!isMet) {
        if (!hasRoom) return false;
        create(job);
      }
      return true;
    },
  };
}

const noMatches: Pick<Matches, 'pending' | 'processing'> = { pending: [], processing: undefined };

function pendingLimits({ tables }: Step): Map<string, number> {
  const most = new Map<string, number>();
  for (const [queue, { maxPending }] of tables.limits()) if (maxPending !== null) most.set(queue, maxPending);
  return most;
}
