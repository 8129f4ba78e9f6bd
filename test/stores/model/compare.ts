// Everything that can be seen of a store, and what the model says it must be.
import { plainStored } from '../../../src/core/columns.js';
import { noFilter } from '../../../src/core/store.js';
import assert from 'node:assert/strict';
import type { CleanupPolicy } from '../../../src/core/policy.js';
import type { QueueTally, StoredJob } from '../../../src/core/store.js';
import type { StoreHarness } from '../../../src/testing/index.js';
import { isOver, isReplaced, type ModelError, type ModelJob, stateOf } from './jobs.js';
import type { Model } from './model.js';

export interface Real {
  readonly harness: StoreHarness;
  /** Where the event log was last read. */
  cursor: string;
  /** All jobs after the last command, newest first. */
  seen: readonly StoredJob[];
  lastEpoch: number;
  /** What was done and what it led to, counted. */
  readonly counts: Map<string, number>;
}

export function count(real: Real, what: string): void {
  real.counts.set(what, (real.counts.get(what) ?? 0) + 1);
}

export const policy: CleanupPolicy = {
  maxStoredJobs: 12,
  jobRetentionMs: 60,
  cleanupIntervalMs: 30,
  useCompletedTime: true,
};

const entries = ['created', 'claimed', 'stalled', 'completed', 'failed', 'cancelled', 'expired', 'replaced', 'removed'];

/** What the store chose freely is taken over by the model: only a claim that lapsed leaves it a choice. */
export async function lookForLapsed(model: Model, real: Real): Promise<void> {
  if (model.claims.some(({ dueAt }) => dueAt <= model.now)) await look(real);
}

export async function look(real: Real): Promise<void> {
  const { jobs, next } = await real.harness.store.find({ filter: noFilter, cursor: null, limit: 1_000 });
  assert.equal(next, null);
  real.seen = jobs;
}

export async function compare(model: Model, real: Real): Promise<void> {
  const { store } = real.harness;
  compareJobs(real.seen, model);
  const { queues, overdue } = await store.tally(policy);
  assert.deepEqual(queues.toSorted(byQueue), expectedTally(model).toSorted(byQueue));
  assert.equal(overdue, model.overAge(policy, model.now - policy.cleanupIntervalMs).length);
  const page = await store.readEvents({ after: real.cursor, limit: 1_000 });
  real.cursor = page.cursor;
  const told = page.events.filter(({ name }) => entries.includes(name)).map(({ name, id }) => `${name} ${id}`);
  assert.deepEqual(told.toSorted(), model.events.toSorted());
  model.events = [];
  for (const event of page.events) count(real, event.error?.code ?? event.name);
  checkPromises(real.seen);
}

/** Field by field, as it is done a million times; where something differs, the difference is shown as a whole. */
function compareJobs(seen: readonly StoredJob[], model: Model): void {
  const expected = model.jobs.map((job) => expectedJob(job, model.now)).reverse();
  const isSame = seen.every((job, index) => {
    const wanted = expected[index];
    if (!wanted || Object.keys(job).length !== Object.keys(wanted).length + 1) return false;
    for (const field in wanted) {
      if (field === 'error') continue;
      if (job[field as keyof typeof wanted] !== wanted[field as keyof typeof wanted]) return false;
    }
    const error = errorOf(job.error);
    return error?.code === wanted.error?.code && error?.message === wanted.error?.message;
  });
  if (isSame && seen.length === expected.length) return;
  const shown = seen.map(({ seq: _, error, ...job }) => ({ ...job, error: errorOf(error) }));
  assert.deepEqual(shown, expected);
  assert.fail('the jobs differ');
}

const byQueue = (a: QueueTally, b: QueueTally): number => (a.queue < b.queue ? -1 : 1);

