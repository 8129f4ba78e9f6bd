/** Every default, and the rules about waiting and keeping that need no store. */
import { type Duration, show, toMs } from './duration.js';
import { LastoutError } from './errors.js';
import { notLate } from './harmless.js';
import { ownOptions } from './own-options.js';
import { type Backoff, finishedStates, type FinishedState, type JobError, type Keep, type KeepRule } from './job.js';

export const defaults = {
  queue: 'default',
  priority: 0,
  attempts: 3,
  backoff: { type: 'exponential', base: 1_000, max: 60_000, jitter: 0.2 },
  concurrency: 10,
  leaseMs: 30_000,
  pollMs: 100,
  maxStalls: 3,
  graceMs: 30_000,
  tendMs: 5_000,
  /** Longer than SQLite waits for a lock, so that it fails with a reason first; shorter than a lease. */
  storeCallMs: 15_000,
  abortGraceMs: 5_000,
  jobRetentionMs: 86_400_000,
  cleanupIntervalMs: 3_600_000,
} as const satisfies Record<string, unknown>;

/** Backoff as it is stored with a job; null: the definition's function decides. */
export interface StoredBackoff {
  readonly type: 'fixed' | 'linear' | 'exponential' | 'quadratic';
  readonly base: number;
  readonly max?: number;
  readonly jitter?: number;
}

/** How long a finished job stays: `ageMs` null is for ever, absent follows the cleanup policy. */
export interface StoredKeep {
  readonly ageMs?: number | null;
  readonly count?: number;
}

/** What travels with a job besides its columns. Equal policies are stored once. */
export interface StoredPolicy {
  readonly backoff: StoredBackoff | null;
  readonly timeoutMs: number | null;
  readonly keep: { readonly [S in FinishedState]?: StoredKeep };
}

export interface CleanupPolicy {
  readonly maxStoredJobs: number;
  readonly jobRetentionMs: number;
  readonly cleanupIntervalMs: number;
  readonly useCompletedTime: boolean;
}

const backoffTypes = ['fixed', 'linear', 'exponential', 'quadratic'] as const;

export function checkBackoff(backoff: Exclude<Backoff, (...args: never[]) => unknown>): StoredBackoff {
  const own = ownOptions(backoff, ['type', 'base', 'max', 'jitter'], 'The fields of backoff');
  const { type, base, max, jitter } = own;
  if (type === undefined || !backoffTypes.includes(type)) {
    throw new LastoutError(
      'INVALID_DURATION',
      `backoff.type is ${show(type)}; it is one of ${backoffTypes.join(', ')}, or backoff is a function.`,
    );
  }
  if (jitter !== undefined && !(typeof jitter === 'number' && jitter >= 0 && jitter <= 1)) {
    throw new LastoutError('INVALID_DURATION', `backoff.jitter is ${show(jitter)}; it is a share between 0 and 1.`);
  }
  return {
    type,
    base: toMs(base, 'backoff.base'),
    ...(max !== undefined && { max: toMs(max, 'backoff.max') }),
    ...(jitter !== undefined && { jitter }),
  };
}

const policies = new Map<string, StoredPolicy>();

/** Parsed once per distinct text: a handful of policies serve all jobs. */
export function policyOf(text: string): StoredPolicy {
  let policy = policies.get(text);
  if (!policy) {
    if (policies.size >= 1_000) policies.clear();
    policy = JSON.parse(text) as StoredPolicy;
    policies.set(text, policy);
  }
  return policy;
}

/** The wait after attempt n, before jitter is added up to its share. Never overflows, whatever n. */
export function backoffMs(backoff: StoredBackoff, attempt: number, random: number): number {
  const factor = {
    fixed: 1,
    linear: attempt,
    exponential: 2 ** Math.min(attempt - 1, 52),
    quadratic: attempt * attempt,
  }[backoff.type];
  const ceiling = Math.min(backoff.max ?? Number.POSITIVE_INFINITY, longestWaitMs);
  const wait = Math.min(backoff.base * factor, ceiling);
  return Math.round(wait + wait * (backoff.jitter ?? 0) * random);
}

/**
 * A job that has killed two workers comes back after up to half a minute, apart from its neighbours. Spread by the id rather
 * than by chance, with arithmetic that SQL and Lua have too, so that every store answers alike.
 */
export function partingMs(id: string, stalls: number): number {
  let sum = stalls;
  for (let i = 0; i < id.length; i++) sum = (sum * 31 + id.charCodeAt(i)) % 1_000_003;
  return ((sum * 7_919) % 1_000_003) % 30_000; // ids made together differ only at their end
}

const longestWaitMs = 365 * 86_400_000;

/** A function's answer, made safe: what is not a duration falls back to the default backoff. */
export function functionBackoffMs(
  backoff: (attempt: number, error: JobError) => Duration,
  attempt: number,
  error: JobError,
): number {
  return Math.min(toMs(notLate(backoff(attempt, error)), 'What the backoff function returned'), longestWaitMs);
}

export function checkKeep(keep: Keep): StoredPolicy['keep'] {
  const own =
    typeof keep === 'object' && keep !== null
      ? ownOptions(keep, [...finishedStates, 'age', 'count'], 'The fields of keep')
      : keep;
  const perState = typeof own === 'object' && own !== null && finishedStates.some((state) => Object.hasOwn(own, state));
  const rules: { readonly [S in FinishedState]?: KeepRule } = perState
    ? (own as { readonly [S in FinishedState]?: KeepRule })
    : Object.fromEntries(finishedStates.map((state) => [state, own as KeepRule]));
  const stored: { [S in FinishedState]?: StoredKeep } = {};
  for (const state of finishedStates)
    if (rules[state] !== undefined) stored[state] = checkKeepRule(rules[state], state);
  return stored;
}

function checkKeepRule(rule: KeepRule, state: FinishedState): StoredKeep {
  const what = `keep.${state}`;
  const { age, count } =
    typeof rule === 'object' && rule !== null
      ? ownOptions(rule, ['age', 'count'], `The fields of ${what}`)
      : { age: rule, count: undefined };
  if (age === undefined && count === undefined) {
    throw new LastoutError('INVALID_RETENTION', `${what} is empty; give a duration, 'forever', or { age, count }.`);
  }
  if (count !== undefined && !(Number.isSafeInteger(count) && count >= 0)) {
    throw new LastoutError('INVALID_RETENTION', `${what}.count is ${show(count)}; give a whole number from 0.`);
  }
  const ageMs = age === undefined ? {} : { ageMs: age === 'forever' ? null : toMs(age, what, 'INVALID_RETENTION') };
  return { ...ageMs, ...(count !== undefined && { count }) };
}
