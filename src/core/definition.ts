/** Job types: a name, how its input is checked, the options of its jobs, and perhaps the code that runs them. */
import type { Artifact, ArtifactBody, ArtifactOptions } from './artifact.js';
import { type Duration, show } from './duration.js';
import { LastoutError } from './errors.js';
import type { Enqueued, Job, JobError, JobOptions, Progress } from './job.js';
import type { Json, Storable } from './json.js';
import { checkType } from './names.js';
import { jobOptionNames, type OptionValues, policyText, readOptions } from './options.js';
import type { Outcome } from './outcome.js';
import { reading } from './reading.js';
import type { Lease, Resource } from './resource.js';
import { ownOptions, readFlag } from './own-options.js';

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
  lease<S, I = Json>(resource: Resource<S, I>, spec: S, options?: { ttl?: Duration }): Promise<Lease<I>>;
  /** As `queue.enqueue`, under the claim: an attempt that no longer has its job adds nothing (STALE_CLAIM). */
  enqueue<J, Q, In>(type: JobType<J, Q, In>, input: NoInfer<In>, options?: JobOptions): Promise<Enqueued<Q>>;
  enqueue<T>(type: string, input: T & Storable<T>, options?: JobOptions): Promise<Enqueued>;
}

type PerInput<I, T> = T | ((input: I) => T);

/** `In` is what callers give, `I` what the schema makes of it and the handler gets. */
export interface Definition<I, R, In = unknown>
  extends Omit<JobOptions, 'id' | 'runAt' | 'tx' | 'subject' | 'deduplicationKey' | 'exclusiveKey'> {
  input?: StandardSchema<In, I>;
  subject?: PerInput<I, string>;
  deduplicationKey?: PerInput<I, string>;
  exclusiveKey?: PerInput<I, string>;
  /** The same id of the same input is the same job. A tick of a schedule has an id of its own. */
  id?: PerInput<I, string>;
  /** Ask the subject's check (`defineSubject`) before the handler starts: where it is gone or over, the job ends as an orphan. */
  checkSubject?: boolean;
  run?(context: Context<I>): Promise<Answer<R>> | Answer<R>;
}

/** What a handler gives back. Where null is a result, nothing is one too. */
type Answer<R> = R | Outcome | (null extends R ? void : never);

type IsStorable<T> = [T] extends [Storable<T>] ? true : false;

/** Nothing, where JSON can hold what jobs of a type take and answer; else a field that nobody gives, and that says why. */
type Kept<I, R> = (IsStorable<I> extends true ? unknown : { 'JSON cannot hold this input': never }) &
  (IsStorable<Exclude<R, Outcome | undefined | void>> extends true
    ? unknown
    : { 'JSON cannot hold this result': never });

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
  readonly perInput: { readonly [K in PerInputName]?: (input: never) => unknown };
  readonly checkSubject: boolean;
  /** Of the library: it runs also where a codec keeps the input from this process. */
  readonly ignoresInput?: true;
  readonly backoff: ((attempt: number, error: JobError) => unknown) | null;
  readonly run: Run | null;
}

const details = new WeakMap<JobType<unknown, unknown>, TypeDetails>();
const perInputNames = ['subject', 'deduplicationKey', 'exclusiveKey', 'id'] as const;
type PerInputName = (typeof perInputNames)[number];
const definitionNames = [
  ...jobOptionNames.filter((name) => name !== 'runAt' && name !== 'tx'),
  'input',
  'checkSubject',
  'run',
];

export function defineJob<I = Json, R = Json, In = I>(
  name: string,
  definition: Definition<I, R, In> & Kept<I, R>,
): JobType<I, R, In> {
  checkType(name, 'The name of a job type');
  const given: Definition<I, R, In> = definition ?? null;
  const own = ownOptions(given, definitionNames, `The options of job type "${name}"`);
  const { input, run, subject, deduplicationKey, exclusiveKey, id, checkSubject, ...rest } = own;
  const keys = { subject, deduplicationKey, exclusiveKey, id };
  const options: JobOptions = { ...rest };
  const perInput: { [K in PerInputName]?: (input: never) => unknown } = {};
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
    checkSubject: readFlag(checkSubject, `checkSubject of job type "${name}"`),
    backoff: typeof rest.backoff === 'function' ? rest.backoff : null,
    run: checkRun(run, name),
  });
  return type;
}

/** The same type with code, for the worker's side of a definition that has none. A type whose result is open gets it from the code. */
export function handle<I, R, In, Q extends Json extends R ? unknown : R>(
  type: JobType<I, R, In>,
  run: NonNullable<Definition<NoInfer<I>, Q>['run']> & Kept<Json, Q>,
): JobType<I, Q, In> {
  const known = detailsOf(type);
  const withCode: JobType<I, Q, In> = Object.freeze({ name: known.name });
  details.set(withCode, { ...known, run: checkRun(run ?? null, known.name) });
  return withCode;
}

/** The name of the type where a call begins with one (`get(type, id)`); null: it begins with the id. */
export function typeBefore(first: unknown): string | null {
  return typeof first === 'object' && first !== null ? detailsOf(first).name : null;
}

export function refuseOther(job: Job, type: string | null): void {
  if (type !== null && job.type !== type)
    throw new LastoutError(
      'JOB_NOT_FOUND',
      `Job ${job.id} is of type "${job.type}"; there is none of type "${type}" with this id.`,
    );
}

/** Null: it is no definition. */
export function definedName(type: unknown): string | null {
  return details.get(type as JobType<unknown, unknown>)?.name ?? null;
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
