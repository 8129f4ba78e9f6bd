// What is special to a store in a file: how it comes to be, who may open it, and what the refusals say.
import { noFilter } from '../../src/core/store.js';
import { execFileSync } from 'node:child_process';
import { existsSync, renameSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadDriver } from '../../src/stores/sqlite/driver.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { expectCode, temporaryFolder } from '../support.js';
import { connect, inChild, newJob, openStore, valueOf } from './sqlite-support.js';

describe('driver', () => {
  const absent = () => undefined;
  class DatabaseSync {}

  test('takes the one of the runtime where there is one', async () => {
    const own = { DatabaseSync };
    const installed = () => Promise.reject(new Error('must not be asked'));
    expect(await loadDriver({ builtIn: () => own, installed })).toBe(own);
  });
  test('takes the installed one on a runtime without', async () => {
    const peer = { DatabaseSync };
    expect(await loadDriver({ builtIn: absent, installed: async () => peer })).toBe(peer);
  });
  test.each([
    ['not installed', () => Promise.reject(new Error("Cannot find package '@photostructure/sqlite'"))],
    ['something else by that name', async () => ({ other: true })],
  ])('says what to install: %s', async (_, installed) => {
    const refusal = await expectCode('DRIVER_MISSING', () => loadDriver({ builtIn: absent, installed }));
    expect(refusal.message).toMatch(/npm install @photostructure\/sqlite.*Node 22\.13/);
  });
});

describe('a new file', () => {
  test('is readable by its user alone, with the files beside it', async () => {
    const file = newFile();
    const store = await openStore(file);
    await store.insert([newJob()], { atomic: true });
    for (const suffix of ['', '-wal', '-shm']) expect(statSync(file + suffix).mode & 0o777, suffix).toBe(0o600);
    await store.close();
  });
  test('is not made behind a link, where everybody could read it', async () => {
    const folder = temporaryFolder();
    const target = join(temporaryFolder(), 'target.db');
    symlinkSync(target, join(folder, 'jobs.db'));
    symlinkSync(join(folder, 'jobs.db'), join(folder, 'twice.db'));
    for (const name of ['jobs.db', 'twice.db']) {
      const refusal = await expectCode('STORE_DENIED', () => openStore(join(folder, name)));
      expect(refusal.message).toContain('a link to a file that does not exist');
    }
    expect(existsSync(target)).toBe(false);
    await (await openStore(target)).close();
    await (await openStore(join(folder, 'twice.db'))).close();
    expect(statSync(target).mode & 0o777).toBe(0o600);
  });
  test('is no FIFO and no device', async () => {
    const fifo = join(temporaryFolder(), 'jobs.db');
    execFileSync('mkfifo', [fifo]);
    for (const path of [fifo, '/dev/null']) await expectCode('STORE_DENIED', () => openStore(path));
  });
  test('is made once by four processes that open it together', async () => {
    const file = newFile();
    const children = Array.from({ length: 4 }, (_, i) =>
      inChild(`
        const store = await openStore(${JSON.stringify(file)});
        const jobs = Array.from({ length: 25 }, () => newJob({ type: 'child${i}' }));
        for (const job of jobs) await store.insert([job], { atomic: true });
        await store.close();
        return 'done';
      `),
    );
    expect(await Promise.all(children)).toEqual(['done', 'done', 'done', 'done']);
    const store = await openStore(file);
    await store.sweep({ limit: 1, cleanup: null }); // the last ones may have joined a run, which a step counts
    await store.close();
    const db = await connect(file);
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(100);
    expect(valueOf(db, "select n from lastout_counts where name = 'pending'")).toBe(100);
    expect(valueOf(db, "select n from lastout_counts where name = 'seq'")).toBe(100);
    expect(valueOf(db, 'select max(seq) from lastout_jobs')).toBe(100);
    expect(valueOf(db, 'pragma integrity_check')).toBe('ok');
    db.close();
  }, 60_000);
  test('keeps its jobs when it is opened again', async () => {
    const file = newFile();
    const first = await openStore(file);
    await first.insert([newJob({ id: 'kept' })], { atomic: true });
    await first.close();
    const second = await openStore(file);
    const claimed = await second.claim({ ...claimOne, types: ['mail'] });
    expect(claimed.jobs.map(({ id }) => id)).toEqual(['kept']);
    await second.close();
    const db = await connect(file);
    expect(valueOf(db, 'pragma integrity_check')).toBe('ok');
    expect(valueOf(db, 'pragma journal_mode')).toBe('wal');
    db.close();
  });
});

