// Disks and files fail: a typed error, nothing half done, reads go on, and everything recovers without a restart.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type ClaimRequest, noFilter, type Store } from '../../src/core/store.js';
import { defineJob, open, type Queue } from '../../src/index.js';
import type { SqliteDatabase, SqliteStatement, Value } from '../../src/stores/sqlite/driver.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { createSystem } from '../../src/system.js';
import { expectCode, gate, recordingLogger, temporaryFolder } from '../support.js';
import { connect, loadDriver, newJob, openStore, valueOf } from './sqlite-support.js';

const big = JSON.stringify('x'.repeat(60_000));
const request: ClaimRequest = {
  owner: 'o',
  types: ['mail'],
  queues: null,
  slots: 1,
  ahead: 0,
  leaseMs: 30_000,
  maxStalls: 3,
};

/** Each verb that writes, on the store of `furnished`. Those marked `grows` cannot do without new pages. */
const verbs: readonly { name: string; grows: boolean; run(store: Store, epoch: number): Promise<unknown> }[] = [
  {
    name: 'insert',
    grows: true,
    run: (store) =>
      store.insert([newJob({ id: 'n1', key: 'k', deduplication: 'replace', input: big })], { atomic: true }),
  },
  {
    name: 'insert of a batch',
    grows: true,
    run: (store) =>
      store.insert(
        Array.from({ length: 20 }, (_, i) =>
          newJob({ id: `b${i}`, exclusiveKey: 'x', policy: policyOf(i), input: big }),
        ),
        { atomic: false },
      ),
  },
  { name: 'claim', grows: false, run: (store) => store.claim({ ...request, slots: 3 }) },
  {
    name: 'settle with the next claim',
    grows: true,
    run: (store, epoch) =>
      store.settle({
        owner: 'o',
        settlements: [{ id: 'running', epoch, ending: { kind: 'complete', result: big } }],
        started: [],
        next: request,
      }),
  },
  {
    name: 'extend',
    grows: false,
    run: (store, epoch) =>
      store.extend({ owner: 'o', leaseMs: 60_000, claims: [{ epoch, ids: ['running'], started: [] }], card: null }),
  },
  {
    name: 'note',
    grows: true,
    run: (store, epoch) =>
      store.note('o', [{ id: 'running', epoch, progress: null, lines: [{ message: big, fields: null }] }]),
  },
  {
    name: 'move',
    grows: true,
    run: (store) =>
      store.move({
        filter: { ...noFilter, ids: ['done'] },
        move: { kind: 'retry', newIds: ['again'] },
        dryRun: false,
        cursor: null,
        limit: 9,
      }),
  },
  { name: 'pause', grows: false, run: (store) => store.pause('default', true) },
  {
    name: 'sweep',
    grows: false,
    run: (store) =>
      store.sweep({
        limit: 100,
        cleanup: { maxStoredJobs: 0, jobRetentionMs: 0, cleanupIntervalMs: 1_000, useCompletedTime: true },
      }),
  },
];

