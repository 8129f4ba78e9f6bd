/** Opens a queue: finds the store, wires queue, worker and lifecycle, and closes them in order. */
import { codedStore } from './codec/store.js';
import { withDeadlines } from './core/deadlines.js';
import { detailsOf, type JobType, type TypeDetails } from './core/definition.js';
import { type Duration, show, toMs } from './core/duration.js';
import { LastoutError } from './core/errors.js';
import type { Job, JobOptions, Logger, SqlClient } from './core/job.js';
import { toJob } from './core/job-view.js';
import { noMeters } from './core/meters.js';
import { checkName } from './core/names.js';
import { type CleanupPolicy, defaults } from './core/policy.js';
import type { NewJob, Store, StoredJob } from './core/store.js';
import { atMost, type System } from './core/system.js';
import { refuseUnknown } from './core/unknown-option.js';
import { auditOn } from './lifecycle/audit.js';
import { explainOn } from './lifecycle/explain.js';
import { ledgerOn } from './lifecycle/ledger.js';
import { planOn } from './lifecycle/plan.js';
import { type Lifecycle, lifecycleOn, openPlace } from './open-lifecycle.js';
import { type OpenLeases, openLeases } from './open-leases.js';
import { readCleanup, readOpenOptions } from './open-options.js';
import { openStore, type StoreFactory } from './open-store.js';
import { actsOn, checkCursor, checkLimit } from './queue/acts.js';
import { acceptedOrThrow, gatherer, tellSkipped } from './queue/gather.js';
import { allReady, insertInside, transactionOf } from './queue/inside.js';
import { type JobMaker, jobMaker, lookUp, type TypeBook } from './queue/new-job.js';
import { type Schedules, schedulesOn } from './queue/schedules.js';
import { healthOf, statsOf } from './queue/stats.js';
import { watchOn } from './queue/watch.js';
import { lookUpsOn } from './queue/look-up.js';
import { createSystem } from './system.js';
import type { Enqueued, OpenOptions, Queue, WorkerHandle } from './surface.js';
import { type OneShotReport, runOneShot } from './worker/one-shot.js';
import {
  type OneShotOptions,
  readOneShotOptions,
  readWorkOptions,
  type WorkerSettings,
  type WorkOptions,
} from './worker/options.js';
import type { StopReport } from './worker/stop.js';
import { Worker } from './worker/worker.js';

const batchMax = 1_000;
/** How long after its grace a close may still take. */
const afterGraceMs = 1_000;

/** Several queues may share one store instance; closing a queue does not empty the store. */
export async function open(where: string | StoreFactory, options: OpenOptions = {}): Promise<Queue> {
  const inMemory = typeof where === 'string' ? where.startsWith('memory:') : where?.engine === 'memory';
  const { book, logger, namespace, codec, artifacts, resources, cleanup, limits } = readOpenOptions(options, inMemory);
  const system = createSystem(options.clock);
  const place = await openPlace(artifacts, where, system, namespace);
  const context = { system, namespace, maxStoredJobs: cleanup.maxStoredJobs, limits };
  const opened = await system.hold(openStore(where, context));
  const timed = withDeadlines(opened, system);
  const store = codec ? codedStore(timed, codec, logger) : timed;
  const maker = jobMaker(book, system, logger);
  const schedules = schedulesOn({ store, system, logger, maker });
  const leases = openLeases({ store, system, logger, namespace, meters: noMeters, cleanup }, resources);
  const lifecycle = lifecycleOn({ store, system, logger, cleanup, place, leases }, () => schedules.tend());
  lifecycle.sweeper.startPeriodicCleanup();
  return createQueue({ store, system, logger, book, cleanup, maker, schedules, lifecycle, leases });
}

interface Parts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly book: TypeBook;
  readonly cleanup: CleanupPolicy;
  readonly maker: JobMaker;
  readonly schedules: Schedules;
  readonly lifecycle: Lifecycle;
  readonly leases: OpenLeases;
}

