// Cost follows the work at hand: every statement reads through an index, in the order that it needs.
import { noFilter } from '../../src/core/store.js';
import { beforeAll, describe, expect, test } from 'vitest';
import type { JobFilter } from '../../src/core/store.js';
import { prepare, type SqliteDatabase } from '../../src/stores/sqlite/driver.js';
import { migrate } from '../../src/stores/sqlite/schema.js';
import { createTables } from '../../src/stores/sqlite/tables.js';
import { connect } from './sqlite-support.js';

let db: SqliteDatabase;
const texts = new Set<string>();

beforeAll(async () => {
  db = await connect(':memory:');
  migrate(db, 'plan', 'memory');
  const noting: SqliteDatabase = {
    exec: (text) => db.exec(text),
    prepare(text) {
      texts.add(text);
      return db.prepare(text);
    },
    close: () => undefined,
  };
  const tables = createTables(noting, 'plan', () => 0);
  tables.begin();
  for (const filter of filters) tables.scan({ ...noFilter, ...filter }, 1_000, 10);
  for (const useCompletedTime of [true, false]) {
    tables.overAge(1, { retentionMs: 1, useCompletedTime }, 1);
    tables.countOverAge(1, { retentionMs: 1, useCompletedTime });
  }
  return () => void db.close();
});

test('no statement walks through a table, or sorts one', () => {
  const walking = [...texts].filter((text) => !mayWalk(text) && planOf(text).some((line) => isWalk.test(line)));
  const sorting = [...texts].filter((text) => !maySort(text) && planOf(text).some((line) => /TEMP B-TREE/.test(line)));
  expect({ walking, sorting }).toEqual({ walking: [], sorting: [] });
});

test('every parameter is a plain one, which all drivers bind by position', () => {
  expect([...texts].filter((text) => /\?\d|[:@$]\w/.test(text))).toEqual([]);
});

test('no statement has a parameter that makes SQLite compile it at each run', () => {
  expect([...texts].filter((text) => /limit \?(?! \+ 0)/.test(text))).toEqual([]);
  // A place is compared with the conditions of the partial indices.
  expect([...texts].filter((text) => /place = \?/.test(text) && !text.startsWith('update'))).toEqual([]);
});

describe('a claim reads nothing that it may not take', () => {
  test('whatever waits for later, behind a key, or in other lanes', () => {
    const text = [...texts].find((text) => text.includes('p.place = 0 and p.type = ? and p.queue = ? order by'))!;
    expect(planOf(text)).toEqual([
      expect.stringContaining('SEARCH p USING PRIMARY KEY (place=? AND type=? AND queue=?)'),
      expect.stringContaining('SEARCH j USING INTEGER PRIMARY KEY (rowid=?)'),
    ]);
  });
});

const isWalk = /^SCAN (?!json_each|CONSTANT|\(subquery)/;

/** Small tables that are read as a whole; heads of an index; the finished jobs in the order of their end. */
function mayWalk(text: string): boolean {
  return /from "plan_(queues|claims)"|limit 1\)?$|order by d.completed_at/.test(text);
}

/** As many rows as there are of one key, in a list of ids, past a deadline, or under a rule of how many to keep. */
function maySort(text: string): boolean {
  return /where (key|id) |group by queue$|rank > keep_count/.test(text);
}

function planOf(text: string): string[] {
  return prepare(db, `explain query plan ${text}`)
    .all()
    .map((row) => String(row[3]));
}

const filters: Partial<JobFilter>[] = [
  {},
  { states: ['pending'] },
  { states: ['completed'] },
  { states: ['processing', 'expired'] },
  { types: ['a'] },
  { types: ['a', 'b'], states: ['failed'], queues: ['q'] },
  { subject: 'trip:1', source: 'web', before: 1, after: 2 },
  { key: 'k' },
  { key: 'k', types: ['a'] },
  { ids: ['x'] },
];
