/** Finished jobs, in the orders in which retention removes them. What is held stands in none of them. */
import type { FinishedState } from '../../core/job.js';
import type { AgeRule, CountGroup, FinishedOrder, Position, Row } from '../local/tables.js';
import { type Entry, isBefore, Timed } from './timed.js';

export function createFinished() {
  /** By the instant of their end: those that the cleanup policy's age is for, and those with an age of their own. */
  const endedOther = new Timed();
  const endedOwn = new Timed();
  /** Those with an age of their own, by the instant at which it is over. */
  const goes = new Timed();
  /** Made when it is first asked for: few count from the creation. */
  let createdOther: Timed | null = null;
  const groups = createGroups(ended);

  function* ended(after: Position | null): Generator<Entry> {
    const [others, owns] = [endedOther.after(after), endedOwn.after(after)].map((entries) =>
      entries[Symbol.iterator](),
    );
    let [other, own] = [others!.next(), owns!.next()];
    while (!other.done || !own.done) {
      if (own.done || (!other.done && isBefore(other.value, own.value))) {
        yield other.value!;
        other = others!.next();
      } else {
        yield own.value;
        own = owns!.next();
      }
    }
  }
  function enter(row: Row): void {
    groups.add(row);
    if (row.keepMs === undefined) {
      endedOther.add(row.completedAt!, row);
      createdOther?.add(row.createdAt, row);
      return;
    }
    endedOwn.add(row.completedAt!, row);
    if (row.keepMs !== null) goes.add(row.completedAt! + row.keepMs, row);
  }
  function leave(row: Row): void {
    groups.remove(row);
    if (row.keepMs === undefined) {
      endedOther.remove(row.completedAt!, row);
      createdOther?.remove(row.createdAt, row);
      return;
    }
    endedOwn.remove(row.completedAt!, row);
    if (row.keepMs !== null) goes.remove(row.completedAt! + row.keepMs, row);
  }
  function byCreation(): Timed {
    if (!createdOther) {
      createdOther = new Timed();
      for (const { row } of endedOther.after(null)) createdOther.add(row.createdAt, row);
    }
    return createdOther;
  }
  function ordersOf(now: number, { retentionMs, useCompletedTime }: AgeRule): [Timed, number][] {
    return [
      [goes, now],
      [useCompletedTime ? endedOther : byCreation(), now - retentionMs],
    ];
  }
  function inOrder({ by }: Exclude<FinishedOrder, { by: 'rank' }>, after: Position | null): Iterable<Entry> {
    switch (by) {
      case 'goes':
        return goes.after(after);
      case 'completed':
        return endedOther.after(after);
      case 'created':
        return byCreation().after(after);
      case 'ended':
        return ended(after);
    }
  }

  return {
    add(row: Row): void {
      if (row.heldUntil === null) enter(row);
    },
    /** It is held now, or no longer. */
    hold(row: Row): void {
      leave(row);
      if (row.heldUntil === null) enter(row);
    },
    remove: leave,
    overAge(now: number, rule: AgeRule, limit: number): Row[] {
      const over = ordersOf(now, rule).flatMap(([order, until]) => page(order.after(null), limit, until));
      return oldestFirst(over).slice(0, limit);
    },
    countOverAge: (now: number, rule: AgeRule): number =>
      ordersOf(now, rule).reduce((sum, [order, until]) => sum + order.countBefore(until), 0),
    overCount: (limit: number): Row[] => oldestFirst(groups.over(limit)).slice(0, limit),
    oldest: (limit: number): Row[] => page(ended(null), limit),
    after(order: FinishedOrder, after: Position | null, limit: number): Row[] {
      if (order.by === 'rank') return page(groups.of(order)?.before(after) ?? [], limit);
      return page(inOrder(order, after), limit, 'before' in order ? order.before : undefined);
    },
    countGroupAfter: (after: CountGroup | null): CountGroup | null => groups.next(after),
  };
}

function page(entries: Iterable<Entry>, limit: number, before = Number.POSITIVE_INFINITY): Row[] {
  const rows: Row[] = [];
  for (const { at, row } of entries) {
    if (rows.length === limit || at >= before) break;
    rows.push(row);
  }
  return rows;
}

interface Group extends CountGroup {
  readonly rows: Timed;
  /** How many rows have which count rule. */
  readonly rules: Map<number, number>;
}

/** Rows of one type and state, if one of them has a count rule: few do. The first that has one makes the group. */
function createGroups(ended: (after: null) => Iterable<Entry>) {
  const groups = new Map<string, Group>();
  const nameOf = ({ type, state }: { type: string; state: FinishedState | null }): string => `${type}\0${state}`;

  function groupOf(row: Row): Group | undefined {
    if (groups.size === 0 && row.keepCount === null) return undefined;
    const name = nameOf(row);
    let group = groups.get(name);
    if (group || row.keepCount === null) return group;
    group = { type: row.type, state: row.state!, rows: new Timed(), rules: new Map() };
    for (const entry of ended(null))
      if (entry.row.type === row.type && entry.row.state === row.state) group.rows.add(entry.at, entry.row);
    groups.set(name, group);
    return group;
  }

  return {
    of: (group: CountGroup): Timed | undefined => groups.get(nameOf(group))?.rows,
    add(row: Row): void {
      const group = groupOf(row);
      group?.rows.add(row.completedAt!, row);
      if (group && row.keepCount !== null) group.rules.set(row.keepCount, (group.rules.get(row.keepCount) ?? 0) + 1);
    },
    remove(row: Row): void {
      if (groups.size === 0) return;
      const name = nameOf(row);
      const group = groups.get(name);
      const size = group?.rows.size;
      group?.rows.remove(row.completedAt!, row);
      if (!group || group.rows.size === size) return;
      if (group.rows.size === 0) groups.delete(name);
      if (row.keepCount === null) return;
      const n = group.rules.get(row.keepCount)!;
      if (n === 1) group.rules.delete(row.keepCount);
      else group.rules.set(row.keepCount, n - 1);
    },
    /** From the oldest on, whose rank is the size of its group; nothing below the smallest rule is looked at. */
    over(limit: number): Row[] {
      const over: Row[] = [];
      for (const { rows, rules } of groups.values()) {
        if (rules.size === 0) continue;
        const smallest = Math.min(...rules.keys());
        let rank = rows.size;
        let found = 0;
        for (const { row } of rows.after(null)) {
          rank -= 1;
          if (rank < smallest || found === limit) break;
          if (row.keepCount === null || rank < row.keepCount) continue;
          over.push(row);
          found += 1;
        }
      }
      return over;
    },
    next(after: CountGroup | null): CountGroup | null {
      const names = [...groups].filter(([, { rules }]) => rules.size > 0).map(([name]) => name);
      const next = names.sort().find((name) => after === null || name > nameOf(after));
      const found = next === undefined ? undefined : groups.get(next);
      return found ? { type: found.type, state: found.state } : null;
    },
  };
}

function oldestFirst(rows: Row[]): Row[] {
  return rows.sort((a, b) => a.completedAt! - b.completedAt! || a.seq - b.seq);
}
