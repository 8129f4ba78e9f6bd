/**
 * A row between its object and its columns. What most jobs do not have stands in one column, `rest`, as JSON: every
 * column costs time at each read and write, and a plain job has none of it.
 */
import { type KeptRare, keptRare, plainJob, type RareName } from '../../core/columns.js';
import type { LeavingKind } from '../../core/ending.js';
import type { FinishedState, State } from '../../core/job.js';
import { isPlainKept } from '../../core/plain.js';
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
] as const;
/** Columns that are mostly null, and what of the row stands in them. The rest of what few jobs have is in `rest`. */
export const oddColumns: readonly KeptRare[] = keptRare.filter(({ sqlite }) => sqlite);
const oddNames = oddColumns.map(({ sql }) => Object.keys(sql)[0]!);
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
export const liveColumns = columns('j', [...shared, ...oddNames, 'rest']);
/** Of `jobs` and `done`, as j and d. */
export const doneColumns = `${columns('j', [...shared, ...oddNames])}, ${columns('d', ofFinished)}`;
/** Of `jobs`, as j: what a plain job has not. */
export const rareLive = columns('j', [...oddNames, 'rest']);
/** Of `jobs`: what a plain job has not. */
export const rareInserted = [...oddNames, 'rest'].join(', ');
/** The columns of jobs that have something of their own in `jobs`, as j. */
export function columnOf(name: RareName): string {
  const odd = oddColumns.find((column) => column.name === name);
  return odd ? `j.${Object.keys(odd.sql)[0]!}` : `j.rest ->> '$.${name}'`;
}
/** Of `done`. */
export const finishColumns = ['seq', 'type', 'created_at', ...ofFinished, 'go_at'].join(', ');

const inRest = keptRare.filter(({ sqlite }) => !sqlite);

/** What `rest` holds of a row where it is not null, in this order; what the table of columns has besides comes after. */
const nullable: readonly (keyof Row)[] = [
  ...new Set<keyof Row>([
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
    ...inRest.map(({ name }) => name),
  ]),
];

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
    (isPlainKept(row) || inRest.every(({ isPlain }) => isPlain(row as never))) &&
    row.slot === null &&
    row.retryOf === null &&
    row.retriedAs === null &&
    row.heldUntil === null &&
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

/** Where the columns that are mostly null begin in `liveColumns` and `doneColumns`; `rest` follows them. */
const oddFrom = shared.length;
const restAt = oddFrom + oddColumns.length;

/** `values`: the columns of `liveColumns`, then the place (null: claimed). */
export function liveRow(values: Values, policy: string): Row {
  return withRare(plainRowIn(values, policy, (values[restAt + 1] ?? Place.claimed) as Place), values, oddFrom);
}

/** `values`: the columns of `doneColumns`. */
export function doneRow(values: Values, policy: string): Row {
  const row = withRare(plainRowIn(values, policy, Place.claimed), values, oddFrom);
  const [state, completedAt, startedAt, attempts, epoch, left, result, keepMs, keepCount] = values.slice(restAt + 1);
  row.state = stateOf(state!);
  row.completedAt = completedAt as number;
  row.startedAt = startedAt as number | null;
  row.attempts = attempts as number;
  row.epoch = epoch as number;
  row.left = leavingOf(left);
  row.result = result as string | null;
  if (keepMs === keptByHold) {
    const keep = policyOf(policy).keep[row.state];
    row.keepMs = keep?.ageMs;
    row.keepCount = keep?.count ?? null;
  } else {
    row.keepMs = keepMsOf(keepMs as number | null);
    row.keepCount = keepCount as number | null;
  }
  return row;
}

type Column = Value | undefined;

function plainRowIn(values: Values, policy: string, place: Place): Row {
  // biome-ignore format: one value for each column
  return plainRow(values[0], values[1], values[2], values[3], values[4], values[5], values[6], values[7], policy, values[9], place);
}

/** What few jobs have, from the values of their columns and of `rest`, which begin at `from`. */
export function withRare(row: Row, values: Values, from: number): Row {
  for (let i = 0; i < oddColumns.length; i++) {
    const value = values[from + i] as string | null;
    if (value !== null) Object.assign(row, { [oddColumns[i]!.name]: value });
  }
  const rest = values[from + oddColumns.length] as string | null;
  return rest === null ? row : Object.assign(row, JSON.parse(rest) as Partial<Row>);
}

/** What few jobs have stands on the prototype until one has it, as in new rows. */
class PlainRow implements Omit<Row, RareName> {
  slot: Row['slot'] = null;
  retryOf: Row['retryOf'] = null;
  retriedAs: Row['retriedAs'] = null;
  expiresAt: Row['expiresAt'] = null;
  startedAt: Row['startedAt'] = null;
  attempts = 0;
  stalls = 0;
  wary = false;
  epoch = 0;
  left: Row['left'] = null;
  cancelAt: Row['cancelAt'] = null;
  cancelReason: Row['cancelReason'] = null;
  againAt: Row['againAt'] = null;
  progress: Row['progress'] = null;
  memo: Row['memo'] = null;
  error: Row['error'] = null;
  heldUntil: Row['heldUntil'] = null;
  heldReason: Row['heldReason'] = null;
  state: Row['state'] = null;
  completedAt: Row['completedAt'] = null;
  result: Row['result'] = null;
  replaced = false;
  keepMs: Row['keepMs'] = undefined;
  keepCount: Row['keepCount'] = null;

  // biome-ignore format: the order of the columns
  constructor(
    readonly seq: number, readonly id: string, readonly type: string, readonly queue: string, public priority: number,
    public dueAt: number, readonly createdAt: number, readonly maxAttempts: number, readonly policy: string,
    readonly input: string, public place: Place,
  ) {}
}
for (const { name } of keptRare) Object.assign(PlainRow.prototype, { [name]: plainJob[name] });

/** By position rather than from a list: a claim makes one for each of its jobs. */
// biome-ignore format: the order of the columns
export function plainRow(
  seq: Column, id: Column, type: Column, queue: Column, priority: Column, dueAt: Column, createdAt: Column,
  maxAttempts: Column, policy: string, input: Column, place: Place,
): Row {
  return new PlainRow(
    seq as number, id as string, type as string, queue as string, priority as number, dueAt as number,
    createdAt as number, maxAttempts as number, policy, input as string, place,
  ) as Row;
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
