/** The arguments of an insert, and what its answer says. */
import type { LastoutError } from '../../core/errors.js';
import { printIn, printOf } from '../../core/print.js';
import {
  refusedAsEnded,
  refusedAsFull,
  refusedAsOther,
  refusedAsStale,
  refusedAsUnowned,
  refusedBatch,
  type Refusal,
} from '../../core/refusal.js';
import type { Inserted, NewJob } from '../../core/store.js';
import { isPlain, isSameShape, jobText, shapeText } from './rows.js';

type Value = string | number;

/** `P shape n ids inputs` for each run of plain jobs of one shape, `J json shape input` for each of the others. */
export function insertArgs(jobs: readonly NewJob[], atomic: boolean, prints: ReadonlyMap<string, string>): Value[] {
  const args: Value[] = [jobs.length, +atomic, prints.size];
  for (const [id, print] of prints) args.push(id, print);
  const shortWay = !hasTwins(jobs);
  let run = null as { readonly first: NewJob; readonly ids: string[]; readonly inputs: string[] } | null;
  const endRun = (): void => {
    if (run) args.push('P', shapeText(run.first), run.ids.length, run.ids.join(','), run.inputs.join('\0'));
    run = null;
  };
  for (const job of jobs) {
    if (shortWay && isPlain(job)) {
      if (!run || !isSameShape(job, run.first)) {
        endRun();
        run = { first: job, ids: [], inputs: [] };
      }
      run.ids.push(job.id);
      run.inputs.push(job.input);
    } else {
      endRun();
      args.push('J');
      jobArgs(args, job);
    }
  }
  endRun();
  return args;
}

/** Ids that the library made come in order; only where they do not is it worth a closer look. */
function hasTwins(jobs: readonly NewJob[]): boolean {
  for (let i = 1; i < jobs.length; i++)
    if (jobs[i]!.id <= jobs[i - 1]!.id) return new Set(jobs.map(({ id }) => id)).size < jobs.length;
  return false;
}

export function jobArgs(args: Value[], job: NewJob): void {
  args.push(jobText(job, job.idGiven ? printIn(job) : job.print), shapeText(job), job.input);
}

type Answer =
  | ['created' | 'existing' | 'skipped' | 'coalesced' | 'conflict', id: string]
  | ['replaced', id: string, replaced: string]
  | ['unowned' | 'stale', id: string, of: string]
  | ['ended', id: string, subject: string, until: string]
  | ['full', id: string, queue: string, maxPending: number, pending: number];

/** All were created by the short way, or each has its answer. */
type Inserting = ['plain', hints: string] | ['done', hints: string, answers: Answer[]];
/** All or none: the first that was refused. */
type Refused = ['refused', index: number, ...answer: Answer];
/** Nothing happened: jobs with these ids are to be compared by prints, which only this side can make. */
type Prints = ['prints', ...jobs: [id: string, type: string, input: string][]];
/** So many jobs are to be replaced that it takes several calls. */
type Again = ['again', hints: string];

export type InsertReply = Inserting | Refused | Prints | Again;

export function printsOf([, ...jobs]: Prints): ReadonlyMap<string, string> {
  return new Map(jobs.map(([id, type, input]) => [id, printOf(id, type, input)]));
}

export function refusalOf([, index, ...answer]: Refused): LastoutError {
  return refusedBatch(answerIn(answer) as Refusal, index);
}

export function insertAnswers(reply: Inserting, jobs: readonly NewJob[]): Inserted[] {
  return reply[0] === 'plain' ? jobs.map(({ id }) => ({ id, outcome: 'created' })) : reply[2].map(answerIn);
}

function answerIn(answer: Answer): Inserted {
  const id = answer[1];
  switch (answer[0]) {
    case 'conflict':
      return refusedAsOther(id);
    case 'full':
      return refusedAsFull(id, answer[2], answer[3], answer[4]);
    case 'unowned':
      return refusedAsUnowned(id, answer[2]);
    case 'stale':
      return refusedAsStale(id, answer[2]);
    case 'ended':
      return refusedAsEnded(id, answer[2], Number(answer[3]));
    case 'replaced':
      return { id, outcome: 'replaced', replaced: answer[2] };
    default:
      return { id, outcome: answer[0] };
  }
}
