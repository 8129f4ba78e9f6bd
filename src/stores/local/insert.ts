/** Insert: idempotent ids, deduplication and the new row, decided in one step. */
import { printIn } from '../../core/print.js';
import { type Refusal, refusedAsOther, refusedBatch } from '../../core/refusal.js';
import type { Inserted, NewJob, When } from '../../core/store.js';
import { expire, replace } from './end.js';
import { refusalsOfFull, refuseFullBatch } from './full.js';
import { refusalOfOwner } from './own.js';
import { instantOf } from './instant.js';
import { matchesOf } from './matches.js';
import { newRow } from './new-row.js';
import { leavePlace, stand } from './place.js';
import { deltaOf, type Step, tell, totalOf } from './step.js';
import { refusalOfSubject } from './subjects.js';
import type { Row } from './tables.js';

export function insert(step: Step, jobs: readonly NewJob[], atomic: boolean): Inserted[] {
  if (jobs.length > 1) step.tables.expectNew?.(jobs.map(({ id }) => id));
  const isKnown = (job: NewJob): boolean => knownAnswer(step, job) !== null;
  const early = refusalsOf(step, jobs, isKnown);
  if (atomic) {
    refuseBeforeAnyEffect(step, jobs);
    for (const [index, job] of jobs.entries()) if (early.has(job)) throw refusedBatch(early.get(job)!, index);
    refuseFullBatch(step, jobs, isKnown);
    return jobs.map((job) => insertOne(step, job));
  }
  const refusals = refusalsOfFull(step, jobs, (job) => early.has(job) || isKnown(job));
  return jobs.map((job, index) => early.get(job) ?? refusals?.get(index) ?? insertOne(step, job));
}

const none: ReadonlyMap<NewJob, Refusal> = new Map();

/** The jobs of a batch that are refused for what is stored before it. */
function refusalsOf(
  step: Step,
  jobs: readonly NewJob[],
  isKnown: (job: NewJob) => boolean,
): ReadonlyMap<NewJob, Refusal> {
  const hasFences = step.tables.hasFences();
  let refusals: Map<NewJob, Refusal> | null = null;
  for (const job of jobs) {
    const mayBeRefused = job.ownedBy !== null || job.under !== null || (hasFences && job.subject !== null);
    if (!mayBeRefused || isKnown(job)) continue;
    const refusal = refusalOf(step, job);
    if (refusal) (refusals ??= new Map()).set(job, refusal);
  }
  return refusals ?? none;
}

/** Its subject has ended, or its owner is missing or not held. */
function refusalOf(step: Step, job: NewJob): Refusal | null {
  return refusalOfSubject(step, job) ?? refusalOfOwner(step, job);
}

/** Never throws: a refusal is an answer, and then nothing has happened. */
function insertOne(step: Step, job: NewJob): Inserted {
  return knownAnswer(step, job) ?? deduplicate(step, job) ?? create(step, job, null);
}

/** A job that comes with a settlement. */
export function insertThen(step: Step, job: NewJob): void {
  if (knownAnswer(step, job) === null && refusalOf(step, job) !== null) return;
  insertOne(step, job);
}

/** An id that the library made names one job for ever: if it is known, this call comes again, or comes late. */
function knownAnswer(step: Step, job: NewJob): Inserted | null {
  if (job.idGiven) return answerForKnownId(step, job);
  return step.tables.isKnown(job.id) ? { id: job.id, outcome: 'existing' } : null;
}

/** All or none: a given id with another input is looked for first, also within the batch. */
function refuseBeforeAnyEffect(step: Step, jobs: readonly NewJob[]): void {
  const given = new Map<string, string>();
  jobs.forEach((job, index) => {
    if (!job.idGiven) return;
    const print = printIn(job);
    const earlier = given.get(job.id);
    const answer = earlier !== undefined && earlier !== print ? refusedAsOther(job.id) : answerForKnownId(step, job);
    if (answer?.outcome === 'refused') throw refusedBatch(answer, index);
    given.set(job.id, print);
  });
}

function answerForKnownId(step: Step, job: NewJob): Inserted | null {
  const row = step.tables.live(job.id) ?? step.tables.finished(job.id);
  const print = row ? printIn(row) : step.tables.tombstone(job.id)?.print;
  if (print === undefined) return null;
  return print === printIn(job) ? { id: job.id, outcome: 'existing' } : refusedAsOther(job.id);
}

/** Null: no job stands in the way, insert one. */
function deduplicate(step: Step, job: NewJob): Inserted | null {
  if (job.deduplication === 'none') return null;
  const { pending, processing, expired } = matchesOf(step, job);
  for (const row of expired) expire(step, row);
  const newest = pending[0];
  switch (job.deduplication) {
    case 'skip':
      return newest ? { id: newest.id, outcome: 'skipped' } : null;
    case 'coalesce':
      if (newest) return pullTo(step, newest, job.when);
      return processing ? markToRunAgain(step, processing, job.when) : null;
    case 'replace':
      for (const row of pending) replace(step, row);
      if (!newest) return null;
      return { ...create(step, job, null), outcome: 'replaced', replaced: newest.id };
  }
}

function pullTo(step: Step, row: Row, when: When): Inserted {
  leavePlace(step, row);
  row.dueAt = instantOf(step, when);
  if (row.ttlMs !== null) row.expiresAt = step.now + row.ttlMs;
  step.tables.save(row);
  stand(step, row);
  return { id: row.id, outcome: 'coalesced' };
}

function markToRunAgain(step: Step, row: Row, when: When): Inserted {
  row.againAt = instantOf(step, when);
  // The event has a ttl of its own, also where the run it waits for is handed back or lapses.
  if (row.ttlMs !== null) row.expiresAt = step.now + row.ttlMs;
  step.tables.save(row);
  return { id: row.id, outcome: 'coalesced' };
}

export function create(step: Step, job: NewJob, retryOf: string | null): { id: string; outcome: 'created' } {
  const { tables, now } = step;
  const row = newRow(job, tables.nextSeq(), now, instantOf(step, job.when), retryOf);
  tables.add(row);
  stand(step, row);
  deltaOf(step, row.queue).pending += 1;
  totalOf(step, row).created += 1;
  step.mayExceedCap = true;
  tell(step, 'created', row);
  return { id: row.id, outcome: 'created' };
}