describe('namespaces', () => {
  test('stand side by side in one file, whatever their names', async () => {
    const file = newFile();
    const factory = sqliteStore({ file });
    const names = ['lastout', 'a-b.c', 'a', '0', 'x'.repeat(128), 'select'];
    for (const namespace of names) {
      const store = await openStore(factory, { namespace });
      await store.insert([newJob({ id: 'same-id', deduplication: 'skip' })], { atomic: true });
      await store.close();
    }
    for (const namespace of names) {
      const store = await openStore(factory, { namespace });
      expect((await store.claim(claimOne)).jobs).toHaveLength(1);
      expect((await store.claim(claimOne)).jobs).toHaveLength(0);
      await store.close();
    }
  });
  test('that differ only in case are refused, because SQLite would mix them up', async () => {
    const file = newFile();
    await (await openStore(file, { namespace: 'mail' })).close();
    const refusal = await expectCode('INVALID_NAME', () => openStore(file, { namespace: 'Mail' }));
    expect(refusal.message).toMatch(/"mail".*"Mail"/);
  });
  test('named as SQLite names its own tables are refused', async () => {
    await expectCode('INVALID_NAME', () => openStore(newFile(), { namespace: 'SQLite' }));
  });
});

describe('a file that cannot serve', () => {
  test('of a newer version: both numbers are told, and nothing is touched', async () => {
    const file = newFile();
    await (await openStore(file)).close();
    const db = await connect(file);
    db.exec("update lastout_meta set value = 42 where name = 'schema'");
    db.close();
    const refusal = await expectCode('STORE_NEWER', () => openStore(file));
    expect(refusal.message).toMatch(/version 42 .* version 2/);
    expect(refusal.details).toEqual({ found: 42, known: 2 });
  });
  test('in a folder that is missing', async () => {
    const file = join(temporaryFolder(), 'no', 'jobs.db');
    const refusal = await expectCode('STORE_DENIED', () => openStore(file));
    expect(refusal.message).toContain(`${join(file, '..')} does not exist`);
  });
  test('that is a folder', async () => {
    const refusal = await expectCode('STORE_DENIED', () => openStore(temporaryFolder()));
    expect(refusal.message).toContain('it is a folder');
  });
  test('that is not a database', async () => {
    const file = newFile();
    writeFileSync(file, 'these are not the pages you are looking for\n'.repeat(100));
    const refusal = await expectCode('STORE_UNAVAILABLE', () => openStore(file));
    expect(refusal.message).toContain('is not an SQLite database');
  });
  test.each([
    ['may only be read', 0o444, 0o755, 'STORE_READONLY', /may only read it/],
    ['may not be read', 0o000, 0o755, 'STORE_DENIED', /may not read it/],
  ])('that %s', async (_, fileMode, folderMode, code, message) => {
    const file = newFile();
    await (await openStore(file)).close();
    expect(await openAsNobody(file, fileMode, folderMode)).toMatchObject({
      code,
      message: expect.stringMatching(message),
    });
  });
  test('in a folder that may not be written', async () => {
    const file = newFile();
    const answer = await openAsNobody(file, null, 0o555);
    expect(answer).toMatchObject({ code: 'STORE_DENIED', message: expect.stringMatching(/may not create files in/) });
  });
  test('that is full: nothing of the step is written, and the store goes on when there is room', async () => {
    const db = await connect(newFile());
    const store = await openStore(sqliteStore({ db }));
    db.exec(`pragma max_page_count = ${Number(valueOf(db, 'pragma page_count')) + 20}`);
    const jobs = Array.from({ length: 100 }, () => newJob({ input: JSON.stringify('x'.repeat(4_000)) }));
    await expectCode('STORE_FULL', () => store.insert(jobs, { atomic: true }));
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(0);
    db.exec('pragma max_page_count = 1000000');
    await store.insert(jobs, { atomic: true });
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(100);
    await store.close();
    db.close();
  });
});

describe('durability', () => {
  test.each([
    ['full', 'fsync'],
    ['normal', 'os'],
  ] as const)('synchronous %s is told as %s', async (synchronous, durability) => {
    const store = await openStore(sqliteStore({ file: newFile() }, { synchronous }));
    expect(store.durability).toBe(durability);
    await store.close();
  });
  test('of a database in memory is the process', async () => {
    const store = await openStore(':memory:');
    expect(store.durability).toBe('process');
    await store.insert([newJob()], { atomic: true });
    expect((await store.claim(claimOne)).jobs).toHaveLength(1);
    await store.close();
  });
  test.each([
    ['full', 'fsync'],
    ['normal', 'os'],
    ['off', 'os'],
  ])('of a given connection is its own: %s', async (synchronous, durability) => {
    const db = await connect(newFile());
    db.exec(`pragma synchronous = ${synchronous}`);
    const store = await openStore(sqliteStore({ db }));
    expect(store.durability).toBe(durability);
    await store.close();
    db.close();
  });
});

