// enqueue(…, { tx }) on PostgreSQL: with the caller's data or not at all, through whatever client has the transaction.
import { describe, expect, onTestFinished, test } from 'vitest';
import { defineJob, open, type OpenOptions, type SqlClient } from '../../src/index.js';
import { emptyPostgres } from '../services.js';
import { closedAfterwards, expectCode, gate } from '../support.js';
import { clients, type Transact } from './postgres-clients.js';
import { eventually, openStore, plainClient, plainPool } from './postgres-support.js';

async function made(make: (url: string) => Promise<Transact>, options?: OpenOptions) {
  const url = await emptyPostgres();
  const client = await plainClient(url);
  await client.query('create table mine (n int)');
  const queue = closedAfterwards(await open(url, options));
  const mine = async () => (await client.query('select n from mine order by n')).rows.map((row) => row.n as number);
  return { url, client, queue, mine, transact: await make(url) };
}

const stop = new Error('rolled back on purpose');
/** Rolls back what the work did, and gives what it returned. */
async function rolledBack<T>(transact: Transact, work: Parameters<typeof transact<T>>[0]): Promise<T> {
  let value: { of: T } | undefined;
  await expect(
    transact(async (inside) => {
      value = { of: await work(inside) };
      throw stop;
    }),
  ).rejects.toBe(stop);
  return value!.of;
}

