// enqueue(…, { tx }): with the caller's data or not at all. What depends on the driver: test/stores/sqlite-transactions.test.ts.
import { execFile } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { defineJob, type JobOptions, type LastoutError, open, type OpenOptions, type Queue } from '../src/index.js';
import type { SqliteDatabase } from '../src/stores/sqlite/driver.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { connect, valueOf } from './stores/sqlite-support.js';
import { closedAfterwards, expectCode, gate, recordingLogger, temporaryFolder } from './support.js';

/** The handle that the queue was given, or another one to its file. */
const handles: readonly [string, (options?: OpenOptions) => Promise<{ queue: Queue; db: SqliteDatabase }>][] = [
  [
    'the given connection',
    async (options) => {
      const db = await connect(newFile());
      return { db, queue: await open(sqliteStore({ db }), options) };
    },
  ],
  [
    'another connection',
    async (options) => {
      const file = newFile();
      const queue = await open(`sqlite:${file}?synchronous=normal`, options);
      return { queue, db: await connect(file) };
    },
  ],
];

describe.each(handles)('on %s', (_, make) => {
  test('a job is committed with the row of the caller, or neither is', async () => {
    const { queue, db } = await made(make);
    db.exec('begin immediate; insert into mine values (1)');
    const lost = await queue.enqueue('mail', 1, { tx: db });
    db.exec('rollback');
    db.exec('begin immediate; insert into mine values (2)');
    const kept = await queue.enqueue('mail', 2, { tx: db, delay: '1h' });
    db.exec('commit');
    expect(valueOf(db, 'select group_concat(n) from mine')).toBe('2');
    expect(await queue.get(lost.id)).toBeNull();
    expect(await queue.get(kept.id)).toMatchObject({ state: 'pending', input: 2 });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 1 });
  });

  test('the job is written before the call first yields', async () => {
    const { queue, db } = await made(make);
    db.exec('begin');
    const one = queue.enqueue('mail', 1, { tx: db });
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(1);
    const many = queue.enqueueMany([1, 2].map((input) => ({ type: 'mail', input, options: { tx: db } })));
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(3);
    db.exec('commit');
    await Promise.all([one, many]);
    expect((await queue.stats()).total.pending).toBe(3);
  });

  test('1,000 other enqueues before, during and after: none is lost with a rollback, none waits for ever', async () => {
    const { queue, db } = await made(make);
    const others: Promise<{ id: string; outcome: string }>[] = [];
    const enqueueOthers = (n: number): void => {
      // Seven timeouts, so that policies come and go with the transactions.
      for (let i = 0; i < n; i++) {
        const timeout = 1_000 + (others.length % 7);
        others.push(queue.enqueue('mail', { timeout }, { timeout }));
      }
    };
    const committed: string[] = [];
    const rolledBack: string[] = [];
    for (let round = 0; round < 20; round++) {
      enqueueOthers(15);
      if (round % 3 === 0) await others.at(-1);
      const timeout = 2_000 + Math.floor(round / 2);
      await immediately(db);
      db.exec(`insert into mine values (${round})`);
      for (let i = 0; i < 2; i++) {
        const { id } = await queue.enqueue('mail', { timeout }, { tx: db, timeout });
        (round % 2 === 0 ? rolledBack : committed).push(id);
        enqueueOthers(10);
        await turn();
      }
      db.exec(round % 2 === 0 ? 'rollback' : 'commit');
      enqueueOthers(15);
    }
    const answers = await Promise.all(others);
    expect(answers).toHaveLength(1_000);
    expect(answers.filter(({ outcome }) => outcome !== 'created')).toEqual([]);
    const stored = new Set(column(db, 'select id from lastout_jobs'));
    expect(stored.size).toBe(1_020);
    for (const { id } of answers) expect(stored.has(id)).toBe(true);
    for (const id of committed) expect(stored.has(id)).toBe(true);
    for (const id of rolledBack) expect(stored.has(id)).toBe(false);
    expect(valueOf(db, 'select count(*) from mine')).toBe(10);
    expect((await queue.stats()).total.pending).toBe(1_020);
    // Each job has the policy that it came with, and each policy is counted as often as it is used.
    const wrong = `select count(*) from lastout_jobs left join lastout_policies on no = policy
      where json_extract(input, '$.timeout') is not json_extract(body, '$.timeoutMs')`;
    expect(valueOf(db, wrong)).toBe(0);
    const uses = "select json_group_object(part, n) from lastout_counts where name = 'uses'";
    const used =
      'select json_group_object(policy, n) from (select policy, count(*) n from lastout_jobs group by policy)';
    expect(JSON.parse(String(valueOf(db, uses)))).toEqual(JSON.parse(String(valueOf(db, used))));
    const created: string[] = [];
    for await (const event of queue.events({ after: '1.0' })) if (created.push(event.id!) === 1_020) break;
    expect(new Set(created)).toEqual(stored);
  }, 60_000);

  test('skip, coalesce and replace decide as ever, and a rollback takes the decision back', async () => {
    const { queue, db } = await made(make);
    const old = await queue.enqueue('build', 1, { deduplication: 'skip', delay: '1h' });
    const inside = async (deduplication: JobOptions['deduplication'], end: 'commit' | 'rollback') => {
      db.exec('begin immediate');
      const enqueued = await queue.enqueue('build', 2, { tx: db, deduplication: deduplication! });
      db.exec(end);
      return enqueued;
    };
    for (const end of ['rollback', 'commit'] as const) {
      expect(await inside('skip', end)).toEqual({ id: old.id, outcome: 'skipped' });
      expect(await queue.get(old.id)).toMatchObject({ input: 1, state: 'pending' });
    }
    expect(await inside('coalesce', 'rollback')).toEqual({ id: old.id, outcome: 'coalesced' });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 1 });
    expect(await inside('coalesce', 'commit')).toEqual({ id: old.id, outcome: 'coalesced' });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 0 });
    expect(await inside('replace', 'rollback')).toMatchObject({ outcome: 'replaced', replaced: old.id });
    expect(await queue.get(old.id)).toMatchObject({ state: 'pending', error: null });
    const { id } = await inside('replace', 'commit');
    expect(await queue.get(old.id)).toMatchObject({ state: 'failed', error: { code: 'REPLACED' } });
    expect(await queue.get(id)).toMatchObject({ state: 'pending', input: 2 });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, failed: 1 });
  });

  test('a given id is taken only by a commit', async () => {
    const { queue, db } = await made(make);
    const inside = async (input: number, end: 'commit' | 'rollback') => {
      db.exec('begin immediate');
      return queue.enqueue('mail', input, { tx: db, id: 'order-7' }).finally(() => db.exec(end));
    };
    expect(await inside(1, 'rollback')).toEqual({ id: 'order-7', outcome: 'created' });
    expect(await inside(2, 'commit')).toEqual({ id: 'order-7', outcome: 'created' });
    expect(await inside(2, 'commit')).toEqual({ id: 'order-7', outcome: 'existing' });
    await expectCode('IDEMPOTENCY_CONFLICT', () => inside(1, 'commit'));
    expect(await queue.get('order-7')).toMatchObject({ input: 2 });
  });

  test('a refused call leaves the transaction as it was', async () => {
    const { queue, db } = await made(make);
    const strict = defineJob('strict', { input: z.object({ to: z.string() }) });
    await queue.enqueue('mail', 1, { id: 'taken' });
    db.exec('begin immediate; insert into mine values (1)');
    await expectCode('INVALID_INPUT', () => queue.enqueue(strict, { to: 3 } as never, { tx: db }));
    await expectCode('UNKNOWN_OPTION', () => queue.enqueue('mail', 1, { tx: db, jobId: 'x' } as never));
    await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueue('mail', 2, { tx: db, id: 'taken' }));
    const options = { tx: db };
    const twins = [
      { type: 'mail', input: 1, options },
      { type: 'mail', input: 2, options: { ...options, id: 'taken' } },
    ];
    const refusal = await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueueMany(twins));
    expect(refusal.message).toMatch(/^Job 1: /);
    await queue.enqueue(strict, { to: 'ann' }, { tx: db });
    db.exec('commit');
    expect(valueOf(db, 'select count(*) from mine')).toBe(1);
    expect((await queue.stats()).total.pending).toBe(2);
  });

  test('a worker in the same process starts the job once it is committed, without waiting for its poll', async () => {
    const { queue, db } = await made(make);
    const ran = gate<unknown>();
    const mail = defineJob('mail', { run: ({ input }) => ran.open(input) });
    await queue.work([mail], { poll: '1h' });
    await queue.enqueue('other', 0);
    db.exec('begin immediate');
    const enqueuing = queue.enqueue(mail, 'now', { tx: db });
    db.exec('commit');
    expect(await ran.opened).toBe('now');
    await enqueuing;
  });

  test('a codec and limits hold inside a transaction too', async () => {
    const turned = (text: string): string => [...text].reverse().join('');
    const { queue, db } = await made((options) =>
      make({ ...options, codec: { encode: turned, decode: turned }, queues: { narrow: { maxPending: 1 } } }),
    );
    const options = { tx: db, queue: 'narrow' };
    for (const end of ['rollback', 'commit']) {
      db.exec('begin immediate');
      const enqueuing = queue.enqueue('mail', 'secret', options);
      expect(valueOf(db, 'select input from lastout_jobs')).toContain('terces');
      await enqueuing;
      await expectCode('QUEUE_FULL', () => queue.enqueue('mail', 2, options));
      await expectCode('QUEUE_FULL', () => queue.enqueueMany([{ type: 'mail', input: 2, options }]));
      db.exec(end);
    }
    await expectCode('QUEUE_FULL', () => queue.enqueue('mail', 2, { queue: 'narrow' }));
    expect((await queue.find()).items).toMatchObject([{ input: 'secret' }]);
  });

  test('a skip is logged as ever', async () => {
    const { lines, logger } = recordingLogger();
    const { queue, db } = await made((options) => make({ ...options, logger }));
    const { id } = await queue.enqueue('mail', 1, { deduplication: 'skip' });
    db.exec('begin');
    const options = { tx: db, deduplication: 'skip' } as const;
    await queue.enqueue('mail', 1, options);
    await queue.enqueueMany([{ type: 'mail', input: 1, options }]);
    db.exec('commit');
    const skips = lines.filter(({ message }) => message === 'Skipping duplicate job');
    expect(skips.map(({ fields }) => fields)).toEqual([1, 2].map(() => ({ type: 'mail', existingJobId: id })));
  });

  test('a closed queue writes nothing into the transaction', async () => {
    const { queue, db } = await made(make);
    await queue.close();
    db.exec('begin');
    await expectCode('CLOSED', () => queue.enqueue('mail', 1, { tx: db }));
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
    db.exec('rollback');
  });
});

