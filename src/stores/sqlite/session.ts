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
}

export interface Session {
  readonly names: Names;
  /** Prepared once per connection. */
  sql(text: string): Statement;
  readonly counters: Counters;
  readonly policies: Policies;
  /** Two reads of one row in one step give the same object: the verbs change it in place. */
  readonly rows: Map<number, Known>;
  know(row: Row, policy: number): Known;
  /** The object of a live row, from `liveColumns` and its place. */
  live(values: Values): Row;
  /** The object of a finished row, from `doneColumns`. */
  done(values: Values): Row;
  /** Parts are begun and flushed in this order; counters come last, because others draw numbers while they write. */
  readonly parts: StepPart[];
}

export function createSession(db: SqliteDatabase, names: Names): Session {
  const sql = statementCache(db);
  const rows = new Map<number, Known>();
  const counters = createCounters(sql, names);
  const policies = createPolicies(sql, names, counters);

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
    counters,
    policies,
    rows,
    know,
    live: (values) => rowOf(values, liveRow),
    done: (values) => rowOf(values, doneRow),
    parts: [{ begin: () => rows.clear() }, policies, counters],
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

export type Counter = 'seq' | 'epoch' | 'stored' | 'policy';

export interface Counters extends StepPart {
  read(name: Counter): number;
  /** The new value. */
  advance(name: Counter, by: number): number;
}

function createCounters(sql: Session['sql'], names: Names): Counters {
  const values = new Map<Counter, { readonly stored: number; now: number }>();
  const select = sql(`select value from ${names('meta')} where name = ?`);
  const update = sql(`update ${names('meta')} set value = ? where name = ?`);

  function entry(name: Counter): { now: number } {
    let known = values.get(name);
    if (!known) {
      const stored = Number(select.get(name)?.[0] ?? 0);
      known = { stored, now: stored };
      values.set(name, known);
    }
    return known;
  }
  return {
    begin: () => values.clear(),
    read: (name) => entry(name).now,
    advance(name, by) {
      const known = entry(name);
      known.now += by;
      return known.now;
    },
    flush() {
      for (const [name, { stored, now }] of values) if (now !== stored) update.run(now, name);
    },
  };
}
