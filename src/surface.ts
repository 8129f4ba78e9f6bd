/// <reference lib="esnext.disposable" preserve="true" />
/** The public shapes that span the parts: what `open` takes and what it returns. */
import type { Artifacts } from './core/artifact.js';
import type { BlobStore } from './core/blobs.js';
import type { Codec } from './core/coded.js';
import type { JobType } from './core/definition.js';
import type { Duration } from './core/duration.js';
import type { Enqueued, FinishedState, Job, JobEvent, JobOptions, Logger, Page } from './core/job.js';
import type { Json, Storable } from './core/json.js';
import type { QueueOptions } from './core/limits.js';
import type { Lease, Leases, Resource } from './core/resource.js';
import type { StopReport } from './core/stop-report.js';
import type { Certificate, SubjectRule, SubjectSweep } from './core/subject.js';
import type { Audit } from './lifecycle/audit.js';
import type { EndSubjectOptions } from './lifecycle/end-subject.js';
import type { Explanation } from './lifecycle/explain.js';
import type { Plan } from './lifecycle/plan.js';
import type { SweepReport } from './lifecycle/report.js';
import type { Alert } from './observe/alerts.js';
import type { AlertOptions, TracingOptions } from './observe/options.js';
import type { Act, Acted } from './queue/acts.js';
import type { Filter, Which } from './queue/filter.js';
import type { Schedule } from './queue/schedules.js';
import type { Health, Stats } from './queue/stats.js';
import type { ScheduleWhen } from './queue/ticks.js';
import type { WaitOptions } from './queue/watch.js';
import type { OneShotReport } from './worker/one-shot.js';
import type { OneShotOptions, WorkOptions } from './worker/options.js';

export interface OpenOptions {
  /** What happens to finished jobs. Defaults: 24 h, every hour, from completedAt; at most 1000 stored in memory. */
  cleanup?: { maxStoredJobs?: number; jobRetentionMs?: number; cleanupIntervalMs?: number; useCompletedTime?: boolean };
  /** Limits across all processes. A queue named here gets exactly these, `{}` lifts them; others stay as they are. */
  queues?: { readonly [queue: string]: QueueOptions };
  /** Given: enqueue by an unlisted name is UNKNOWN_TYPE; else any well-formed name is taken. */
  types?: readonly JobType<unknown, unknown>[];
  /**
   * Where artifacts and temporary folders are kept: in a folder that all processes of this store share, in the memory of
   * this process (the default on `memory:`), or in a store of your own. Quotas: 10 GiB and 1 GiB a job in files and in a
   * store of your own, 256 MiB and 64 MiB a job in memory.
   */
  artifacts?:
    | { dir: string; maxBytes?: number; maxBytesPerJob?: number }
    | { blobs: BlobStore; maxBytes?: number; maxBytesPerJob?: number }
    | 'memory';
  /** What this process can end: the leases of these kinds, whoever took them. A kind that it leases itself is known as well. */
  resources?: readonly Resource<unknown, unknown>[];
  /** Through it go input, result, error, log and progress on their way to the store, for example encrypted. */
  codec?: Codec;
  /** Counts from the start (needs prom-client); without it counting begins with the first call of `metrics()`. */
  metrics?: boolean;
  /** Spans by OpenTelemetry (needs @opentelemetry/api), by its global provider or by the given one. */
  tracing?: boolean | TracingOptions;
  /** Looks at the rules of the alerts every 30 s, and tells who is named. Without it they are looked at by `alerts()`. */
  alerts?: AlertOptions;
  namespace?: string;
  /** Once, for a copy of a store that is in use: its leases and artifacts are its own from here on. */
  identity?: 'new';
  /** Without one, warnings and errors are lines on stderr; false: silence. */
  logger?: Logger | false;
  /** The store's clock; for tests (see fakeClock in lastout/testing). */
  clock?: { now(): Date };
  /** How long `open` waits for a store that is not up yet. Without it, `open` fails with the first error. */
  waitFor?: Duration;
  /** Redis: an enqueue, a claim, an ending or an act is acknowledged only when so many replicas have it. */
  replicas?: number;
}