describe.each(clients)('by %s', (name, make) => {
  test('a job is committed with the row of the caller, or neither is', async () => {
    const { queue, mine, transact } = await made(make);
    const lost = await rolledBack(transact, async ({ tx, run }) => {
      await run('insert into mine values (1)');
      return queue.enqueue('mail', 1, { tx });
    });
    const kept = await transact(async ({ tx, run }) => {
      await run('insert into mine values (2)');
      const enqueued = await queue.enqueue('mail', 2, { tx, delay: '1h' });
      expect(await queue.get(enqueued.id)).toBeNull();
      return enqueued;
    });
    expect(await mine()).toEqual([2]);
    expect(await queue.get(lost.id)).toBeNull();
    expect(await queue.get(kept.id)).toMatchObject({ state: 'pending', input: 2 });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 1 });
  });

  test('several jobs go in together, also called at once', async () => {
    const { queue, transact } = await made(make);
    const work: Parameters<Transact>[0] = async ({ tx }) => {
      const items = [1, 2, 3].map((input) => ({ type: 'mail', input, options: { tx } }));
      await Promise.all([queue.enqueueMany(items), queue.enqueue('mail', 4, { tx }), queue.enqueue('mail', 5, { tx })]);
    };
    await rolledBack(transact, work);
    expect((await queue.stats()).total.pending).toBe(0);
    await transact(work);
    expect((await queue.find()).items.map(({ input }) => input).sort()).toEqual([1, 2, 3, 4, 5]);
  });

  test('a refused call leaves the transaction as it was', async () => {
    const { queue, mine, transact } = await made(make, { queues: { narrow: { maxPending: 1 } } });
    await queue.enqueue('mail', 1, { id: 'taken' });
    await queue.enqueue('mail', 1, { queue: 'narrow' });
    await transact(async ({ tx, run }) => {
      await run('insert into mine values (1)');
      await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueue('mail', 2, { tx, id: 'taken' }));
      await expectCode('QUEUE_FULL', () => queue.enqueue('mail', 2, { tx, queue: 'narrow' }));
      const twins = [
        { type: 'mail', input: 1, options: { tx } },
        { type: 'mail', input: 2, options: { tx, id: 'taken' } },
      ];
      const refusal = await expectCode('IDEMPOTENCY_CONFLICT', () => queue.enqueueMany(twins));
      expect(refusal.message).toMatch(/^Job 1: /);
      await queue.enqueue('mail', 3, { tx });
    });
    expect(await mine()).toEqual([1]);
    expect((await queue.find({ queue: 'default' })).items.map(({ input }) => input).sort()).toEqual([1, 3]);
  });

  test('what the database itself refuses leaves nothing, and the transaction alive where the client lets it live', async () => {
    const { queue, mine, transact, client } = await made(make);
    await client.query(`create function refuse() returns trigger language plpgsql as 'begin raise exception ''no''; end';
      create trigger refuse before insert on lastout.jobs for each row when (new.type = 'bad') execute function refuse()`);
    onTestFinished(async () => void (await client.query('drop trigger refuse on lastout.jobs')));
    const ended = transact(async ({ tx, run }) => {
      await run('insert into mine values (1)');
      const refusal = await expectCode('STORE_UNAVAILABLE', () => queue.enqueue('bad', 1, { tx }));
      expect(refusal.details).toEqual({ sqlState: 'P0001' });
      expect(refusal.message).toMatch(/took the step back\. \(PostgreSQL: no\)$/);
      await queue.enqueue('mail', 2, { tx });
    });
    // postgres.js rolls back after any error in a transaction, caught or not.
    const lives = !name.includes('postgres.js');
    await (lives ? ended : expect(ended).rejects.toThrow('no'));
    expect(await mine()).toEqual(lives ? [1] : []);
    expect((await queue.find()).items.map(({ type }) => type)).toEqual(lives ? ['mail'] : []);
  });

  test('every text arrives as it was', async () => {
    const { queue, transact } = await made(make);
    const texts = [
      '',
      ' ',
      '?',
      '??',
      '$1',
      '$1::text',
      "'",
      '"',
      '\\',
      '\\"',
      '{"a":1}',
      '{}',
      'null',
      '\n\t',
      'ä漢😀',
      '\u{1f}',
    ];
    const input = { texts, numbers: [0, -1, 1.5, 1.5e-300, 2 ** 53 - 1], nothing: [null, true, false, {}, []] };
    const { id } = await transact(({ tx }) =>
      queue.enqueue('mail', input, { tx, deduplicationKey: "k'$1?", deduplication: 'skip', metadata: { note: '?$2' } }),
    );
    expect(await queue.get(id)).toMatchObject({ input, deduplicationKey: "k'$1?", metadata: { note: '?$2' } });
  });

  test('skip, coalesce and replace decide as ever, and a rollback takes the decision back', async () => {
    const { queue, transact } = await made(make);
    const old = await queue.enqueue('build', 1, { deduplication: 'skip', delay: '1h' });
    const by =
      (deduplication: 'skip' | 'coalesce' | 'replace'): Parameters<typeof transact>[0] =>
      ({ tx }) =>
        queue.enqueue('build', 2, { tx, deduplication });
    expect(await rolledBack(transact, by('skip'))).toEqual({ id: old.id, outcome: 'skipped' });
    expect(await transact(by('skip'))).toEqual({ id: old.id, outcome: 'skipped' });
    expect(await rolledBack(transact, by('coalesce'))).toEqual({ id: old.id, outcome: 'coalesced' });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 1 });
    expect(await transact(by('coalesce'))).toEqual({ id: old.id, outcome: 'coalesced' });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, delayed: 0 });
    expect(await rolledBack(transact, by('replace'))).toMatchObject({ outcome: 'replaced', replaced: old.id });
    expect(await queue.get(old.id)).toMatchObject({ state: 'pending', error: null });
    expect(await transact(by('replace'))).toMatchObject({ outcome: 'replaced', replaced: old.id });
    expect(await queue.get(old.id)).toMatchObject({ state: 'failed', error: { code: 'REPLACED' } });
    expect((await queue.stats()).total).toMatchObject({ pending: 1, failed: 1 });
  });

  test('a match cannot be claimed before the caller has committed', async () => {
    const { url, queue, transact } = await made(make);
    const { id } = await queue.enqueue('mail', 1, { deduplication: 'skip' });
    const store = await openStore(url);
    const claim = async () => (await store.claim({ ...request, types: ['mail'] })).jobs.map((job) => job.id);
    await transact(async ({ tx }) => {
      expect(await queue.enqueue('mail', 1, { tx, deduplication: 'skip' })).toEqual({ id, outcome: 'skipped' });
      expect(await claim()).toEqual([]);
    });
    expect(await claim()).toEqual([id]);
  });

  test('a conflict of snapshots is told with its SQLSTATE, and nothing is written twice', async () => {
    const { queue, transact } = await made(make);
    await transact(async ({ tx, run }) => {
      await run('select count(*) from mine');
      const { id } = await queue.enqueue('mail', 1, { deduplication: 'skip' });
      const refusal = await expectCode('STORE_UNAVAILABLE', () =>
        queue.enqueue('mail', 2, { tx, deduplication: 'skip' }),
      );
      expect(refusal.message).toContain('begin anew');
      expect(refusal.details).toEqual({ sqlState: '40001' });
      expect((await queue.find()).items).toMatchObject([{ id }]);
    }, 'repeatable read').catch(() => undefined);
    expect((await queue.stats()).total.pending).toBe(1);
  });

  test('without a transaction it is refused, and nothing is stored', async () => {
    const { queue, transact } = await made(make);
    let left!: SqlClient;
    await transact(async ({ tx }) => void (left = tx));
    const refusal = await queue.enqueue('mail', 1, { tx: left }).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: 'INVALID_TRANSACTION' });
    expect((await queue.stats()).total.pending).toBe(0);
  });
});

