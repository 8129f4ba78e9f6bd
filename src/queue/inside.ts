/** Enqueueing inside a transaction of the caller: written in the turn of the call, together, and never gathered. */
import { LastoutError } from '../core/errors.js';
import type { SqlClient } from '../core/job.js';
import type { Inserted, NewJob, Store } from '../core/store.js';
import type { ListedJob } from './batch.js';

/** The one transaction that all jobs of a call name; undefined: none of them names one. */
export function transactionOf(jobs: readonly ListedJob[]): SqlClient | undefined {
  const tx = jobs[0]?.options?.tx;
  const index = jobs.findIndex(({ options }) => options?.tx !== tx);
  if (index < 0) return tx;
  const message = `Job ${index}: tx is not that of job 0; the jobs of one call are written in one transaction, or all without.`;
  throw new LastoutError('INVALID_TRANSACTION', message, { index });
}

export async function insertInside(
  store: Pick<Store, 'insert'>,
  tx: SqlClient,
  made: readonly (NewJob | Promise<NewJob>)[],
  { atomic }: { readonly atomic: boolean },
): Promise<readonly Inserted[]> {
  const ready = allReady(made);
  if (ready) return store.insert(ready, { atomic, tx });
  await Promise.all(made.map(async (job) => job)); // a refused input is told first
  const message =
    'The input has an asynchronous schema, and a job with tx is written before the call first yields: ' +
    'the caller may commit at any time after it. Check the input before you begin the transaction, or use a synchronous schema.';
  throw new LastoutError('INVALID_TRANSACTION', message);
}

/** Null: a schema is still at work. */
export function allReady(made: readonly (NewJob | Promise<NewJob>)[]): readonly NewJob[] | null {
  const isReady = (job: NewJob | Promise<NewJob>): job is NewJob => !(job instanceof Promise);
  return made.every(isReady) ? made : null;
}