describe('refused', () => {
  test('on memory, which has no transactions', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const db = await connect(':memory:');
    db.exec('begin');
    const refusal = await expectCode('INVALID_TRANSACTION', () => queue.enqueue('mail', 1, { tx: db }));
    expect(refusal.message).toBe('The memory store has no transactions: leave tx out, or use a store with SQL.');
    expect((await queue.stats()).total.pending).toBe(0);
  });

  test.each([
    ['null', null, /^tx is null; give the database handle/],
    ['a text', 'begin', /^tx is "begin"; give the database handle/],
    ['an object', {}, /^tx is no SQLite handle/],
    ['a client of another engine', { query: async () => ({ rows: [] }) }, /^tx is no SQLite handle/],
  ])('what is no handle: %s', async (_, tx, message) => {
    const { queue } = await made(handles[1]![1]);
    const options = { tx } as never;
    const one = await expectCode('INVALID_TRANSACTION', () => queue.enqueue('mail', 1, options));
    expect(one.message).toMatch(message);
    await expectCode('INVALID_TRANSACTION', () => queue.enqueueMany([{ type: 'mail', input: 1, options }]));
    expect((await queue.stats()).total.pending).toBe(0);
  });

  test('an asynchronous schema, because the caller may have committed before it answers', async () => {
    const { queue, db } = await made(handles[0]![1]);
    const slow = defineJob('slow', { input: z.string().refine(async (text) => text !== 'bad') });
    db.exec('begin');
    const refusal = await expectCode('INVALID_TRANSACTION', () => queue.enqueue(slow, 'good', { tx: db }));
    expect(refusal.message).toContain('asynchronous schema');
    await expectCode('INVALID_INPUT', () => queue.enqueue(slow, 'bad', { tx: db }));
    const listed = [{ type: slow, input: 'good', options: { tx: db } }];
    await expectCode('INVALID_TRANSACTION', () => queue.enqueueMany(listed));
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
    db.exec('rollback');
  });

  test('one call in two transactions, or half in one', async () => {
    const { queue, db } = await made(handles[1]![1]);
    const other = await connect(String(valueOf(db, 'select file from pragma_database_list')));
    onTestFinished(() => void other.close());
    db.exec('begin');
    for (const second of [{ tx: other }, {}, undefined]) {
      const jobs = [{ tx: db }, { tx: db }, second].map((options) => ({
        type: 'mail',
        input: 1,
        ...(options && { options }),
      }));
      const refusal = await expectCode('INVALID_TRANSACTION', () => queue.enqueueMany(jobs));
      expect(refusal.message).toMatch(/^Job 2: tx is not that of job 0/);
      expect(refusal.details).toEqual({ index: 2 });
    }
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
    db.exec('rollback');
  });

  test('a list with a bad item, which is named whether or not others have a transaction', async () => {
    const { queue, db } = await made(handles[1]![1]);
    db.exec('begin');
    const good = { type: 'mail', input: 1, options: { tx: db } };
    for (const bad of [
      null,
      7,
      { type: 'mail', input: 1, options: 'none' },
      { type: 'mail', input: 1, options: null },
    ]) {
      for (const jobs of [
        [good, bad],
        [bad, good],
      ]) {
        const refusal = await queue.enqueueMany(jobs as never).catch((error: LastoutError) => error);
        const alone = await queue.enqueueMany([bad] as never).catch((error: LastoutError) => error);
        expect(refusal).toMatchObject({ code: (alone as LastoutError).code, details: { index: jobs.indexOf(bad) } });
        expect((refusal as LastoutError).message).not.toContain('tx is not');
      }
    }
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
    db.exec('rollback');
  });

  test('in a definition, which outlives every transaction', async () => {
    await expectCode('UNKNOWN_OPTION', () => defineJob('mail', { tx: {} } as never));
  });
});

