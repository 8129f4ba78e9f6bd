/** Finished jobs, in the orders in which retention removes them. What is held stands in none of them. */
import type { FinishedState } from '../../core/job.js';
import type { AgeRule, CountGroup, FinishedOrder, Position, Row } from '../local/tables.js';
import { Timed } from './timed.js';

export function createFinished() {
  const rows = new Map<string, Row>();
  const ended = new Timed();
  /** Those with an age of their own, by the instant at which it is over; the cleanup policy's rule is for the others. */
  const goes = new Timed();
  const endedOther = new Timed();
  /** Made when it is first asked for: few count from the creation. */
  let createdOther: Timed | null = null;
  const groups = createGroups();

  function enter(row: Row): void {
    ended.add(row.completedAt!, row);
    groups.add(row);
    if (row.keepMs === undefined) {
      endedOther.add(row.completedAt!, row);
      createdOther?.add(row.createdAt, row);
    } else if (row.keepMs !== null) goes.add(row.completedAt! + row.keepMs, row);
  }
  function leave(row: Row): void {
    ended.remove(row.completedAt!, row);
    groups.remove(row);
    if (row.keepMs === undefined) {
      endedOther.remove(row.completedAt!, row);
      createdOther?.remove(row.createdAt, row);
    } else if (row.keepMs !== null) goes.remove(row.completedAt! + row.keepMs, row);
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
  function orderOf(order: Exclude<FinishedOrder, { by: 'rank' }>): Timed {
    switch (order.by) {
      case 'goes':
        return goes;
      case 'completed':
        return endedOther;
      case 'created':
        return byCreation();
      case 'ended':
        return ended;
    }
  }

  return {
    get: (id: string): Row | undefined => rows.get(id),
    add(row: Row): void {
      rows.set(row.id, row);
      if (row.heldUntil === null) enter(row);
    },
    /** It is held now, or no longer. */
    hold(row: Row): void {
      leave(row);
      if (row.heldUntil === null) enter(row);
    },
    remove(row: Row): void {
      rows.delete(row.id);
      leave(row);
    },
    get size(): number {
      return rows.size;
    },
    overAge(now: number, rule: AgeRule, limit: number): Row[] {
      const over = ordersOf(now, rule).flatMap(([order, until]) => page(order.after(null), limit, until));
      return oldestFirst(over).slice(0, limit);
    },
    countOverAge: (now: number, rule: AgeRule): number =>
      ordersOf(now, rule).reduce((sum, [order, until]) => sum + order.countBefore(until), 0),
    overCount: (limit: number): Row[] => oldestFirst(groups.over(limit)).slice(0, limit),
    oldest: (limit: number): Row[] => page(ended.after(null), limit),
    after(order: FinishedOrder, after: Position | null, limit: number): Row[] {
      if (order.by === 'rank') return page(groups.of(order)?.before(after) ?? [], limit);
      return page(orderOf(order).after(after), limit, 'before' in order ? order.before : undefined);
    },
    countGroupAfter: (after: CountGroup | null): CountGroup | null => groups.next(after),
  };
}

function page(
  entries: Iterable<{ readonly at: number; readonly row: Row }>,
  limit: number,
  before = Number.POSITIVE_INFINITY,
): Row[] {
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

function createGroups() {
  const groups = new Map<string, Group>();
  const nameOf = ({ type, state }: { type: string; state: FinishedState | null }): string => `${type}\0${state}`;

  return {
    of: (group: CountGroup): Timed | undefined => groups.get(nameOf(group))?.rows,
    add(row: Row): void {
      const name = nameOf(row);
      let group = groups.get(name);
      if (!group) {
        group = { type: row.type, state: row.state!, rows: new Timed(), rules: new Map() };
        groups.set(name, group);
      }
      group.rows.add(row.completedAt!, row);
      if (row.keepCount !== null) group.rules.set(row.keepCount, (group.rules.get(row.keepCount) ?? 0) + 1);
    },
    remove(row: Row): void {
      const group = groups.get(nameOf(row));
      const size = group?.rows.size;
      group?.rows.remove(row.completedAt!, row);
      if (!group || group.rows.size === size) return;
      if (group.rows.size === 0) groups.delete(nameOf(row));
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