function createQueue(parts: Parts): Queue {
  const { store, system, logger, book, cleanup, maker, schedules, lifecycle, leases } = parts;
  const { sweeper, freeing, finalizer, belongingsOf } = lifecycle;
  const gather = gatherer(store, logger);
  const acts = actsOn(store, system, cleanup, freeing);
  const storedJob = lookUpsOn(store);
  const watch = watchOn(store, system, logger, async (id) => {
    const job = await storedJob(id);
    return job && toJob(job, cleanup);
  });
  const workers = new Set<Worker>();
  const oneShots = new Set<Promise<OneShotReport>>();
  const closing = new AbortController();
  let closed: Promise<StopReport> | null = null;
  /** Closing waits for running handlers, and these may still use the queue: to enqueue what follows, for example. */
  let draining = false;

  function checkOpen(): void {
    if (closed && !draining) throw closedError();
  }
  /** Every call on a closed queue is refused in the same words. */
  const whileOpen =
    <A extends unknown[], T>(call: (...args: A) => Promise<T>) =>
    async (...args: A): Promise<T> => {
      checkOpen();
      return system.hold(call(...args));
    };

  /** One promise a job, that of its batch: a caller may have a hundred thousand under way. */
  function enqueue(type: unknown, input: unknown, options?: JobOptions): Promise<Enqueued> {
    try {
      checkOpen();
      const made = maker.make(type, input, options);
      if (options?.tx !== undefined) return enqueueInside(options.tx, made);
      return made instanceof Promise ? made.then(gather.add) : gather.add(made);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async function enqueueInside(tx: SqlClient, made: NewJob | Promise<NewJob>): Promise<Enqueued> {
    const [inserted] = await insertInside(store, tx, [made], { atomic: false });
    return tellSkipped(acceptedOrThrow(inserted!), (await made).type, logger);
  }

  async function enqueueMany(
    jobs: readonly { type: unknown; input: unknown; options?: JobOptions }[],
  ): Promise<readonly Enqueued[]> {
    checkOpen();
    const isList: boolean = Array.isArray(jobs);
    if (!isList || jobs.length < 1 || jobs.length > batchMax) {
      throw new LastoutError(
        'BATCH_SIZE',
        `enqueueMany got ${isList ? `${jobs.length} jobs` : show(jobs)}; give a list of 1 to ${batchMax}.`,
      );
    }
    const tx = transactionOf(jobs);
    const made = jobs.map((job, index) => atIndex(index, () => makeListed(job)));
    // Without an asynchronous schema the batch goes out in this very turn, so that the order of calls is kept.
    const inserted = await (tx === undefined
      ? gather.addAll(allReady(made) ?? (await Promise.all(made.map(async (job) => job))))
      : insertInside(store, tx, made, { atomic: true }));
    inserted.forEach((each, index) => tellSkipped(each, typeName(jobs[index]!.type), logger));
    return inserted as readonly Enqueued[];
  }

  function makeListed(job: { type: unknown; input: unknown; options?: JobOptions }): NewJob | Promise<NewJob> {
    refuseUnknown(job ?? null, ['type', 'input', 'options'], 'The fields of a job in the list');
    return maker.make(job.type, job.input, job.options);
  }

  async function work(types: readonly JobType<unknown, unknown>[], options?: WorkOptions): Promise<WorkerHandle> {
    const worker = startWorker(types, 'work', readWorkOptions(options));
    const stop = (how: { grace?: Duration } = {}): Promise<StopReport> =>
      system.hold(worker.stop(readGrace(how)).finally(() => workers.delete(worker)));
    return {
      id: worker.id,
      get running() {
        return worker.running;
      },
      stop,
      [Symbol.asyncDispose]: async () => void (await stop()),
    };
  }

  function startWorker(types: readonly JobType<unknown, unknown>[], verb: string, settings: WorkerSettings): Worker {
    if (closed) throw closedError();
    const runnable = runnableTypes(types, verb);
    for (const [name, details] of runnable) if (!book.closed || book.known.has(name)) book.known.set(name, details);
    const toView = (stored: StoredJob, input: unknown): Job => toJob(stored, cleanup, input);
    const { boundLeasesOf } = leases;
    const asked = { belongingsOf, boundLeasesOf, askSubject: lifecycle.askSubject };
    const worker = new Worker({ store, system, logger, types: runnable, settings, ...asked, toJob: toView });
    workers.add(worker);
    return worker;
  }

  async function runUntilIdle(
    types: readonly JobType<unknown, unknown>[],
    options?: OneShotOptions,
  ): Promise<OneShotReport> {
    const { settings, forMs } = readOneShotOptions(options);
    const worker = startWorker(types, 'runUntilIdle', settings);
    const report = runOneShot(worker, forMs, closing.signal).finally(() => workers.delete(worker));
    oneShots.add(report);
    return system.hold(report.finally(() => oneShots.delete(report)));
  }

  /** Workers first, while the store still answers; then what is under way; the store last. No hang outlasts the end. */
  async function shutDown(graceMs: number): Promise<StopReport> {
    const endAt = system.monotonic() + graceMs + afterGraceMs;
    const untilEnd = (work: Promise<unknown>): Promise<void> => atMost(system, endAt - system.monotonic(), work);
    draining = workers.size > 0;
    closing.abort();
    const reports = await Promise.all([...workers].map((worker) => worker.stop(graceMs)));
    draining = false;
    await untilEnd(Promise.allSettled(oneShots));
    await untilEnd(leases.stop());
    await untilEnd(gather.settled());
    await untilEnd(watch.stop());
    await untilEnd(sweeper.stop());
    await untilEnd(lifecycle.close());
    await untilEnd(schedules.stop());
    await untilEnd(store.close());
    return {
      finished: reports.reduce((sum, report) => sum + report.finished, 0),
      handedBack: reports.flatMap((report) => report.handedBack),
      abandoned: reports.flatMap((report) => report.abandoned),
    };
  }
  function close(options: { grace?: Duration } = {}): Promise<StopReport> {
    let graceMs: number;
    try {
      graceMs = readGrace(options);
    } catch (error) {
      return Promise.reject(error);
    }
    // Closing again with less patience shortens the wait.
    if (closed) for (const worker of workers) void worker.stop(graceMs);
    closed ??= system.hold(shutDown(graceMs));
    return closed;
  }

  return {
    enqueue,
    enqueueMany,
    work,
    runUntilIdle,
    get: whileOpen(acts.get),
    find: whileOpen(acts.find),
    logs: whileOpen(acts.logs),
    cancel: whileOpen(async (...args) => acts.cancel(...args)),
    retry: whileOpen(async (...args) => acts.retry(...args)),
    remove: whileOpen(async (...args) => acts.remove(...args)),
    reschedule: whileOpen(async (...args) => acts.reschedule(...args)),
    stats: whileOpen(async () => {
      const tally = await store.tally(cleanup);
      const { count } = await leases.book.attention(tally);
      return statsOf(tally, count + (await lifecycle.orphansLeft()));
    }),
    health: async () =>
      healthOf(store, { closed: closed !== null, workers: [...workers], lastSweepAt: sweeper.lastSweepAt }),
    pause: whileOpen(async (queue?: string) => store.pause(queueName(queue), true)),
    resume: whileOpen(async (queue?: string) => store.pause(queueName(queue), false)),
    wait: whileOpen(watch.wait),
    events(options) {
      checkOpen();
      return watch.events(options);
    },
    on(name, listener) {
      checkOpen();
      return watch.on(name, listener);
    },
    schedule: whileOpen(schedules.schedule),
    unschedule: whileOpen(schedules.unschedule),
    schedules: whileOpen(schedules.schedules),
    startPeriodicCleanup: () => sweeper.startPeriodicCleanup(),
    stopPeriodicCleanup: () => system.hold(sweeper.stopPeriodicCleanup()),
    sweep: whileOpen(() => sweeper.sweep()),
    plan: whileOpen(async (policy = {}) => planOn({ store, system, finalizer }, readCleanup(policy, cleanup))),
    explain: whileOpen((id: string) => explainOn({ store, system, finalizer }, cleanup, id)),
    audit: whileOpen(() => auditOn(store, system, cleanup)),
    ledger: whileOpen(async (page = {}) => {
      refuseUnknown(page, ['limit', 'cursor'], 'The options of ledger');
      return ledgerOn(store, checkCursor(page.cursor), checkLimit(page.limit));
    }),
    hold: whileOpen(async (...args) => acts.hold(...args)),
    release: whileOpen(async (...args) => acts.release(...args)),
    defineSubject(kind, rule) {
      checkOpen();
      lifecycle.defineSubject(kind, rule);
    },
    endSubject: whileOpen(lifecycle.endSubject),
    liftSubject: whileOpen(lifecycle.liftSubject),
    async lease(resource, spec, options) {
      checkOpen();
      return system.hold(leases.lease(resource, spec, options));
    },
    leases: {
      find: whileOpen(leases.book.find),
      retry: whileOpen(leases.book.retry),
      force: whileOpen(leases.book.force),
    },
    artifacts: {
      get: whileOpen(lifecycle.artifacts.get),
      list: whileOpen(lifecycle.artifacts.list),
      byLink: whileOpen(lifecycle.artifacts.byLink),
      read: whileOpen(lifecycle.artifacts.read),
      remove: whileOpen(lifecycle.artifacts.remove),
    },
    close,
    [Symbol.asyncDispose]: async () => void (await close()),
  };

  function runnableTypes(types: readonly JobType<unknown, unknown>[], verb: string): Map<string, TypeDetails> {
    if (!Array.isArray(types) || types.length === 0)
      throw new LastoutError('TYPE_REQUIRED', `${verb} needs a list of job types with code.`);
    const runnable = new Map<string, TypeDetails>();
    for (const type of types) {
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
}

function closedError(): LastoutError {
  return new LastoutError('CLOSED', 'This queue is closed; open it again.');
}

/** A refusal becomes a rejection, so that it waits its turn beside those of asynchronous schemas and none is unheard. */
function atIndex<T>(index: number, make: () => T | Promise<T>): T | Promise<T> {
  const blame = (error: unknown): never => {
    if (error instanceof LastoutError)
      throw new LastoutError(error.code, `Job ${index}: ${error.message}`, { ...error.details, index });
    throw error;
  };
  try {
    const made = make();
    return made instanceof Promise ? made.catch(blame) : made;
  } catch (error) {
    return Promise.reject(error as Error).catch(blame);
  }
}

function typeName(type: unknown): string {
  return typeof type === 'string' ? type : detailsOf(type).name;
}

function queueName(queue: string | undefined): string | null {
  return queue === undefined ? null : checkName(queue, 'queue');
}

function readGrace(options: { grace?: Duration }): number {
  refuseUnknown(options, ['grace'], 'The options of close and stop');
  return options.grace === undefined ? defaults.graceMs : toMs(options.grace, 'grace');
}
