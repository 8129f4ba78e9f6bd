// Cost follows the work, on the SQLite store: its statements return few rows. That they also pass over few, the plans say.
import { afterAll, beforeAll, describe } from 'vitest';
import { prepare, type SqliteDatabase, type SqliteStatement } from '../../src/stores/sqlite/driver.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { createSystem } from '../../src/system.js';
import { claim, newJob } from '../../src/testing/store-cases/bench.js';
import { connect } from '../stores/sqlite-support.js';
import { type Count, type CountedStore, costRules } from './rules.js';
import { crowd, hour, key, now, priorities } from './rows.js';

let db: SqliteDatabase;
let counted: CountedStore;

beforeAll(async () => {
  db = await connect(':memory:');
  let count = { rows: 0, looks: 0 };
  const counting = countingDriver(db, (what, n) => void (count[what] += n));
  const store = await sqliteStore({ db: counting }).open({
    system: createSystem({ now: () => new Date(now) }),
    namespace: 'lastout',
    maxStoredJobs: Number.POSITIVE_INFINITY,
  });
  // One of each kind, which are then made many.
  await store.insert([newJob({ id: 'holder', exclusiveKey: key }), newJob({ id: 'done' })], { atomic: true });
  const { epoch } = await claim(store);
  await store.settle({
    owner: 'worker-1',
    settlements: [{ id: 'done', epoch, ending: { kind: 'complete', result: '1' } }],
    started: [],
    next: null,
  });
  await store.insert([newJob({ id: 'behind', exclusiveKey: key }), newJob({ id: 'delayed', delay: hour })], {
    atomic: true,
  });
  multiply(db);
  const takeCount = (): Count => {
    const taken = count;
    count = { rows: 0, looks: 0 };
    return taken;
  };
  counted = { store, takeCount, holder: { id: 'holder', epoch } };
}, 180_000);

afterAll(() => void db.close());

describe('sqlite', () => {
  costRules(() => counted);
});

/** Of the tables of jobs; what a step keeps beside them is a handful, however many jobs there are. */
const ofJobs = /from "lastout_(jobs|pending|done)"/;
/** A statement that returns rows of jobs says which ones. */
const sayWhich = /^select ([jd]\.)?seq\b|^select priority, due_at, seq\b/;

/** The same connection; each row that a statement returns is counted. */
function countingDriver(inner: SqliteDatabase, count: (what: keyof Count, n: number) => void): SqliteDatabase {
  return {
    exec: (text) => inner.exec(text),
    prepare(text): SqliteStatement {
      const statement = inner.prepare(text);
      if (!ofJobs.test(text)) return statement;
      const what = sayWhich.test(text) ? 'rows' : 'looks';
      return {
        run: (...values) => statement.run(...values),
        get(...values) {
          const row = statement.get(...values);
          if (row) count(what, 1);
          return row;
        },
        all(...values) {
          const rows = statement.all(...values);
          count(what, rows.length);
          return rows;
        },
        setReadBigInts: (on) => statement.setReadBigInts?.(on),
        ...(statement.setReturnArrays && { setReturnArrays: (on: boolean) => statement.setReturnArrays!(on) }),
      };
    },
    close: () => undefined,
    get isTransaction() {
      return inner.isTransaction!;
    },
  };
}

/** Copies of the rows that the verbs have made: what a copy has of its own is named here, the rest is the first one's. */
function multiply(db: SqliteDatabase): void {
  const priority = `${priorities.first} + n.i % ${priorities.count}`;
  const later = `${now + 2 * hour} + n.i`;
  copy(db, 'jobs', `id = 'delayed'`, crowd.delayed, 1_000, {
    priority,
    due_at: later,
    subject: `'trip:' || (n.i % ${crowd.subjects})`,
  });
  copy(db, 'pending', 'place = 1', crowd.delayed, 1_000, { priority, due_at: later });
  copy(db, 'jobs', `id = 'behind'`, crowd.behind, 2_000_000, { priority: `${priorities.first}` });
  copy(db, 'pending', 'place = 2', crowd.behind, 2_000_000, { priority: `${priorities.first}` });
  copy(db, 'jobs', `id = 'done'`, crowd.finished, 3_000_000, {});
  copy(db, 'done', 'true', crowd.finished, 3_000_000, {});
  const add = prepare(db, 'update "lastout_counts" set n = n + ? where name = ? and part = ?');
  add.run(crowd.delayed + crowd.behind, 'pending', 'default');
  add.run(crowd.delayed - 1, 'delayed', 'default');
  add.run(crowd.finished, 'completed', 'default');
  add.run(crowd.delayed + crowd.behind + crowd.finished, 'stored', '');
  add.run(5_000_000, 'seq', '');
  // The first one of the delayed stays among the copies, so that there are as many as said.
  db.exec(
    `delete from "lastout_pending" where place = 1 and seq = (select seq from "lastout_jobs" where id = 'delayed')`,
  );
  db.exec(`delete from "lastout_jobs" where id = 'delayed'`);
}

function copy(
  db: SqliteDatabase,
  table: string,
  which: string,
  times: number,
  fromSeq: number,
  own: Readonly<Record<string, string>>,
): void {
  const name = `"lastout_${table}"`;
  const columns = prepare(db, `select name from pragma_table_info('lastout_${table}')`)
    .all()
    .map(([column]) => column as string);
  const values: Readonly<Record<string, string>> = {
    seq: `${fromSeq} + n.i`,
    id: `'crowd-' || (${fromSeq} + n.i)`,
    ...own,
  };
  const list = columns.map((column) => values[column] ?? `t."${column}"`);
  db.exec(
    `with recursive n(i) as (select 0 union all select i + 1 from n where i + 1 < ${times}) ` +
      `insert into ${name} (${columns.map((column) => `"${column}"`).join(', ')}) ` +
      `select ${list.join(', ')} from n, (select * from ${name} where ${which} limit 1) t`,
  );
}
