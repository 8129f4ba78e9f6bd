/** The options of `open`, checked before anything is opened. */
import type { BlobStore } from './core/blobs.js';
import type { Codec } from './core/coded.js';
import { detailsOf } from './core/definition.js';
import { show, toMs } from './core/duration.js';
import { LastoutError } from './core/errors.js';
import { harmlessLogger, notLate } from './core/harmless.js';
import type { Logger } from './core/job.js';
import { type QueueLimits, readLimits } from './core/limits.js';
import { checkName } from './core/names.js';
import { type CleanupPolicy, defaults } from './core/policy.js';
import { type Resource, stepsOf } from './core/resource.js';
import { ownOptions, readFlag } from './core/own-options.js';
import { listOf, reading } from './core/reading.js';
import { type ObserveSettings, readObserveOptions } from './observe/options.js';
import type { TypeBook } from './queue/new-job.js';
import type { OpenOptions } from './surface.js';

const names = [
  'cleanup', 'queues', 'types', 'artifacts', 'resources', 'codec', 'metrics', 'tracing', 'alerts', 'namespace', 'identity', 'logger', 'clock',
  'waitFor', 'replicas',
]; // biome-ignore format: one list

/** Types and resources of one process. */
const listMax = 10_000;

export interface OpenSettings {
  readonly clock: OpenOptions['clock'];
  readonly book: TypeBook;
  /** Null: none was given. */
  readonly logger: Logger | null;
  readonly namespace: string;
  readonly identity: 'new' | undefined;
  readonly codec: Codec | null;
  readonly artifacts: ArtifactSettings | null;
  readonly resources: readonly Resource<unknown, unknown>[];
  readonly cleanup: CleanupPolicy;
  readonly limits: ReadonlyMap<string, QueueLimits>;
  readonly observe: ObserveSettings;
  readonly waitForMs: number;
  readonly replicas: number | undefined;
}

export function readOpenOptions(given: OpenOptions, inMemory: boolean): OpenSettings {
  const options = ownOptions(given, names, 'The options of open');
  return {
    clock: readClock(options.clock),
    book: readTypes(options.types),
    logger: readLogger(options.logger),
    namespace: options.namespace === undefined ? 'lastout' : checkName(options.namespace, 'namespace'),
    identity: readIdentity(options.identity),
    codec: readCodec(options.codec),
    artifacts: readArtifacts(options.artifacts, inMemory),
    resources: readResources(options.resources),
    cleanup: readCleanup(options.cleanup ?? {}, {
      maxStoredJobs: inMemory ? 1_000 : Number.POSITIVE_INFINITY,
      jobRetentionMs: defaults.jobRetentionMs,
      cleanupIntervalMs: defaults.cleanupIntervalMs,
      useCompletedTime: true,
    }),
    limits: readLimits(options.queues),
    observe: readObserveOptions(options),
    waitForMs: options.waitFor === undefined ? 0 : toMs(options.waitFor, 'waitFor'),
    replicas: readReplicas(options.replicas),
  };
}

function readIdentity(identity: OpenOptions['identity']): 'new' | undefined {
  if (identity === undefined || identity === 'new') return identity;
  throw new LastoutError('UNKNOWN_OPTION', `identity is ${show(identity)}; it is 'new', or not given.`);
}

/** Where artifacts are to be kept: in this process, in a folder, or in a store of the caller's. */
export interface ArtifactSettings {
  readonly in: 'memory' | { readonly dir: string } | { readonly blobs: BlobStore };
  readonly maxBytes: number | undefined;
  readonly maxBytesPerJob: number | undefined;
}

/** Unless it is said, only jobs in memory have a place for artifacts: other jobs outlive the process. */
function readArtifacts(asked: OpenOptions['artifacts'], inMemory: boolean): ArtifactSettings | null {
  const inProcess = { in: 'memory', maxBytes: undefined, maxBytesPerJob: undefined } as const;
  if (asked === undefined) return inMemory ? inProcess : null;
  if (asked === 'memory') return inProcess;
  const own: { dir?: unknown; blobs?: Partial<BlobStore>; maxBytes?: number; maxBytesPerJob?: number } = ownOptions(
    asked,
    ['dir', 'blobs', 'maxBytes', 'maxBytesPerJob'],
    'The options of artifacts',
  );
  const { dir, blobs } = own;
  const isDir = typeof dir === 'string' && dir !== '' && !dir.includes('\0');
  const isStore = reading('artifacts.blobs', 'UNKNOWN_OPTION', () =>
    (['put', 'read', 'delete', 'list', 'used'] as const).every((name) => typeof blobs?.[name] === 'function'),
  );
  if (isDir === isStore || (dir !== undefined && blobs !== undefined))
    throw new LastoutError('UNKNOWN_OPTION', `artifacts has dir ${show(dir)}; give { dir }, { blobs } or "memory".`);
  return {
    in: isDir ? { dir } : { blobs: blobs as BlobStore },
    maxBytes: checkBytes(own.maxBytes, 'maxBytes'),
    maxBytesPerJob: checkBytes(own.maxBytesPerJob, 'maxBytesPerJob'),
  };
}

function checkBytes(value: unknown, name: string): number | undefined {
  if (value === undefined || value === Number.POSITIVE_INFINITY) return value;
  if (Number.isSafeInteger(value) && (value as number) >= 0) return value as number;
  throw new LastoutError('INVALID_LIMIT', `artifacts.${name} is ${show(value)}; give bytes, from 0, or Infinity.`);
}

