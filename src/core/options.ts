/** Job options: checked once, turned into what a store takes. */
import { toMs, yearMs } from './duration.js';
import { LastoutError } from './errors.js';
import { type Backoff, deduplicationStrategies, type DeduplicationStrategy, type JobOptions } from './job.js';
import { toStoredText } from './json.js';
import { checkId, checkKey, checkQueue, checkSubject } from './names.js';
import { checkBackoff, checkKeep, defaults, type StoredPolicy } from './policy.js';
import { reading, timeOf } from './reading.js';
import type { When } from './store.js';
import { ownOptions } from './own-options.js';
import { show } from './duration.js';

/** Options as values. Absent fields were not given. */
export interface OptionValues {
  queue?: string;
  priority?: number;
  when?: When;
  ttlMs?: number;
  timeoutMs?: number;
  attempts?: number;
  /** Null: a function of the definition decides. */
  backoff?: StoredPolicy['backoff'];
  keep?: StoredPolicy['keep'];
  subject?: string;
  exclusiveKey?: string;
  deduplication?: DeduplicationStrategy;
  deduplicationKey?: string | null;
  source?: string;
  metadata?: string;
  id?: string;
}

export const jobOptionNames = [
  'queue', 'priority', 'delay', 'runAt', 'ttl', 'timeout', 'attempts', 'backoff', 'keep', 'subject', 'exclusiveKey',
  'deduplication', 'deduplicationKey', 'source', 'metadata', 'id', 'tx',
] as const satisfies readonly (keyof JobOptions)[]; // biome-ignore format: one list
const attemptsMax = 10_000;
const priorityMax = 1_000;

/** Functions are allowed where a definition is read: a stored job has only values. */
export function readOptions(
  given: JobOptions,
  where: string,
  functions: 'refused' | 'allowed' = 'refused',
): OptionValues {
  const options = ownOptions(given, jobOptionNames, where);
  const values: OptionValues = {};
  if (options.queue !== undefined) values.queue = checkQueue(options.queue);
  if (options.priority !== undefined) values.priority = checkPriority(options.priority);
  const when = readWhen(options);
  if (when) values.when = when;
  if (options.ttl !== undefined) values.ttlMs = toMs(options.ttl, 'ttl', 'INVALID_TTL', { min: 1, max: yearMs });
  if (options.timeout !== undefined)
    values.timeoutMs = toMs(options.timeout, 'timeout', 'INVALID_DURATION', { min: 1 });
  if (options.attempts !== undefined) values.attempts = checkAttempts(options.attempts);
  if (options.backoff !== undefined) values.backoff = readBackoff(options.backoff, functions);
  if (options.keep !== undefined) values.keep = checkKeep(options.keep);
  if (options.subject !== undefined) values.subject = checkSubject(options.subject);
  if (options.exclusiveKey !== undefined) values.exclusiveKey = checkKey(options.exclusiveKey, 'exclusiveKey');
  if (options.deduplication !== undefined) values.deduplication = checkStrategy(options.deduplication);
  if (options.deduplicationKey !== undefined) values.deduplicationKey = readDeduplicationKey(options.deduplicationKey);
  if (options.source !== undefined) values.source = checkKey(options.source, 'source');
  if (options.metadata !== undefined) values.metadata = checkMetadata(options.metadata);
  if (options.id !== undefined) values.id = checkId(options.id, 'id');
  if (options.tx !== undefined) checkTx(options.tx);
  return values;
}

/** An empty key is no key. */
export function readDeduplicationKey(key: unknown): string | null {
  return key === '' ? null : checkKey(key, 'deduplicationKey');
}

export function readWhen({ delay, runAt }: Pick<JobOptions, 'delay' | 'runAt'>): When | undefined {
  if (delay !== undefined && runAt !== undefined)
    throw new LastoutError('INVALID_DELAY', 'delay and runAt are both given; give one of them.');
  if (delay !== undefined) return { inMs: toMs(delay, 'delay', 'INVALID_DELAY') };
  if (runAt === undefined) return undefined;
  const at = timeOf(runAt);
  if (Number.isNaN(at)) throw new LastoutError('INVALID_DATE', `runAt is ${show(runAt)}; give a valid Date.`);
  return { at };
}

export function checkPriority(priority: unknown): number {
  if (!Number.isInteger(priority) || Math.abs(priority as number) > priorityMax) {
    throw new LastoutError(
      'INVALID_PRIORITY',
      `priority is ${show(priority)}; give a whole number from -${priorityMax} to ${priorityMax} (lower runs first).`,
    );
  }
  return priority as number;
}

function checkAttempts(attempts: unknown): number {
  if (!Number.isInteger(attempts) || (attempts as number) < 1 || (attempts as number) > attemptsMax) {
    throw new LastoutError(
      'INVALID_ATTEMPTS',
      `attempts is ${show(attempts)}; give a whole number from 1 to ${attemptsMax}.`,
    );
  }
  return attempts as number;
}

function readBackoff(backoff: Backoff, functions: 'refused' | 'allowed'): StoredPolicy['backoff'] {
  if (typeof backoff !== 'function') {
    if (backoff === null || typeof backoff !== 'object')
      throw new LastoutError('INVALID_DURATION', `backoff is ${show(backoff)}; give { type, base } or a function.`);
    return checkBackoff(backoff);
  }
  if (functions === 'allowed') return null;
  throw new LastoutError(
    'UNSERIALIZABLE',
    'backoff is a function; a function cannot be stored with one job, give it in the definition.',
  );
}

function checkStrategy(strategy: unknown): DeduplicationStrategy {
  if (!deduplicationStrategies.includes(strategy as DeduplicationStrategy)) {
    throw new LastoutError(
      'INVALID_DEDUPLICATION',
      `deduplication is ${show(strategy)}; it is one of ${deduplicationStrategies.join(', ')}.`,
    );
  }
  return strategy as DeduplicationStrategy;
}

function checkMetadata(metadata: unknown): string {
  const isList = reading('metadata', 'UNSERIALIZABLE', () => Array.isArray(metadata));
  if (metadata === null || typeof metadata !== 'object' || isList)
    throw new LastoutError('UNSERIALIZABLE', `metadata is ${show(metadata)}; give an object.`);
  return toStoredText(metadata, 'metadata');
}

/** Where a job is written is no part of the job; whether it is an open transaction, the store finds out. */
function checkTx(tx: unknown): void {
  if (tx === null || (typeof tx !== 'object' && typeof tx !== 'function'))
    throw new LastoutError(
      'INVALID_TRANSACTION',
      `tx is ${show(tx)}; give the database handle that has the transaction.`,
    );
}

/** The policy of a job as text; equal policies give equal texts. */
export function policyText({ backoff, timeoutMs, keep }: OptionValues): string {
  const policy: StoredPolicy = {
    backoff: backoff === undefined ? defaults.backoff : backoff,
    timeoutMs: timeoutMs ?? null,
    keep: keep ?? {},
  };
  return JSON.stringify(policy);
}
