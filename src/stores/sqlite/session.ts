/**
 * What the parts of the tables share: prepared statements, the rows seen in the current step, and the numbers that are
 * gathered during a step and written at its end.
 */
import type { Row } from '../local/tables.js';
import { prepare, type SqliteDatabase, type Statement, type Values } from './driver.js';
import { createPolicies, type Policies } from './policies.js';
import { doneRow, liveRow } from './rows.js';
import type { Names } from './schema.js';

/** A row of this step, and what its columns hold where that may lag behind the object. */
export interface Known {
  readonly row: Row;
  readonly policy: number;
  priority: number;
  dueAt: number;
  expiresAt: number | null;
}

/** Something that lasts for one step. */
export interface StepPart {
  /** A step begins, or the last one was rolled back: forget. */
  begin(): void;
  /** The step ends: write what was gathered. */
  flush?(): void;
  /** What it knows beyond one step may not be true any more. */
  forget?(): void;
}

export interface Session {
  readonly names: Names;
  /** Prepared once per connection. */
  sql(text: string): Statement;
  readonly counts: Counts;
  readonly policies: Policies;
  /** Two reads of one row in one step give the same object: the verbs change it in place. */
  readonly rows: Map<number, Known>;
  know(row: Row, policy: number): Known;
  /** The object of a live row, from `liveColumns` and its place. */
  live(values: Values): Row;
  /** The object of a finished row, from `doneColumns`. */
  done(values: Values): Row;
  /** Parts are begun and flushed in this order; counts come last, because others count while they write. */
  readonly parts: StepPart[];
}

export function createSession(db: SqliteDatabase, names: Names): Session {
  const sql = statementCache(db);
  const rows = new Map<number, Known>();
  const counts = createCounts(sql, names);
  const policies = createPolicies(sql, names, counts);

  function know(row: Row, policy: number): Known {
    const known = { row, policy, priority: row.priority, dueAt: row.dueAt, expiresAt: row.expiresAt };
    rows.set(row.seq, known);
    return known;
  }
  function rowOf(values: Values, build: (values: Values, policy: string) => Row): Row {
    const known = rows.get(values[0] as number);
    if (known) return known.row;
    const policy = values[8] as number;
    return know(build(values, policies.bodyOf(policy)), policy).row;
  }

  return {
    names,
    sql,
    counts,
    policies,
    rows,
    know,
    live: (values) => rowOf(values, liveRow),
    done: (values) => rowOf(values, doneRow),
    parts: [{ begin: () => rows.clear() }, policies, counts],
  };
}

function statementCache(db: SqliteDatabase): (text: string) => Statement {
  const statements = new Map<string, Statement>();
  return (text) => {
    let statement = statements.get(text);
    if (!statement) {
      statement = prepare(db, text);
      statements.set(text, statement);
    }
    return statement;
  };
}

/**
 * Every number that steps change, in one table, so that a small step writes one page for all of them: the counters
 * `seq`, `epoch`, `stored` and `policy` (part ''), the tally (name: state, part: queue), and the rows per policy
 * (`uses`, part: its number). A number at 0 has no row.
 */
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

function createCounts(sql: Session['sql'], names: Names): Counts {
  const table = names('counts');
  const select = sql(`select n from ${table} where name = ? and part = ?`);
  const upsert = sql(
    `insert into ${table} (name, part, n) values (?, ?, ?) on conflict do update set n = n + excluded.n`,
  );
  const removeZero = sql(`delete from ${table} where name = ? and part = ? and n = 0`);
  const known = new Map<string, Map<string, Count>>();

  function entry(name: string, part: string): Count {
    const parts = known.get(name) ?? new Map<string, Count>();
    known.set(name, parts);
    const count = parts.get(part) ?? { stored: null, delta: 0 };
    parts.set(part, count);
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
