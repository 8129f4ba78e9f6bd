/** From a caller's words to a job that a store can take: the type is looked up, the input checked, the options merged. */
import { bareType, detailsOf, type StandardSchema, type TypeDetails } from '../core/definition.js';
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { notLate } from '../core/harmless.js';
import type { JobOptions, Logger } from '../core/job.js';
import { toStoredText } from '../core/json.js';
import { checkId, checkKey, checkSubject, checkType } from '../core/names.js';
import { type OptionValues, policyText, readDeduplicationKey, readOptions } from '../core/options.js';
import { defaults } from '../core/policy.js';
import { printOf } from '../core/print.js';
import { isOf, reading } from '../core/reading.js';
import type { NewJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';

/** The types this queue has met: given at `open`, or worked on since. */
export interface TypeBook {
  readonly known: Map<string, TypeDetails>;
  /** Names outside the book are refused. */
  readonly closed: boolean;
}

export interface JobMaker {
  /** `where` names the options in a refusal. */
  make(type: unknown, input: unknown, options: JobOptions | undefined, where?: string): NewJob | Promise<NewJob>;
}

const noOptions: OptionValues = {};
const atOnce: NewJob['when'] = { inMs: 0 };

export function jobMaker(book: TypeBook, system: System, logger: Logger): JobMaker {
  return {
    make(type, input, options, where = 'The options of enqueue') {
      const details = lookUp(book, type);
      const given = options === undefined ? noOptions : readOptions(options, where);
      const make = (checked: unknown): NewJob => build(details, checked, given, system, logger);
      if (!details.schema) return make(input);
      const checked = validate(details.schema, input, details.name);
      return isOf<Promise<unknown>>(checked, Promise) ? checked.then(make) : make(checked);
    },
  };
}

export function lookUp(book: TypeBook, type: unknown): TypeDetails {
  if (type === undefined || type === null || type === '')
    throw new LastoutError('TYPE_REQUIRED', 'The job type is missing; give a definition or a name.');
  if (typeof type !== 'string') {
    const details = detailsOf(type);
    if (book.closed && !book.known.has(details.name)) throw unknownType(book, details.name);
    return details;
  }
  const known = book.known.get(type);
  if (known) return known;
  if (book.closed) throw unknownType(book, type);
  return bareType(checkType(type, 'The job type'));
}

function unknownType(book: TypeBook, name: string): LastoutError {
  return new LastoutError(
    'UNKNOWN_TYPE',
    `There is no job type ${show(name)} here; the types given to open are ${[...book.known.keys()].join(', ') || '(none)'}.`,
  );
}

function validate(schema: StandardSchema<unknown, unknown>, input: unknown, name: string): unknown {
  const failed = (error: unknown): never => {
    const { message } = describeThrown(error);
    throw new LastoutError('INVALID_INPUT', `The schema of "${name}" threw: ${message}`, undefined, error);
  };
  let result: unknown;
  try {
    result = schema['~standard'].validate(input);
  } catch (error) {
    return failed(error);
  }
  return isOf<Promise<unknown>>(result, Promise)
    ? result.then((late) => valueOf(late, name), failed)
    : valueOf(result, name);
}

function valueOf(result: unknown, name: string): unknown {
  const what = `What the schema of "${name}" answered`;
  const { value, issues } = reading(what, 'INVALID_INPUT', () => {
    if (result === null || typeof result !== 'object')
      throw new LastoutError(
        'INVALID_INPUT',
        `${what} is ${show(result)}; a Standard Schema answers { value } or { issues }.`,
      );
    const answer = result as { readonly value?: unknown; readonly issues?: unknown };
    return answer.issues
      ? { value: null, issues: issuesIn(answer.issues, what) }
      : { value: answer.value, issues: null };
  });
  if (issues === null) return value;
  const text = issues
    .map(({ path, message }) => (path.length === 0 ? message : `${clip(path.join('.'), pathMax)}: ${message}`))
    .join('; ');
  throw new LastoutError('INVALID_INPUT', `The input of "${name}" was refused: ${text}`, { issues });
}

const issuesMax = 10;
const keysMax = 50;
const keyMax = 100;
const pathMax = 200;
const messageMax = 500;

type Issue = { readonly path: (string | number)[]; readonly message: string };

/** The first of them; a list may say that it is endless. */
function issuesIn(issues: unknown, what: string): Issue[] {
  if (!Array.isArray(issues))
    throw new LastoutError('INVALID_INPUT', `${what}: its issues are ${show(issues)}; give a list.`);
  return firstOf(issues, issuesMax).map((issue) => {
    const { message, path } = (issue ?? {}) as { readonly message?: unknown; readonly path?: unknown };
    return {
      // A path may be a subclass of Array, whose own map would build another such path.
      path: Array.isArray(path) ? firstOf(path, keysMax).map(keyOf) : [],
      message: typeof message === 'string' ? clip(message, messageMax) : 'no reason is given',
    };
  });
}

function firstOf(list: readonly unknown[], most: number): unknown[] {
  return Array.from({ length: Math.min(list.length, most) }, (_, index) => list[index]);
}

/** As the schema gives it, except that details are JSON. */
function keyOf(part: unknown): string | number {
  const key = typeof part === 'object' && part !== null ? (part as { readonly key?: unknown }).key : part;
  return Number.isFinite(key) ? (key as number) : clip(String(key), keyMax);
}

function clip(text: string, most: number): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}

