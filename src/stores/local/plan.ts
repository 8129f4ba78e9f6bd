/**
 * What a cleanup would remove, without removing it: the orders and rules of the sweep, part after part, page by page; then
 * what is held, and what is owned and due. The cursor carries what the later pages need: the instant, where the walk stands, and what was found so far.
 */
import { LastoutError } from '../../core/errors.js';
import type { FinishedState } from '../../core/job.js';
import type { CleanupPolicy } from '../../core/policy.js';
import type { PlannedOwner, PlanPage, PlanRequest, RetentionRule } from '../../core/store.js';
import type { Step } from './step.js';
import type { CountGroup, FinishedOrder, Position, Row, Tables } from './tables.js';

/** How many rows of a group the age rule leaves, of which that of a row's rank is the newest `rank`. */
interface GroupSize extends CountGroup {
  readonly n: number;
}

interface Cursor {
  readonly part: 'goes' | 'other' | 'count' | 'cap' | 'held' | 'due';
  /** The instant of the plan. */
  readonly at: number;
  /** Where the walk of this part stands. */
  after: Position | null;
  /** Found by age and by count. */
  found: number;
  /** Those that were walked through; the last one may not be finished. */
  groups: GroupSize[];
  /** How many more the cap takes; null: not known yet. */
  excess: number | null;
}

interface Sum {
  count: number;
  bytes: number;
  readonly sample: string[];
}

const sampleMax = 10;

interface Page {
  readonly age: Sum;
  readonly count: Sum;
  readonly cap: Sum;
  readonly held: Sum;
  /** All that go. */
  readonly going: PlannedOwner[];
  readonly dueThings: string[];
}

interface Walk {
  readonly tables: Tables;
  readonly cleanup: CleanupPolicy;
  readonly cursor: Cursor;
  readonly page: Page;
  /** Of those that own something, how many stay. */
  readonly staying: number;
  /** How many rows may still be looked at. */
  left: number;
}

export function plan(step: Step, request: PlanRequest): PlanPage {
  const { cleanup, limit, staying = 0 } = request;
  const { tables } = step;
  const page: Page = { age: noSum(), count: noSum(), cap: noSum(), held: noSum(), going: [], dueThings: [] };
  const { age, count, cap, held, going, dueThings } = page;
  let owing: readonly PlannedOwner[] = [];
  let at: Cursor | null = request.cursor === null ? startAt(step.now, request) : parse(request.cursor);
  for (let left = limit; at !== null && left > 0 && owing.length === 0; ) {
    const walk: Walk = { tables, cleanup, cursor: at, page, staying, left };
    const over: boolean = walkers[at.part](walk);
    left = walk.left;
    const owners = tables.owning(going.map(({ id }) => id));
    owing = going.filter(({ id }) => owners.has(id));
    if (over && owing.length === 0) at = nextPart(at, request);
  }
  const takenBy = going.find(({ id }) => id === request.id)?.rule ?? null;
  return { age, count, cap, held, owing, dueThings, takenBy, next: at && JSON.stringify(at) };
}

type Asked = Pick<PlanRequest, 'cleanup' | 'id'>;

/** Who asks for one job knows its age: what goes by age counts only for the cap. */
function startAt(now: number, { cleanup, id }: Asked): Cursor {
  const part = id !== undefined && cleanup.maxStoredJobs === Number.POSITIVE_INFINITY ? 'count' : 'goes';
  return { part, at: now, after: null, found: 0, groups: [], excess: null };
}

const following = { goes: 'other', other: 'count', count: 'cap', cap: 'held', held: 'due', due: null } as const;

function nextPart(cursor: Cursor, { id }: Asked): Cursor | null {
  const part = id !== undefined && cursor.part === 'cap' ? null : following[cursor.part];
  return part && { ...cursor, part, after: null };
}

/** Each walks as far as it may; true: it has come to its end. */
const walkers: { readonly [P in Cursor['part']]: (walk: Walk) => boolean } = {
  goes: (walk) => walkAge(walk, { by: 'goes', before: walk.cursor.at }),
  other(walk) {
    const { useCompletedTime, jobRetentionMs } = walk.cleanup;
    const before = walk.cursor.at - jobRetentionMs;
    return walkAge(walk, { by: useCompletedTime ? 'completed' : 'created', before });
  },
  count: walkGroup,
  cap: walkCap,
  held: walkHeld,
  due: walkDue,
};

function walkAge(walk: Walk, order: FinishedOrder): boolean {
  return walkOn(walk, order, (row) => {
    take(walk.page, 'age', row);
    walk.cursor.found += 1;
  });
}

