/** Limits of a queue, over all processes. They are kept in the store, so that whoever says nothing obeys too. */
import { type Duration, show, toMs } from './duration.js';
import { LastoutError } from './errors.js';
import { checkQueue } from './names.js';
import { ownOptions } from './own-options.js';
import { reading } from './reading.js';

/** What `open` takes for one queue; what is left out has no limit. */
export interface QueueOptions {
  /** Jobs that may wait, delayed ones included; one more is refused with QUEUE_FULL. */
  maxPending?: number;
  /** Jobs that may run at once. */
  concurrency?: number;
  /** Jobs that may start in any window of `per`. */
  rate?: { max: number; per: Duration };
}

/** The same, checked; null: no limit. */
export interface QueueLimits {
  readonly maxPending: number | null;
  readonly concurrency: number | null;
  readonly rate: { readonly max: number; readonly perMs: number } | null;
}

/** A queue that is named gets exactly these limits: `{}` lifts them all. Queues that are not named stay as they are. */
export function readLimits(
  queues: { readonly [queue: string]: QueueOptions } | undefined,
): ReadonlyMap<string, QueueLimits> {
  const limits = new Map<string, QueueLimits>();
  if (queues === undefined) return limits;
  for (const [name, options] of reading('queues', 'UNKNOWN_OPTION', () => entriesOf(queues)))
    limits.set(checkQueue(name, 'A name in queues'), read(name, options));
  return limits;
}

function entriesOf(queues: { readonly [queue: string]: QueueOptions }): [string, QueueOptions][] {
  if (queues !== null && typeof queues === 'object' && !Array.isArray(queues)) return Object.entries(queues);
  const message = `queues is ${show(queues)}; give an object such as { mail: { concurrency: 5 } }.`;
  throw new LastoutError('UNKNOWN_OPTION', message);
}

function read(queue: string, options: QueueOptions): QueueLimits {
  const where = `The limits of queue "${queue}"`;
  const { maxPending, concurrency, rate } = ownOptions(options ?? null, ['maxPending', 'concurrency', 'rate'], where);
  return {
    maxPending: maxPending === undefined ? null : checkCount(maxPending, `queues.${queue}.maxPending`),
    concurrency: concurrency === undefined ? null : checkCount(concurrency, `queues.${queue}.concurrency`),
    rate: rate === undefined ? null : readRate(rate, `queues.${queue}.rate`),
  };
}

function readRate(rate: NonNullable<QueueOptions['rate']>, what: string): QueueLimits['rate'] {
  const { max, per } = ownOptions(rate ?? null, ['max', 'per'], `The fields of ${what}`);
  const perMs = toMs(per, `${what}.per`, 'INVALID_DURATION', { min: 1 });
  return { max: checkCount(max, `${what}.max`), perMs };
}

function checkCount(value: unknown, what: string): number {
  if (Number.isSafeInteger(value) && (value as number) >= 1) return value as number;
  const message = `${what} is ${show(value)}; give a whole number from 1, leave it out for no limit, or pause the queue.`;
  throw new LastoutError('INVALID_LIMIT', message);
}
