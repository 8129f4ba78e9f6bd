/** The jobs of one call, read once: how many there are, and what each of them names. */
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { JobOptions } from '../core/job.js';
import { jobOptionNames } from '../core/options.js';
import { ownOptions } from '../core/own-options.js';
import { listOf } from '../core/reading.js';

export interface ListedJob {
  readonly type?: unknown;
  readonly input?: unknown;
  readonly options?: JobOptions;
}

const batchMax = 1_000;

export function readBatch(jobs: unknown): readonly ListedJob[] {
  const listed = listOf(jobs, batchMax, 'The list of enqueueMany', 'BATCH_SIZE');
  if (!listed || listed.length < 1) {
    const got = listed ? 'an empty list' : show(jobs);
    throw new LastoutError('BATCH_SIZE', `enqueueMany got ${got}; give a list of 1 to ${batchMax} jobs.`);
  }
  return listed.map((job, index) => blamed(index, () => readListed(job as ListedJob)));
}

function readListed(job: ListedJob): ListedJob {
  const own = ownOptions(job ?? null, ['type', 'input', 'options'], 'The fields of a job in the list');
  if (own.options === undefined) return own;
  return { ...own, options: ownOptions(own.options, jobOptionNames, 'The options of enqueue') };
}

/** A refusal becomes a rejection, so that it waits its turn beside those of asynchronous schemas and none is unheard. */
export function atIndex<T>(index: number, make: () => T | Promise<T>): T | Promise<T> {
  try {
    const made = make();
    return made instanceof Promise ? made.catch((error: unknown) => blame(index, error)) : made;
  } catch (error) {
    return Promise.reject(error as Error).catch((refused: unknown) => blame(index, refused));
  }
}

function blamed<T>(index: number, read: () => T): T {
  try {
    return read();
  } catch (error) {
    return blame(index, error);
  }
}

function blame(index: number, error: unknown): never {
  if (error instanceof LastoutError)
    throw new LastoutError(error.code, `Job ${index}: ${error.message}`, { ...error.details, index }, error.cause);
  throw error;
}
