// What a call costs follows what it does, not what is stored: with very many delayed, waiting and finished jobs, whatever the
// statistics say, no call reads a big table from end to end, and each reads about the rows that it answers for.
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Move, noFilter } from '../../src/core/store.js';
import type { Call } from '../../src/stores/postgres/call.js';
import { postgresVerbs, type Verbs } from '../../src/stores/postgres/store.js';
import { describeOn } from '../engines.js';
import { emptyPostgres } from '../services.js';
import { contextOf, newJob } from './postgres-support.js';

const stored = 30_000;
const big = ['jobs', 'pending', 'done', 'events', 'claims', 'tombs'];

/** Delayed and waiting ones, finished ones of which every second is held, some failed, some with a key and a subject. */
const fill = `
alter table lastout.jobs set (autovacuum_enabled = off);
alter table lastout.pending set (autovacuum_enabled = off);
alter table lastout.done set (autovacuum_enabled = off);
insert into lastout.policies (body) values ('{"backoff":null,"timeoutMs":null,"keep":{}}');
insert into lastout.jobs (seq, created_at, due_at, priority, max_attempts, policy, flags, id, type, queue, input, key, subject, over,
  held_until)
select nextval('lastout.job_no'), 1e12, case when n % 3 = 0 then 4e12 else 1e12 end, n % 5, 3, 1,
  case when n % 1000 = 0 then 2 else 0 end + case when n % 6 = 5 then 4 else 0 end, '0old-' || n,
  (array['later', 'ready', 'over'])[n % 3 + 1], 'default', '{}',
  case when n % 1000 = 0 then 'key-' || n % 7 end, case when n % 500 = 0 then 'trip:' || n % 9 end, case when n % 3 = 2 then true end,
  case when n % 6 = 5 then 4e12 + n % 7 end
from generate_series(1, ${3 * stored}) n;
insert into lastout.pending (seq, due_at, priority, place, dear, type, queue)
select seq, due_at, priority, case when type = 'later' then 1 else 0 end, false, type, queue from lastout.jobs where type <> 'over';
insert into lastout.done (seq, completed_at, created_at, epoch, started_at, attempts, state, "left", result, held_until)
select seq, 1e12 + seq, created_at, 1, 1e12, 1, case when seq % 1000 = 2 then 1 else 0 end, 0, 'null', held_until
from lastout.jobs where type = 'over';`;

const old = {
  jobRetentionMs: 1_000,
  maxStoredJobs: Number.POSITIVE_INFINITY,
  cleanupIntervalMs: 1,
  useCompletedTime: true,
};

/** Few jobs, and in each of them everything that most jobs lack. */
const unlike = `
insert into lastout.jobs (seq, created_at, due_at, priority, max_attempts, policy, flags, id, type, queue, input, key, subject, over,
  owned_by, held_until, again_at, expires_at)
select n, n, n, 0, 3, 1, 0, n::text, 'other-' || n, 'queue-' || n, '{}', n::text, n::text, true, n::text, n, n, n
from generate_series(-3, -1) n;
insert into lastout.pending (seq, due_at, expires_at, priority, place, dear, type, queue, slot, xkey)
select n, n, n, n, 2, false, 'other', 'other', n::text, n::text from generate_series(-3, -1) n;
insert into lastout.done (seq, completed_at, created_at, epoch, keep_ms, go_at, held_until, attempts, keep_count, state, type)
select n, n, n, 1, n, n, n, 1, n, 1, n::text from generate_series(-3, -1) n;`;
const analyse = 'analyze lastout.jobs, lastout.pending, lastout.done, lastout.claims, lastout.events, lastout.tombs;';
const misjudge = (rows: number, pages: number): string => `
update pg_class set reltuples = ${rows}, relpages = ${pages} where relnamespace = 'lastout'::regnamespace and relkind in ('r', 'i');`;
const empty = 'truncate lastout.jobs, lastout.pending, lastout.done;';