describe.each(verbs)('$name', ({ grows, run }) => {
  test('on a read-only database: refused whole, then done', async () => {
    const { store, db, epoch } = await furnished();
    const before = dump(db);
    db.exec('pragma query_only = on');
    const refusal = await expectCode('STORE_READONLY', () => run(store, epoch));
    expect(refusal.message).toContain('cannot be written');
    await expectReads(store);
    db.exec('pragma query_only = off');
    expect(dump(db)).toEqual(before);
    await run(store, epoch);
    expect(dump(db)).not.toEqual(before);
  });

  test('on a full database: refused whole or done whole, and done when there is room', async () => {
    const { store, db, epoch } = await furnished();
    const before = dump(db);
    db.exec(`pragma max_page_count = ${Number(valueOf(db, 'pragma page_count'))}`);
    if (!grows) {
      await run(store, epoch);
      await expectReads(store);
      return expect(dump(db)).not.toEqual(before);
    }
    const refusal = await expectCode('STORE_FULL', () => run(store, epoch));
    expect(refusal.message).toMatch(/cannot grow.*Nothing was written/);
    await expectReads(store);
    expect(dump(db)).toEqual(before);
    db.exec('pragma max_page_count = 1000000');
    await run(store, epoch);
    expect(dump(db)).not.toEqual(before);
  });

  test.each([
    ['a full disk', 13, 'STORE_FULL', 'STORE_FULL'],
    // Until a crash brings the log up again, nothing of a failed commit is seen; what happens then is not known.
    ['a disk that fails', 10, 'STORE_UNAVAILABLE', 'RESULT_UNKNOWN'],
  ] as const)('%s at each statement of it in turn: nothing half done', async (_, errcode, code, codeOfCommit) => {
    const plain = await furnished();
    await run(plain.store, plain.epoch);
    const expected = dump(plain.db);
    const { store, db, epoch, faults } = await furnished();
    const before = dump(db);
    const codes: unknown[] = [];
    for (let at = 1; ; at++) {
      faults.arm(at, errcode);
      const failed = await run(store, epoch).then(
        () => null,
        (error: unknown) => error,
      );
      const struck = faults.disarm();
      if (!struck) break;
      codes.push((failed as { code: unknown }).code);
      expect(dump(db), `statement ${at}`).toEqual(before);
    }
    expect(codes.pop()).toBe(codeOfCommit);
    expect(codes.length).toBeGreaterThan(1);
    expect(new Set(codes)).toEqual(new Set([code]));
    expect(dump(db)).toEqual(expected);
  });
});

