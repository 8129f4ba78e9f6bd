/** Enqueueing inside a transaction of the caller: written in the turn of the call, together, and never gathered. */
import { LastoutError } from '../core/errors.js';
import type { JobOptions, SqlClient } from '../core/job.js';
import type { Inserted, NewJob, Store } from '../core/store.js';

/** The one transaction that all jobs of a call name; undefined: none of them names one. */
export function transactionOf(jobs: readonly { options?: JobOptions }[]): SqlClient | undefined {
  // What is no job, or has no options to speak of, is refused for that.
  const named = jobs.flatMap((job, index) => (isReadable(job) ? [{ index, tx: job.options?.tx }] : []));
  const [first] = named;
  const other = named.find(({ tx }) => tx !== first!.tx);
  if (!other) return first?.tx;
  const { index } = other;
  const message = `Job ${index}: tx is not that of job ${first!.index}; the jobs of one call are written in one transaction, or all without.`;
  throw new LastoutError('INVALID_TRANSACTION', message, { index });
}

function isReadable(job: { options?: JobOptions } | null | undefined): boolean {
  if (job === null || typeof job !== 'object') return false;
  return job.options === undefined || (job.options !== null && typeof job.options === 'object');
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
