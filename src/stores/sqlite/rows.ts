/**
 * A row between its object and its columns. What most jobs do not have stands in one column, `rest`, as JSON: every
 * column costs time at each read and write, and a plain job has none of it.
 */
import type { LeavingKind } from '../../core/ending.js';
import type { FinishedState, State } from '../../core/job.js';
import { policyOf } from '../../core/policy.js';
import type { RemovedWhy } from '../../core/store.js';
import { Place, type Row } from '../local/tables.js';
import type { Value, Values } from './driver.js';

/** As they are stored: the position is the number. Add at the end only. */
const stateNumbers: readonly FinishedState[] = ['completed', 'failed', 'cancelled', 'expired'];
const removedNumbers: readonly State[] = [...stateNumbers, 'pending', 'processing'];
const whyNumbers: readonly RemovedWhy[] = ['age', 'count', 'cap', 'removed'];
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
export const stateOf = (value: Value): FinishedState => stateNumbers[value as number]!;
/** Of a tombstone, whose job may have been live. */
export const removedNumber = (state: State): number => removedNumbers.indexOf(state);
export const removedOf = (value: Value): State => removedNumbers[value as number]!;
export const whyNumber = (why: RemovedWhy): number => whyNumbers.indexOf(why);
export const whyOf = (value: Value): RemovedWhy => whyNumbers[value as number]!;
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
] as const;
const ofFinished = [
  'rest',
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

const columns = (table: string, names: readonly string[]): string => names.map((name) => `${table}.${name}`).join(', ');
/** Of `jobs`, as j. */
export const liveColumns = columns('j', [...shared, 'rest']);
/** Of `jobs` and `done`, as j and d. */
export const doneColumns = `${columns('j', shared)}, ${columns('d', ofFinished)}`;
/** Of `done`. */
export const finishColumns = ['seq', 'type', 'created_at', ...ofFinished, 'go_at'].join(', ');

/** What `rest` may hold: whatever differs from a plain new job. */
type Rest = {
  -readonly [K in
    | 'ttlMs'
    | 'slot'
    | 'exclusiveKey'
    | 'metadata'
    | 'retryOf'
    | 'retriedAs'
    | 'ownedBy'
    | 'heldUntil'
    | 'heldReason'
    | 'print'
    | 'expiresAt'
    | 'startedAt'
    | 'attempts'
    | 'stalls'
    | 'wary'
    | 'replaced'
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
  'retriedAs',
  'ownedBy',
  'heldUntil',
  'heldReason',
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
  if (isBare(row, finished)) return null;
  const rest: Record<string, unknown> = {};
  for (const name of nullable) if (row[name] !== null) rest[name] = row[name];
  if (row.replaced) rest.replaced = true;
  if (row.stalls > 0 || row.wary) Object.assign(rest, { stalls: row.stalls, wary: row.wary });
  if (!finished && wasClaimed(row))
    Object.assign(rest, { epoch: row.epoch, attempts: row.attempts, startedAt: row.startedAt, left: row.left });
  return JSON.stringify(rest);
}

/** Asked of every row that is written. */
function isBare(row: Row, finished: boolean): boolean {
  return (
    row.ttlMs === null &&
    row.slot === null &&
    row.exclusiveKey === null &&
    row.metadata === null &&
    row.retryOf === null &&
    row.retriedAs === null &&
    row.ownedBy === null &&
    row.heldUntil === null &&
    row.print === null &&
    row.expiresAt === null &&
    row.cancelAt === null &&
    row.cancelReason === null &&
    row.againAt === null &&
    row.progress === null &&
    row.memo === null &&
    row.error === null &&
    row.stalls === 0 &&
    !row.wary &&
    (finished || !wasClaimed(row))
  );
}

function wasClaimed(row: Row): boolean {
  return row.epoch > 0 || row.attempts > 0 || row.startedAt !== null || row.left !== null;
}

const nothing: Rest = {};

/** `values`: the columns of `liveColumns`, then the place (null: claimed). */
export function liveRow(values: Values, policy: string): Row {
  // biome-ignore format: one value for each column
  return rowOf(values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7], policy, values[9], values[10], values[11], values[12], values[13], values[14] ?? Place.claimed);
}

/** `values`: the columns of `doneColumns`. */
export function doneRow(values: Values, policy: string): Row {
  // biome-ignore format: one value for each column
  const row = rowOf(values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7], policy, values[9], values[10], values[11], values[12], values[13], Place.claimed);
  row.state = stateOf(values[14]!);
  row.completedAt = values[15] as number;
  row.startedAt = values[16] as number | null;
  row.attempts = values[17] as number;
  row.epoch = values[18] as number;
  row.left = leavingOf(values[19]);
  row.result = values[20] as string | null;
  if (values[21] === keptByHold) {
    const keep = policyOf(policy).keep[row.state];
    row.keepMs = keep?.ageMs;
    row.keepCount = keep?.count ?? null;
  } else {
    row.keepMs = keepMsOf(values[21] as number | null);
    row.keepCount = values[22] as number | null;
  }
  return row;
}