describe('a queue with a worker', () => {
  test('on a full database: reads go on, refused jobs are not there, and the rest ends by itself when there is room', async () => {
    const { queue, db, lines, ran, proceed } = await working();
    const first = await queue.enqueue('big', 0);
    await ran.opened;
    db.exec(`pragma max_page_count = ${Number(valueOf(db, 'pragma page_count')) + 30}`);
    const accepted = [first.id];
    const refused: unknown[] = [];
    while (refused.length < 3) {
      await queue.enqueue('other', big).then(
        ({ id }) => accepted.push(id),
        (error: { code: string }) => refused.push(error.code),
      );
    }
    expect(refused).toEqual(['STORE_FULL', 'STORE_FULL', 'STORE_FULL']);
    proceed.open(); // the result does not fit any more
    await until(() => lines.some(({ message }) => message === 'The store does not answer; trying again'));
    expect((await queue.get(first.id))!.state).toBe('processing');
    expect((await queue.stats()).total).toMatchObject({ pending: accepted.length - 1, processing: 1, failed: 0 });
    expect((await queue.find({ limit: 200 })).items.map(({ id }) => id).sort()).toEqual([...accepted].sort());
    db.exec('pragma max_page_count = 1000000');
    expect((await queue.wait(first.id, { timeout: '15s' })).state).toBe('completed');
    expect(lines.some(({ message }) => message === 'The store answers again')).toBe(true);
    await queue.enqueue('other', big);
    expect((await queue.health()).ok).toBe(true);
  });

  test('on a read-only database: told as such, reads go on, and the ending is kept until it can be written', async () => {
    const { queue, db, lines, ran, proceed } = await working();
    const { id } = await queue.enqueue('big', 0);
    await ran.opened;
    db.exec('pragma query_only = on');
    await expectCode('STORE_READONLY', () => queue.enqueue('other', 1));
    await expectCode('STORE_READONLY', () => queue.cancel(id));
    expect(await queue.health()).toMatchObject({ ok: false, warnings: [{ code: 'STORE_READONLY' }] });
    proceed.open();
    await until(() => lines.some(({ message }) => message === 'The store does not answer; trying again'));
    expect((await queue.get(id))!.state).toBe('processing');
    expect((await queue.find()).items).toHaveLength(1);
    db.exec('pragma query_only = off');
    expect((await queue.wait(id, { timeout: '15s' })).state).toBe('completed');
    expect((await queue.health()).ok).toBe(true);
  });

  test('while another program holds the lock for seconds: reads go on, writes wait or are refused, then all goes on', async () => {
    const file = newFile();
    const { lines, logger } = recordingLogger();
    const queue = await open(sqliteStore({ file }, { lockWaitMs: 300 }), { logger });
    const mail = defineJob<number, number>('mail', { run: ({ input }) => input });
    const accepted = await Promise.all([1, 2, 3].map((n) => queue.enqueue(mail, n)));
    const locker = await lockInChild(file, 3_000);
    await queue.work([mail]);
    const refusals = [0, 1].map(() => expectCode('STORE_UNAVAILABLE', () => queue.enqueue(mail, 9)));
    // Asked while those wait, and answered before them.
    expect((await queue.find()).items).toHaveLength(3);
    expect((await queue.stats()).total.pending).toBe(3);
    expect(await queue.get(accepted[0]!.id)).toMatchObject({ state: 'pending' });
    for (const refusal of await Promise.all(refusals)) expect(refusal.message).toContain('Nothing was written');
    await until(() => lines.some(({ message }) => message === 'The store does not answer; trying again'));
    expect(locker.holds()).toBe(true);
    await locker.released;
    for (const { id } of accepted) expect((await queue.wait(id, { timeout: '15s' })).state).toBe('completed');
    const { id } = await queue.enqueue(mail, 4);
    expect((await queue.wait(id, { timeout: '15s' })).result).toBe(4);
    expect((await queue.find()).items).toHaveLength(4);
    await queue.close();
  }, 30_000);

  test('a connection that was opened for reading serves reads, and says why it writes nothing', async () => {
    const file = newFile();
    const writer = await open(`sqlite:${file}`);
    const { id } = await writer.enqueue('mail', 1);
    const { DatabaseSync } = (await loadDriver()) as unknown as {
      DatabaseSync: new (file: string, options: object) => SqliteDatabase;
    };
    const db = new DatabaseSync(file, { readOnly: true });
    const reader = await open(sqliteStore({ db }));
    expect(await reader.get(id)).toMatchObject({ state: 'pending' });
    expect((await reader.stats()).total.pending).toBe(1);
    await expectCode('STORE_READONLY', () => reader.enqueue('mail', 2));
    await reader.close();
    expect((await writer.stats()).total.pending).toBe(1);
    await writer.close();
    db.close();
  });
});

function newFile(): string {
  return join(temporaryFolder(), 'jobs.db');
}

function policyOf(timeoutMs: number): string {
  return JSON.stringify({ backoff: null, timeoutMs, keep: {} });
}

/** A store with a pending, a running and a finished job, under a clock that stands still, on a connection with faults. */
async function furnished() {
  const inner = await connect(newFile());
  inner.exec('pragma journal_mode = wal; pragma synchronous = off');
  const faults = faultsOn(inner);
  const system = createSystem({ now: () => new Date('2030-01-01') });
  const store = await openStore(sqliteStore({ db: faults.db }), { system });
  onTestFinished(async () => {
    await store.close();
    inner.close();
  });
  await store.insert([newJob({ id: 'done', input: big })], { atomic: true });
  const first = await store.claim(request);
  const ending = { kind: 'complete', result: '1' } as const;
  const settlements = [{ id: 'done', epoch: first.epoch, ending }];
  await store.settle({ owner: 'o', settlements, started: [], next: null });
  await store.insert([newJob({ id: 'running' })], { atomic: true });
  const { epoch } = await store.claim(request);
  await store.insert([newJob({ id: 'pending', key: 'k', deduplication: 'skip' }), newJob({ id: 'plain' })], {
    atomic: true,
  });
  inner.exec('vacuum'); // no free page is left
  return { store, db: inner, epoch, faults };
}