/** What holds whatever the model says: one pending job per slot, one running job per exclusive key, one job per tick. */
function checkPromises(jobs: readonly StoredJob[]): void {
  const slots = jobs.filter(({ state, metadata }) => state === 'pending' && metadata?.includes('"slot":true'));
  const slotNames = slots.map(({ type, key }) => `${type} ${key ?? ''}`);
  assert.equal(new Set(slotNames).size, slotNames.length, 'one pending job per slot');
  const exclusive = jobs.filter(({ state, exclusiveKey }) => state === 'processing' && exclusiveKey !== null);
  const keys = exclusive.map(({ type, queue, exclusiveKey }) => `${type} ${queue} ${exclusiveKey}`);
  assert.equal(new Set(keys).size, keys.length, 'one running job per exclusive key');
  const ticks = jobs.filter(({ metadata, retryOf }) => retryOf === null && metadata?.includes('"tick"'));
  assert.equal(new Set(ticks.map(({ metadata }) => metadata)).size, ticks.length, 'one job per tick');
}

/** Texts that explain are the store's own; codes and the words of users are not. */
function errorOf(text: string | null): ModelError | null {
  if (text === null) return null;
  const { code, message } = JSON.parse(text) as { code?: string; message: string };
  const explained = code === 'EXPIRED' || code === 'STALLED' || code === 'SUPERSEDED';
  if (explained) assert.ok(message.length > 0);
  return explained ? { code } : { ...(code !== undefined && { code }), message };
}

const { seq: _, ...plain } = plainStored;

function expectedJob(job: ModelJob, now: number): Omit<StoredJob, 'seq' | 'error'> & { error: ModelError | null } {
  const { given, claim } = job;
  const state = stateOf(job, now);
  const begun = claim !== null && !job.waiting;
  const unnoticed = state === 'expired' && job.finished === null;
  return {
    ...plain,
    id: given.id,
    type: given.type,
    queue: given.queue,
    state,
    priority: job.priority,
    input: given.input,
    result: job.result,
    error: unnoticed ? { code: 'EXPIRED' } : job.error,
    attempts: job.attempts + (begun ? 1 : 0),
    maxAttempts: given.maxAttempts,
    stalls: job.stalls,
    subject: given.subject,
    key: given.key,
    exclusiveKey: given.exclusiveKey,
    source: given.source,
    metadata: given.metadata,
    policy: given.policy,
    progress: job.progress,
    memo: job.memo,
    retryOf: job.retryOf,
    cancelAt: job.cancel?.at ?? null,
    cancelReason: job.cancel?.reason ?? null,
    createdAt: job.createdAt,
    scheduledFor: job.dueAt,
    startedAt: job.startedAt ?? (begun ? claim.at : null),
    completedAt: unnoticed ? job.expiresAt : job.completedAt,
    expiresAt: job.expiresAt,
    dueAt: claim ? claim.dueAt : state === 'pending' ? job.dueAt : null,
    epoch: claim?.epoch ?? job.lastEpoch,
  };
}

function expectedTally(model: Model): QueueTally[] {
  const { jobs, paused, now } = model;
  const queues = new Set([...paused.keys(), ...jobs.map(({ given }) => given.queue)]);
  return [...queues].map((queue) => {
    const own = jobs.filter(({ given }) => given.queue === queue);
    const inState = (state: string): ModelJob[] => own.filter((job) => stateOf(job, now) === state);
    const pending = inState('pending');
    const processing = inState('processing');
    const due = pending.filter(({ dueAt }) => dueAt <= now);
    return {
      queue,
      pending: pending.length,
      delayed: pending.length - due.length,
      processing: processing.length,
      stalled: processing.filter(({ claim }) => claim!.dueAt <= now).length,
      completed: inState('completed').length,
      failed: inState('failed').length,
      replaced: inState('failed').filter(isReplaced).length,
      cancelled: inState('cancelled').length,
      expired: own.filter(
        (job) => job.finished === 'expired' || (job.finished === null && !job.claim && isOver(job, now)),
      ).length,
      paused: model.isPaused(queue),
      oldestDueAgeMs: due.length === 0 ? null : now - Math.min(...due.map(({ dueAt }) => dueAt)),
      ...model.blockOf(queue),
    };
  });
}
