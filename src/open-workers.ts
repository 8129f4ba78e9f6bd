/** Starts workers, for as long as they are wanted or until nothing is left to do. */
import type { JobType, TypeDetails } from './core/definition.js';
import { type Duration, show } from './core/duration.js';
import { LastoutError } from './core/errors.js';
import type { Failures } from './core/failures.js';
import type { Job, Logger } from './core/job.js';
import { toJob } from './core/job-view.js';
import type { Meters } from './core/meters.js';
import type { BelongingsOf, BoundLeasesOf, Reach } from './core/owned.js';
import type { CleanupPolicy } from './core/policy.js';
import { listOf } from './core/reading.js';
import type { Store, StoredJob } from './core/store.js';
import type { StopReport } from './core/stop-report.js';
import type { AskSubject } from './core/subject.js';
import type { System } from './core/system.js';
import type { Tracing } from './core/tracing.js';
import { type Closing, readGrace } from './open-close.js';
import { lookUp, type TypeBook } from './queue/new-job.js';
import type { Queue, WorkerHandle } from './surface.js';
import { type OneShotReport, runOneShot } from './worker/one-shot.js';
import {
  type OneShotOptions,
  readOneShotOptions,
  readWorkOptions,
  type WorkerSettings,
  type WorkOptions,
} from './worker/options.js';
import { Worker } from './worker/worker.js';

const typesMax = 10_000;

interface Parts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly failures: Failures;
  readonly meters: Meters;
  readonly tracing: Tracing | null;
  readonly book: TypeBook;
  readonly cleanup: CleanupPolicy;
  readonly lifecycle: { readonly belongingsOf: BelongingsOf; readonly askSubject: AskSubject };
  readonly leases: {
    readonly boundLeasesOf: BoundLeasesOf;
    readonly own: { livingOf(owner: string): Promise<readonly string[]> };
  };
}

export function workersOn(parts: Parts, closing: Closing, reach: Reach): Pick<Queue, 'work' | 'runUntilIdle'> {
  const { system, book, cleanup, lifecycle, leases } = parts;
  const { workers, oneShots, checkNotBegun } = closing;
  const { belongingsOf, askSubject } = lifecycle;
  const { boundLeasesOf } = leases;

  async function work(types: readonly JobType<unknown, unknown>[], options?: WorkOptions): Promise<WorkerHandle> {
    const worker = start(types, 'work', readWorkOptions(options));
    async function stopIt(graceMs: number): Promise<StopReport> {
      const report = await worker.stop(graceMs).finally(() => workers.delete(worker));
      return { ...report, leases: await leases.own.livingOf(worker.id) };
    }
    const stop = async (how: { grace?: Duration } = {}): Promise<StopReport> => system.hold(stopIt(readGrace(how)));
    return {
      id: worker.id,
      get running() {
        return worker.running;
      },
      stop,
      [Symbol.asyncDispose]: async () => void (await stop()),
    };
  }

  function start(types: readonly JobType<unknown, unknown>[], verb: string, settings: WorkerSettings): Worker {
    checkNotBegun();
    const runnable = runnableTypes(book, types, verb);
    for (const [name, details] of runnable) if (!book.closed || book.known.has(name)) book.known.set(name, details);
    const toView = (stored: StoredJob, input: unknown): Job => toJob(stored, cleanup, input);
    const owned = { belongingsOf, boundLeasesOf, askSubject, reach };
    const worker = new Worker({ ...parts, types: runnable, settings, ...owned, toJob: toView });
    workers.add(worker);
    return worker;
  }

  async function runUntilIdle(
    types: readonly JobType<unknown, unknown>[],
    options?: OneShotOptions,
  ): Promise<OneShotReport> {
    const { settings, forMs } = readOneShotOptions(options);
    const worker = start(types, 'runUntilIdle', settings);
    const report = runOneShot(worker, forMs, closing.signal).finally(() => workers.delete(worker));
    oneShots.add(report);
    const reported = report.finally(() => oneShots.delete(report));
    return settings.unref ? reported : system.hold(reported);
  }

  return { work, runUntilIdle };
}

function runnableTypes(
  book: TypeBook,
  types: readonly JobType<unknown, unknown>[],
  verb: string,
): Map<string, TypeDetails> {
  const listed = listOf(types, typesMax, `The list of ${verb}`, 'TYPE_REQUIRED');
  if (!listed || listed.length === 0)
    throw new LastoutError('TYPE_REQUIRED', `${verb} needs a list of job types with code.`);
  const runnable = new Map<string, TypeDetails>();
  for (const type of listed) {
    if (typeof type === 'string')
      throw new LastoutError('UNKNOWN_TYPE', `${verb} got the name ${show(type)}; give what defineJob returned.`);
    const details = lookUp(book, type);
    if (!details.run)
      throw new LastoutError(
        'UNKNOWN_TYPE',
        `Job type "${details.name}" has no code; give it run, or wrap it with handle(type, run).`,
      );
    if (runnable.has(details.name))
      throw new LastoutError('INVALID_NAME', `Job type "${details.name}" is given twice to ${verb}.`);
    runnable.set(details.name, details);
  }
  return runnable;
}
