/** Wires leases to the workers of the library that end them: one for each kind, so that no kind waits for another. */
import type { TypeDetails } from './core/definition.js';
import type { Failures } from './core/failures.js';
import { systemQueue } from './core/names.js';
import type { Resource } from './core/resource.js';
import { defaults } from './core/policy.js';
import type { StoredJob } from './core/store.js';
import type { AskSubject } from './core/subject.js';
import { type Leasing, leasingOn } from './leases/index.js';
import type { LeaseParts } from './leases/parts.js';
import type { BelongingsOf, Reach } from './core/owned.js';
import { toJob } from './core/job-view.js';
import type { CleanupPolicy } from './core/policy.js';
import type { WorkerSettings } from './worker/options.js';
import { Worker } from './worker/worker.js';

/** How many things of one kind are ended at once: a slow one does not hold up the others. */
const atOnce = 8;
/** A lease is never given up because the processes that wanted to end it died. */
const maxStalls = 1_000_000_000;

const settings: WorkerSettings = {
  concurrency: atOnce,
  queues: [systemQueue],
  leaseMs: defaults.leaseMs,
  heartbeatMs: defaults.leaseMs / 3,
  // A hint, or the next due one, comes sooner.
  pollMs: defaults.tendMs,
  maxStalls,
  name: null,
  // Housekeeping: another process ends them as well.
  unref: true,
};

/** What ends leases leaves nothing behind. */
const belongingsOf: BelongingsOf = () => {
  throw new Error('A worker of the library owns nothing');
};

/** Nor does it add jobs. */
const reach: Reach = {
  get queue(): never {
    throw new Error('A worker of the library has no queue');
  },
  enqueue() {
    throw new Error('A worker of the library enqueues nothing');
  },
};

/** Nor has it subjects. */
const askSubject: AskSubject = async () => 'unknown';

export interface OpenLeases extends Omit<Leasing, 'stop'> {
  /** What is being ended is called off and handed back: the next process goes on with it. */
  stop(): Promise<void>;
}

export function openLeases(
  parts: LeaseParts & { readonly cleanup: CleanupPolicy; readonly failures: Failures },
  resources: readonly Resource<unknown, unknown>[],
): OpenLeases {
  const { store, system, logger, failures, cleanup, meters } = parts;
  const workers: Worker[] = [];

  function begin(types: readonly TypeDetails[]): void {
    const named = new Map(types.map((details) => [details.name, details]));
    const toView = (stored: StoredJob, input: unknown) => toJob(stored, cleanup, input);
    const { boundLeasesOf } = leasing;
    workers.push(
      new Worker({
        ...{ store, system, logger, failures, types: named, settings, meters },
        ...{ belongingsOf, boundLeasesOf, reach, askSubject },
        tracing: null,
        toJob: toView,
      }),
    );
  }

  const leasing = leasingOn(parts, begin, () => workers.some((worker) => worker.isFailing));
  for (const resource of resources) leasing.know(resource);
  return {
    ...leasing,
    get warnings() {
      return leasing.warnings;
    },
    async stop() {
      leasing.stop();
      await Promise.all(workers.map((worker) => worker.stop(0)));
    },
  };
}
