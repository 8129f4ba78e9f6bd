/** Jobs on their way in, as the functions take them: what many have in common is sent once. */
import { type Column, columnList, headColumns, keptRare } from '../../core/columns.js';
import { finishedStates } from '../../core/job.js';
import { isAlikeOn, isPlainKept, isPlainOn } from '../../core/plain.js';
import { policyOf, type StoredKeep } from '../../core/policy.js';
import { printIn } from '../../core/print.js';
import type { NewJob } from '../../core/store.js';
import { headAttributes } from './sql/columns.js';

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
  const head = headIn(job, new Policies());
  const ids = jobs.map(({ id }) => id);
  return [
    ...describePolicy(job.policy),
    ...alikeNames.map((name) => head[name] ?? null),
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

const isPlain = isPlainOn('postgres');
const isAlike = isAlikeOn('postgres');

/** Nothing that is stored can stand in the way of such a job. Lists of inputs are separated by newlines. */
function isEven(job: NewJob): boolean {
  return isPlain(job) && !job.input.includes('\n');
}

type Head = { long?: true; flags?: number; [column: string]: unknown };
type Print = (to: Head, job: NewJob, policies: Policies) => void;

/** Fields that are not simply written under the name of their column. */
const prints: { readonly [K in keyof NewJob]?: Print } = {
  when: (to, { when }) => void ('inMs' in when ? (to.in_ms = when.inMs) : (to.at = when.at)),
  policy: (to, { policy }, policies) => void (to.policy = policies.numberOf(policy)),
  print(to, job) {
    if (job.idGiven || job.print !== null) to.print = printIn(job);
  },
  under(to, { under }) {
    if (under !== null) Object.assign(to, { under_epoch: under.epoch, under_owner: under.owner, under_id: under.id });
  },
};

/** What is null is left out. */
function printOf({ name, sql }: Column): Print {
  const [column] = Object.keys(sql) as [string];
  const written: Print = (to, job) => {
    if (job[name] !== null) to[column] = job[name];
  };
  return prints[name] ?? written;
}

const headPrints = headColumns('postgres').map(printOf);
const jobPrints = columnList.map(printOf);
const alikeNames = headAttributes.map(({ sql }) => sql).filter((name) => name !== 'policy');
/** What a claim shows only of a job that is marked so; what hangs on a job has a mark of its own. A print is never shown. */
const shownColumns = keptRare.filter(({ name, hangs }) => name !== 'print' && !hangs);
const hungColumns = keptRare.filter(({ hangs }) => hangs);

function mark(head: Head, job: NewJob): Head {
  const { timeoutMs, keep } = policyOf(job.policy);
  const isBare = isPlainKept(job);
  const shown = (!isBare && shownColumns.some((column) => !column.isPlain(job))) || job.input.includes('\n');
  const hung = (!isBare && hungColumns.some((column) => !column.isPlain(job))) || Object.keys(keep).length > 0;
  if (timeoutMs !== null && timeoutMs > aheadTimeoutMs) head.long = true;
  head.flags = (shown ? flag.shown : 0) + (hung ? flag.hung : 0);
  return head;
}

function headIn(job: NewJob, policies: Policies): Head {
  const head: Head = {};
  for (const print of headPrints) print(head, job, policies);
  return mark(head, job);
}

/** A job with everything. */
export function jobIn(job: NewJob, place: number, policies: Policies): object {
  const all: Head = { o: place };
  for (const print of jobPrints) print(all, job, policies);
  return mark(all, job);
}
