/**
 * Rows of new jobs. What few jobs have stands on the prototype until one has it: a store in memory keeps rows by the
 * million, and each then takes little more than half the space.
 */
import type { NewJob } from '../../core/store.js';
import { Place, type Row } from './tables.js';

const rare = {
  ttlMs: null,
  subject: null,
  key: null,
  slot: null,
  exclusiveKey: null,
  source: null,
  metadata: null,
  print: null,
  retryOf: null,
  retriedAs: null,
  ownedBy: null,
  expiresAt: null,
  stalls: 0,
  wary: false,
  replaced: false,
  cancelAt: null,
  cancelReason: null,
  progress: null,
  memo: null,
  heldUntil: null,
  heldReason: null,
} satisfies Partial<Row>;

class PlainRow implements Omit<Row, keyof typeof rare> {
  readonly id: string;
  readonly type: string;
  readonly queue: string;
  readonly maxAttempts: number;
  readonly policy: string;
  readonly input: string;
  place: Place = Place.claimed;
  priority: number;
  startedAt: Row['startedAt'] = null;
  attempts = 0;
  epoch = 0;
  left: Row['left'] = null;
  againAt: Row['againAt'] = null;
  error: Row['error'] = null;
  state: Row['state'] = null;
  completedAt: Row['completedAt'] = null;
  result: Row['result'] = null;
  keepMs: Row['keepMs'] = undefined;
  keepCount: Row['keepCount'] = null;
  entry: Row['entry'] = undefined;
  claim: Row['claim'] = undefined;

  constructor(
    job: NewJob,
    readonly seq: number,
    readonly createdAt: number,
    public dueAt: number,
  ) {
    this.id = job.id;
    this.type = job.type;
    this.queue = job.queue;
    this.maxAttempts = job.maxAttempts;
    this.policy = job.policy;
    this.input = job.input;
    this.priority = job.priority;
  }
}
Object.assign(PlainRow.prototype, rare);

export function newRow(job: NewJob, seq: number, now: number, dueAt: number, retryOf: string | null): Row {
  const row = new PlainRow(job, seq, now, dueAt) as { -readonly [K in keyof Row]: Row[K] };
  if (job.ttlMs !== null) {
    row.ttlMs = job.ttlMs;
    row.expiresAt = now + job.ttlMs;
  }
  if (job.subject !== null) row.subject = job.subject;
  if (job.key !== null) row.key = job.key;
  if (job.deduplication !== 'none') row.slot = job.key ?? '';
  if (job.exclusiveKey !== null) row.exclusiveKey = job.exclusiveKey;
  if (job.source !== null) row.source = job.source;
  if (job.metadata !== null) row.metadata = job.metadata;
  if (job.print !== null) row.print = job.print;
  if (job.ownedBy !== null) row.ownedBy = job.ownedBy;
  if (retryOf !== null) row.retryOf = retryOf;
  return row;
}

/** For an engine that writes rows as they are: with what stands on the prototype. */
export function wholeRow(row: Row): Row {
  const whole: Record<string, unknown> = {};
  for (const name in row) whole[name] = row[name as keyof Row];
  return whole as unknown as Row;
}