test('calls without tx wait on the same connection until the caller has committed', async () => {
  const { queue, db } = await made(handles[0]![1]);
  db.exec('begin');
  const order: string[] = [];
  const waiting = [queue.enqueue('mail', 1), queue.stats()].map((call) => call.then(() => order.push('answered')));
  await queue.enqueue('mail', 2, { tx: db });
  await turn();
  order.push('committed');
  db.exec('commit');
  await Promise.all(waiting);
  expect(order).toEqual(['committed', 'answered', 'answered']);
  expect((await queue.stats()).total.pending).toBe(2);
});

test('the example of docs/transactions.md runs as printed', async () => {
  const page = readFileSync(new URL('../docs/transactions.md', import.meta.url), 'utf8');
  const [, program = ''] = /<!-- example -->\s*```ts\n([\s\S]*?)```/.exec(page)!;
  const [, printed = ''] = /<!-- example-output -->\s*```text\n([\s\S]*?)```/.exec(page)!;
  const folder = temporaryFolder();
  const file = join(folder, 'example.mts');
  const isBuiltIn = process.getBuiltinModule?.('node:sqlite') !== undefined;
  const modules: Record<string, string> = {
    lastout: new URL('../src/index.ts', import.meta.url).href,
    'node:sqlite': isBuiltIn
      ? 'node:sqlite'
      : pathToFileURL(join(import.meta.dirname, '../node_modules/@photostructure/sqlite/dist/index.mjs')).href,
  };
  writeFileSync(
    file,
    program.replace(/from '([^']+)'/g, (_, name: string) => `from ${JSON.stringify(modules[name] ?? name)}`),
  );
  const tsx = import.meta.resolve('tsx');
  const { stdout } = await promisify(execFile)(process.execPath, ['--no-warnings', '--import', tsx, file], {
    cwd: folder,
  });
  expect(stdout).toBe(printed);
}, 30_000);

function newFile(): string {
  return join(temporaryFolder(), 'jobs.db');
}

async function made(make: (options?: OpenOptions) => Promise<{ queue: Queue; db: SqliteDatabase }>) {
  const both = await make();
  both.db.exec('pragma journal_mode = wal; pragma busy_timeout = 20; create table mine (n)');
  closedAfterwards(both.queue);
  return both;
}

function column(db: SqliteDatabase, text: string): string[] {
  return db
    .prepare(text)
    .all()
    .map((row) => String(Object.values(row as object)[0]));
}

/** The caller waits for its turn as any program does that shares the file. */
async function immediately(db: SqliteDatabase): Promise<void> {
  for (;;) {
    try {
      return void db.exec('begin immediate');
    } catch (error) {
      expect(String(error)).toMatch(/locked/);
      await turn();
    }
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
