// The model's jobs: one plain record each, kept in lists that are searched from end to end. Written from DESIGN.md alone,
// it shares no code with the stores, and it knows nothing of tables, heaps or transactions.
import type { Ending } from '../../../src/core/ending.js';
import type { FinishedState, State } from '../../../src/core/job.js';
import type { StoredPolicy } from '../../../src/core/policy.js';
import type { NewJob } from '../../../src/core/store.js';

export type Left = Ending['kind'] | 'lapse' | null;

export interface ModelClaim {
  readonly epoch: number;
  readonly owner: string;
  readonly at: number;
  readonly maxStalls: number;
  readonly jobs: readonly ModelJob[];
  dueAt: number;
}

export interface ModelJob {
  readonly number: number;
  readonly given: Omit<NewJob, 'when' | 'priority' | 'idGiven'>;
  readonly retryOf: string | null;
  readonly createdAt: number;
  readonly slot: string | null;
  priority: number;
  /** When it is or was last due to run. */
  dueAt: number;
  expiresAt: number | null;
  /** Of a pending job: it can run, its time has not come, or another has the turn of its key. */
  place: 'ready' | 'later' | 'behind' | 'nowhere';
  claim: ModelClaim | null;
  /** Claimed ahead and not begun. */
  waiting: boolean;
  /** Was claimed ahead when its worker died. */
  wary: boolean;
  finished: FinishedState | null;
  attempts: number;
  stalls: number;
  startedAt: number | null;
  completedAt: number | null;
  result: string | null;
  error: ModelError | null;
  progress: string | null;
  memo: string | null;
  lines: number;
  cancel: { readonly at: number; readonly reason: string } | null;
  againAt: number | null;
  lastEpoch: number;
  left: Left;
  /** The last job that a retry has made of it. */
  retriedAs: string | null;
}

export interface ModelError {
  readonly code?: string;
  readonly message?: string;
}

export interface Tomb {
  readonly type: string;
  readonly input: string;
  readonly epoch: number;
  readonly left: Left;
}

export function makeJob(number: number, given: NewJob, dueAt: number, now: number, retryOf: string | null): ModelJob {
  return {
    number,
    given,
    retryOf,
    createdAt: now,
    slot: given.deduplication === 'none' ? null : (given.key ?? ''),
    priority: given.priority,
    dueAt,
    expiresAt: given.ttlMs === null ? null : now + given.ttlMs,
    place: 'nowhere',
    claim: null,
    waiting: false,
    wary: false,
    finished: null,
    attempts: 0,
    stalls: 0,
    startedAt: null,
    completedAt: null,
    result: null,
    error: null,
    progress: null,
    memo: null,
    lines: 0,
    cancel: null,
    againAt: null,
    lastEpoch: 0,
    left: null,
    retriedAs: null,
  };
}

export const isReplaced = (job: ModelJob): boolean => job.error?.code === 'REPLACED';
export const isPending = (job: ModelJob): boolean => job.finished === null && job.claim === null;
export const isOver = (job: ModelJob, now: number): boolean => job.expiresAt !== null && job.expiresAt <= now;

/** A pending job past its ttl reads as expired, whoever has noticed. */
export function stateOf(job: ModelJob, now: number): State {
  if (job.finished) return job.finished;
  if (job.claim) return 'processing';
  return isOver(job, now) ? 'expired' : 'pending';
}

export function inOrder(a: ModelJob, b: ModelJob): number {
  return a.priority - b.priority || a.dueAt - b.dueAt || a.number - b.number;
}

const policies = new Map<string, StoredPolicy>();
export function policyOf({ given }: ModelJob): StoredPolicy {
  const policy = policies.get(given.policy) ?? (JSON.parse(given.policy) as StoredPolicy);
  policies.set(given.policy, policy);
  return policy;
}

/** How long a finished job stays: milliseconds, null for ever, undefined as the cleanup policy says. */
export const keepOf = (job: ModelJob): { ageMs?: number | null; count?: number } =>
  policyOf(job).keep[job.finished!] ?? {};
