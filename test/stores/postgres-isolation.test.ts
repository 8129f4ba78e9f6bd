// Sessions that begin their transactions stricter than read committed: of a given pool, of a database, behind a pooler.
import type pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { pgbouncerPrograms } from '../../scripts/services/index.mjs';
import { startPgbouncer } from '../../scripts/services/pgbouncer.mjs';
import { defineJob, LastoutError, open, type OpenOptions, type Queue } from '../../src/index.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import type { Pool } from '../../src/stores/postgres/pool.js';
import { createRun } from '../../src/stores/postgres/run.js';
import { databaseUrl, onServer } from '../services/postgres.js';
import { isServed, postgresUrl } from '../services.js';
import { closedAfterwards } from '../support.js';
import { faultsIn } from './postgres-audit.js';
import { plainClient, plainPool, system } from './postgres-support.js';

const levels = ['repeatable read', 'serializable'] as const;
const pooler = await pgbouncerPrograms();

/** A database without the schema, gone after the test. */
async function newDatabase(level: string): Promise<string> {
  const name = `isolated_${system.id().toLowerCase()}`;
  await onServer(postgresUrl(), `create database ${name}`);
  onTestFinished(() => onServer(postgresUrl(), `drop database ${name} with (force)`));
  await onServer(postgresUrl(), `alter database ${name} set default_transaction_isolation = '${level}'`);
  return databaseUrl(postgresUrl(), name);
}

type Open = (options?: OpenOptions) => Promise<Queue>;

const ways: { readonly [way: string]: (url: string) => Promise<Open> } = {
  'the default of the database': async (url) => (options) => open(url, options),
  'a given pool': async (url) => (options) => open(postgresStore({ pool: plainPool(url) }), options),
  async 'a pooler in transaction mode'(url) {
    if ('why' in pooler) throw new Error(`There is no PgBouncer: ${pooler.why}`);
    const { url: pooled, dispose } = await startPgbouncer(pooler.programs, url);
    onTestFinished(dispose);
    return (options) => open(pooled, options);
  },
};

/** What `find` shows, by state. */
async function found(queue: Queue): Promise<{ [state: string]: number }> {
  const counts: { [state: string]: number } = {};
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await queue.find({ limit: 200, ...(cursor !== undefined && { cursor }) });
    for (const { state } of page.items) counts[state] = (counts[state] ?? 0) + 1;
    cursor = page.next;
  }
  return counts;
}

async function counted(queue: Queue): Promise<{ [state: string]: number }> {
  const { total } = await queue.stats();
  const { pending, processing, completed, failed, cancelled, expired } = total;
  const counts = { pending, processing, completed, failed, cancelled, expired };
  return Object.fromEntries(Object.entries(counts).filter(([, n]) => n !== 0));
}

async function isRefused(enqueueing: Promise<unknown>): Promise<boolean> {
  try {
    await enqueueing;
    return false;
  } catch (error) {
    if (error instanceof LastoutError && error.code === 'QUEUE_FULL') return true;
    throw error;
  }
}

describe.skipIf(!isServed('postgres'))('every step runs read committed', () => {
  const cases = Object.keys(ways).flatMap((way) => levels.map((level) => [way, level] as const));
  const usable = cases.filter(([way]) => !('why' in pooler) || !way.includes('pooler'));

  test.each(usable)('with %s at %s: first opens, counts and maxPending', async (way, level) => {
    const url = await newDatabase(level);
    const openOne = await ways[way]!(url);
    const most = 20;
    const queues = await Promise.all(
      Array.from({ length: 4 }, async () =>
        closedAfterwards(await openOne({ queues: { small: { maxPending: most } } })),
      ),
    );
    const [first] = queues as [Queue, ...Queue[]];

    const refused = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        isRefused(queues[n % 4]!.enqueue('wait', n, { queue: 'small', ...(n % 3 === 0 && { priority: 1 }) })),
      ),
    );
    expect(refused.filter((one) => !one)).toHaveLength(most);
    expect(await counted(first)).toEqual({ pending: most });

    const runs: number[] = [];
    const mail = defineJob<number, null>('mail', {
      attempts: 2,
      backoff: () => 0,
      exclusiveKey: (n) => `key-${n % 4}`,
      run({ input, job }) {
        if (input % 7 === 0 && job.attempts === 1) throw new Error('not yet');
        runs.push(input);
        return null;
      },
    });
    const plain = defineJob<number, null>('plain', { run: () => null });
    for (const queue of queues) await queue.work([mail, plain], { concurrency: 4 });
    const jobs = Array.from({ length: 160 }, (_, n) => n);
    const waits = jobs.map(async (n) => {
      const queue = queues[n % 4]!;
      const { id } = await queue.enqueue(n % 2 === 0 ? mail : plain, n);
      if (n % 10 === 9) await queue.cancel(id);
      return queue.wait(id, { timeout: '30s' });
    });
    await Promise.all(waits);
    expect(runs.toSorted((a, b) => a - b)).toEqual(jobs.filter((n) => n % 2 === 0));

    expect(await counted(first)).toEqual(await found(first));
    expect((await first.audit()).clean).toBe(true);
    expect(await faultsIn(await plainClient(url))).toEqual([]);
  });

  test('each function that is called from outside and sees more than one snapshot asks for it', async () => {
    const url = await newDatabase('read committed');
    closedAfterwards(await open(url));
    const { rows } = await (await plainClient(url)).query<{ proname: string }>(
      `select proname from pg_proc where pronamespace = 'lastout'::regnamespace and proname ~ '_v\\d+$'
        and provolatile = 'v' and prosrc !~ 'LO003'`,
    );
    expect(rows).toEqual([]);
  });
});