/** The connection, with an error instead of the n-th statement from now on. */
function faultsOn(inner: SqliteDatabase) {
  let left = 0;
  let errcode = 0;
  let struck = false;
  function strike(text: string): void {
    if (left === 0 || /^rollback/.test(text)) return;
    left -= 1;
    if (left > 0) return;
    struck = true;
    throw Object.assign(new Error('planted'), { errcode, code: 'ERR_SQLITE_ERROR' });
  }
  const guarded = (text: string, statement: SqliteStatement): SqliteStatement => {
    const call =
      <T>(run: (...values: Value[]) => T) =>
      (...values: Value[]): T => {
        strike(text);
        return run(...values);
      };
    return {
      run: call((...values) => statement.run(...values)),
      get: call((...values) => statement.get(...values)),
      all: call((...values) => statement.all(...values)),
      setReadBigInts: (on) => statement.setReadBigInts?.(on),
    };
  };
  const db: SqliteDatabase = {
    exec(text) {
      strike(text);
      return inner.exec(text);
    },
    prepare: (text) => guarded(text, inner.prepare(text)),
    close: () => inner.close(),
  };
  return {
    db,
    arm(at: number, code: number) {
      [left, errcode, struck] = [at, code, false];
    },
    disarm() {
      left = 0;
      return struck;
    },
  };
}

/** Every row of the store. */
/** All rows but the identity, which each store draws for itself. */
function dump(db: SqliteDatabase): Record<string, unknown[]> {
  const tables = db.prepare("select name from sqlite_schema where type = 'table' and name like 'lastout%'").all();
  const names = tables.map((table) => (table as { name: string }).name);
  const isTold = (row: unknown): boolean => ((row as { name?: string }).name ?? '') !== 'identity';
  return Object.fromEntries(names.map((name) => [name, db.prepare(`select * from "${name}"`).all().filter(isTold)]));
}

async function expectReads(store: Store): Promise<void> {
  const { jobs } = await store.find({ filter: { ...noFilter, ids: ['running'] }, cursor: null, limit: 9 });
  expect(jobs).toMatchObject([{ id: 'running', state: 'processing' }]);
  const cleanup = { maxStoredJobs: 9, jobRetentionMs: 5_000, cleanupIntervalMs: 100, useCompletedTime: true };
  expect((await store.tally(cleanup)).queues).toHaveLength(1);
  expect((await store.readEvents({ after: '1.0', limit: 5 })).events).toHaveLength(5);
}

/** A queue on a connection of the test's own, with a worker whose first job waits before it returns something big. */
async function working() {
  const db = await connect(newFile());
  db.exec('pragma journal_mode = wal; pragma synchronous = off');
  const { lines, logger } = recordingLogger();
  const queue: Queue = await open(sqliteStore({ db }), { logger });
  onTestFinished(async () => {
    await queue.close({ grace: 0 });
    db.close();
  });
  const [ran, proceed] = [gate(), gate()];
  const job = defineJob<number, string>('big', {
    async run() {
      ran.open();
      await proceed.opened;
      return 'x'.repeat(200_000);
    },
  });
  await queue.work([job]);
  return { queue, db, lines, ran, proceed };
}

async function until(holds: () => boolean): Promise<void> {
  for (const end = performance.now() + 15_000; !holds(); ) {
    if (performance.now() > end) throw new Error('what was waited for did not happen');
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Another program that takes the lock, says so, and gives it back after a while. */
async function lockInChild(file: string, ms: number) {
  const support = new URL('sqlite-support.ts', import.meta.url).href;
  const program = `
    const { connect } = await import(${JSON.stringify(support)});
    const db = await connect(${JSON.stringify(file)});
    db.exec('pragma busy_timeout = 5000; begin immediate');
    console.log('locked');
    setTimeout(() => { db.exec('rollback'); console.log('released'); db.close(); }, ${ms});
  `;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program], {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '', NODE_NO_WARNINGS: '1' },
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  const [locked, released] = [gate(), gate()];
  let holds = true;
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'locked') return locked.open();
    holds = false;
    released.open();
  });
  await locked.opened;
  return { released: released.opened, holds: () => holds };
}