export interface WorkerHandle extends AsyncDisposable {
  readonly id: string;
  readonly running: readonly string[];
  stop(options?: { grace?: Duration }): Promise<StopReport>;
}

/** The jobs of one call: the types are inferred, the inputs are checked against them. */
type Listed<T extends readonly unknown[]> = {
  readonly [K in keyof T]: { readonly type: T[K]; readonly input: InputOf<T[K]>; readonly options?: JobOptions };
};
/** The same list once more, by its inputs: those of types that are only a name must be storable, and more is not known of them. */
type ListedInputs<T, X extends readonly unknown[]> = {
  readonly [K in keyof X]: {
    readonly type: JobType<unknown, unknown> | string;
    readonly input: X[K] & (K extends keyof T ? (T[K] extends string ? Storable<X[K]> : unknown) : unknown);
    readonly options?: JobOptions;
  };
};
type InputOf<T> = T extends JobType<unknown, unknown, infer In> ? In : unknown;
type ResultOf<T> = T extends JobType<unknown, infer R> ? (unknown extends R ? Json : R) : Json;

export interface Queue extends AsyncDisposable {
  enqueue<I, R, In>(type: JobType<I, R, In>, input: NoInfer<In>, options?: JobOptions): Promise<Enqueued<R>>;
  enqueue<T>(type: string, input: T & Storable<T>, options?: JobOptions): Promise<Enqueued>;
  /** 1 to 1,000 jobs, all or none. */
  enqueueMany<const T extends readonly (JobType<unknown, unknown> | string)[], X extends readonly unknown[]>(
    jobs: Listed<T> & ListedInputs<T, X>,
  ): Promise<{ readonly [K in keyof T]: Enqueued<ResultOf<T[K]>> }>;
  work(types: readonly JobType<unknown, unknown>[], options?: WorkOptions): Promise<WorkerHandle>;
  /** For cron and serverless: works until nothing is ready, or until `for` is over, and stops. */
  runUntilIdle(types: readonly JobType<unknown, unknown>[], options?: OneShotOptions): Promise<OneShotReport>;
  get(id: string): Promise<Job | null>;
  /** With its input and result. A job of another type: JOB_NOT_FOUND. */
  get<I, R>(type: JobType<I, R, unknown>, id: string): Promise<Job<I, R> | null>;
  /** Newest first; limit 50, at most 200. */
  find(filter?: Filter & { limit?: number; cursor?: string }): Promise<Page<Job>>;
  /** The lines that handlers wrote with `log`. */
  logs(id: string): Promise<readonly { at: Date; message: string; fields: object | null }[]>;
  stats(): Promise<Stats>;
  health(): Promise<Health>;
  cancel(which: Which, act?: Act): Promise<Acted<'cancelled' | 'requested' | `already:${FinishedState}`>>;
  /** A new job with retryOf; the old one stays as it ended, and is not retried twice unless `again`. */
  retry(which: Which, act?: Act): Promise<Acted<'retried' | 'already_retried' | 'skipped' | 'not_finished'>>;
  /** Pending and finished ones; processing ones only with force. */
  remove(which: Which, act?: Act): Promise<Acted<'removed' | 'held' | 'not_finished'>>;
  /** Run now = { delay: 0 }. */
  reschedule(
    which: Which,
    to: { delay?: Duration; runAt?: Date; priority?: number },
    act?: Act,
  ): Promise<Acted<'moved' | 'not_pending'>>;
  /** Stops claims, not enqueues and not what runs. Without a name: every queue. */
  pause(queue?: string): Promise<void>;
  /** Without a name: every queue, also those paused by name. With one it runs, also while every other queue is paused. */
  resume(queue?: string): Promise<void>;
  /** With its input and result. A job of another type: JOB_NOT_FOUND. */
  wait<I, R>(type: JobType<I, R, unknown>, id: string, options?: WaitOptions): Promise<Job<I, R>>;
  /** Any finished state resolves; WAIT_TIMEOUT, JOB_NOT_FOUND reject. */
  wait(id: string, options?: WaitOptions): Promise<Job>;
  events(options?: { after?: string; subject?: string; type?: string; signal?: AbortSignal }): AsyncIterable<JobEvent>;
  on<N extends JobEvent['name']>(name: N, listener: (event: Extract<JobEvent, { name: N }>) => void): () => void;
  /**
   * Sets a schedule: each tick gives one job. Every process may set it when it starts; an equal one is left as it is,
   * another one takes its place. Without a timeZone, cron is read in UTC. Missed ticks: skip, once (the default), all.
   */
  schedule<I, R, In>(
    name: string,
    type: JobType<I, R, In>,
    input: NoInfer<In>,
    when: ScheduleWhen,
    options?: JobOptions,
  ): Promise<void>;
  schedule<T>(
    name: string,
    type: string,
    input: T & Storable<T>,
    when: ScheduleWhen,
    options?: JobOptions,
  ): Promise<void>;
  /** False: there was none of this name. */
  unschedule(name: string): Promise<boolean>;
  schedules(): Promise<readonly Schedule[]>;
  /** Stops claiming, drains up to the grace (30 s), hands the rest back, reports. */
  close(options?: { grace?: Duration }): Promise<StopReport>;
  /** `open` calls it; a second call does nothing. */
  startPeriodicCleanup(): void;
  stopPeriodicCleanup(): Promise<void>;
  /** Tending and cleanup, once. */
  sweep(): Promise<SweepReport>;
  /** What a sweep would remove now, and what is held; with a policy: what it would remove if that were the policy. */
  plan(policy?: OpenOptions['cleanup']): Promise<Plan>;
  /** Why a job is here, why it does not run, when and by which rule it goes; or why it went. */
  explain(id: string): Promise<Explanation>;
  /** For each kind of thing, what was created has been released, or lives, or needs attention. Best read at rest. */
  audit(): Promise<Audit>;
  /** The last passes of the cleanup, newest first; limit 50, at most 200. */
  ledger(options?: { limit?: number; cursor?: string }): Promise<Page<SweepReport>>;
  /** No removal until then, or until it is released; answers how many jobs are held. */
  hold(which: Which, reason: string, until?: Date): Promise<number>;
  release(which: Which): Promise<number>;
  /** Makes a thing outside the queue and holds it for `ttl`; then it is destroyed, whatever happened to this process. */
  lease<S, I = Json>(
    resource: Resource<S, I>,
    spec: S,
    options: { ttl: Duration; subject?: string },
  ): Promise<Lease<I>>;
  readonly leases: Leases;
  /**
   * How to find out whether subjects of a kind exist. Every process that checks them defines it when it starts; from then on their
   * pending jobs are looked through, by one process at a time, and those whose subject is gone are cancelled as orphans.
   */
  defineSubject(kind: string, rule: SubjectRule): void;
  /** Looks through the pending jobs of this kind now, whether it is due or not. Null: another process is at it. */
  sweepSubjects(kind: string): Promise<SubjectSweep | null>;
  /** Cancels its pending jobs, asks running ones to stop, releases its leases, and takes nothing of it in for a while. */
  endSubject(subject: string, reason: string, options?: EndSubjectOptions): Promise<Certificate>;
  /** Takes jobs of it in again. False: it was not fenced. */
  liftSubject(subject: string): Promise<boolean>;
  readonly artifacts: Artifacts;
  /** Prometheus text. */
  metrics(): Promise<string>;
  /** Looks now: what is pending, what fires, and what was cleared in the last 15 minutes. */
  alerts(): Promise<readonly Alert[]>;
}

/** The core knows no queue; a handler gets the one that its worker belongs to. */
declare module './core/definition.js' {
  // eslint-disable-next-line @typescript-eslint/no-unused-vars -- it has to be declared as in the core
  interface Context<I> {
    readonly queue: Queue;
  }
}
