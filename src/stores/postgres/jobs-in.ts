/** Jobs on their way in, as the functions take them: what many have in common is sent once. */
import { finishedStates } from '../../core/job.js';
import { policyOf, type StoredKeep } from '../../core/policy.js';
import { printIn } from '../../core/print.js';
import type { NewJob } from '../../core/store.js';

/** A function, and its arguments that are about jobs. */
export interface JobsIn {
  readonly fn: 'insert_alike_v1' | 'insert_v1';
  readonly args: readonly unknown[];
}

/** See the column `flags` of jobs. */
const flag = { shown: 1, hung: 2 } as const;
/** Longer jobs are never claimed ahead. */
const aheadTimeoutMs = 1_000;

/** The policies of a call, each once. */
export class Policies {
  readonly #numbers = new Map<string, number>();

  /** From 1. */
  numberOf(text: string): number {
    let number = this.#numbers.get(text);
    if (number === undefined) this.#numbers.set(text, (number = this.#numbers.size + 1));
    return number;
  }

  get text(): string {
    return JSON.stringify([...this.#numbers.keys()].map(describePolicy));
  }
}

function describePolicy(text: string): readonly [string, string | null, string | null] {
  const { keep } = policyOf(text);
  const rules = finishedStates.map((state) => keep[state]);
  if (rules.every((rule) => rule === undefined)) return [text, null, null];
  return [text, `{${rules.map(ageOf).join()}}`, `{${rules.map((rule) => rule?.count ?? 'null').join()}}`];
}

/** Stored: null follows the cleanup policy, −1 is for ever. */
function ageOf(rule: StoredKeep | undefined): number | string {
  if (rule?.ageMs === undefined) return 'null';
  return rule.ageMs ?? -1;
}

/** Most calls are of jobs that differ only in id and input. */
export function jobsIn(jobs: readonly NewJob[]): JobsIn {
  const [first] = jobs;
  if (first && jobs.every((job) => isEven(job) && isAlike(job, first)))
    return { fn: 'insert_alike_v1', args: alikeArgs(jobs, first) };
  return { fn: 'insert_v1', args: mixedArgs(jobs) };
}

function alikeArgs(jobs: readonly NewJob[], job: NewJob): readonly unknown[] {
  const { type, queue, priority, when, ttlMs, maxAttempts, subject, source, metadata, policy } = job;
  const { long, flags } = headIn(job, new Policies());
  const ids = jobs.map(({ id }) => id);
  return [
    ...describePolicy(policy),
    ...[type, queue, priority],
    ...('inMs' in when ? [when.inMs, null] : [null, when.at]),
    ...[ttlMs, maxAttempts, subject, source, metadata, long ?? null, flags],
    ids.length,
    ids.reduce((least, id) => (id < least ? id : least)),
    ids.join(),
    jobs.map(({ input }) => input).join('\n'),
  ];
}

/** Arguments of insert_v1. */
export function mixedArgs(jobs: readonly NewJob[]): readonly unknown[] {
  const policies = new Policies();
  const sought = typesSought(jobs);
  const heads: string[] = [];
  const headOf: number[] = [];
  const numbers = new Map<string, number>();
  const evens: number[] = [];
  const ids: string[] = [];
  const inputs: string[] = [];
  const rest: object[] = [];
  let last: NewJob | null = null;
  jobs.forEach((job, index) => {
    if (!isEven(job) || sought?.has(job.type)) {
      rest.push(jobIn(job, index + 1, policies));
      return;
    }
    if (!last || !isAlike(job, last)) {
      const head = JSON.stringify(headIn(job, policies));
      let number = numbers.get(head);
      if (number === undefined) numbers.set(head, (number = heads.push(head)));
      headOf.push(number);
      last = job;
    } else {
      headOf.push(headOf[headOf.length - 1]!);
    }
    evens.push(index + 1);
    ids.push(job.id);
    inputs.push(job.input);
  });
  const any = ids.length > 0;
  return [
    policies.text,
    any ? `[${heads.join()}]` : null,
    heads.length > 1 ? headOf.join() : null,
    rest.length > 0 && any ? evens.join() : null,
    any ? ids.join() : null,
    any ? inputs.join('\n') : null,
    rest.length > 0 ? JSON.stringify(rest) : null,
  ];
}

/** Types whose jobs in this call may meet each other: they go in one by one, in order. */
function typesSought(jobs: readonly NewJob[]): ReadonlySet<string> | null {
  let types: Set<string> | null = null;
  for (const { deduplication, type } of jobs) if (deduplication !== 'none') (types ??= new Set()).add(type);
  return types;
}

/** Nothing that is stored can stand in the way of such a job. Lists of inputs are separated by newlines. */
function isEven({ idGiven, key, exclusiveKey, deduplication, input, ownedBy, under }: NewJob): boolean {
  return (
    !idGiven &&
    key === null &&
    exclusiveKey === null &&
    deduplication === 'none' &&
    ownedBy === null &&
    under === null &&
    !input.includes('\n')
  );
}

interface Head {
  readonly long?: true;
  readonly flags: number;
  readonly [column: string]: unknown;
}

function isAlike(a: NewJob, b: NewJob): boolean {
  return (
    a.type === b.type &&
    a.queue === b.queue &&
    a.priority === b.priority &&
    a.policy === b.policy &&
    a.maxAttempts === b.maxAttempts &&
    a.ttlMs === b.ttlMs &&
    a.subject === b.subject &&
    a.source === b.source &&
    a.metadata === b.metadata &&
    (a.when === b.when ||
      ('inMs' in a.when ? 'inMs' in b.when && a.when.inMs === b.when.inMs : 'at' in b.when && a.when.at === b.when.at))
  );
}

function headIn(job: NewJob, policies: Policies): Head {
  const { type, queue, priority, when, ttlMs, maxAttempts, subject, source, metadata, policy, input } = job;
  const { timeoutMs, keep } = policyOf(policy);
  const shown = subject !== null || source !== null || metadata !== null || ttlMs !== null || input.includes('\n');
  const hung = job.key !== null || job.exclusiveKey !== null || job.ownedBy !== null || Object.keys(keep).length > 0;
  return {
    type,
    queue,
    priority,
    ...('inMs' in when ? { in_ms: when.inMs } : { at: when.at }),
    ...(ttlMs !== null && { ttl_ms: ttlMs }),
    max_attempts: maxAttempts,
    ...(subject !== null && { subject }),
    ...(source !== null && { source }),
    ...(metadata !== null && { metadata }),
    policy: policies.numberOf(policy),
    ...(timeoutMs !== null && timeoutMs > aheadTimeoutMs ? { long: true } : {}),
    flags: (shown ? flag.shown : 0) + (hung ? flag.hung : 0),
  };
}

/** A job with everything. */
export function jobIn(job: NewJob, place: number, policies: Policies): object {
  const { id, idGiven, print, key, exclusiveKey, deduplication, input, ownedBy, under } = job;
  return {
    o: place,
    id,
    given: idGiven,
    ...(idGiven ? { print: printIn(job) } : print !== null && { print }),
    ...headIn(job, policies),
    ...(key !== null && { key }),
    ...(exclusiveKey !== null && { xkey: exclusiveKey }),
    dedup: deduplication,
    input,
    ...(ownedBy !== null && { owned_by: ownedBy }),
    ...(under !== null && { under_epoch: under.epoch, under_owner: under.owner, under_id: under.id }),
  };
}
