/**
 * Every number that steps change, in one table, so that a small step writes one page for all of them: the counters
 * `seq`, `epoch`, `stored` and `policy` (part ''), the tally (name: state, part: queue), and the rows per policy
 * (`uses`, part: its number). A number at 0 has no row.
 */
import type { Session, StepPart } from './session.js';

export interface Counts extends StepPart {
  read(name: string, part?: string): number;
  add(name: string, part: string, delta: number): void;
  /** Adds to a counter: its new value. */
  advance(name: string, by: number): number;
  flush(): void;
}

interface Count {
  /** Null: not read in this step. */
  stored: number | null;
  delta: number;
}

export function createCounts(sql: Session['sql'], names: Session['names']): Counts {
  const table = names('counts');
  const select = sql(`select n from ${table} where name = ? and part = ?`);
  const upsert = sql(
    `insert into ${table} (name, part, n) values (?, ?, ?) on conflict do update set n = n + excluded.n`,
  );
  const removeZero = sql(`delete from ${table} where name = ? and part = ? and n = 0`);
  const known = new Map<string, Map<string, Count>>();

  function entry(name: string, part: string): Count {
    let parts = known.get(name);
    if (!parts) known.set(name, (parts = new Map<string, Count>()));
    let count = parts.get(part);
    if (!count) parts.set(part, (count = { stored: null, delta: 0 }));
    return count;
  }
  function read(name: string, part = ''): number {
    const count = entry(name, part);
    count.stored ??= Number(select.get(name, part)?.[0] ?? 0);
    return count.stored + count.delta;
  }
  function write(name: string, part: string, count: Count): void {
    if (count.delta === 0) return;
    upsert.run(name, part, count.delta);
    if (count.delta < 0) removeZero.run(name, part);
    if (count.stored !== null) count.stored += count.delta;
    count.delta = 0;
  }
  return {
    begin: () => known.clear(),
    read,
    add(name, part, delta) {
      entry(name, part).delta += delta;
    },
    advance(name, by) {
      entry(name, '').delta += by;
      return read(name);
    },
    flush() {
      for (const [name, parts] of known) for (const [part, count] of parts) write(name, part, count);
    },
  };
}
