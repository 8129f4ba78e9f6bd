/** What an insert answers, in the words of the contract. */
import type { LastoutError } from '../../core/errors.js';
import {
  type Refusal,
  refusedAsEnded,
  refusedAsFull,
  refusedAsOther,
  refusedAsStale,
  refusedAsUnowned,
  refusedBatch,
} from '../../core/refusal.js';
import type { Inserted, NewJob } from '../../core/store.js';

/** `answers`: of those that were not simply created; see insert_v1. Null: of a job that is to come again. */
export function insertedIn(jobs: readonly NewJob[], answers: string | null): (Inserted | null)[] {
  const inserted = jobs.map(({ id }): Inserted | null => ({ id, outcome: 'created' }));
  if (answers === null) return inserted;
  const list = JSON.parse(answers) as readonly AnswerIn[] | RefusalIn;
  if (!Array.isArray(list)) throw refusalIn(jobs, list as RefusalIn);
  for (const [index, outcome, id, other, most, pending] of list as readonly AnswerIn[]) {
    if (outcome === 'again') inserted[index] = null;
    else if (outcome === 'conflict') inserted[index] = refusedAsOther(id);
    else if (outcome === 'full') inserted[index] = refusedAsFull(id, other!, most!, pending!);
    else if (outcome === 'JOB_NOT_FOUND') inserted[index] = refusedAsUnowned(id, other!);
    else if (outcome === 'STALE_CLAIM') inserted[index] = refusedAsStale(id, other!);
    else if (outcome === 'SUBJECT_ENDED') inserted[index] = refusedAsEnded(id, jobs[index]!.subject!, most!);
    else if (outcome === 'replaced') inserted[index] = { id, outcome, replaced: other! };
    else inserted[index] = { id, outcome };
  }
  return inserted;
}

type AnswerIn = readonly [
  index: number,
  outcome:
    | 'again'
    | 'existing'
    | 'skipped'
    | 'coalesced'
    | 'replaced'
    | 'conflict'
    | 'full'
    | 'JOB_NOT_FOUND'
    | 'STALE_CLAIM'
    | 'SUBJECT_ENDED',
  id: string,
  other: string | null,
  /** Of a refusal for want of room; or, in its place, until when a fence stands. */
  most?: number,
  pending?: number,
];

interface RefusalIn {
  readonly code: 'QUEUE_FULL' | 'IDEMPOTENCY_CONFLICT' | 'JOB_NOT_FOUND' | 'STALE_CLAIM' | 'SUBJECT_ENDED';
  readonly index: number;
  readonly most: number;
  readonly pending: number;
  readonly until: number;
}

function refusalIn(jobs: readonly NewJob[], refusal: RefusalIn): LastoutError {
  return refusedBatch(reasonIn(jobs[refusal.index]!, refusal), refusal.index);
}

function reasonIn({ id, queue, ownedBy, under, subject }: NewJob, { code, most, pending, until }: RefusalIn): Refusal {
  switch (code) {
    case 'QUEUE_FULL':
      return refusedAsFull(id, queue, most, pending);
    case 'IDEMPOTENCY_CONFLICT':
      return refusedAsOther(id);
    case 'JOB_NOT_FOUND':
      return refusedAsUnowned(id, ownedBy!);
    case 'STALE_CLAIM':
      return refusedAsStale(id, under!.id);
    case 'SUBJECT_ENDED':
      return refusedAsEnded(id, subject!, until);
  }
}
