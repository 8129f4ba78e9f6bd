/** The way of new jobs to the store: gathered, and with a span around each call where there is tracing. */
import { LastoutError } from '../core/errors.js';
import type { Logger } from '../core/job.js';
import type { Meters } from '../core/meters.js';
import type { Store } from '../core/store.js';
import type { Tracing } from '../core/tracing.js';
import { gatherer, type Gatherer } from './gather.js';

export interface Sending {
  readonly gather: Gatherer;
  /** For what goes to the store by itself, in a transaction of the caller. */
  readonly inserts: Pick<Store, 'insert'>;
}

export function sendingOn(store: Store, logger: Logger, tracing: Tracing | null): Sending {
  const gather = gatherer(store, logger);
  if (!tracing) return { gather, inserts: store };
  return {
    gather: {
      ...gather,
      add: (job) => tracing.send([job], ([carrying]) => gather.add(carrying!)),
      addAll: (jobs) => tracing.send(jobs, gather.addAll),
    },
    inserts: { insert: (jobs, options) => tracing.send(jobs, (carrying) => store.insert(carrying, options)) },
  };
}

/** The same call; its refusals are counted where somebody counts. */
export function countedRefusals<A extends unknown[], T>(
  meters: Meters,
  call: (...args: A) => Promise<T>,
): (...args: A) => Promise<T> {
  const count = (error: unknown): never => {
    meters.add('refusals', 1, { code: error instanceof LastoutError ? error.code : 'other' });
    throw error;
  };
  return (...args) => (meters.isOn ? call(...args).catch(count) : call(...args));
}
