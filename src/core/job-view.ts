/** A stored job as its users see it: instants as Date, JSON as values. */
import type { Job, JobError, Progress } from './job.js';
import type { Json } from './json.js';
import type { CleanupPolicy, StoredPolicy } from './policy.js';
import type { StoredJob } from './store.js';

/** The cleanup policy tells when a finished job without an own rule is due to go. */
export function toJob(stored: StoredJob, cleanup: CleanupPolicy): Job {
  return {
    id: stored.id,
    type: stored.type,
    queue: stored.queue,
    state: stored.state,
    input: JSON.parse(stored.input) as Json,
    result: stored.result === null ? null : (JSON.parse(stored.result) as Json),
    error: stored.error === null ? null : (JSON.parse(stored.error) as JobError),
    attempts: stored.attempts,
    maxAttempts: stored.maxAttempts,
    stalls: stored.stalls,
    priority: stored.priority,
    subject: stored.subject,
    deduplicationKey: stored.key,
    exclusiveKey: stored.exclusiveKey,
    source: stored.source,
    metadata: stored.metadata === null ? {} : (JSON.parse(stored.metadata) as Job['metadata']),
    progress: stored.progress === null ? null : (JSON.parse(stored.progress) as Progress),
    retryOf: stored.retryOf,
    cancelRequested:
      stored.cancelAt === null ? null : { at: new Date(stored.cancelAt), reason: stored.cancelReason ?? '' },
    createdAt: new Date(stored.createdAt),
    scheduledFor: new Date(stored.scheduledFor),
    startedAt: dateOf(stored.startedAt),
    completedAt: dateOf(stored.completedAt),
    expiresAt: dateOf(stored.expiresAt),
    dueAt: dateOf(stored.dueAt ?? dueToGo(stored, cleanup)),
    epoch: stored.epoch,
  };
}

function dueToGo({ state, completedAt, createdAt, policy }: StoredJob, cleanup: CleanupPolicy): number | null {
  if (completedAt === null || state === 'pending' || state === 'processing') return null;
  const own = (JSON.parse(policy) as StoredPolicy).keep[state]?.ageMs;
  if (own === null) return null;
  if (own !== undefined) return completedAt + own;
  return (cleanup.useCompletedTime ? completedAt : createdAt) + cleanup.jobRetentionMs;
}

function dateOf(at: number | null): Date | null {
  return at === null ? null : new Date(at);
}