type Column = Value | undefined;

/** By position rather than from a list: a claim makes one for each of its jobs. */
// biome-ignore format: the order of the columns
export function rowOf(
  seq: Column, id: Column, type: Column, queue: Column, priority: Column, dueAt: Column, createdAt: Column,
  maxAttempts: Column, policy: string, input: Column, subject: Column, key: Column, source: Column, restText: Column,
  place: Column,
): Row {
  const rest = restText === null ? nothing : (JSON.parse(restText as string) as Rest);
  return {
    seq: seq as number,
    id: id as string,
    type: type as string,
    queue: queue as string,
    createdAt: createdAt as number,
    maxAttempts: maxAttempts as number,
    ttlMs: rest.ttlMs ?? null,
    subject: subject as string | null,
    key: key as string | null,
    slot: rest.slot ?? null,
    exclusiveKey: rest.exclusiveKey ?? null,
    source: source as string | null,
    metadata: rest.metadata ?? null,
    policy,
    input: input as string,
    retryOf: rest.retryOf ?? null,
    retriedAs: rest.retriedAs ?? null,
    ownedBy: rest.ownedBy ?? null,
    print: rest.print ?? null,
    place: place as Place,
    priority: priority as number,
    dueAt: dueAt as number,
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
    heldUntil: rest.heldUntil ?? null,
    heldReason: rest.heldReason ?? null,
    state: null,
    completedAt: null,
    result: null,
    replaced: rest.replaced ?? false,
    keepMs: undefined,
    keepCount: null,
  };
}

/** Stored: null follows the cleanup policy, −1 is for ever. */
const keptForEver = -1;
/** On the shelf of held jobs: the rules stand in the policy, and no order of retention has the row. */
const keptByHold = -2;
/** Rows of `done` that are not on it. */
export const notHeld = 'ifnull(keep_ms, 0) > -2';

function keepMsOf(stored: number | null): number | null | undefined {
  if (stored === null) return undefined;
  return stored === keptForEver ? null : stored;
}

export function keepValue({ keepMs, heldUntil }: Row): number | null {
  if (heldUntil !== null) return keptByHold;
  return keepMs === null ? keptForEver : (keepMs ?? null);
}

/** When a job with an age rule of its own goes. */
export function goAtOf({ keepMs, completedAt, heldUntil }: Row): number | null {
  return typeof keepMs === 'number' && heldUntil === null ? completedAt! + keepMs : null;
}

/** keep_ms, keep_count, go_at. */
export function keepValues(row: Row): Value[] {
  return [keepValue(row), row.heldUntil === null ? row.keepCount : null, goAtOf(row)];
}

/** The parameters of `finishColumns`. */
export function finishValues(row: Row): Value[] {
  return [
    row.seq,
    row.type,
    row.createdAt,
    restOf(row, true),
    stateNumber(row.state!),
    row.completedAt,
    row.startedAt,
    row.attempts,
    row.epoch,
    leavingNumber(row.left),
    row.result,
    ...keepValues(row),
  ];
}
