/** A stored job as its users see it: instants as Date, JSON as values. */
import { readableMessage, whyUnreadable } from './coded.js';
import type { Job, JobError, Progress } from './job.js';
import { LastoutError } from './errors.js';
import type { Json } from './json.js';
import type { CleanupPolicy, StoredPolicy } from './policy.js';
import type { StoredJob } from './store.js';

/** The cleanup policy tells when a finished job without an own rule is due to go. */
export function toJob(stored: StoredJob, cleanup: CleanupPolicy, input = inputOf(stored)): Job {
  return {
    id: stored.id,
    type: stored.type,
    queue: stored.queue,
    state: stored.state,
    input: input as Json,
    result: valueOf(stored.result) as Json,
    error: errorOf(stored),
    attempts: stored.attempts,
    maxAttempts: stored.maxAttempts,
    stalls: stored.stalls,
    priority: stored.priority,
    subject: stored.subject,
    deduplicationKey: stored.key,
    exclusiveKey: stored.exclusiveKey,
    source: stored.source,
    metadata: stored.metadata === null ? {} : (JSON.parse(stored.metadata) as Job['metadata']),
    progress: valueOf(stored.progress) as Progress | null,
    retryOf: stored.retryOf,
    cancelRequested:
      stored.cancelAt === null
        ? null
        : { at: new Date(stored.cancelAt), reason: readableMessage(stored.cancelReason ?? '') },
    createdAt: new Date(stored.createdAt),
    scheduledFor: new Date(stored.scheduledFor),
    startedAt: dateOf(stored.startedAt),
    completedAt: dateOf(stored.completedAt),
    expiresAt: dateOf(stored.expiresAt),
    dueAt: dateOf(stored.dueAt ?? dueToGo(stored, cleanup)),
    epoch: stored.epoch,
  };
}

export function inputOf({ input }: StoredJob): unknown {
  return valueOf(input);
}

/** Null also where the text cannot be decoded: the error says why. */
function valueOf(text: string | null): unknown {
  return text === null || whyUnreadable(text) !== null ? null : JSON.parse(text);
}

function errorOf({ input, result, error }: StoredJob): JobError | null {
  if (error !== null) {
    const own = JSON.parse(error) as JobError;
    return { ...own, message: readableMessage(own.message) };
  }
  const lost = unreadableInput(input) ?? (result === null ? null : unreadable('result', result));
  return lost && { code: lost.code, message: lost.message };
}

/** Null: it can be read, and its handler may run. */
export function unreadableInput(input: string): LastoutError | null {
  return unreadable('input', input);
}

function unreadable(what: string, text: string): LastoutError | null {
  const why = whyUnreadable(text);
  return why === null ? null : new LastoutError('UNSERIALIZABLE', `The ${what} of this job cannot be read: ${why}`);
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
