/** Insert: idempotent ids, deduplication and the new row, decided in one step. */
import { LastoutError } from '../../core/errors.js';
import { canonicalText, fingerprint } from '../../core/json.js';
import type { Inserted, NewJob, When } from '../../core/store.js';
import { endPending, expire, isExpired } from './end.js';
import { leavePlace, stand } from './place.js';
import { type Step, tell } from './step.js';
import { Place, type Row } from './tables.js';

export function insert(step: Step, jobs: readonly NewJob[], atomic: boolean): Inserted[] {
  if (atomic) refuseBeforeAnyEffect(step, jobs);
  return jobs.map((job) => {
    const known = job.idGiven ? answerForKnownId(step, job) : null;
    return known ?? deduplicate(step, job) ?? create(step, job, null);
  });
}

/** All or none: the only refusal, a given id with another input, is looked for first, also within the batch. */
function refuseBeforeAnyEffect(step: Step, jobs: readonly NewJob[]): void {
  const given = new Map<string, string>();
  jobs.forEach((job, index) => {
    if (!job.idGiven) return;
    const print = printOf(job.type, job.input);
    const earlier = given.get(job.id);
    const answer = earlier !== undefined && earlier !== print ? conflict(job.id) : answerForKnownId(step, job);
    if (answer?.outcome === 'refused')
      throw new LastoutError(answer.code, `Job ${index}: ${answer.message}`, { index });
    given.set(job.id, print);
  });
}

function answerForKnownId(step: Step, job: NewJob): Inserted | null {
  const row = step.tables.live(job.id) ?? step.tables.finished(job.id);
  const print = row ? printOf(row.type, row.input) : step.tables.tombstone(job.id)?.inputPrint;
  if (print === undefined) return null;
  return print === printOf(job.type, job.input) ? { id: job.id, outcome: 'existing' } : conflict(job.id);
}

export function printOf(type: string, input: string): string {
  return fingerprint(`${type} ${canonicalText(input)}`);
}

function conflict(id: string): Inserted {
  const message = `The id ${id} already stands for a job of another type or input.`;
  return { id, outcome: 'refused', code: 'IDEMPOTENCY_CONFLICT', message };
}

/** Null: no job stands in the way, insert one. */
function deduplicate(step: Step, job: NewJob): Inserted | null {
  if (job.deduplication === 'none') return null;
  const { pending, processing } = findMatches(step, job);
  const newest = pending[0];
  switch (job.deduplication) {
    case 'skip':
      return newest ? { id: newest.id, outcome: 'skipped' } : null;
    case 'coalesce':
      if (newest) return pullTo(step, newest, job.when);
      return processing ? markToRunAgain(step, processing, job.when) : null;
    case 'replace':
      for (const row of pending)
        endPending(step, row, 'failed', { error: { code: 'REPLACED', message: 'Replaced by newer job' } });
      if (!newest) return null;
      return { ...create(step, job, null), outcome: 'replaced', replaced: newest.id };
  }
}

interface Matches {
  /** Newest first; only the newest unless the strategy ends them all. */
  readonly pending: readonly Row[];
  /** The newest one that runs and is not asked to stop. */
  readonly processing: Row | undefined;
}

function findMatches(step: Step, job: NewJob): Matches {
  const pending: Row[] = [];
  const expired: Row[] = [];
  let processing: Row | undefined;
  for (const row of step.tables.matches(job.type, job.key)) {
    if (row.place === Place.claimed) {
      if (row.cancelAt !== null) continue;
      processing ??= row;
      // It will be pending again by itself, so for skip it already is.
      if (job.deduplication !== 'skip' || row.againAt === null) continue;
    } else if (isExpired(step, row)) {
      expired.push(row);
      continue;
    }
    pending.push(row);
    if (job.deduplication !== 'replace') break;
  }
  for (const row of expired) expire(step, row);
  return { pending, processing };
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

/** An instant in the past is due now. */
export function instantOf(step: Step, when: When): number {
  return 'inMs' in when ? step.now + when.inMs : Math.max(when.at, step.now);
}

export function create(step: Step, job: NewJob, retryOf: string | null): { id: string; outcome: 'created' } {
  const { tables, now } = step;
  const row: Row = {
    seq: tables.nextSeq(),
    id: job.id,
    type: job.type,
    queue: job.queue,
    createdAt: now,
    maxAttempts: job.maxAttempts,
    ttlMs: job.ttlMs,
    subject: job.subject,
    key: job.key,
    slot: job.deduplication === 'none' ? null : (job.key ?? ''),
    exclusiveKey: job.exclusiveKey,
    source: job.source,
    metadata: job.metadata,
    policy: job.policy,
    input: job.input,
    retryOf,
    place: Place.claimed,
    priority: job.priority,
    dueAt: instantOf(step, job.when),
    expiresAt: job.ttlMs === null ? null : now + job.ttlMs,
    startedAt: null,
    attempts: 0,
    stalls: 0,
    wary: false,
    epoch: 0,
    left: null,
    cancelAt: null,
    cancelReason: null,
    againAt: null,
    progress: null,
    error: null,
    state: null,
    completedAt: null,
    result: null,
    keepMs: undefined,
    keepCount: null,
  };
  tables.add(row);
  stand(step, row);
  tables.count(row.queue, 'pending', 1);
  step.mayExceedCap = true;
  tell(step, 'created', row);
  return { id: row.id, outcome: 'created' };
}
