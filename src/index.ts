/** lastout: the job queue that leaves nothing behind. */
import { slotsOn, type SlotOptions, type Slots } from './core/slots.js';
import { closeOnSignalsWith, type SignalOptions } from './lifecycle/signals.js';
import type { Queue } from './surface.js';
import { createSystem } from './system.js';

export type { Artifact, ArtifactBody, ArtifactOptions, Artifacts } from './core/artifact.js';
export type { BlobInfo, BlobStore } from './core/blobs.js';
export type { Codec, TextPlace } from './core/coded.js';
export {
  type Context,
  type Definition,
  defineJob,
  handle,
  type JobType,
  type StandardSchema,
} from './core/definition.js';
export type { Duration } from './core/duration.js';
export { BackpressureError, type Code, LastoutError } from './core/errors.js';
export {
  type Backoff,
  deduplicationStrategies,
  type DeduplicationStrategy,
  type Enqueued,
  type FinishedState,
  type Job,
  type JobError,
  type JobEvent,
  type JobOptions,
  type Keep,
  type KeepRule,
  type Logger,
  type Page,
  type Progress,
  type SqlClient,
  type State,
} from './core/job.js';
export type { Json, Storable } from './core/json.js';
export { cancel, fail, type Outcome, snooze } from './core/outcome.js';
export {
  defineResource,
  type Lease,
  type Leases,
  type LeaseState,
  type Resource,
  type ResourceSteps,
} from './core/resource.js';
export type { SlotOptions, Slots } from './core/slots.js';
export type { Certificate, Presence, SubjectRule, SubjectSweep } from './core/subject.js';
export type { Audit } from './lifecycle/audit.js';
export type { EndSubjectOptions } from './lifecycle/end-subject.js';
export type { Explanation } from './lifecycle/explain.js';
export type { Plan } from './lifecycle/plan.js';
export type { SweepReport } from './lifecycle/report.js';
export type { Alert } from './observe/alerts.js';
export type { AlertOptions, Notify, RuleOptions, TracingOptions } from './observe/options.js';
export { open } from './open.js';
export type { StoreFactory } from './open-store.js';
export type { Act, Acted } from './queue/acts.js';
export type { Filter, Which } from './queue/filter.js';
export type { Schedule } from './queue/schedules.js';
export type { Health, QueueStats, Stats } from './queue/stats.js';
export type { ScheduleWhen, ScheduleWhen as When } from './queue/ticks.js';
export { memoryStore } from './stores/memory/store.js';
export type { OpenOptions, Queue, WorkerHandle as Worker } from './surface.js';
export type { OneShotReport } from './worker/one-shot.js';
export type { OneShotOptions, WorkOptions } from './worker/options.js';
export type { StopReport } from './core/stop-report.js';

/** At most `maxConcurrent` at once and `maxWaiting` in line; one more is refused with BackpressureError "Queue is full". */
export function createSlots(options: SlotOptions): Slots {
  return slotsOn(createSystem(), options);
}

/** Closes the queue on SIGTERM or SIGINT, and keeps the process alive until then. A second signal ends it at once. */
export function closeOnSignals(queue: Queue, options?: SignalOptions): Disposable {
  return closeOnSignalsWith(createSystem(), queue, options);
}