describe.skipIf(!isServed('postgres'))('in a transaction of the caller', () => {
  async function begun(level: string): Promise<{ queue: Queue; tx: pg.Client }> {
    const url = await newDatabase('read committed');
    const limits = { small: { maxPending: 1 } };
    const queue = closedAfterwards(await open(url, { queues: limits }));
    const tx = await plainClient(url);
    await tx.query(`begin isolation level ${level}`);
    return { queue, tx };
  }

  test.each(levels)('at %s, a queue with maxPending is refused in words, and any other is not', async (level) => {
    const { queue, tx } = await begun(level);
    await tx.query('select 1');
    await queue.enqueue('wait', 1, { queue: 'small' });
    await expect(queue.enqueue('wait', 2, { queue: 'small', tx })).rejects.toMatchObject({
      code: 'INVALID_TRANSACTION',
      message: expect.stringContaining('begin isolation level read committed') as string,
    });
    await queue.enqueue('wait', 3, { tx });
    await tx.query('commit');
    expect(await counted(queue)).toEqual({ pending: 2 });
    expect(await counted(queue)).toEqual(await found(queue));
  });

  test('at read committed, it is full or not by what is committed', async () => {
    const { queue, tx } = await begun('read committed');
    await tx.query('select 1');
    await queue.enqueue('wait', 1, { queue: 'small' });
    await expect(queue.enqueue('wait', 2, { queue: 'small', tx })).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    await tx.query('rollback');
  });
});

describe('a connection that is lost in the transaction of a step', () => {
  /** The first statement meets a strict session; then the connection is lost once, at this statement. */
  function losingAt(lostAt: string) {
    const said: string[] = [];
    let isLost = false;
    const client = {
      async query({ text }: { text: string }) {
        said.push(text);
        if (said.length === 1) throw Object.assign(new Error('too strict'), { code: 'LO003' });
        if (text !== lostAt || isLost) return { rows: [[1]] };
        isLost = true;
        throw new Error('Connection terminated unexpectedly');
      },
      on: () => undefined,
      removeListener: () => undefined,
    };
    const lent = { client, pid: null, giveBack: () => undefined };
    const pool: Pool = { lend: async () => lent, end: async () => undefined };
    const ear = { listen: () => () => undefined, isAtWork: async () => true, end: async () => undefined };
    return { said, run: createRun({ pool, ear, system, where: 'The server' }) };
  }
  const [begin, step] = ['begin isolation level read committed', 'select step()'];

  test.each([begin, step])('at "%s": nothing has happened, it is done again', async (lostAt) => {
    const { said, run } = losingAt(lostAt);
    expect(await run(() => ({ text: step }), 'writing')).toEqual([[1]]);
    expect(said.slice(-3)).toEqual([begin, step, 'commit']);
    expect(said.filter((text) => text === 'commit')).toHaveLength(1);
  });

  test('at "commit": whether it was done is not known, and it is not done again', async () => {
    const { said, run } = losingAt('commit');
    await expect(run(() => ({ text: step }), 'writing')).rejects.toMatchObject({ code: 'RESULT_UNKNOWN' });
    expect(said).toEqual([step, begin, step, 'commit']);
  });
});
