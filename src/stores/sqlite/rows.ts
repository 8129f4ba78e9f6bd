/**
 * A row between its object and its columns. What most jobs do not have stands in one column, `rest`, as JSON: every
 * column costs time at each read and write, and a plain job has none of it.
 */
import type { LeavingKind } from '../../core/ending.js';
import type { FinishedState } from '../../core/job.js';
import { Place, type Row } from '../local/tables.js';
import type { Value, Values } from './driver.js';

/** As they are stored: the position is the number. Add at the end only. */
const stateNumbers: readonly FinishedState[] = ['completed', 'failed', 'cancelled', 'expired'];
const leavingNumbers: readonly LeavingKind[] = [
  'complete',
  'retry',
  'exhaust',
  'fail',
  'snooze',
  'cancel',
  'release',
  'lapse',
];

export const stateNumber = (state: FinishedState): number => stateNumbers.indexOf(state);
export const leavingNumber = (left: LeavingKind | null): number | null =>
  left === null ? null : leavingNumbers.indexOf(left);
export const leavingOf = (value: Value | undefined): LeavingKind | null =>
  typeof value === 'number' ? (leavingNumbers[value] ?? null) : null;

const shared = [
  'seq',
  'id',
  'type',
  'queue',
  'priority',
  'due_at',
  'created_at',
  'max_attempts',
  'policy',
  'input',
  'subject',
  'key',
  'source',
  'rest',
] as const;
const ofFinished = [
  'state',
  'completed_at',
  'started_at',
  'attempts',
  'epoch',
  '"left"',
  'result',
  'keep_ms',
  'keep_count',
] as const;

export const liveColumns = (table: string): string => shared.map((name) => `${table}.${name}`).join(', ');
export const doneColumns = (table: string): string =>
  [...shared, ...ofFinished].map((name) => `${table}.${name}`).join(', ');
/** Of `doneColumns` and go_at, those that `finish` gives; the others are copied from the live row. */
export const copiedColumns = shared.slice(0, -1).join(', ');
export const finishColumns = ['rest', ...ofFinished, 'go_at'].join(', ');

/** What `rest` may hold: whatever differs from a plain new job. */
type Rest = {
  -readonly [K in
    | 'ttlMs'
    | 'slot'
    | 'exclusiveKey'
    | 'metadata'
    | 'retryOf'
    | 'print'
    | 'expiresAt'
    | 'startedAt'
    | 'attempts'
    | 'stalls'
    | 'wary'
    | 'epoch'
    | 'left'
    | 'cancelAt'
    | 'cancelReason'
    | 'againAt'
    | 'progress'
    | 'memo'
    | 'error']?: Row[K];
};

const nullable = [
  'ttlMs',
  'slot',
  'exclusiveKey',
  'metadata',
  'retryOf',
  'print',
  'expiresAt',
  'cancelAt',
  'cancelReason',
  'againAt',
  'progress',
  'memo',
  'error',
] as const;

/** A finished row has its run's outcome in columns of their own, since every finished row has one. */
export function restOf(row: Row, finished: boolean): string | null {
  const rest: Record<string, unknown> = {};
  let any = false;
  for (const name of nullable) {
    if (row[name] === null) continue;
    rest[name] = row[name];
    any = true;
  }
  if (row.stalls > 0 || row.wary) {
    Object.assign(rest, { stalls: row.stalls, wary: row.wary });
    any = true;
  }
  if (!finished && (row.epoch > 0 || row.attempts > 0 || row.startedAt !== null || row.left !== null)) {
    Object.assign(rest, { epoch: row.epoch, attempts: row.attempts, startedAt: row.startedAt, left: row.left });
    any = true;
  }
  return any ? JSON.stringify(rest) : null;
}

const nothing: Rest = {};

/** `values`: the columns of `liveColumns`, then the place (null: claimed). */
export function liveRow(values: Values, policy: string): Row {
  const rest = values[13] === null ? nothing : (JSON.parse(values[13] as string) as Rest);
  const place = (values[14] ?? Place.claimed) as Place;
  return rowOf(values, rest, policy, place);
}

/** `values`: the columns of `doneColumns`. */
export function doneRow(values: Values, policy: string): Row {
  const rest = values[13] === null ? nothing : (JSON.parse(values[13] as string) as Rest);
  const row = rowOf(values, rest, policy, Place.claimed);
  row.state = stateNumbers[values[14] as number]!;
  row.completedAt = values[15] as number;
  row.startedAt = values[16] as number | null;
  row.attempts = values[17] as number;
  row.epoch = values[18] as number;
  row.left = leavingOf(values[19]);
  row.result = values[20] as string | null;
  row.keepMs = keepMsOf(values[21] as number | null);
  row.keepCount = values[22] as number | null;
  return row;
}

function rowOf(values: Values, rest: Rest, policy: string, place: Place): Row {
  return {
    seq: values[0] as number,
    id: values[1] as string,
    type: values[2] as string,
    queue: values[3] as string,
    createdAt: values[6] as number,
    maxAttempts: values[7] as number,
    ttlMs: rest.ttlMs ?? null,
    subject: values[10] as string | null,
    key: values[11] as string | null,
    slot: rest.slot ?? null,
    exclusiveKey: rest.exclusiveKey ?? null,
    source: values[12] as string | null,
    metadata: rest.metadata ?? null,
    policy,
    input: values[9] as string,
    retryOf: rest.retryOf ?? null,
    print: rest.print ?? null,
    place,
    priority: values[4] as number,
    dueAt: values[5] as number,
    expiresAt: rest.expiresAt ?? null,
    startedAt: rest.startedAt ?? null,
    attempts: rest.attempts ?? 0,
    stalls: rest.stalls ?? 0,
    wary: rest.wary ?? false,
    epoch: rest.epoch ?? 0,
    left: rest.left ?? null,
    cancelAt: rest.cancelAt ?? null,
    cancelReason: rest.cancelReason ?? null,
    againAt: rest.againAt ?? null,
    progress: rest.progress ?? null,
    memo: rest.memo ?? null,
    error: rest.error ?? null,
    state: null,
    completedAt: null,
    result: null,
    keepMs: undefined,
    keepCount: null,
  };
}

/** Stored: null follows the cleanup policy, −1 is for ever. */
const keptForEver = -1;

function keepMsOf(stored: number | null): number | null | undefined {
  if (stored === null) return undefined;
  return stored === keptForEver ? null : stored;
}

/** The parameters of `finishColumns`. */
export function finishValues(row: Row): Value[] {
  const completedAt = row.completedAt!;
  const ownAge = typeof row.keepMs === 'number';
  return [
    restOf(row, true),
    stateNumber(row.state!),
    completedAt,
    row.startedAt,
    row.attempts,
    row.epoch,
    leavingNumber(row.left),
    row.result,
    row.keepMs === null ? keptForEver : (row.keepMs ?? null),
    row.keepCount,
    ownAge ? completedAt + row.keepMs! : null,
  ];
}
