// Cost follows the work, on the memory store: its tables are asked for few rows, and touch none of the others.
import { beforeAll, describe, expect, test } from 'vitest';
import { noFilter, type StoreContext } from '../../src/core/store.js';
import { openLocal } from '../../src/stores/local/store.js';
import { Place, type Row, type Tables } from '../../src/stores/local/tables.js';
import { createTables } from '../../src/stores/memory/tables.js';
import { createSystem } from '../../src/system.js';
import { claim, cleanupOf, newJob } from '../../src/testing/store-cases/bench.js';
import { type Count, type CountedStore, costRules } from './rules.js';
import { crowd, hour, key, now, plainRow, priorities } from './rows.js';

let counted: CountedStore;
/** How often a row that stands for its neighbours in the crowd was touched. */
let touched = 0;

beforeAll(async () => {
  const tables = createTables();
  fill(tables);
  let rows = 0;
  const counting = countingTables(tables, (n) => void (rows += n));
  const context: StoreContext = {
    system: createSystem({ now: () => new Date(now) }),
    namespace: 'lastout',
    maxStoredJobs: Number.POSITIVE_INFINITY,
  };
  const transact = async <T>(work: (tables: Tables) => T): Promise<T> => work(counting);
  const engine = {
    engine: 'memory',
    traits: { isVolatile: true, insertsAbreast: 1, leastSweep: 50 },
    durability: 'process',
    transact,
    reading: transact,
    inside: null,
    listeners: new Set<never>(),
    identity: async () => 'x'.repeat(20),
    check: async () => [],
    close: async () => undefined,
  } as const;
  const takeCount = (): Count => {
    const taken = { rows, looks: 0 };
    rows = 0;
    return taken;
  };
  const store = await openLocal(engine, context);
  const { jobs, epoch } = await claim(store);
  counted = { store, takeCount, holder: { id: jobs[0]!.id, epoch } };
}, 180_000);

describe('memory', () => {
  costRules(() => counted);

  test('the counts of everything are read without touching the jobs', async () => {
    touched = 0;
    await counted.store.tally(cleanupOf());
    await counted.store.sweep({ limit: 500, cleanup: cleanupOf() });
    // The oldest that waits is looked at, and might be one that tells.
    expect(touched).toBeLessThanOrEqual(10);
  });

  test('a claim touches no row that it may not take', async () => {
    await counted.store.insert([newJob({ id: 'mine' })], { atomic: true });
    touched = 0;
    expect((await claim(counted.store)).jobs.map(({ id }) => id)).toEqual(['mine']);
    expect(touched).toBe(0);
    // The rows can tell: whoever looks at all of them touches some that tell.
    await counted.store.find({ filter: { ...noFilter, source: 'nobody' }, cursor: null, limit: 1 });
    expect(touched).toBeGreaterThan(0);
  });
});

/** One row in a thousand tells when it is touched. */
function fill(tables: Tables): void {
  const tell: ProxyHandler<Row> = {
    get(row, name) {
      touched += 1;
      return row[name as keyof Row];
    },
  };
  let made = 0;
  const add = (fields: Partial<Row>): Row => {
    const plain = Object.assign(plainRow(tables.nextSeq()), fields);
    made += 1;
    const row = made % 1_000 === 0 ? new Proxy(plain, tell) : plain;
    tables.add(row);
    return row;
  };
  for (let i = 0; i < crowd.delayed; i++) {
    const priority = priorities.first + (i % priorities.count);
    tables.put(add({ subject: `trip:${i % crowd.subjects}`, priority, dueAt: now + hour + i }), Place.later);
  }
  const holder = add({ exclusiveKey: key });
  tables.setTurn(holder);
  tables.put(holder, Place.ready);
  for (let i = 0; i < crowd.behind; i++) {
    tables.put(add({ exclusiveKey: key, priority: priorities.first }), Place.behind);
  }
  for (let i = 0; i < crowd.finished; i++) {
    const row = add({});
    Object.assign(row, { state: 'completed', completedAt: now, attempts: 1, result: '1' });
    tables.finish(row);
  }
  tables.count('default', 'pending', crowd.delayed + crowd.behind + 1);
  tables.count('default', 'delayed', crowd.delayed);
  tables.count('default', 'completed', crowd.finished);
}

/** Counts the rows that the verbs are handed. */
function countingTables(tables: Tables, count: (n: number) => void): Tables {
  const isRow = (value: unknown): boolean => typeof value === 'object' && value !== null && 'maxAttempts' in value;
  return new Proxy(tables, {
    get(target, name) {
      const method = target[name as keyof Tables] as ((...given: unknown[]) => unknown) | undefined;
      if (!method) return undefined;
      return (...given: unknown[]): unknown => {
        const answer = method(...given);
        if (isRow(answer)) count(1);
        else if (Array.isArray(answer)) count(answer.filter(isRow).length);
        else if (name === 'scan') count((answer as { examined: number }).examined);
        return answer;
      };
    },
  });
}
