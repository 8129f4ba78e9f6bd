/** Opens a queue: finds the store, wires queue, worker and lifecycle, and closes them in order. */
import { takeFolder } from './artifacts/owner.js';
import { codedStore } from './codec/store.js';
import { withDeadlines } from './core/deadlines.js';
import { detailsOf } from './core/definition.js';
import type { Failures } from './core/failures.js';
import type { Enqueued, JobOptions, Logger, SqlClient } from './core/job.js';
import { toJob } from './core/job-view.js';
import { checkName } from './core/names.js';
import { jobOptionNames } from './core/options.js';
import { ownOptions } from './core/own-options.js';
import type { CleanupPolicy } from './core/policy.js';
import type { NewJob, Store, UnderJob } from './core/store.js';
import type { System } from './core/system.js';
import { describeThrown } from './core/thrown.js';
import type { Tracing } from './core/tracing.js';
import { auditOn } from './lifecycle/audit.js';
import { explainOn } from './lifecycle/explain.js';
import { ledgerOn } from './lifecycle/ledger.js';
import { planOn } from './lifecycle/plan.js';
import { makeKnown } from './lifecycle/signals.js';
import { failuresTo } from './observe/failures.js';
import { type LineLogger, lineLogger } from './observe/lines.js';
import { meterSwitch, type MeterSwitch } from './observe/meter-switch.js';
import type { ObserveSettings } from './observe/options.js';
import { closingOf } from './open-close.js';
import { type Lifecycle, lifecycleOn, openPlace } from './open-lifecycle.js';
import { type OpenLeases, openLeases } from './open-leases.js';
import { loadObserving, observerOn, toldOnce } from './open-observe.js';
import { readCleanup, readOpenOptions } from './open-options.js';
import { isVolatile, openStore, type StoreFactory } from './open-store.js';
import { workersOn } from './open-workers.js';
import { actsOn, checkLimit } from './queue/acts.js';
import { acceptedOrThrow, tellSkipped } from './queue/gather.js';
import { atIndex, readBatch } from './queue/batch.js';
import { allReady, insertInside, transactionOf } from './queue/inside.js';
import { type JobMaker, jobMaker, type TypeBook } from './queue/new-job.js';
import { type Schedules, schedulesOn } from './queue/schedules.js';
import { countedRefusals, sendingOn } from './queue/sending.js';
import { healthOf, statsOf } from './queue/stats.js';
import { watchOn } from './queue/watch.js';
import { lookUpsOn } from './queue/look-up.js';
import { createSystem, stderr } from './system.js';
import type { OpenOptions, Queue } from './surface.js';

/** Several queues may share one store instance; closing a queue does not empty the store. */
export async function open(where: string | StoreFactory, options: OpenOptions = {}): Promise<Queue> {
  const settings = readOpenOptions(options, isVolatile(where));
  const { book, namespace, codec, artifacts, resources, cleanup, limits, observe } = settings;
  const tracing = await loadObserving(
    observe,
    toldOnce(() => logger, 'Tracing failed; jobs go on without it'),
  );
  const system = createSystem(settings.clock, (error) =>
    logger.error('The clock cannot be read; it stands still until it can', { error: describeThrown(error).message }),
  );
  const lines = settings.logger ? null : lineLogger(system, stderr);
  const logger = settings.logger ?? lines!;
  const place = await openPlace(artifacts, where, system, namespace);
  const { identity, replicas } = settings;
  const failures = failuresTo(logger, codec !== null);
  const context = {
    ...{ system, namespace, maxStoredJobs: cleanup.maxStoredJobs, limits, stalled: failures.stalled },
    ...(identity !== undefined && { identity }),
    ...(replicas !== undefined && { replicas }),
  };
  const opened = await system.hold(openStore(where, context, { waitForMs: settings.waitForMs, logger }));
  const timed = withDeadlines(opened, system);
  if (place?.folder) await system.hold(takeForStore(place.folder, timed, system));
  const store = codec ? codedStore(timed, codec, logger) : timed;
  const maker = jobMaker(book, system, logger);
  const schedules = schedulesOn({ store, system, logger, maker });
  const meters = meterSwitch(toldOnce(() => logger, 'A metric could not be counted'));
  const parts = { store, system, logger, failures, cleanup, meters };
  const leases = openLeases({ ...parts, namespace }, resources);
  const lifecycle = lifecycleOn({ ...parts, place, leases }, () => schedules.tend());
  lifecycle.sweeper.startPeriodicCleanup();
  return createQueue({ ...parts, book, maker, schedules, lifecycle, leases, tracing, observe, lines });
}

/** Or the store is closed again. */
async function takeForStore(folder: string, store: Store, system: System): Promise<void> {
  try {
    const owner = { engine: store.engine, isVolatile: store.traits.isVolatile, identity: await store.readIdentity() };
    await takeFolder(folder, owner, system);
  } catch (error) {
    await store.close();
    throw error;
  }
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
  readonly meters: MeterSwitch;
  readonly tracing: Tracing | null;
  readonly observe: ObserveSettings;
  readonly failures: Failures;
  /** Null: a logger was given. */
  readonly lines: LineLogger | null;
}

