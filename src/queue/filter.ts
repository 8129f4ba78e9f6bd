/** Filters of callers, checked and made plain. */
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { type State, states } from '../core/job.js';
import { isLease } from '../core/lease-record.js';
import { checkId, checkKey, checkName, checkSubject, systemQueue } from '../core/names.js';
import { type JobFilter, noFilter, type StoredJob } from '../core/store.js';
import { refuseUnknown } from '../core/unknown-option.js';

export interface Filter {
  id?: string | readonly string[];
  state?: State | readonly State[];
  type?: string | readonly string[];
  queue?: string | readonly string[];
  subject?: string;
  key?: string;
  source?: string;
  before?: Date;
  after?: Date;
}

/** Which jobs an act is about: one id, or a filter. An empty filter needs `all: true`. */
export type Which = string | (Filter & { all?: true });

const filterNames = ['id', 'state', 'type', 'queue', 'subject', 'key', 'source', 'before', 'after'] as const;
const listMax = 1_000;

export function readFilter(filter: Filter, extra: readonly string[] = []): JobFilter {
  refuseUnknown(filter, [...filterNames, ...extra], 'The filter');
  // The library's own jobs are shown, and acted on, where somebody names them.
  const system = filter.id !== undefined || filter.type !== undefined || filter.queue !== undefined;
  return {
    ids: list(filter.id, 'id', (id) => checkId(id, 'id')),
    states: list(filter.state, 'state', checkState),
    types: list(filter.type, 'type', (type) => checkName(type, 'type')),
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
  const filter = readFilter(which, ['all']);
  const { all } = which;
  if (all !== undefined && all !== true)
    throw new LastoutError('INVALID_FILTER', `all is ${show(all)}; write all: true or leave it out.`);
  if (!all && filterNames.every((name) => which[name] === undefined)) {
    throw new LastoutError(
      'FILTER_REQUIRED',
      `${verb} got an empty filter; name what you mean, or say all: true to mean every job.`,
    );
  }
  return filter;
}

/** A subject is matched whole: no wildcard by accident. */
function checkSubjectFilter(subject: unknown): string {
  if (typeof subject !== 'string' || subject === '' || subject.includes('*') || subject.includes('%')) {
    throw new LastoutError(
      'SUBJECT_REQUIRED',
      `subject is ${show(subject)}; give one whole subject such as "trip:42" (no wildcards).`,
    );
  }
  return checkSubject(subject);
}

function checkState(state: unknown): State {
  if (!states.includes(state as State))
    throw new LastoutError('INVALID_FILTER', `state is ${show(state)}; it is one of ${states.join(', ')}.`);
  return state as State;
}

function list<T>(value: unknown, name: string, check: (item: unknown) => T): readonly T[] | null {
  if (value === undefined) return null;
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (items.length > listMax)
    throw new LastoutError('INVALID_FILTER', `${name} has ${items.length} entries; at most ${listMax} are taken.`);
  return items.map(check);
}

function instant(value: unknown, name: string): number | null {
  if (value === undefined) return null;
  if (!(value instanceof Date) || Number.isNaN(value.getTime()))
    throw new LastoutError('INVALID_FILTER', `${name} is ${show(value)}; give a valid Date.`);
  return value.getTime();
}

/** Whether the records of artifacts, temporary folders and leases may be among what it matches. */
export function mayBeThings({ ids, queues, types }: JobFilter): boolean {
  if (types !== null) return types.some((type) => type.startsWith('lastout.'));
  return ids !== null || (queues?.includes(systemQueue) ?? false);
}

export function isThing(job: StoredJob): boolean {
  return job.queue === systemQueue && (job.ownedBy !== null || isLease(job));
}