const ways = [
  { ids: ['0old-5', '0old-6'] },
  { subject: 'trip:0' },
  { ownedBy: '0old-5' },
  { key: 'key-3' },
  { key: 'key-3', types: ['ready'] },
  { types: ['over'] },
  { states: ['failed'] as const },
  { states: ['processing'] as const },
  { states: ['pending'] as const, types: ['later'] },
];

describeOn('postgres', 'the cost of a call on PostgreSQL', () => {
  describe('in tables that were never analysed', () => costs({ filling: fill }));
  describe('in tables that were analysed just now', () => costs({ filling: fill + analyse }));
  describe('in tables that were analysed when they held other jobs', () =>
    costs({ filling: unlike + analyse + empty + fill }));
  describe('in tables that seem to hold hardly anything', () => costs({ filling: fill + misjudge(1, 100_000) }));
  describe('in tables that seem to hold very much', () => costs({ filling: fill + misjudge(1e9, 1) }));
  describe('in a session that made its plans when the queue was empty', () =>
    costs({ before: 'empty', filling: fill }));
  describe('in a session that made its plans with few other jobs', () =>
    costs({ before: unlike + analyse, filling: fill }));
});

/** `before`: what there is when the functions are first called, and thereby planned. */
function costs({ before, filling }: { before?: string; filling: string }): void {
  let client: pg.Client;
  let verbs: Verbs;
  let fetched: { [table: string]: number } = {};

  beforeAll(async () => {
    const undoing: (() => unknown)[] = [];
    client = await plainClientOf(await emptyPostgres((undo) => void undoing.push(undo)));
    if (before === undefined) await client.query(filling);
    const call: Call = async (fn, args) => {
      const places = args.map((_, index) => `$${index + 1}`).join(', ');
      await client.query('begin');
      const before = await rowsRead(client);
      const text = `select * from lastout.${fn}(${places})`;
      const { rows } = await client.query({ text, values: args as unknown[], rowMode: 'array', types: asTexts });
      const after = await rowsRead(client);
      fetched = Object.fromEntries(Object.entries(after).map(([table, n]) => [table, n - (before[table] ?? 0)]));
      await client.query('commit');
      return rows as unknown[][];
    };
    verbs = await postgresVerbs({ call, context: contextOf(), sender: 'test', give: () => undefined });
    if (before !== undefined) {
      if (before !== 'empty') await client.query(before);
      await callAll(verbs);
      await client.query(empty + filling);
    }
    return async () => {
      await client.end();
      for (const undo of undoing) await undo();
    };
  }, 120_000);

  const claim = (types: string[], slots: number) =>
    verbs.claim({ owner: 'w', types, queues: null, slots, ahead: 0, leaseMs: 30_000, maxStalls: 3 });

  it('an insert reads no more than what it meets', async () => {
    await verbs.insert([newJob(), newJob()], { atomic: false });
    expectRead(10);
    await verbs.insert([newJob({ type: 'ready', key: 'key-3', deduplication: 'skip' })], { atomic: false });
    expectRead(20);
    await verbs.insert([newJob({ type: 'over', deduplication: 'coalesce' })], { atomic: false });
    expectRead(20);
    await verbs.insert([newJob({ id: 'given', idGiven: true }), newJob({ exclusiveKey: 'x' })], { atomic: true });
    expectRead(30);
  });

  it('a claim reads the jobs that it takes, in one lane and in several', async () => {
    await claim(['ready'], 10);
    expectRead(80);
    await claim(['nothing', 'later'], 10);
    expectRead(20);
    await claim(['ready', 'mail', 'other'], 10);
    expectRead(150);
  });

  it('settling, extending and tending read the jobs that they are about', async () => {
    const { epoch, jobs } = await claim(['ready'], 5);
    await verbs.extend({
      owner: 'w',
      leaseMs: 30_000,
      claims: [{ epoch, ids: jobs.map(({ id }) => id), started: [] }],
      card: null,
    });
    expectRead(40);
    const endings = ['complete', 'retry', 'fail', 'snooze', 'release'] as const;
    const error = '{"message":"broken"}';
    const ending = {
      complete: { result: '1' },
      retry: { inMs: 5, error },
      fail: { error },
      snooze: { when: { inMs: 9 } },
      release: {},
    };
    const settlements = jobs.map(({ id }, n) => ({
      id,
      epoch,
      ending: { kind: endings[n]!, ...ending[endings[n]!] } as never,
    }));
    const { answers } = await verbs.settle({ owner: 'w', settlements, started: [], next: null });
    expect(answers).toEqual(['ok', 'ok', 'ok', 'ok', 'ok']);
    expectRead(150);
    await verbs.sweep({ limit: 50, cleanup: null });
    expectRead(60);
    const plain = await claim(['ready'], 20);
    expect(plain.jobs).toHaveLength(20);
    await verbs.settle({
      owner: 'w',
      settlements: plain.jobs.map(({ id }) => ({
        id,
        epoch: plain.epoch,
        ending: { kind: 'complete', result: '1' } as never,
      })),
      started: [],
      next: null,
    });
    expectRead(150, 'plain');
  });

  it('a cleanup reads the jobs that it removes', async () => {
    const { removedBy } = await verbs.sweep({ limit: 50, cleanup: old });
    expect(removedBy.age).toBe(50);
    expectRead(500);
  });

  it('what is owned and held costs what it is about', async () => {
    const owned = newJob({ type: 'lastout.temp', queue: 'lastout', when: { inMs: 60_000 }, ownedBy: '0old-500' });
    await verbs.insert([owned], { atomic: true });
    expectRead(20);
    const moves: Move[] = [
      { kind: 'confirm', memo: '1', when: null, under: null },
      { kind: 'hold', reason: 'wait', until: null },
      { kind: 'unhold' },
      { kind: 'defer', forMs: 60_000 },
      { kind: 'dismiss' },
      { kind: 'remove', force: false },
    ];
    for (const move of moves) {
      const filter = { ...noFilter, ids: [owned.id] };
      const { items } = await verbs.move({ filter, move, dryRun: false, cursor: null, limit: 1 });
      expect(items).toHaveLength(1);
      expectRead(40, move.kind);
    }
  });

  it('telling why, planning and auditing read about a page', async () => {
    for (const id of ['0old-500', '0old-501', '0old-502']) {
      expect(await verbs.readWhy(id)).not.toBeNull();
      expectRead(40);
    }
    const { age, next } = await verbs.readPlan({ cleanup: old, cursor: null, limit: 50 });
    expect(age.count).toBe(50);
    expectRead(250);
    await verbs.readPlan({ cleanup: old, cursor: next, limit: 50 });
    expectRead(250);
    // The rows were stored by hand, and nobody has counted them.
    const capped = { ...old, jobRetentionMs: 1e15, maxStoredJobs: -1_000_000 };
    expect((await verbs.readPlan({ cleanup: capped, cursor: null, limit: 50 })).cap.count).toBe(50);
    expectRead(250);
    // Nothing goes by this one, and very many are held.
    const none = { ...old, jobRetentionMs: 1e15 };
    const first = await verbs.readPlan({ cleanup: none, cursor: null, limit: 50 });
    expect(first.held.count).toBe(50);
    expectRead(250);
    expect((await verbs.readPlan({ cleanup: none, cursor: first.next, limit: 50 })).held.count).toBe(50);
    expectRead(250);
    const page = await verbs.readAudit({ cursor: null, limit: 50 });
    expect(page.kinds.job?.live).toBe(50);
    expectRead(450);
    await verbs.readAudit({ cursor: page.next, limit: 50 });
    expectRead(450);
  });

  it('a find reads about a page, where an index knows the way', async () => {
    for (const way of ways) {
      await verbs.find({ filter: { ...noFilter, ...way }, cursor: null, limit: 10 });
      expectRead(400, JSON.stringify(way));
    }
    await verbs.find({ filter: { ...noFilter, source: 'nowhere' }, cursor: null, limit: 10 });
    expectRead(25_000);
  });

  it('a move reads the jobs that it changes', async () => {
    const filter = { ...noFilter, ids: ['0old-3', '0old-4', '0old-5'] };
    await verbs.move({
      filter,
      move: { kind: 'cancel', reason: 'x', force: true },
      dryRun: false,
      cursor: null,
      limit: 10,
    });
    expectRead(60);
  });

  it('reading the log and what is due stops at its limit', async () => {
    await verbs.readEvents({ after: '1.0', limit: 5 });
    expectRead(10);
    expect(await verbs.countDue({ types: ['ready'], queues: null, limit: 100 })).toBe(100);
    expectRead(350);
  });

  function expectRead(most: number, what?: string): void {
    const sum = Object.values(fetched).reduce((total, n) => total + n, 0);
    expect(sum, `${what ?? ''} ${JSON.stringify(fetched)}`).toBeLessThanOrEqual(most);
  }
}