async function createQueue(parts: Parts): Promise<Queue> {
  const { store, system, logger, cleanup, maker, schedules, lifecycle, leases, meters, tracing } = parts;
  const { sweeper, freeing, finalizer } = lifecycle;
  const { gather, inserts } = sendingOn(store, logger, tracing);
  const acts = actsOn(store, system, cleanup, freeing);
  const storedJob = lookUpsOn(store);
  const watch = watchOn(store, system, logger, async (id) => {
    const job = await storedJob(id);
    return job && toJob(job, cleanup);
  });
  const observer = observerOn({ ...parts, tell: watch.tell }, parts.observe);
  const closing = closingOf(system, leases.own, [
    () => leases.stop(),
    () => gather.settled(),
    () => observer.stop(),
    () => watch.stop(),
    () => sweeper.stop(),
    () => lifecycle.close(),
    () => schedules.stop(),
    () => store.close(),
    async () => parts.lines?.stop(),
  ]);
  const { checkOpen, whileOpen, refused } = closing;

  const enqueue = (type: unknown, input: unknown, options?: JobOptions): Promise<Enqueued> =>
    send(null, type, input, options);

  /** One promise a job, that of its batch: a caller may have a hundred thousand under way. */
  function send(under: UnderJob | null, type: unknown, input: unknown, options?: JobOptions): Promise<Enqueued> {
    try {
      checkOpen();
      const own = options && ownOptions(options, jobOptionNames, 'The options of enqueue');
      const free = maker.make(type, input, own);
      const made = under === null ? free : boundTo(under, free);
      if (own?.tx !== undefined) return enqueueInside(own.tx, made);
      return made instanceof Promise ? made.then(gather.add) : gather.add(made);
    } catch (error) {
      return refused(error);
    }
  }

  async function enqueueInside(tx: SqlClient, made: NewJob | Promise<NewJob>): Promise<Enqueued> {
    const [inserted] = await insertInside(inserts, tx, [made], { atomic: false });
    return tellSkipped(acceptedOrThrow(inserted!), (await made).type, logger);
  }

  async function enqueueMany(
    given: readonly { type: unknown; input: unknown; options?: JobOptions }[],
  ): Promise<readonly Enqueued[]> {
    checkOpen();
    const listed = readBatch(given);
    const tx = transactionOf(listed);
    const made = listed.map(({ type, input, options }, index) =>
      atIndex(index, () => maker.make(type, input, options)),
    );
    // Without an asynchronous schema the batch goes out in this very turn, so that the order of calls is kept.
    const inserted = await (tx === undefined
      ? gather.addAll(allReady(made) ?? (await Promise.all(made.map(async (job) => job))))
      : insertInside(inserts, tx, made, { atomic: true }));
    inserted.forEach((each, index) => tellSkipped(each, typeName(listed[index]!.type), logger));
    return inserted as readonly Enqueued[];
  }

  await observer.start();
  const queue: Queue = {
    enqueue: countedRefusals(meters, enqueue),
    enqueueMany: countedRefusals(meters, (jobs) => enqueueMany(jobs).catch(refused)) as Queue['enqueueMany'],
    ...workersOn(parts, closing, {
      get queue() {
        return queue;
      },
      enqueue: countedRefusals(meters, send),
    }),
    get: whileOpen(acts.get),
    find: whileOpen(acts.find),
    logs: whileOpen(acts.logs),
    cancel: whileOpen(async (...args) => acts.cancel(...args)),
    retry: whileOpen(async (...args) => acts.retry(...args)),
    remove: whileOpen(async (...args) => acts.remove(...args)),
    reschedule: whileOpen(async (...args) => acts.reschedule(...args)),
    stats: whileOpen(async () => {
      const tally = await store.tally(cleanup);
      return statsOf(tally, (await leases.book.attention(tally)).count + (await lifecycle.orphansLeft()));
    }),
    health: async () =>
      system.hold(
        healthOf(store, cleanup, {
          closed: closing.hasBegun,
          workers: [...closing.workers],
          lastSweepAt: sweeper.lastSweepAt,
          leases: leases.warnings,
        }),
      ),
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
      const { limit, cursor } = ownOptions(page, ['limit', 'cursor'], 'The options of ledger');
      return ledgerOn(store, cursor, checkLimit(limit));
    }),
    hold: whileOpen(async (...args) => acts.hold(...args)),
    release: whileOpen(async (...args) => acts.release(...args)),
    defineSubject(kind, rule) {
      checkOpen();
      lifecycle.defineSubject(kind, rule);
    },
    sweepSubjects: whileOpen(lifecycle.sweepSubjects),
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
    artifacts: eachOf(lifecycle.artifacts, whileOpen),
    metrics: whileOpen(observer.metrics),
    alerts: whileOpen(observer.alerts),
    close: closing.close,
    [Symbol.asyncDispose]: async () => void (await closing.close()),
  };
  return makeKnown(queue, { whenClosed: closing.whenClosed, logger });
}

function boundTo(under: UnderJob, job: NewJob | Promise<NewJob>): NewJob | Promise<NewJob> {
  return job instanceof Promise ? job.then((made) => ({ ...made, under })) : { ...job, under };
}

/** The same calls, each with something around it. */
function eachOf<T extends object>(calls: T, around: (call: () => Promise<unknown>) => unknown): T {
  return Object.fromEntries(Object.entries(calls).map(([name, call]) => [name, around(call as never)])) as T;
}

function typeName(type: unknown): string {
  return typeof type === 'string' ? type : detailsOf(type).name;
}

function queueName(queue: string | undefined): string | null {
  return queue === undefined ? null : checkName(queue, 'queue');
}