function build(details: TypeDetails, input: unknown, given: OptionValues, system: System, logger: Logger): NewJob {
  const base = details.values;
  const text = toStoredText(input, 'input');
  const ttlMs = given.ttlMs ?? base.ttlMs ?? null;
  const when = given.when ?? base.when ?? atOnce;
  if (when !== atOnce) checkDueBeforeTtl(when, ttlMs, system, logger, details.name);
  const ownPolicy = given.backoff !== undefined || given.timeoutMs !== undefined || given.keep !== undefined;
  const subject = given.subject ?? perInput(details, 'subject', input) ?? base.subject ?? null;
  if (subject === null && details.checkSubject)
    throw new LastoutError(
      'SUBJECT_REQUIRED',
      `Job type "${details.name}" checks its subject, and this job has none; give subject with the type or the job.`,
    );
  const id = given.id ?? perInput(details, 'id', input) ?? base.id ?? null;
  return {
    id: id ?? system.id(),
    idGiven: id !== null,
    print: id === null ? null : printOf(id, details.name, text),
    type: details.name,
    queue: given.queue ?? base.queue ?? defaults.queue,
    priority: given.priority ?? base.priority ?? defaults.priority,
    when,
    ttlMs,
    maxAttempts: given.attempts ?? base.attempts ?? defaults.attempts,
    subject,
    key:
      given.deduplicationKey !== undefined
        ? given.deduplicationKey
        : (perInput(details, 'deduplicationKey', input) ?? base.deduplicationKey ?? null),
    exclusiveKey: given.exclusiveKey ?? perInput(details, 'exclusiveKey', input) ?? base.exclusiveKey ?? null,
    deduplication: given.deduplication ?? base.deduplication ?? 'none',
    source: given.source ?? base.source ?? null,
    metadata: given.metadata ?? base.metadata ?? null,
    policy: ownPolicy ? policyText({ ...base, ...given }) : details.policy,
    input: text,
    ownedBy: null,
    under: null,
  };
}

const checks = {
  subject: checkSubject,
  deduplicationKey: readDeduplicationKey,
  exclusiveKey: (key: unknown) => checkKey(key, 'exclusiveKey'),
  id: (id: unknown) => checkId(id, 'id'),
} as const;

function perInput(details: TypeDetails, name: keyof typeof checks, input: unknown): string | null | undefined {
  const derive = details.perInput[name];
  return derive && checks[name](derived(details.name, name, () => derive(input as never)));
}

/** The caller's function meets inputs it was not written for: say whose it was. */
function derived(type: string, name: string, derive: () => unknown): unknown {
  try {
    return notLate(derive());
  } catch (error) {
    const { message } = describeThrown(error);
    throw new LastoutError('INVALID_KEY', `${name} of job type "${type}" threw: ${message}`, undefined, error);
  }
}

function checkDueBeforeTtl(
  when: NewJob['when'],
  ttlMs: number | null,
  system: System,
  logger: Logger,
  type: string,
): void {
  const inMs = 'inMs' in when ? when.inMs : when.at - system.now();
  if (inMs < 0) logger.debug('runAt is in the past: due now', { type, lateByMs: -inMs });
  if (ttlMs !== null && inMs >= ttlMs) {
    throw new LastoutError(
      'TTL_BEFORE_DUE',
      `ttl is ${ttlMs} ms, but the job is due only in ${inMs} ms; it would expire before it could start.`,
    );
  }
}