/** Each function at least once, with something to do where that needs little. */
async function callAll(verbs: Verbs): Promise<void> {
  const claim = (types: string[]) =>
    verbs.claim({ owner: 'w', types, queues: null, slots: 3, ahead: 0, leaseMs: 30_000, maxStalls: 3 });
  const owner = newJob({ type: 'over' });
  await verbs.insert([newJob(), newJob(), newJob({ type: 'over' }), owner], { atomic: false });
  await verbs.insert([newJob({ type: 'ready', key: 'key', deduplication: 'skip' })], { atomic: false });
  await verbs.insert([newJob({ id: 'given', idGiven: true }), newJob({ exclusiveKey: 'x' })], { atomic: true });
  await verbs.insert([newJob({ type: 'over', deduplication: 'coalesce' })], { atomic: false });
  const { epoch, jobs } = await claim(['over']);
  await claim(['nothing', 'mail']);
  const ids = jobs.map(({ id }) => id);
  await verbs.extend({ owner: 'w', leaseMs: 30_000, claims: [{ epoch, ids, started: [] }], card: null });
  const settlements = ids.map((id) => ({ id, epoch, ending: { kind: 'complete', result: '1' } as never }));
  await verbs.settle({ owner: 'w', settlements, started: [], next: null });
  await verbs.insert([newJob({ type: 'lastout.temp', queue: 'lastout', ownedBy: owner.id })], { atomic: true });
  await verbs.readWhy(owner.id);
  await verbs.readPlan({ cleanup: old, cursor: null, limit: 50 });
  await verbs.readAudit({ cursor: null, limit: 50 });
  for (const way of ways) await verbs.find({ filter: { ...noFilter, ...way }, cursor: null, limit: 10 });
  await verbs.readEvents({ after: '1.0', limit: 5 });
  await verbs.countDue({ types: ['ready'], queues: null, limit: 100 });
  await verbs.sweep({ limit: 50, cleanup: null });
  await verbs.sweep({ limit: 50, cleanup: { ...old, maxStoredJobs: 0 } });
  const moves: Move[] = [
    { kind: 'hold', reason: 'wait', until: null },
    { kind: 'unhold' },
    { kind: 'defer', forMs: 60_000 },
    { kind: 'dismiss' },
    { kind: 'cancel', reason: 'x', force: true },
    { kind: 'remove', force: false },
  ];
  for (const move of moves) await verbs.move({ filter: noFilter, move, dryRun: false, cursor: null, limit: 10 });
}

async function plainClientOf(url: string): Promise<pg.Client> {
  const { default: driver } = await import('pg');
  const client = new driver.Client({ connectionString: url });
  await client.connect();
  return client;
}

const asTexts = {
  getTypeParser: (oid: number) => ([20, 21, 23].includes(oid) ? Number : oid === 16 ? isTrue : String),
} as never;
const isTrue = (text: string): boolean => text === 't';

/** By table, the rows that this session has read and not yet told to others. */
async function rowsRead(client: pg.Client): Promise<{ [table: string]: number }> {
  const { rows } = await client.query<{ relname: string; n: number }>(
    `select relname, (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as n from pg_stat_xact_user_tables
     where schemaname = 'lastout' and relname = any($1) and seq_tup_read + coalesce(idx_tup_fetch, 0) > 0`,
    [big],
  );
  return Object.fromEntries(rows.map(({ relname, n }) => [relname, n]));
}
