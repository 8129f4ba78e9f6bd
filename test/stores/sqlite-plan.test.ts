// Cost follows the work at hand: every statement reads through an index, in the order that it needs. The statements are
// not listed here: they are those that the store prepares while all its rules are tried, so that no new one escapes.
import { beforeAll, describe, expect, test } from 'vitest';
import { type JobFilter, noFilter, type Store } from '../../src/core/store.js';
import { prepare, type SqliteDatabase } from '../../src/stores/sqlite/driver.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { storeCases } from '../../src/testing/index.js';
import { cleanupOf } from '../../src/testing/store-cases/bench.js';
import { harnessOn } from './harness.js';
import { connect, newJob } from './sqlite-support.js';

/** With the tables and indices of a namespace, to ask it for plans. */
let db: SqliteDatabase;
const texts = new Set<string>();

beforeAll(async () => {
  db = await connect(':memory:');
  const first = await harnessOn(sqliteStore({ db: noting(db) }));
  await tryEverything(first.store);
  for (const { run } of storeCases) {
    const own = await connect(':memory:');
    const harness = await harnessOn(sqliteStore({ db: noting(own) }));
    // What a rule has to say is said by its own test.
    await run(harness).catch(() => undefined);
    await harness.dispose();
    own.close();
  }
  return () => void db.close();
}, 120_000);

test('the statements of every verb are looked at', () => {
  for (const table of [
    'jobs',
    'pending',
    'turns',
    'claims',
    'done',
    'counts',
    'events',
    'lines',
    'tombs',
    'policies',
    'owned',
    'holds',
    'ledger',
    'cards',
  ]) {
    const statements = [...texts].filter((text) => text.includes(`"lastout_${table}"`));
    const kinds = new Set(statements.map((text) => text.split(' ')[0]!));
    expect([table, [...kinds].sort()]).toEqual([table, expect.arrayContaining(['delete', 'insert', 'select'])]);
  }
});

test('no statement walks through a table', () => {
  const walking = [...texts].filter((text) => planOf(text).some((line) => isWalk(line)) && !reasonIn(mayWalk, text));
  expect(walking).toEqual([]);
});

test('no statement sorts a table', () => {
  const sorting = [...texts].filter(
    (text) => planOf(text).some((line) => /TEMP B-TREE/.test(line)) && !reasonIn(maySort, text),
  );
  expect(sorting).toEqual([]);
});

test('no index is made up for a single run', () => {
  expect([...texts].filter((text) => planOf(text).some((line) => /AUTOMATIC/.test(line)))).toEqual([]);
});

test('every exception is one that a statement needs', () => {
  const walks = [...texts].filter((text) => planOf(text).some((line) => isWalk(line)));
  const sorts = [...texts].filter((text) => planOf(text).some((line) => /TEMP B-TREE/.test(line)));
  const unused = [
    ...mayWalk.filter(({ text }) => !walks.some((walk) => text.test(walk))),
    ...maySort.filter(({ text }) => !sorts.some((sort) => text.test(sort))),
  ];
  expect(unused.map(({ because }) => because)).toEqual([]);
});

test('no seek passes over the rows that equal its row value', () => {
  // `(a, b) > (?, ?)` starts at the first equal row; only where the value names one row is that no walk.
  const strict = [...texts].filter((text) => /\) > \(\?/.test(text) && !/, seq\) > \(\?/.test(text));
  expect(strict).toEqual([]);
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
    const lane = [...texts].filter((text) => text.includes('p.place = 0 and p.type = ? and p.queue = ? order by'));
    expect(lane.map(planOf)).toEqual([
      [
        expect.stringContaining('SEARCH p USING PRIMARY KEY (place=? AND type=? AND queue=?)'),
        expect.stringContaining('SEARCH j USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)'),
      ],
    ]);
  });

  test('in several lanes, each is read from where the last page ended', () => {
    const page = [...texts].filter((text) => text.startsWith('select priority, due_at, seq'));
    expect(page.map(planOf)).toEqual([
      [expect.stringMatching(/SEARCH .* USING PRIMARY KEY \(place=\? AND type=\? AND queue=\? AND \(priority,/)],
    ]);
  });

  test('the next behind a key is the first of its line', () => {
    const behind = [...texts].filter((text) =>
      text.includes('p.place = 2 and p.type = ? and p.queue = ? and p.xkey = ?'),
    );
    expect(behind.map(planOf)).toEqual([
      [
        expect.stringMatching(
          /SEARCH p USING COVERING INDEX lastout_pending_behind \(type=\? AND queue=\? AND xkey=\?\)/,
        ),
        expect.stringContaining('SEARCH j USING INTEGER PRIMARY KEY (rowid=?)'),
      ],
    ]);
  });
});