describe('sharing', () => {
  test('queues of one factory share a connection, which closes with the last of them', async () => {
    const file = newFile();
    const factory = sqliteStore({ file });
    const [one, two] = await Promise.all([openStore(factory), openStore(factory)]);
    const heard: string[] = [];
    two.subscribe((hint) => heard.push(hint.kind));
    await one.insert([newJob()], { atomic: true });
    expect(heard).toContain('ready');
    await one.close();
    await one.close();
    await expectCode('CLOSED', () => one.insert([newJob()], { atomic: true }));
    await two.insert([newJob()], { atomic: true });
    await two.close();
    const again = await openStore(factory);
    expect((await again.claim({ ...claimOne, slots: 5 })).jobs).toHaveLength(2);
    await again.close();
  });
  test('a given connection is neither set up nor closed', async () => {
    const db = await connect(newFile());
    const before = ['journal_mode', 'busy_timeout', 'foreign_keys'].map((name) => valueOf(db, `pragma ${name}`));
    const store = await openStore(sqliteStore({ db }));
    await store.insert([newJob()], { atomic: true });
    await store.close();
    expect(['journal_mode', 'busy_timeout', 'foreign_keys'].map((name) => valueOf(db, `pragma ${name}`))).toEqual(
      before,
    );
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(1);
    db.close();
  });
  test('what is given must be a file or a connection', async () => {
    for (const source of [{}, { file: '' }, { file: 3 }, { db: {} }]) {
      await expectCode('INVALID_URL', () => sqliteStore(source as never));
    }
    await expectCode('UNKNOWN_OPTION', () => sqliteStore({ path: 'jobs.db' } as never));
    await expectCode('UNKNOWN_OPTION', () => sqliteStore({ file: 'jobs.db' }, { sync: 'full' } as never));
    await expectCode('UNKNOWN_OPTION', () => sqliteStore({ file: 'jobs.db' }, { synchronous: 'off' } as never));
  });
});

test('with the last job goes everything that hung on it', async () => {
  const db = await connect(newFile());
  const store = await openStore(sqliteStore({ db }));
  const policy = (timeoutMs: number) => JSON.stringify({ backoff: null, timeoutMs, keep: {} });
  const jobs = [1, 2, 3].map((n) =>
    newJob({ policy: policy(n), exclusiveKey: 'x', subject: 'trip:1', key: `${n}`, deduplication: 'skip' }),
  );
  await store.insert(jobs, { atomic: true });
  const { epoch, jobs: claimed } = await store.claim(claimOne);
  await store.note('o', [{ id: claimed[0]!.id, epoch, progress: null, lines: [{ message: 'hi', fields: null }] }]);
  const ending = { kind: 'complete', result: '1' } as const;
  await store.settle({ owner: 'o', settlements: [{ id: claimed[0]!.id, epoch, ending }], started: [], next: claimOne });
  const filter = { ...noFilter, subject: 'trip:1' };
  await store.move({ filter, move: { kind: 'remove', force: true }, dryRun: false, cursor: null, limit: 10 });
  for (const table of ['jobs', 'pending', 'done', 'claims', 'turns', 'lines', 'policies']) {
    expect(valueOf(db, `select count(*) from lastout_${table}`), table).toBe(0);
  }
  expect(valueOf(db, 'select group_concat(name) from lastout_counts')).toBe('created,epoch,policy,released,seq');
  await store.close();
  db.close();
});

describe('check', () => {
  test('warns when the file was deleted while open', async () => {
    const file = newFile();
    const store = await openStore(file);
    expect(await store.check()).toEqual([]);
    renameSync(file, `${file}.moved`);
    expect(await store.check()).toMatchObject([{ code: 'FILE_GONE' }]);
    await store.close();
  });
  test('warns when a given connection would stop the process while it waits', async () => {
    const db = await connect(newFile());
    db.exec('pragma busy_timeout = 5000');
    const store = await openStore(sqliteStore({ db }));
    expect(await store.check()).toMatchObject([{ code: 'BUSY_TIMEOUT' }]);
    await store.close();
    db.close();
  });
});

const claimOne = {
  owner: 'o',
  types: ['mail'],
  queues: null,
  slots: 1,
  ahead: 0,
  leaseMs: 30_000,
  maxStalls: 3,
} as const;

function newFile(): string {
  return join(temporaryFolder(), 'jobs.db');
}

/** Root may read and write everything, so the child gives that up once everything is loaded. */
function openAsNobody(file: string, fileMode: number | null, folderMode: number): Promise<unknown> {
  return inChild(`
    const { chmodSync } = await import('node:fs');
    const { dirname } = await import('node:path');
    await loadDriver();
    const file = ${JSON.stringify(file)};
    ${fileMode === null ? '' : `chmodSync(file, ${fileMode});`}
    chmodSync(dirname(file), ${folderMode});
    if (process.getuid() === 0) { process.setgid(65534); process.setuid(65534); }
    return openStore(file).then(() => 'opened', ({ code, message }) => ({ code, message }));
  `);
}
