/** Filters of callers, checked and made plain. */
import { definedName } from '../core/definition.js';
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { type State, states } from '../core/job.js';
import { isLease } from '../core/lease-record.js';
import { checkId, checkKey, checkName, checkSubject, systemQueue } from '../core/names.js';
import { type JobFilter, noFilter, type StoredJob } from '../core/store.js';
import { type Own, ownOptions } from '../core/own-options.js';
import { listOf, reading, timeOf } from '../core/reading.js';

export interface Filter {
  id?: string | readonly string[];
  state?: State | readonly State[];
  type?: string | readonly string[];
  queue?: string | readonly string[];
  subject?: string;
  key?: string;
  source?: string;
  /** Created before this instant. */
  before?: Date;
  /** Created after this instant. */
  after?: Date;
}

/** Which jobs an act is about: one id, or a filter. An empty filter needs `all: true`. */
export type Which = string | (Filter & { all?: true });

const filterNames = ['id', 'state', 'type', 'queue', 'subject', 'key', 'source', 'before', 'after'] as const;
const listMax = 1_000;

/** `extra`: what may stand beside the fields of a filter. */
export function ownFilter<F extends Filter>(filter: F, extra: readonly string[]): Own<F> {
  return ownOptions(filter, [...filterNames, ...extra], 'The filter');
}

/** Of what `ownFilter` gave. */
export function readFilter(filter: Filter): JobFilter {
  // The library's own jobs are shown, and acted on, where somebody names them.
  const system = filter.id !== undefined || filter.type !== undefined || filter.queue !== undefined;
  return {
    ids: list(filter.id, 'id', (id) => checkId(id, 'id')),
    states: list(filter.state, 'state', checkState),
    types: list(filter.type, 'type', checkTypeFilter),
    queues: list(filter.queue, 'queue', (queue) => checkName(queue, 'queue')),
    subject: filter.subject === undefined ? null : checkSubjectFilter(filter.subject),
    key: filter.key === undefined ? null : checkKey(filter.key, 'key'),
    source: filter.source === undefined ? null : checkKey(filter.source, 'source'),
    ownedBy: null,
    before: instant(filter.before, 'before'),
    after: instant(filter.after, 'after'),
    system,
  };
}

export function readWhich(which: Which, verb: string): JobFilter {
  if (typeof which === 'string') return { ...noFilter, ids: [checkId(which)] };
  if (which === null || typeof which !== 'object')
    throw new LastoutError('FILTER_REQUIRED', `${verb} needs a job id or a filter, not ${show(which)}.`);
  refuseActs(which, verb);
  const own = ownFilter(which, ['all']);
  const { all } = own;
  if (all !== undefined && all !== true)
    throw new LastoutError('INVALID_FILTER', `all is ${show(all)}; write all: true or leave it out.`);
  if (!all && filterNames.every((name) => own[name] === undefined)) {
    throw new LastoutError(
      'FILTER_REQUIRED',
      `${verb} got an empty filter; name what you mean, or say all: true to mean every job.`,
    );
  }
  return readFilter(own);
}

const actNames = ['dryRun', 'cursor', 'reason', 'force', 'again'];
/** The acts that take options, and what stands before these. */
const actCalls: { readonly [verb: string]: readonly [place: string, before: string] } = {
  cancel: ['second', 'filter'],
  retry: ['second', 'filter'],
  remove: ['second', 'filter'],
  reschedule: ['third', 'filter, to'],
};

function refuseActs(which: object, verb: string): void {
  const call = actCalls[verb];
  const name = reading('The filter', 'UNKNOWN_OPTION', () => actNames.find((name) => Object.hasOwn(which, name)));
  if (!call || name === undefined) return;
  const [place, before] = call;
  const message = `The filter: "${name}" belongs to the ${place} argument: ${verb}(${before}, { ${name} }).`;
  throw new LastoutError('UNKNOWN_OPTION', message, { option: name });
}

function checkTypeFilter(type: unknown): string {
  const name = definedName(type);
  if (name === null) return checkName(type, 'type');
  throw new LastoutError('INVALID_NAME', `type is a definition; give its name, "${name}" (the definition's .name).`);
}

/** A subject is matched whole, character by character: "trip:*" is the subject of that name. */
function checkSubjectFilter(subject: unknown): string {
  if (typeof subject !== 'string' || subject === '')
    throw new LastoutError('SUBJECT_REQUIRED', `subject is ${show(subject)}; give one subject, such as "trip:42".`);
  return checkSubject(subject);
}

function checkState(state: unknown): State {
  if (!states.includes(state as State))
    throw new LastoutError('INVALID_FILTER', `state is ${show(state)}; it is one of ${states.join(', ')}.`);
  return state as State;
}

function list<T>(value: unknown, name: string, check: (item: unknown) => T): readonly T[] | null {
  if (value === undefined) return null;
  const items = listOf(value, listMax, name, 'INVALID_FILTER') ?? [value];
  return items.map((item) => check(item));
}

function instant(value: unknown, name: string): number | null {
  if (value === undefined) return null;
  const at = timeOf(value);
  if (Number.isNaN(at)) throw new LastoutError('INVALID_FILTER', `${name} is ${show(value)}; give a valid Date.`);
  return at;
}

/** Whether the records of artifacts, temporary folders and leases may be among what it matches. */
export function mayBeThings({ ids, queues, types }: JobFilter): boolean {
  if (types !== null) return types.some((type) => type.startsWith('lastout.'));
  return ids !== null || (queues?.includes(systemQueue) ?? false);
}

export function isThing(job: StoredJob): boolean {
  return job.queue === systemQueue && (job.ownedBy !== null || isLease(job));
}
