/**
 * What the parts of the tables share: prepared statements, the rows seen in the current step, and the numbers that are
 * gathered during a step and written at its end.
 */
import type { Row } from '../local/tables.js';
import { prepare, type SqliteDatabase, type Statement, type Value, type Values } from './driver.js';
import { type Counts, createCounts } from './counts.js';
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
  /** Added in this step and not written yet. */
  fresh: boolean;
  /** Not read in this step but remembered from its claim: whoever writes it makes sure that it is still so. */
  guessed: boolean;
  /** The reading of its lane that found it, and as the how manyeth. */
  lane: LaneReading | null;
  placeInLane: number;
  /** The last number of the run that it was found in. */
  runLast: number;
}

/** One reading of a lane from its start. Once a job has come into any lane, or a run was divided, it may not be true any more. */
export interface LaneReading {
  readonly type: string;
  readonly queue: string;
  readonly arrivals: number;
  /** How many of its rows, from the first on, have been taken. */
  taken: number;
}

/** What was remembered of a row is not true any more: nothing of the step counts, and it is taken again without. */
export class WrongGuess extends Error {}

/** Something that lasts for one step. */
export interface StepPart {
  /** A step begins, or the last one was rolled back: forget. */
  begin(): void;
  /** The step ends: write what was gathered. */
  flush?(): void;
  /** Others have written since the last step, or it was rolled back: what was read then is forgotten. */
  reread?(): void;
  /** It was rolled back, or may be: what no other step could make untrue is forgotten too. */
  forget?(): void;
}

interface Remembered<T> {
  get(): T;
  forget(): void;
}

export interface Session {
  readonly names: Names;
  /** Nobody else writes by this connection. Of what other connections do, SQLite tells by a number. */
  readonly isOurs: boolean;
  /** Prepared once per connection. What was gathered is written first, so that no statement can tell the difference. */
  sql(text: string): Statement;
  /** For the statements that write what was gathered. */
  writer(text: string): Statement;
  /** Items are gathered, and written together before the next statement, or at the end of the step. */
  gather<T>(write: (items: readonly T[]) => void): (item: T) => void;
  readonly counts: Counts;
  readonly policies: Policies;
  /** Two reads of one row in one step give the same object: the verbs change it in place. */
  readonly rows: Map<number, Known>;
  know(row: Row, policy: number): Known;
  /** The run that was written last here, wherever its jobs are by now. */
  newest: { readonly first: Row; last: number } | null;
  /** How many times jobs have come into lanes, or runs were divided, in this step. */
  arrivals: number;
  /** The object of a live row, from `liveColumns` and its place. */
  live(values: Values): Row;
  /** The object of a finished row, from `doneColumns`. */
  done(values: Values): Row;
  /** What hardly ever changes: read once, and again when others have written or it was forgotten. */
  remember<T>(read: () => T): Remembered<T>;
  /** Whether nobody but these tables has written to them since this was asked the last time. */
  isUnchanged(): boolean;
  /** Parts are begun and flushed in this order; counts come last, because others count while they write. */
  readonly parts: StepPart[];
}

export function createSession(db: SqliteDatabase, names: Names, isOurs: boolean): Session {
  const gathering = createGathering();
  const writer = statementCache((text) => prepare(db, text));
  const sql = statementCache((text) => after(writer(text), gathering));
  const rows = new Map<number, Known>();
  const counts = createCounts(sql, names);
  const policies = createPolicies(sql, names, counts);

  function know(row: Row, policy: number): Known {
    const guess = rows.get(row.seq);
    if (guess) {
      // It is the same object to those who have met it; what is read now is better than what was remembered.
      Object.assign(guess.row, row);
      const { priority, dueAt, expiresAt } = row;
      return Object.assign(guess, { priority, dueAt, expiresAt, guessed: false, lane: null });
    }
    const known: Known = {
      row,
      policy,
      priority: row.priority,
      dueAt: row.dueAt,
      expiresAt: row.expiresAt,
      fresh: false,
      guessed: false,
      lane: null,
      placeInLane: 0,
      runLast: row.seq,
    };
    rows.set(row.seq, known);
    return known;
  }
  function rowOf(values: Values, build: (values: Values, policy: string) => Row): Row {
    const known = rows.get(values[0] as number);
    if (known && !known.guessed) return known.row;
    const policy = values[8] as number;
    return know(build(values, policies.bodyOf(policy)), policy).row;
  }

  const dataVersion = writer('pragma data_version');
  let seenVersion: Value | undefined;
  const parts: StepPart[] = [gathering, { begin: () => rows.clear() }, policies, counts];

  const session: Session = {
    names,
    isOurs,
    sql,
    writer,
    gather: (write) => gathering.add(write),
    counts,
    policies,
    rows,
    know,
    newest: null,
    arrivals: 0,
    live: (values) => rowOf(values, liveRow),
    done: (values) => rowOf(values, doneRow),
    remember(read) {
      const remembered = rememberedOf(read);
      parts.push({ begin: () => undefined, reread: () => remembered.forget() });
      return remembered;
    },
    isUnchanged() {
      if (!isOurs) return false;
      const version = dataVersion.get()?.[0];
      const isSame = version === seenVersion;
      seenVersion = version;
      return isSame;
    },
    parts,
  };
  return session;
}

function rememberedOf<T>(read: () => T): Remembered<T> {
  let known: { readonly value: T } | null = null;
  return {
    get: () => (known ??= { value: read() }).value,
    forget: () => void (known = null),
  };
}

function statementCache(make: (text: string) => Statement): (text: string) => Statement {
  const statements = new Map<string, Statement>();
  return (text) => {
    let statement = statements.get(text);
    if (!statement) {
      statement = make(text);
      statements.set(text, statement);
    }
    return statement;
  };
}

/** Gathered writes, kind by kind, in the order in which the kinds were named. */
interface Gathering extends StepPart {
  any: boolean;
  flush(): void;
  add<T>(write: (items: readonly T[]) => void): (item: T) => void;
}

function createGathering(): Gathering {
  const kinds: { items: unknown[]; readonly write: (items: readonly never[]) => void }[] = [];
  const gathering: Gathering = {
    any: false,
    begin() {
      gathering.any = false;
      for (const kind of kinds) kind.items = [];
    },
    flush() {
      gathering.any = false;
      for (const kind of kinds) {
        const { items } = kind;
        if (items.length === 0) continue;
        kind.items = [];
        kind.write(items as never[]);
      }
    },
    add(write) {
      const kind = { items: [] as unknown[], write };
      kinds.push(kind);
      return (item) => {
        gathering.any = true;
        kind.items.push(item);
      };
    },
  };
  return gathering;
}

function after(statement: Statement, gathering: Gathering): Statement {
  return {
    run(...values) {
      if (gathering.any) gathering.flush();
      return statement.run(...values);
    },
    get(...values) {
      if (gathering.any) gathering.flush();
      return statement.get(...values);
    },
    all(...values) {
      if (gathering.any) gathering.flush();
      return statement.all(...values);
    },
  };
}