function readResources(resources: OpenOptions['resources']): readonly Resource<unknown, unknown>[] {
  if (resources === undefined) return [];
  const listed = listOf(resources, listMax, 'resources', 'TYPE_REQUIRED') as
    | readonly Resource<unknown, unknown>[]
    | null;
  if (!listed)
    throw new LastoutError(
      'TYPE_REQUIRED',
      `resources is ${show(resources)}; give a list of what defineResource returned.`,
    );
  for (const resource of listed) stepsOf(resource);
  return listed;
}

const replicasMax = 100;

function readReplicas(replicas: unknown): number | undefined {
  if (replicas === undefined) return undefined;
  if (Number.isInteger(replicas) && (replicas as number) >= 1 && (replicas as number) <= replicasMax)
    return replicas as number;
  throw new LastoutError(
    'INVALID_LIMIT',
    `replicas is ${show(replicas)}; give a whole number from 1 to ${replicasMax}.`,
  );
}

function readClock(clock: OpenOptions['clock']): OpenOptions['clock'] {
  if (clock === undefined) return clock;
  const isClock = reading('clock', 'UNKNOWN_OPTION', () => typeof clock?.now === 'function');
  if (!isClock) throw new LastoutError('UNKNOWN_OPTION', `clock is ${show(clock)}; give an object with now().`);
  const shown: unknown = reading('What now() of clock returns', 'UNKNOWN_OPTION', () =>
    notLate(clock.now())?.getTime?.(),
  );
  if (typeof shown === 'number' && !Number.isNaN(shown)) return clock;
  throw new LastoutError('UNKNOWN_OPTION', 'now() of clock returns no valid Date; give a clock that does.');
}

function readTypes(types: OpenOptions['types']): TypeBook {
  if (types === undefined) return { known: new Map(), closed: false };
  const listed = listOf(types, listMax, 'types', 'TYPE_REQUIRED');
  if (!listed)
    throw new LastoutError('TYPE_REQUIRED', `types is ${show(types)}; give a list of what defineJob returned.`);
  return { known: new Map(listed.map((type) => [detailsOf(type).name, detailsOf(type)])), closed: true };
}

const levels = ['debug', 'info', 'warn', 'error'] as const;
const silent: Logger = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

/** Found out now, or the first call that has something to say would fail for it. */
function readLogger(logger: Partial<Logger> | false | null | undefined): Logger | null {
  if (logger === undefined) return null;
  if (logger === false) return silent;
  const missing = reading('logger', 'UNKNOWN_OPTION', () =>
    levels.filter((level) => typeof logger?.[level] !== 'function'),
  );
  if (missing.length === 0) return harmlessLogger(logger as Logger);
  throw new LastoutError(
    'UNKNOWN_OPTION',
    `logger has no function ${missing.join(', ')}; give an object with debug, info, warn and error, such as console, or false for silence.`,
  );
}

/** Only what we call and ask is looked at: a codec may be an object with more to it. */
function readCodec(codec: unknown): Codec | null {
  if (codec === undefined) return null;
  const isCodec = reading('codec', 'UNKNOWN_OPTION', () => {
    const { encode, decode, required = false } = (codec ?? {}) as Partial<Codec>;
    return typeof encode === 'function' && typeof decode === 'function' && typeof required === 'boolean';
  });
  if (isCodec) return codec as Codec;
  const message = `codec is ${typeof codec === 'string' ? 'a text' : show(codec)}; give { encode(text, of), decode(text, of) }, and required as true or false.`;
  throw new LastoutError('UNKNOWN_OPTION', message);
}

/** What is left out is as in `otherwise`. */
export function readCleanup(given: NonNullable<OpenOptions['cleanup']>, otherwise: CleanupPolicy): CleanupPolicy {
  const asked = ownOptions(
    given,
    ['maxStoredJobs', 'jobRetentionMs', 'cleanupIntervalMs', 'useCompletedTime'],
    'The cleanup options',
  );
  const { maxStoredJobs = otherwise.maxStoredJobs, useCompletedTime = otherwise.useCompletedTime } = asked;
  if (maxStoredJobs !== Number.POSITIVE_INFINITY && !(Number.isSafeInteger(maxStoredJobs) && maxStoredJobs >= 0)) {
    throw new LastoutError(
      'INVALID_RETENTION',
      `maxStoredJobs is ${show(maxStoredJobs)}; give a whole number from 0, or Infinity.`,
    );
  }
  readFlag(useCompletedTime, 'useCompletedTime', 'INVALID_RETENTION');
  const milliseconds = (name: 'jobRetentionMs' | 'cleanupIntervalMs', min: number): number => {
    const value = asked[name] ?? otherwise[name];
    if (typeof value === 'number') return toMs(value, name, 'INVALID_RETENTION', { min });
    throw new LastoutError('INVALID_RETENTION', `${name} is ${show(value)}; give milliseconds as a number.`);
  };
  const jobRetentionMs = milliseconds('jobRetentionMs', 0);
  const cleanupIntervalMs = milliseconds('cleanupIntervalMs', 1);
  return { maxStoredJobs, jobRetentionMs, cleanupIntervalMs, useCompletedTime };
}
