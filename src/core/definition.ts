/** Job types: a name, how its input is checked, the options of its jobs, and perhaps the code that runs them. */
import type { Artifact, ArtifactBody, ArtifactOptions } from './artifact.js';
import { type Duration, show } from './duration.js';
import { LastoutError } from './errors.js';
import type { Job, JobError, JobOptions, Progress } from './job.js';
import type { Json } from './json.js';
import { checkType } from './names.js';
import { jobOptionNames, type OptionValues, policyText, readOptions } from './options.js';
import type { Outcome } from './outcome.js';
import { reading } from './reading.js';
import type { Lease, Resource } from './resource.js';
import { ownOptions } from './own-options.js';

/** Any Standard Schema: zod, valibot, arktype and others. */
export interface StandardSchema<I, O> {
  readonly '~standard': {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (value: unknown) => unknown;
    readonly types?: { readonly input: I; readonly output: O } | undefined;
  };
}

export interface Context<I> {
  readonly input: I;
  readonly job: Job<I>;
  /** `signal.reason.code` says why: CANCELLED TIMEOUT STALE_CLAIM LEASE_LOST CLOSED. */
  readonly signal: AbortSignal;
  progress(value: number | Progress): void;
  /** At most 1,000 lines and 256 KiB a job, then one "truncated" line. */
  log(message: string, fields?: object): void;
  /** A file that the job leaves; it goes before the job goes. The same name again takes the place of the first. */
  readonly artifact: { put(name: string, body: ArtifactBody, options?: ArtifactOptions): Promise<Artifact> };
  /** A new, empty folder, removed when this attempt ends. */
  tempDir(): Promise<string>;
  /** Held as long as this attempt runs, and no longer than its ttl: then the signal aborts with LEASE_LOST. */
  lease<S>(resource: Resource<S>, spec: S, options?: { ttl?: Duration }): Promise<Lease>;
}

type PerInput<I, T> = T | ((input: I) => T);

/** `In` is what callers give, `I` what the schema makes of it and the handler gets. */
export interface Definition<I, R, In = unknown>
  extends Omit<JobOptions, 'id' | 'runAt' | 'tx' | 'subject' | 'deduplicationKey' | 'exclusiveKey'> {
  input?: StandardSchema<In, I>;
  subject?: PerInput<I, string>;
  deduplicationKey?: PerInput<I, string>;
  exclusiveKey?: PerInput<I, string>;
  /** Ask the subject's check (`defineSubject`) before the handler starts: where it is gone, the job ends as an orphan. */
  checkSubject?: boolean;
  run?(context: Context<I>): Promise<R | Outcome | void> | R | Outcome | void;
}

export interface JobType<I, R, In = I> {
  readonly name: string;
  readonly __types?: [I, R];
  readonly __input?: In;
}

export type Run = (context: Context<never>) => unknown;

/** What is known about a type inside the library. */
export interface TypeDetails {
  readonly name: string;
  readonly schema: StandardSchema<unknown, unknown> | null;
  readonly values: OptionValues;
  readonly policy: string;
  readonly perInput: { readonly [K in 'subject' | 'deduplicationKey' | 'exclusiveKey']?: (input: never) => unknown };
  readonly checkSubject: boolean;
  /** Of the library: it runs also where a codec keeps the input from this process. */
  readonly ignoresInput?: true;
  readonly backoff: ((attempt: number, error: JobError) => unknown) | null;
  readonly run: Run | null;
}

const details = new WeakMap<JobType<unknown, unknown>, TypeDetails>();
const perInputNames = ['subject', 'deduplicationKey', 'exclusiveKey'] as const;
const definitionNames = [
  ...jobOptionNames.filter((name) => name !== 'id' && name !== 'runAt' && name !== 'tx'),
  'input',
  'checkSubject',
  'run',
];

// eslint-disable-next-line @typescript-eslint/no-explicit-any -- without code the result is open: handle gives it
export function defineJob<I = Json, R = any, In = I>(
  name: string,
  definition: Definition<I, R, In>,
): JobType<I, R, In> {
  checkType(name, 'The name of a job type');
  const own = ownOptions(definition ?? null, definitionNames, `The options of job type "${name}"`);
  const { input, run, subject, deduplicationKey, exclusiveKey, checkSubject, ...rest } = own;
  const keys = { subject, deduplicationKey, exclusiveKey };
  const options: JobOptions = { ...rest };
  const perInput: { [K in (typeof perInputNames)[number]]?: (input: never) => unknown } = {};
  for (const key of perInputNames) {
    const value = keys[key];
    if (typeof value === 'function') perInput[key] = value;
    else if (value !== undefined) options[key] = value;
  }
  const values = readOptions(options, `The options of job type "${name}"`, 'allowed');
  const type: JobType<I, R, In> = Object.freeze({ name });
  details.set(type, {
    name,
    schema: checkSchema(input, name),
    values,
    policy: policyText(values),
    perInput,
    checkSubject: readCheckSubject(checkSubject, name),
    backoff: typeof rest.backoff === 'function' ? rest.backoff : null,
    run: checkRun(run, name),
  });
  return type;
}

/** The same type with code, for the worker's side of a definition that has none. */
export function handle<I, R, In = I>(
  type: JobType<I, R, In>,
  run: NonNullable<Definition<I, R>['run']>,
): JobType<I, R, In> {
  const known = detailsOf(type);
  const withCode: JobType<I, R, In> = Object.freeze({ name: known.name });
  details.set(withCode, { ...known, run: checkRun(run ?? null, known.name) });
  return withCode;
}

export function detailsOf(type: unknown): TypeDetails {
  const known = type !== null && typeof type === 'object' ? details.get(type as JobType<unknown, unknown>) : undefined;
  if (!known)
    throw new LastoutError(
      'TYPE_REQUIRED',
      `The job type is ${show(type)}; give what defineJob returned, or a name where a name is allowed.`,
    );
  return known;
}

const defaultPolicy = policyText({});

/** A type that is only a name: any input, the default options. */
export function bareType(name: string): TypeDetails {
  return {
    name,
    schema: null,
    values: {},
    policy: defaultPolicy,
    perInput: {},
    checkSubject: false,
    backoff: null,
    run: null,
  };
}

function readCheckSubject(asked: unknown, name: string): boolean {
  if (asked === undefined || typeof asked === 'boolean') return asked ?? false;
  throw new LastoutError('UNKNOWN_OPTION', `checkSubject of job type "${name}" is ${show(asked)}; give true or false.`);
}

function checkSchema(
  schema: StandardSchema<unknown, unknown> | undefined,
  name: string,
): StandardSchema<unknown, unknown> | null {
  if (schema === undefined) return null;
  const validate = reading(`input of job type "${name}"`, 'INVALID_INPUT', () => schema?.['~standard']?.validate);
  if (typeof validate !== 'function') {
    throw new LastoutError(
      'INVALID_INPUT',
      `input of job type "${name}" is no Standard Schema; give a schema of zod, valibot, arktype or another that has "~standard".`,
    );
  }
  return schema;
}

function checkRun(run: unknown, name: string): Run | null {
  if (run === undefined) return null;
  if (typeof run !== 'function')
    throw new LastoutError('UNKNOWN_TYPE', `run of job type "${name}" is ${show(run)}; give a function.`);
  return run as Run;
}
