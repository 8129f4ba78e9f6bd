/** What a store refuses, in the same words on every engine. */
import { LastoutError } from './errors.js';
import { type Engine, farAway, type Inserted } from './store.js';

export type Refusal = Inserted & { readonly outcome: 'refused' };

/** There is no telling when a job will start: long enough to be kind to the store, short enough to be kind to the caller. */
const retryAfterMs = 1_000;

export function refusedAsOther(id: string): Refusal {
  const message = `The id ${id} already stands for a job of another type or input.`;
  return { id, outcome: 'refused', code: 'IDEMPOTENCY_CONFLICT', message };
}

export function refusedAsFull(id: string, queue: string, maxPending: number, pending: number): Refusal {
  const message =
    `Queue "${queue}" is full: ${pending} of at most ${maxPending} jobs are pending. ` +
    'Nothing was stored; try again when some have started.';
  const details = { queue, maxPending, pending, retryAfterMs };
  return { id, outcome: 'refused', code: 'QUEUE_FULL', message, details };
}

export function refusedAsUnowned(id: string, ownedBy: string): Refusal {
  const message = `Job ${ownedBy}, which is to own ${id}, is not stored.`;
  return { id, outcome: 'refused', code: 'JOB_NOT_FOUND', message, details: { ownedBy } };
}

export function refusedAsStale(id: string, under: string): Refusal {
  const message = `Job ${under}, for which ${id} was to be added, is not held by this claim any more: nothing was added.`;
  return { id, outcome: 'refused', code: 'STALE_CLAIM', message, details: { under } };
}

/** `until`: `farAway` is until it is lifted. */
export function refusedAsEnded(id: string, subject: string, until: number): Refusal {
  const fencedUntil = until >= farAway ? null : new Date(until).toISOString();
  const message =
    `The subject ${subject} has ended: nothing of it is taken in` +
    `${fencedUntil === null ? '' : ` until ${fencedUntil}`}. If it is there again, lift that with liftSubject.`;
  return { id, outcome: 'refused', code: 'SUBJECT_ENDED', message, details: { subject, fencedUntil } };
}

/** All or none: one refusal is the whole batch's. */
export function refusedBatch({ code, message, details }: Refusal, index: number): LastoutError {
  return new LastoutError(code, `Job ${index}: ${message}`, { ...details, index });
}

export function noTransactions(engine: Engine): LastoutError {
  const message = `The ${engine} store has no transactions: leave tx out, or use a store with SQL.`;
  return new LastoutError('INVALID_TRANSACTION', message);
}

/** The seq in a cursor that a page gave. */
export function seqOf(cursor: string): number {
  const seq = /^[0-9a-z]{1,11}$/.test(cursor) ? Number.parseInt(cursor, 36) : Number.NaN;
  if (!Number.isSafeInteger(seq))
    throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that a page gave as "next".');
  return seq;
}