test('count rules and plans read each order from where the last page ended', () => {
  const pages = [...texts].filter((text) => /^select seq.* from "lastout_done" .*, seq\) [<>]/.test(text)).map(planOf);
  expect(pages.length).toBe(6);
  for (const plan of pages) expect(plan).toEqual([expect.stringMatching(/^SEARCH .*_at[<>]\?/)]);
});

test('what is held is read from where the last page ended, also among those of one end', () => {
  const pages = [...texts].filter((text) => /^select seq from "lastout_holds" where until (=|>) /.test(text));
  expect(pages.map(planOf).sort()).toEqual([
    [expect.stringMatching(/^SEARCH .* COVERING INDEX lastout_holds_until \(until=\? AND \w+>\?\)/)],
    [expect.stringMatching(/^SEARCH .* COVERING INDEX lastout_holds_until \(until>\?\)/)],
  ]);
});

interface Exception {
  readonly text: RegExp;
  readonly because: string;
}

const mayWalk: readonly Exception[] = [
  { text: /from "lastout_queues"/, because: 'there is one row per paused queue' },
  { text: /from "lastout_limits"/, because: 'there is one row per queue with limits' },
  { text: /from "lastout_claims" (c |order by epoch$)/, because: 'there is one row per claim that lives' },
  { text: /where place = 1 order by due_at limit 1\b/, because: 'only the head of an index is read' },
  { text: /^select 1 from "lastout_(lines|owned)" limit 1$/, because: 'only the first row is read' },
  { text: /from "lastout_cards" (order by owner$|where due_at)/, because: 'there is one row per worker that lives' },
  { text: /order by d\.completed_at, d\.seq limit/, because: 'an index has the finished jobs in this order' },
];

const maySort: readonly Exception[] = [
  { text: / where j\.(key|id|seq) /, because: 'as many rows as there are of one key, or in a list of ids' },
  { text: /from "lastout_claims" c /, because: 'as many rows as claims hold' },
  { text: /group by (?:type, )?queue$/, because: 'as many rows as are past a deadline that the next step acts on' },
];

function reasonIn(exceptions: readonly Exception[], text: string): string | undefined {
  return exceptions.find((exception) => exception.text.test(text))?.because;
}

/** A whole table, or a whole index: the values of a parameter, constants and inner results are none. */
function isWalk(line: string): boolean {
  return /^SCAN (?!json_each|CONSTANT|\d+-ROW VALUES|\(subquery)/.test(line);
}

function planOf(text: string): string[] {
  if (!/^(select|insert|update|delete)\b/.test(text) || /pragma_/.test(text)) return [];
  return prepare(db, `explain query plan ${text}`)
    .all()
    .map((row) => String(row[3]));
}

/** The same connection; what is prepared on it is written down. */
function noting(inner: SqliteDatabase): SqliteDatabase {
  return {
    exec: (text) => inner.exec(text),
    prepare(text) {
      texts.add(text);
      return inner.prepare(text);
    },
    close: () => undefined,
    get isTransaction() {
      return inner.isTransaction!;
    },
  };
}

/** Reads whose statements are put together, and depend on what is asked. */
async function tryEverything(store: Store): Promise<void> {
  await finishOne(store);
  for (const filter of filters) await store.find({ filter: { ...noFilter, ...filter }, cursor: null, limit: 10 });
  for (const useCompletedTime of [true, false]) {
    const cleanup = cleanupOf({ useCompletedTime, maxStoredJobs: 0 });
    await store.sweep({ limit: 10, cleanup });
    await store.tally(cleanup);
    await store.readPlan({ cleanup, cursor: null, limit: 10 });
  }
}

/** An index serves count rules, and is made where the first job has one. */
async function finishOne(store: Store): Promise<void> {
  const policy = '{"backoff":null,"timeoutMs":null,"keep":{"cancelled":{"count":1}}}';
  await store.insert([newJob({ id: 'counted', policy })], { atomic: true });
  const filter = { ...noFilter, ids: ['counted'] };
  const move = { kind: 'cancel', reason: 'stop', force: false } as const;
  await store.move({ filter, move, dryRun: false, cursor: null, limit: 1 });
}

const values: { readonly [K in keyof JobFilter]?: readonly JobFilter[K][] } = {
  ids: [['x'], ['x', 'y']],
  states: [['pending'], ['completed'], ['processing', 'expired'], ['failed', 'pending']],
  types: [['a'], ['a', 'b'], Array.from({ length: 40 }, (_, i) => `t${i}`)],
  queues: [['q']],
  subject: ['trip:1'],
  key: ['k'],
  source: ['web'],
  ownedBy: ['x'],
  before: [1],
  after: [2],
  system: [false],
};

/** Every field alone, and every two together. */
const single: Partial<JobFilter>[] = Object.entries(values).flatMap(([name, list]) =>
  list.map((value) => ({ [name]: value })),
);
const filters = [{}, ...single, ...single.flatMap((one) => single.map((other) => ({ ...one, ...other })))];
