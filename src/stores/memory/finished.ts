/** Finished jobs. Retention looks at all of them, because a cleanup is rare and memory keeps few. */
import type { AgeRule, Row } from '../local/tables.js';

export function createFinished() {
  const rows = new Map<string, Row>();
  const oldestFirst = (list: Row[]): Row[] => list.sort((a, b) => a.completedAt! - b.completedAt! || a.seq - b.seq);

  return {
    has: (row: Row): boolean => rows.get(row.id) === row,
    get: (id: string): Row | undefined => rows.get(id),
    add: (row: Row): void => void rows.set(row.id, row),
    remove: (row: Row): void => void rows.delete(row.id),
    get size(): number {
      return rows.size;
    },
    overAge(now: number, { retentionMs, useCompletedTime }: AgeRule, limit: number): Row[] {
      const over = (row: Row): boolean => {
        if (row.keepMs === null) return false;
        if (row.keepMs !== undefined) return now > row.completedAt! + row.keepMs;
        return now > (useCompletedTime ? row.completedAt! : row.createdAt) + retentionMs;
      };
      return oldestFirst([...rows.values()].filter(over)).slice(0, limit);
    },
    overCount(limit: number): Row[] {
      const groups = new Map<string, Row[]>();
      for (const row of rows.values()) {
        const name = `${row.type}\0${row.state}`;
        const group = groups.get(name);
        if (group) group.push(row);
        else groups.set(name, [row]);
      }
      const over: Row[] = [];
      for (const group of groups.values()) {
        const newestFirst = oldestFirst(group).reverse();
        over.push(...newestFirst.filter((row, rank) => row.keepCount !== null && rank >= row.keepCount));
      }
      return oldestFirst(over).slice(0, limit);
    },
    oldest: (limit: number): Row[] => oldestFirst([...rows.values()]).slice(0, limit),
  };
}