/** One group after the other, from its newest row: what the age rule takes has no rank. */
function walkGroup(walk: Walk): boolean {
  const { cursor, page } = walk;
  while (walk.left > 0) {
    const begun = cursor.after !== null;
    const group = begun ? cursor.groups.at(-1)! : walk.tables.countGroupAfter(cursor.groups.at(-1) ?? null);
    if (!group) return true;
    const { type, state } = group;
    let n = begun ? (group as GroupSize).n : 0;
    const over = walkOn(walk, { by: 'rank', type, state }, (row) => {
      if (isOverAge(walk, row)) return;
      if (row.keepCount !== null && n >= row.keepCount) {
        take(page, 'count', row);
        cursor.found += 1;
      }
      n += 1;
    });
    if (begun) cursor.groups.pop();
    cursor.groups.push({ type, state, n });
    if (!over) return false;
    cursor.after = null;
  }
  return false;
}

/** The oldest that the other rules leave. A row's rank follows from how many of its group are older. */
function walkCap(walk: Walk): boolean {
  const { cursor, page, tables, cleanup, staying } = walk;
  cursor.excess ??= tables.storedTotal() - cleanup.maxStoredJobs - cursor.found;
  const groups = new Map(cursor.groups.map((group) => [nameOf(group), { ...group }]));
  const over = walkOn(
    walk,
    { by: 'ended' },
    (row) => {
      if (isOverAge(walk, row)) return;
      const group = groups.get(nameOf(row as CountGroup));
      if (group) group.n -= 1;
      if (row.keepCount !== null && group && group.n >= row.keepCount) return;
      take(page, 'cap', row);
      cursor.excess! -= 1;
    },
    () => cursor.excess! + staying <= 0,
  );
  cursor.groups = [...groups.values()];
  return over;
}

/** By the end of their hold. No rule looks at a live job, held or not. */
function walkHeld(walk: Walk): boolean {
  const { tables, cursor, page } = walk;
  const asked = walk.left;
  const rows = tables.heldAfter(cursor.after ?? { at: cursor.at, seq: Number.MAX_SAFE_INTEGER }, asked);
  for (const row of rows) {
    cursor.after = { at: row.heldUntil!, seq: row.seq };
    if (row.state !== null) add(page.held, row);
  }
  walk.left -= rows.length;
  return rows.length < asked;
}

function walkDue(walk: Walk): boolean {
  const { tables, cursor, page } = walk;
  const asked = walk.left;
  const things = tables.dueThings(cursor.at, cursor.after, asked);
  for (const { id, dueAt, seq } of things) {
    cursor.after = { at: dueAt, seq };
    page.dueThings.push(id);
  }
  walk.left -= things.length;
  return things.length < asked;
}

/** True: the order has no more rows, or enough of them were visited. */
function walkOn(walk: Walk, order: FinishedOrder, visit: (row: Row) => void, isEnough = () => false): boolean {
  const { tables, cursor } = walk;
  if (isEnough()) return true;
  const asked = walk.left;
  const rows = tables.finishedAfter(order, cursor.after, asked);
  for (const row of rows) {
    walk.left -= 1;
    cursor.after = { at: instantIn(order, row), seq: row.seq };
    visit(row);
    if (isEnough()) return true;
  }
  return rows.length < asked;
}

export function instantIn(order: FinishedOrder, row: Row): number {
  switch (order.by) {
    case 'goes':
      return row.completedAt! + row.keepMs!;
    case 'created':
      return row.createdAt;
    case 'completed':
    case 'ended':
    case 'rank':
      return row.completedAt!;
  }
}

function isOverAge({ cleanup, cursor }: Walk, { keepMs, completedAt, createdAt }: Row): boolean {
  if (keepMs !== undefined) return keepMs !== null && completedAt! + keepMs < cursor.at;
  return (cleanup.useCompletedTime ? completedAt! : createdAt) < cursor.at - cleanup.jobRetentionMs;
}

function take(page: Page, rule: RetentionRule, row: Row): void {
  page.going.push({ id: row.id, rule, bytes: add(page[rule], row) });
}

/** The length of its texts. */
function add(sum: Sum, { id, input, result, error }: Row): number {
  const bytes = input.length + (result?.length ?? 0) + (error?.length ?? 0);
  sum.count += 1;
  sum.bytes += bytes;
  if (sum.sample.length < sampleMax) sum.sample.push(id);
  return bytes;
}

const noSum = (): Sum => ({ count: 0, bytes: 0, sample: [] });

const nameOf = ({ type, state }: { type: string; state: FinishedState }): string => `${type} ${state}`;

function parse(text: string): Cursor {
  try {
    return JSON.parse(text) as Cursor;
  } catch {
    throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that a page gave as "next".');
  }
}
