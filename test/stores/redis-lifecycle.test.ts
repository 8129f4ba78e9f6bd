// Holds, owned jobs, plans and audits as Redis keeps them: what is plain stays plain, and what is beside the rows is true.
import type { Redis } from 'ioredis';
import { beforeEach, expect, it } from 'vitest';
import type { CleanupPolicy } from '../../src/core/policy.js';
import { type Move, type NewJob, noFilter, type PlanPage, type Store } from '../../src/core/store.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { createSystem } from '../../src/system.js';
import { describeOn } from '../engines.js';
import { emptyRedis } from '../services.js';
import { allJobs, auditKeys, leftovers } from './redis-audit.js';
import { newJob, plainClient } from './redis-support.js';

const root = '{lastout}:';
const retention: CleanupPolicy = {
  maxStoredJobs: Number.POSITIVE_INFINITY,
  jobRetentionMs: 1_000,
  cleanupIntervalMs: 1_000,
  useCompletedTime: true,
};
const keeping = (keep: object): string => JSON.stringify({ backoff: null, timeoutMs: null, keep });

describeOn('redis', 'the lifecycle in Redis', () => {
  let store: Store;
  let client: Redis;
  let now: number;

  beforeEach(async ({ onTestFinished }) => {
    const url = await emptyRedis(onTestFinished);
    now = 1_900_000_000_000;
    const system = createSystem({ now: () => new Date(now) });
    store = await redisStore({ url }).open({ system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY });
    onTestFinished(() => store.close());
    client = plainClient(url);
  });

  async function insert(n: number, fields: Partial<NewJob> = {}): Promise<string[]> {
    const jobs = Array.from({ length: n }, () => newJob(fields));
    const answers = await store.insert(jobs, { atomic: false });
    expect(answers.map(({ outcome }) => outcome)).toEqual(jobs.map(() => 'created'));
    return jobs.map(({ id }) => id);
  }
  const claim = (slots = 1_000) =>
    store.claim({ owner: 'w', types: ['mail'], queues: null, slots, ahead: 0, leaseMs: 30_000, maxStalls: 3 });
  async function complete(n: number): Promise<string[]> {
    const { jobs, epoch } = await claim(n);
    const settlements = jobs.map(({ id }) => ({ id, epoch, ending: { kind: 'complete', result: '"ä😀"' } as const }));
    await store.settle({ owner: 'w', settlements, started: [], next: null });
    return jobs.map(({ id }) => id);
  }
  const thing = (ownedBy: string): Partial<NewJob> => ({ type: 'lastout.artifact', queue: 'lastout', ownedBy });
  const move = async (ids: readonly string[], how: Move): Promise<string[]> =>
    (
      await store.move({ filter: { ...noFilter, ids }, move: how, dryRun: false, cursor: null, limit: 1_000 })
    ).items.map(({ outcome }) => outcome);
  const hold = (ids: readonly string[], until: number | null = null) =>
    move(ids, { kind: 'hold', reason: 'evidence', until });
  const sweep = (cleanup: CleanupPolicy | null = retention, limit = 500) => store.sweep({ limit, cleanup });

  it('a plain job that waits keeps its place among the others when it is held', async () => {
    const ids = await insert(5);
    await hold([ids[2]!, ids[4]!]);
    await auditKeys(client, store);
    expect((await claim()).jobs.map(({ id }) => id)).toEqual(ids);
    await auditKeys(client, store);
  });

  it('a plain job that is held while it runs ends on the shelf, and goes when its hold is over', async () => {
    const [first, second] = await insert(2);
    const { epoch } = await claim();
    await hold([first!], now + 5_000);
    const settlements = [first!, second!].map((id) => ({
      id,
      epoch,
      ending: { kind: 'complete', result: '1' } as const,
    }));
    await store.settle({ owner: 'w', settlements, started: [], next: null });
    now += 2_000;
    expect((await sweep()).removedBy.age).toBe(1);
    await auditKeys(client, store);
    now += 3_000;
    expect((await sweep()).removedBy.age).toBe(1);
    expect(await leftovers(client)).toEqual([]);
  });

  it('a plain job that completed leaves its record when it is held, and keeps what it returned', async () => {
    const ids = await insert(4);
    await complete(4);
    await hold([ids[0]!, ids[3]!]);
    await auditKeys(client, store);
    now += 2_000;
    expect((await sweep()).removedBy.age).toBe(2);
    expect(await client.llen(`${root}fin`)).toBe(0);
    expect((await allJobs(store)).map(({ id, result }) => [id, result])).toEqual([
      [ids[3], '"ä😀"'],
      [ids[0], '"ä😀"'],
    ]);
    expect(await move(ids, { kind: 'remove', force: true })).toEqual(['held', 'held']);
    expect(await move(ids, { kind: 'unhold' })).toEqual(['released', 'released']);
    await auditKeys(client, store);
    expect((await sweep()).removedBy.age).toBe(2);
    expect(await leftovers(client)).toEqual([]);
  });

  it('jobs are ranked while the one that has a rule of count is held', async () => {
    const [ruled] = await insert(1, { policy: keeping({ completed: { count: 1 } }) });
    await complete(1);
    await hold([ruled!]);
    now += 10;
    await insert(300);
    for (let i = 0; i < 150; i++) await complete(2);
    await move([ruled!], { kind: 'unhold' });
    const lax = { ...retention, jobRetentionMs: 1_000_000 };
    expect((await sweep(lax)).removedBy).toEqual({ age: 0, count: 1, cap: 0 });
    await auditKeys(client, store);
    now += 2_000;
    expect((await sweep()).removedBy.age).toBe(300);
    expect(await leftovers(client)).toEqual([]);
  });

  it('a plain job that completed by the short way stays as long as it owns something', async () => {
    const ids = await insert(3);
    const { epoch } = await claim();
    const under = { id: ids[1]!, epoch, owner: 'w' };
    const [first] = await insert(1, { ...thing(ids[1]!), under, when: { inMs: 500 } });
    const settlements = ids.map((id) => ({ id, epoch, ending: { kind: 'complete', result: '1' } as const }));
    await store.settle({ owner: 'w', settlements, started: [], next: null });
    expect(await client.llen(`${root}fin`)).toBe(1);
    await auditKeys(client, store);
    now += 2_000;
    const swept = await sweep();
    expect([swept.removedBy.age, swept.owing, swept.dueThings]).toEqual([2, [ids[1]], [first]]);
    expect(await move([ids[1]!], { kind: 'remove', force: true })).toEqual(['owing']);
    expect(await move([first!], { kind: 'remove', force: false })).toEqual(['removed']);
    expect((await sweep()).removedBy.age).toBe(1);
    expect(await leftovers(client)).toEqual([]);
  });

  it('what is owned is found by its owner among ten thousand others in one page', async () => {
    const [owner] = await insert(1, { priority: 1 });
    const owned = await insert(3, { ...thing(owner!), when: { inMs: 1_000 } });
    for (let i = 0; i < 10; i++) await insert(1_000);
    const page = await store.find({ filter: { ...noFilter, ownedBy: owner! }, cursor: null, limit: 10 });
    expect([page.jobs.map(({ id }) => id), page.next]).toEqual([owned.toReversed(), null]);
  });

  const rules: readonly (readonly [string, Partial<CleanupPolicy>])[] = [
    ['ages by completedAt', {}],
    ['ages by createdAt', { useCompletedTime: false }],
    ['a cap beside ages', { maxStoredJobs: 150 }],
    ['a cap beside ages by createdAt', { maxStoredJobs: 150, useCompletedTime: false }],
    ['a cap alone', { maxStoredJobs: 100, jobRetentionMs: 1_000_000 }],
  ];

  it.each(rules)('a plan by %s counts what sweeps remove, whatever the limits', async (_, rule) => {
    const cleanup = { ...retention, ...rule };
    const policies = [
      {},
      {},
      { completed: { count: 20 } },
      { completed: { ageMs: 400 } },
      { completed: { ageMs: null } },
    ];
    for (let round = 0; round < 12; round++) {
      for (const [index, keep] of policies.entries())
        await insert(5, { policy: keeping(keep), input: JSON.stringify('ö'.repeat(index)) });
      await insert(3, { subject: 'trip:1' });
      now += 50;
      const ids = await complete(25);
      if (round % 3 === 0) await hold(ids.slice(0, 2));
      now += 100;
    }
    const plans = [];
    for (const limit of [1, 7, 100, 2_000]) plans.push(await planOf(store, cleanup, limit));
    expect(new Set(plans.map((plan) => JSON.stringify(plan))).size).toBe(1);
    const removed = { age: 0, count: 0, cap: 0 };
    for (let more = true; more; ) {
      const swept = await sweep(cleanup, 13);
      for (const part of ['age', 'count', 'cap'] as const) removed[part] += swept.removedBy[part];
      more = swept.more;
    }
    const [plan] = plans;
    expect({ age: plan!.age[0], count: plan!.count[0], cap: plan!.cap[0] }).toEqual(removed);
    expect(plan!.held[0]).toBe(8);
    expect(removed.age + removed.cap).toBeGreaterThan(20);
    await auditKeys(client, store);
  });

  it('a plan and an audit of long texts go on page by page', async () => {
    const input = JSON.stringify('x'.repeat(200_000));
    for (let i = 0; i < 9; i++) {
      await insert(5, { input });
      await complete(5);
      now += 1;
    }
    now += 2_000;
    const { age } = await planOf(store, retention, 2_000);
    expect(age).toEqual([45, 45 * (input.length + 5)]);
    let [rows, pages] = [0, 0];
    for (let cursor: string | null = null, more = true; more; pages++) {
      const page: Awaited<ReturnType<typeof audit>> = await audit(cursor);
      rows += page.kinds['job']!.live;
      cursor = page.next;
      more = cursor !== null;
    }
    expect(rows).toBe(45);
    expect(pages).toBeGreaterThan(1);
  });

  const audit = (cursor: string | null = null) => store.readAudit({ cursor, limit: 2_000 });

  it('an audit names the jobs that no verb would find', async () => {
    const [owner] = await insert(1, { type: 'sms', priority: 1 });
    const [owned] = await insert(1, { ...thing(owner!), when: { inMs: 1_000 } });
    const [sorted] = await insert(1, { type: 'sms', priority: 2 });
    const [later] = await insert(1, { type: 'sms', when: { inMs: 1_000 } });
    const [held] = await insert(1);
    const { epoch } = await claim();
    const [listed] = await insert(1);
    expect((await audit()).kinds['job']).toEqual({ created: 5, released: 0, live: 5, attention: [] });
    await client.del(`${root}l:mail:default`);
    await client.zpopmax(`${root}z:sms:default`);
    await client.zrem(
      `${root}later`,
      (await client.zrange(`${root}later`, '0', '-1')).find((m) => m.endsWith(later!))!,
    );
    await client.hdel(`${root}c`, String(epoch));
    await client.hdel(`${root}job`, owner!);
    const { kinds } = await audit();
    expect(kinds['job']!.attention.toSorted()).toEqual([sorted, later, held, listed].toSorted());
    expect(kinds['lastout.artifact']).toEqual({ created: 1, released: 0, live: 0, attention: [owned] });
  });

  it('cards of workers that are silent go with the next cleanup', async () => {
    const card = { name: 'one', types: ['mail'], queues: null, concurrency: 1 };
    const leaseMs = 30_000;
    for (const owner of ['a', 'b', 'c']) await store.extend({ owner, leaseMs, claims: [], card });
    await store.extend({ owner: 'b', leaseMs, claims: [], card: null });
    expect(await client.hkeys(`${root}card`)).toEqual(['a', 'c']);
    now += 30_000;
    await store.extend({ owner: 'c', leaseMs, claims: [], card });
    await sweep();
    expect(await client.hkeys(`${root}card`)).toEqual(['c']);
    expect(await client.zrange(`${root}cardd`, '0', '-1')).toEqual(['c']);
  });

  it('the ledger keeps the newest thousand entries, and its pages go on where they stopped', async () => {
    const term = { holder: 'h', ttlMs: 1_000 };
    for (let i = 0; i < 1_010; i++) {
      await store.sweepInTerm(term, { limit: 1, cleanup: retention });
      await store.endTerm('h', String(i));
    }
    const first = await store.readLedger({ cursor: null, limit: 400 });
    await store.sweepInTerm(term, { limit: 1, cleanup: retention });
    await store.endTerm('h', '1010');
    const second = await store.readLedger({ cursor: first.next, limit: 1_000 });
    const entries = [...first.entries, ...second.entries].map(Number);
    expect(entries).toEqual(Array.from({ length: 999 }, (_, i) => 1_009 - i));
    expect(second.next).toBeNull();
  });
});

/** Counts and lengths of all pages. */
async function planOf(store: Store, cleanup: CleanupPolicy, limit: number) {
  const sums = { age: [0, 0], count: [0, 0], cap: [0, 0], held: [0, 0] };
  let cursor: string | null = null;
  do {
    const page: PlanPage = await store.readPlan({ cleanup, cursor, limit });
    for (const part of ['age', 'count', 'cap', 'held'] as const) {
      sums[part][0]! += page[part].count;
      sums[part][1]! += page[part].bytes;
    }
    cursor = page.next;
  } while (cursor !== null);
  return sums;
}
