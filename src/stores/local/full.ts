/** maxPending: whether one more job may wait in a queue. What would not add one is never refused. */
import { LastoutError } from '../../core/errors.js';
import type { Inserted, NewJob } from '../../core/store.js';
import { expire } from './end.js';
import { matchesOf } from './matches.js';
import type { Step } from './step.js';
import type { Row } from './tables.js';

/** There is no telling when a job will start: long enough to be kind to the store, short enough to be kind to the caller. */
const retryAfterMs = 1_000;
const expiredMax = 500;

type Refusal = Inserted & { readonly outcome: 'refused' };

/** A job whose id is known is answered and not created. */
type IsKnown = (job: NewJob) => boolean;

/** Says of each job, one after the other, whether its queue is full for it. Null: no queue has such a limit. */
export function fullQueues(step: Step, isKnown: IsKnown): ((job: NewJob) => Refusal | null) | null {
  const mostIn = pendingLimits(step);
  if (mostIn.size === 0) return null;
  let swept = false;
  return (job) => {
    const most = mostIn.get(job.queue);
    if (most === undefined || step.tables.pendingIn(job.queue) < most) return null;
    // Jobs past their ttl wait no longer, swept or not.
    if (!swept) for (const row of step.tables.expired(step.now, expiredMax)) expire(step, row);
    swept = true;
    const pending = step.tables.pendingIn(job.queue);
    return pending < most || isKnown(job) || !addsOne(step, job) ? null : refusal(job, most, pending);
  };
}

/** Whether the queue would have one more pending job: not where the new one only takes the place of another. */
function addsOne(step: Step, job: NewJob): boolean {
  if (job.deduplication === 'none') return true;
  const { pending, processing } = matchesOf(step, job);
  if (job.deduplication === 'replace') return !pending.some(({ queue }) => queue === job.queue);
  return pending.length === 0 && (job.deduplication === 'skip' || processing === undefined);
}

/** All or none: the batch is gone through in thought, in call order, before anything is written. */
export function refuseFullBatch(step: Step, jobs: readonly NewJob[], isKnown: IsKnown): void {
  const mostIn = pendingLimits(step);
  const coming = new Map<string, number>();
  for (const { queue } of jobs) if (mostIn.has(queue)) coming.set(queue, (coming.get(queue) ?? 0) + 1);
  if ([...coming].every(([queue, n]) => step.tables.pendingIn(queue) + n <= mostIn.get(queue)!)) return;
  const foresight = foresee(step);
  jobs.forEach((job, index) => {
    if (isKnown(job) || foresight.isKnown(job)) return;
    const most = mostIn.get(job.queue) ?? Number.POSITIVE_INFINITY;
    const met = foresight.meet(job);
    if (met === 'added' && foresight.pendingIn(job.queue) >= most) {
      const { code, message, details } = refusal(job, most, foresight.storedIn(job.queue));
      throw new LastoutError(code, `Job ${index}: ${message}`, { ...details, index });
    }
    if (met !== 'taken') foresight.create(job);
  });
}

/** What will stand in the queues after the jobs of a batch that were looked at so far. */
function foresee(step: Step) {
  const expired = new Map<string, number>();
  for (const { queue, expired: n } of step.tables.untold(step.now)) expired.set(queue, (expired.get(queue) ?? 0) + n);
  const ended = new Set<Row>();
  const again = new Set<Row>();
  const grown = new Map<string, number>();
  const ids = new Set<string>();
  let created: NewJob[] = [];
  const grow = (queue: string, by: number): void => void grown.set(queue, (grown.get(queue) ?? 0) + by);
  const storedIn = (queue: string): number => step.tables.pendingIn(queue) - (expired.get(queue) ?? 0);
  const isMatch = (job: NewJob, other: NewJob): boolean =>
    other.type === job.type && (job.key === null || other.key === job.key);

  return {
    storedIn,
    pendingIn: (queue: string): number => storedIn(queue) + (grown.get(queue) ?? 0),
    isKnown: (job: NewJob): boolean => job.idGiven && ids.has(job.id),
    create(job: NewJob): void {
      ids.add(job.id);
      created.push(job);
      grow(job.queue, 1);
    },
    /** Plays the strategy of a job: another one stands for it, it takes the place of one in its queue, or it adds one. */
    meet(job: NewJob): 'taken' | 'in place' | 'added' {
      if (job.deduplication === 'none') return 'added';
      const { pending, processing } = matchesOf(step, job, { ended, again });
      const siblings = created.filter((other) => isMatch(job, other));
      if (job.deduplication === 'replace') {
        for (const row of pending) ended.add(row);
        created = created.filter((other) => !siblings.includes(other));
        const replaced = [...pending, ...siblings];
        for (const { queue } of replaced) grow(queue, -1);
        return replaced.some(({ queue }) => queue === job.queue) ? 'in place' : 'added';
      }
      if (pending.length > 0 || siblings.length > 0) return 'taken';
      if (job.deduplication === 'skip' || !processing) return 'added';
      again.add(processing);
      return 'taken';
    },
  };
}

function pendingLimits({ tables }: Step): Map<string, number> {
  const most = new Map<string, number>();
  for (const [queue, { maxPending }] of tables.limits()) if (maxPending !== null) most.set(queue, maxPending);
  return most;
}

function refusal({ id, queue }: NewJob, maxPending: number, pending: number): Refusal {
  const message =
    `Queue "${queue}" is full: ${pending} of at most ${maxPending} jobs are pending. ` +
    'Nothing was stored; try again when some have started.';
  const details = { queue, maxPending, pending, retryAfterMs };
  return { id, outcome: 'refused', code: 'QUEUE_FULL', message, details };
}
