/**
 * Rows of new jobs. What few jobs have stands on the prototype until one has it: a store in memory keeps rows by the
 * million, and each then takes little more than half the space.
 */
import { keptRare, type Mutable, plainJob, type RareName } from '../../core/columns.js';
import { isPlainKept } from '../../core/plain.js';
import type { NewJob } from '../../core/store.js';
import { Place, type Row } from './tables.js';

const rare = {
  slot: null,
  retryOf: null,
  retriedAs: null,
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

class PlainRow implements Omit<Row, RareName | keyof typeof rare> {
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
for (const { name } of keptRare) Object.assign(PlainRow.prototype, { [name]: plainJob[name] });

export function newRow(job: NewJob, seq: number, now: number, dueAt: number, retryOf: string | null): Row {
  const row = new PlainRow(job, seq, now, dueAt) as Mutable<Row>;
  if (!isPlainKept(job)) for (const { isPlain, keep } of keptRare) if (!isPlain(job)) keep(job, row as never);
  if (job.ttlMs !== null) row.expiresAt = now + job.ttlMs;
  if (job.deduplication !== 'none') row.slot = job.key ?? '';
  if (retryOf !== null) row.retryOf = retryOf;
  return row;
}

/** For an engine that writes rows as they are: with what stands on the prototype. */
export function wholeRow(row: Row): Row {
  const whole: Record<string, unknown> = {};
  for (const name in row) whole[name] = row[name as keyof Row];
  return whole as unknown as Row;
}
