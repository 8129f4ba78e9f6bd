/** Finished jobs, in the orders in which retention removes them. */
import type { AgeRule, Row } from '../local/tables.js';
import { createLine, firstOf, type Line } from './line.js';

interface Kept {
  readonly row: Row;
  gone: boolean;
}

/** A row in one of the orders. */
interface Timed {
  readonly row: Row;
  readonly at: number;
  readonly kept: Kept;
}

export function createFinished() {
  const rows = new Map<string, Kept>();
  const counts = ({ kept }: Timed): boolean => !kept.gone;
  const byTime = (a: Timed, b: Timed): boolean => (a.at !== b.at ? a.at < b.at : a.row.seq < b.row.seq);
  const line = (): Line<Timed> => createLine(byTime, counts);

  const ended = line();
  /** Those with an age of their own, by the instant at which it is over; the cleanup policy's rule is for the others. */
  const goes = line();
  const endedOther = line();
  /** Made when it is first asked for: few count from the creation. */
  let createdOther: Line<Timed> | null = null;
  const groups = createGroups();

  function linesOf(now: number, { retentionMs, useCompletedTime }: AgeRule): [Line<Timed>, number][] {
    if (!useCompletedTime && !createdOther) {
      createdOther = line();
      for (const kept of rows.values()) {
        if (kept.row.keepMs === undefined) createdOther.push({ row: kept.row, at: kept.row.createdAt, kept });
      }
    }
    return [
      [goes, now],
      [useCompletedTime ? endedOther : createdOther!, now - retentionMs],
    ];
  }

  return {
    get: (id: string): Row | undefined => rows.get(id)?.row,
    add(row: Row): void {
      const kept: Kept = { row, gone: false };
      rows.set(row.id, kept);
      groups.add(row);
      const entry: Timed = { row, at: row.completedAt!, kept };
      ended.push(entry);
      if (row.keepMs === undefined) {
        endedOther.push(entry);
        createdOther?.push({ row, at: row.createdAt, kept });
      } else if (row.keepMs !== null) {
        goes.push({ row, at: entry.at + row.keepMs, kept });
      }
    },
    remove(row: Row): void {
      const kept = rows.get(row.id);
      if (kept) kept.gone = true;
      rows.delete(row.id);
      groups.remove(row);
      // Looking drops what has left.
      for (const each of [ended, goes, endedOther, createdOther]) each?.peek();
    },
    get size(): number {
      return rows.size;
    },
    overAge(now: number, rule: AgeRule, limit: number): Row[] {
      const over = linesOf(now, rule).flatMap(([from, until]) =>
        firstOf([from], byTime, limit, ({ at }) => at < until),
      );
      return oldestFirst(over.map(({ row }) => row)).slice(0, limit);
    },
    countOverAge(now: number, rule: AgeRule): number {
      let n = 0;
      for (const [from, until] of linesOf(now, rule)) from.walk(({ at }) => at < until && (n += 1) > 0);
      return n;
    },
    overCount: (limit: number): Row[] => oldestFirst(groups.over()).slice(0, limit),
    oldest: (limit: number): Row[] => firstOf([ended], byTime, limit).map(({ row }) => row),
  };
}

interface Group {
  readonly rows: Set<Row>;
  /** How many rows have which count rule. */
  readonly rules: Map<number, number>;
}

function createGroups() {
  const groups = new Map<string, Group>();
  const nameOf = (row: Row): string => `${row.type}\0${row.state}`;

  return {
    add(row: Row): void {
      let group = groups.get(nameOf(row));
      if (!group) groups.set(nameOf(row), (group = { rows: new Set(), rules: new Map() }));
      group.rows.add(row);
      if (row.keepCount !== null) group.rules.set(row.keepCount, (group.rules.get(row.keepCount) ?? 0) + 1);
    },
    remove(row: Row): void {
      const group = groups.get(nameOf(row));
      if (!group?.rows.delete(row)) return;
      if (group.rows.size === 0) groups.delete(nameOf(row));
      if (row.keepCount === null) return;
      const n = group.rules.get(row.keepCount)!;
      if (n === 1) group.rules.delete(row.keepCount);
      else group.rules.set(row.keepCount, n - 1);
    },
    /** Only a group that is larger than its smallest rule is looked at. */
    over(): Row[] {
      const over: Row[] = [];
      for (const { rows, rules } of groups.values()) {
        if (rules.size === 0 || rows.size <= Math.min(...rules.keys())) continue;
        const newestFirst = oldestFirst([...rows]).reverse();
        over.push(...newestFirst.filter((row, rank) => row.keepCount !== null && rank >= row.keepCount));
      }
      return over;
    },
  };
}

function oldestFirst(rows: Row[]): Row[] {
  return rows.sort((a, b) => a.completedAt! - b.completedAt! || a.seq - b.seq);
}