const request = { owner: 'test', types: [], queues: null, slots: 10, ahead: 0, leaseMs: 30_000, maxStalls: 3 };
const pgClient = clients[0]![1];

describe('refused', () => {
  test('a pool, whose statements run anywhere', async () => {
    const { url, queue } = await made(pgClient);
    const tx = plainPool(url) as unknown as SqlClient;
    const { message } = await expectCode('INVALID_TRANSACTION', () => queue.enqueue('mail', 1, { tx }));
    expect(message).toContain('A pool cannot be one');
    expect((await queue.stats()).total.pending).toBe(0);
  });

  test.each([
    ['an SQLite handle', { prepare: () => undefined, exec: () => undefined }],
    ['an object', {}],
  ])('%s', async (_, tx) => {
    const { queue } = await made(pgClient);
    const { message } = await expectCode('INVALID_TRANSACTION', () => queue.enqueue('mail', 1, { tx: tx }));
    expect(message).toContain('query(text, values)');
  });

  test('a transaction that has failed', async () => {
    const { queue, client } = await made(pgClient);
    await client.query('begin');
    await client.query('select 1 / 0').catch(() => undefined);
    const { message } = await expectCode('INVALID_TRANSACTION', () => queue.enqueue('mail', 1, { tx: client }));
    expect(message).toContain('it has failed before');
    await client.query('rollback');
  });

  test('a transaction on another database, with the schema or without', async () => {
    const { queue } = await made(pgClient);
    const withSchema = await plainClient(await emptyPostgres());
    const without = await plainClient(await emptyPostgres());
    await without.query('begin; alter schema lastout rename to hidden');
    await withSchema.query('begin');
    for (const tx of [withSchema, without]) {
      const { message } = await expectCode('INVALID_TRANSACTION', () => queue.enqueue('mail', 1, { tx }));
      expect(message).toContain('another database');
      expect((await tx.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
      await tx.query('rollback');
      expect((await tx.query('select count(*)::int from lastout.jobs')).rows).toEqual([{ count: 0 }]);
    }
  });

  test('a read-only transaction', async () => {
    const { queue, client } = await made(pgClient);
    await client.query('begin read only');
    await expectCode('STORE_READONLY', () => queue.enqueue('mail', 1, { tx: client }));
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await client.query('rollback');
  });

  test('a client whose connection is gone', async () => {
    const { url, queue } = await made(pgClient);
    const gone = await plainClient(url);
    await gone.query('begin');
    const [{ pid }] = (await gone.query('select pg_backend_pid() as pid')).rows as [{ pid: number }];
    const admin = await plainClient(url);
    await admin.query('select pg_terminate_backend($1)', [pid]);
    await eventually('it is gone', async () => {
      return (await admin.query('select 1 from pg_stat_activity where pid = $1', [pid])).rows.length === 0;
    });
    const refusal = await queue.enqueue('mail', 1, { tx: gone }).catch((error: unknown) => error);
    expect(refusal).toMatchObject({ code: expect.stringMatching(/^(INVALID_TRANSACTION|RESULT_UNKNOWN)$/) });
    expect((await queue.stats()).total.pending).toBe(0);
  });
});

test('two skips of one key in two transactions: the second waits, and is skipped or takes the place', async () => {
  for (const end of ['commit', 'rollback']) {
    const { url, queue, client } = await made(pgClient);
    const other = await plainClient(url);
    await client.query('begin');
    await other.query('begin');
    const one = await queue.enqueue('mail', 1, { tx: client, deduplication: 'skip' });
    const waiting = queue.enqueue('mail', 2, { tx: other, deduplication: 'skip' });
    await eventually('the second waits', async () => {
      const text =
        'select 1 from pg_locks where not granted and pid = any (select pid from pg_stat_activity where datname = current_database())';
      return (await client.query(text)).rows.length > 0;
    });
    await client.query(end);
    const two = await waiting;
    await other.query('commit');
    expect(two.outcome).toBe(end === 'commit' ? 'skipped' : 'created');
    expect((await queue.find()).items.map(({ id }) => id)).toEqual([end === 'commit' ? one.id : two.id]);
  }
});

test('workers hear of the job when it is committed, without waiting for their poll', async () => {
  const { url, queue, client } = await made(pgClient);
  const other = closedAfterwards(await open(url));
  const ran = gate<unknown>();
  const mail = defineJob<string, void>('mail', { run: ({ input }) => ran.open(input) });
  await queue.work([mail], { poll: '1h' });
  await other.enqueue('other', 0);
  await client.query('begin');
  await queue.enqueue(mail, 'now', { tx: client });
  await client.query('commit');
  expect(await ran.opened).toBe('now');
});

test('a commit that does not wait for the call is told that the outcome is unknown', async () => {
  const { queue, client } = await made(pgClient);
  let commit!: Promise<unknown>;
  const tx: SqlClient = {
    async query(text, values) {
      const answer = await client.query(text, values);
      if (text.startsWith('select')) commit = client.query('commit');
      await commit;
      return answer;
    },
  };
  await client.query('begin');
  const { message } = await expectCode('RESULT_UNKNOWN', () => queue.enqueue('mail', 1, { tx }));
  expect(message).toContain('Await the call before you commit');
});

test('each value of a statement stands once and in order, so that any placeholder will do', async () => {
  const { queue, client } = await made(pgClient);
  const texts: string[] = [];
  const tx: SqlClient = {
    query(text, values) {
      expect([...text.matchAll(/\$(\d+)/g)].map(([, no]) => Number(no))).toEqual(values.map((_, index) => index + 1));
      expect(text).not.toContain('?');
      expect(values.every((value) => typeof value === 'string')).toBe(true);
      texts.push(text);
      return client.query(text, values);
    },
  };
  await client.query('begin');
  await queue.enqueue('mail', 1, { tx });
  await queue.enqueue('mail', 1, { tx, id: 'given', deduplication: 'skip', ttl: '1h' });
  await client.query('commit');
  expect(texts).toHaveLength(6);
});

// A follower that began after the open transaction would miss what it commits later: to hear a little twice is the lesser evil.
test('who begins to listen while a transaction is open hears all of it, and what was acknowledged since it began', async () => {
  const url = await emptyPostgres();
  const client = await plainClient(url);
  const queue = closedAfterwards(await open(url));
  await client.query('begin');
  const inside = await queue.enqueue('mail', 1, { tx: client });
  const before = await queue.enqueue('mail', 2);
  const heard: (string | undefined)[] = [];
  queue.on('created', ({ id }) => heard.push(id));
  const after = await queue.enqueue('mail', 3);
  await client.query('commit');
  await expect.poll(() => heard).toEqual([inside.id, before.id, after.id]);
});
