// What the layout of Redis promises beyond the contract: bounded steps, lazy removal from lists, and nothing left behind.
import type { Redis } from 'ioredis';
import { beforeEach, expect, it } from 'vitest';
import {
  type ClaimRequest,
  type JobFilter,
  type Move,
  type NewJob,
  noFilter,
  type Store,
} from '../../src/core/store.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { createSystem } from '../../src/system.js';
import { describeOn } from '../engines.js';
import { emptyRedis, privateRedis } from '../services.js';
import { allJobs, auditKeys, leftovers, listedIn } from './redis-audit.js';
import { newJob, openStore, plainClient } from './redis-support.js';

const root = '{lastout}:';
const retention = {
  maxStoredJobs: Number.POSITIVE_INFINITY,
  jobRetentionMs: 1_000,
  cleanupIntervalMs: 1_000,
  useCompletedTime: true,
};

describeOn('redis', 'the layout of Redis', () => {
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

  const jobsOf = (n: number, fields: Partial<NewJob> = {}): NewJob[] => Array.from({ length: n }, () => newJob(fields));
  async function insert(n: number, fields: Partial<NewJob> = {}): Promise<string[]> {
    const ids: string[] = [];
    for (let left = n; left > 0; left -= 1_000) {
      const jobs = jobsOf(Math.min(left, 1_000), fields);
      await store.insert(jobs, { atomic: false });
      ids.push(...jobs.map(({ id }) => id));
    }
    return ids;
  }
  const claim = (request: Partial<ClaimRequest> = {}) =>
    store.claim({
      owner: 'w',
      types: ['mail'],
      queues: null,
      slots: 100,
      ahead: 0,
      leaseMs: 30_000,
      maxStalls: 3,
      ...request,
    });
  async function complete(n: number): Promise<void> {
    for (let left = n; left > 0; ) {
      const { jobs, epoch } = await claim({ slots: Math.min(left, 500) });
      const settlements = jobs.map(({ id }) => ({ id, epoch, ending: { kind: 'complete', result: '1' } as const }));
      await store.settle({ owner: 'w', settlements, started: [], next: null });
      left -= jobs.length;
    }
  }
  const move = (ids: readonly string[], how: Move) =>
    store.move({ filter: { ...noFilter, ids }, move: how, dryRun: false, cursor: null, limit: 1_000 });
  async function sweepAll(cleanup: typeof retention | null): Promise<number> {
    for (let calls = 1; ; calls++) if (!(await store.sweep({ limit: 500, cleanup })).more) return calls;
  }

  it('cancelled jobs stay in their list as stale entries, and a claim passes over them', async () => {
    const ids = await insert(300);
    const cancelled = ids.filter((_, i) => i % 3 !== 0);
    await move(cancelled, { kind: 'cancel', reason: 'no', force: false });
    expect(await client.llen(`${root}l:mail:default`)).toBe(300);
    expect(await client.hget(`${root}stale`, 'mail:default')).toBe('200');
    const { jobs, more } = await claim({ slots: 60 });
    expect(jobs.map(({ id }) => id)).toEqual(ids.filter((_, i) => i % 3 === 0).slice(0, 60));
    expect(more).toBe(true);
    expect((await claim()).jobs).toHaveLength(40);
    await auditKeys(client, store);
    expect(await client.exists(`${root}l:mail:default`, `${root}stale`)).toBe(0);
  });

  it('a lane of which most is stale is swept, and keeps its order', async () => {
    const ids = await insert(1_500);
    await move(ids.slice(0, 500), { kind: 'cancel', reason: 'no', force: false });
    await move(ids.slice(500, 1_000), { kind: 'remove', force: false });
    await store.insert(jobsOf(1, { id: 'first', priority: -1 }), { atomic: false });
    expect(await sweepAll(null)).toBeGreaterThan(1);
    await auditKeys(client, store);
    expect(Number(await client.hget(`${root}stale`, 'mail:default'))).toBe(500); // of a thousand: half of them may stay
    const { jobs } = await claim({ slots: 600 });
    expect(jobs.map(({ id }) => id)).toEqual(['first', ...ids.slice(1_000)]);
  });

  it('a chunk lists what came together as one entry, and what has gone is not listed for long', async () => {
    const listed = async () => listedIn(await client.lrange(`${root}i:mail:00000000`, 0, -1));
    const ids = [await insert(1), await insert(299), await insert(1), await insert(99)].flat();
    expect(await client.llen(`${root}i:mail:00000000`)).toBe(4);
    await move(ids.slice(0, 10), { kind: 'remove', force: false });
    expect([...(await listed()).values()]).toEqual(ids.slice(10)); // from the head at once
    await move(ids.slice(299, 301), { kind: 'remove', force: false });
    await move(ids.slice(20, 290), { kind: 'remove', force: false });
    expect(await listed()).toHaveProperty('size', 390); // from the middle not before little is left
    await auditKeys(client, store);
    await move(ids.slice(301, 330), { kind: 'remove', force: false });
    const left = [...ids.slice(10, 20), ...ids.slice(290, 299), ...ids.slice(330)];
    expect([...(await listed()).values()]).toEqual(left);
    expect(await client.llen(`${root}i:mail:00000000`)).toBe(3); // each without a gap
    expect((await allJobs(store)).map(({ id }) => id)).toEqual(left.toReversed());
    await auditKeys(client, store);
  });

  it('a job of another type that has the id of a removed one is not met in its place', async () => {
    await insert(1);
    await store.insert(jobsOf(1, { id: 'again', idGiven: true }), { atomic: false });
    await move(['again'], { kind: 'remove', force: false });
    await client.del(`${root}tomb`, `${root}tombs`); // as after ten thousand other removals
    await store.insert(jobsOf(1, { id: 'again', idGiven: true, type: 'other' }), { atomic: false });
    const [first] = await allJobs(store).then((jobs) => jobs.filter(({ type }) => type === 'mail'));
    const [skipped] = await store.insert(jobsOf(1, { deduplication: 'skip' }), { atomic: false });
    expect(skipped).toMatchObject({ outcome: 'skipped', id: first!.id });
    const [replaced] = await store.insert(jobsOf(1, { deduplication: 'replace' }), { atomic: false });
    expect(replaced).toMatchObject({ outcome: 'replaced', replaced: first!.id });
    expect((await allJobs(store)).find(({ id }) => id === 'again')).toMatchObject({ state: 'pending', type: 'other' });
  });

  it('a list of which all is stale goes at once', async () => {
    await move(await insert(20), { kind: 'remove', force: false });
    expect(await leftovers(client)).toEqual([]);
  });

  it('a job whose id was removed and comes again is claimed once', async () => {
    await store.insert(jobsOf(1, { id: 'again' }), { atomic: false });
    await insert(3);
    await move(['again'], { kind: 'remove', force: false });
    await client.del(`${root}tomb`, `${root}tombs`); // as after ten thousand other removals
    await store.insert(jobsOf(1, { id: 'again' }), { atomic: false });
    const taken = [...(await claim({ slots: 2 })).jobs, ...(await claim()).jobs].map(({ id }) => id);
    expect(taken.toSorted()).toEqual([...new Set(taken)].toSorted());
    expect(taken).toHaveLength(4);
    expect((await allJobs(store)).map(({ id }) => id).filter((id) => id === 'again')).toHaveLength(1);
  });

  it('a claim of many jobs that lapses comes back part by part', async () => {
    const ids = await insert(1_200);
    await claim({ slots: 1_200 });
    now += 30_000;
    const first = await store.sweep({ limit: 500, cleanup: null });
    expect([first.lapsed, first.more]).toEqual([0, true]);
    const [held] = await client.hvals(`${root}co`);
    expect(Number(held)).toBe(700);
    expect(await sweepAll(null)).toBeGreaterThan(1);
    await auditKeys(client, store);
    expect((await claim({ slots: 1_200 })).jobs.map(({ id }) => id)).toEqual(ids);
  });

  it('what a lapsing claim still holds may be settled', async () => {
    const ids = await insert(700);
    const { epoch } = await claim({ slots: 700 });
    now += 30_000;
    await store.sweep({ limit: 500, cleanup: null });
    const settlements = [ids[0]!, ids[699]!].map((id) => ({
      id,
      epoch,
      ending: { kind: 'complete', result: '1' } as const,
    }));
    const { answers } = await store.settle({ owner: 'w', settlements, started: [], next: null });
    expect(answers).toEqual(['STALE_CLAIM', 'ok']);
    await auditKeys(client, store);
  });

  it('a claim is settled in whatever parts and order, across chunks and lanes', async () => {
    const jobs = Array.from({ length: 1_300 }, (_, i) => newJob({ queue: i < 1_200 ? 'q' : `q${i % 30}` }));
    await store.insert(jobs, { atomic: false });
    const settle = async (epoch: number, ids: readonly string[]) => {
      const settlements = ids.map((id) => ({ id, epoch, ending: { kind: 'complete', result: `"${id}"` } as const }));
      const { answers } = await store.settle({ owner: 'w', settlements, started: [], next: null });
      expect(answers).toEqual(ids.map(() => 'ok'));
      await auditKeys(client, store);
    };
    for (let left = jobs.length; left > 0; left -= 650) {
      const taken = await claim({ slots: 400, ahead: 250 });
      const ids = taken.jobs.map(({ id }) => id);
      expect(ids).toHaveLength(650);
      await settle(taken.epoch, ids.slice(100, 200));
      await settle(taken.epoch, ids.slice(150, 420)); // some of them for the second time
      await settle(taken.epoch, [...ids.slice(0, 50), ...ids.slice(420)].toReversed());
      expect(await client.hlen(`${root}c`)).toBe(1);
      await settle(taken.epoch, ids.slice(50, 100));
      expect(await client.hlen(`${root}c`)).toBe(0);
    }
    const stored = await allJobs(store);
    expect(stored.every(({ id, state, result }) => state === 'completed' && result === `"${id}"`)).toBe(true);
  });

  it('a replace that meets thousands ends them all and names the newest', async () => {
    const ids = await insert(2_500, { key: 'k' });
    const [answer] = await store.insert(jobsOf(1, { id: 'new', deduplication: 'replace' }), { atomic: true });
    expect(answer).toEqual({ id: 'new', outcome: 'replaced', replaced: ids.at(-1) });
    const { queues } = await store.tally(retention);
    expect(queues).toMatchObject([{ pending: 1, failed: 2_500 }]);
    await auditKeys(client, store);
  });

  it('retention takes finished jobs with everything that was kept of them', async () => {
    await insert(2_000);
    await complete(2_000);
    await insert(1, {
      subject: 'trip:1',
      key: 'k',
      ttlMs: 60_000,
      policy: '{"timeoutMs":null,"keep":{"completed":{"count":9}}}',
    });
    await complete(1);
    now += 1_001;
    expect(await sweepAll(retention)).toBeGreaterThan(3);
    expect(await leftovers(client)).toEqual([]);
    expect(await client.hlen(`${root}tomb`)).toBe(2_001);
  });

  it('one job that stays keeps no list of those that went', async () => {
    await store.insert(jobsOf(1, { id: 'stays', when: { inMs: 999_999_999 } }), { atomic: false });
    await insert(1_000);
    await complete(500);
    for (let i = 0; i < 500; i++) await complete(1);
    now += 1_001;
    await sweepAll(retention);
    for (const kept of ['i', 'r']) {
      const entries = await Promise.all((await client.keys(`${root}${kept}:*`)).map((key) => client.llen(key)));
      expect(entries.reduce((sum, n) => sum + n, 0)).toBeLessThan(64 + 4);
    }
    expect((await allJobs(store)).map(({ id }) => id)).toEqual(['stays']);
  });

  it('no more than ten thousand tombstones are kept', async () => {
    await insert(10_500);
    await complete(10_500);
    now += 1_001;
    await sweepAll(retention);
    expect(await client.hlen(`${root}tomb`)).toBe(10_000);
    expect(await client.llen(`${root}tombs`)).toBe(10_000);
  });

  it('the event log is bounded by its events, and by their age', async () => {
    const { cursor } = await store.readEvents({ after: null, limit: 1 });
    await insert(120_000);
    const held = Number(await client.hget(`${root}n`, 'eventsHeld'));
    expect(held).toBeGreaterThan(90_000);
    expect(held).toBeLessThanOrEqual(110_000);
    expect((await store.readEvents({ after: cursor, limit: 10 })).reset).toBe(true);
    now += 600_001;
    await store.sweep({ limit: 500, cleanup: null });
    expect(await client.llen(`${root}ev`)).toBe(1);
    const page = await store.readEvents({ after: null, limit: 10 });
    await insert(1);
    expect((await store.readEvents({ after: page.cursor, limit: 10 })).events).toHaveLength(1);
  });

  it('a small hash that is asked much is a table', async () => {
    await insert(5, { input: '1' });
    await insert(2, { input: '1', priority: -1 });
    await claim({ slots: 2 });
    for (const key of ['job', 'fate']) expect(await client.object('ENCODING', root + key)).toBe('hashtable');
  });

  it.each<[string, Partial<JobFilter>, number]>([
    ['what failed', { states: ['failed'] }, 3],
    ['what runs', { states: ['processing'] }, 7],
    ['what runs or failed', { states: ['failed', 'processing'] }, 10],
    ['a type', { types: ['rare'] }, 5],
    ['a subject', { subject: 'trip:7' }, 2],
    ['a key', { key: 'k' }, 2],
  ])('%s is found among ten thousand others in one page', async (_, filter, expected) => {
    await insert(5, { type: 'rare' });
    await insert(2, { type: 'other', subject: 'trip:7', key: 'k' });
    const ids = await insert(10);
    const { epoch } = await claim({ slots: 10 });
    const settlements = ids
      .slice(0, 3)
      .map((id) => ({ id, epoch, ending: { kind: 'fail', error: '{"message":"m"}' } as const }));
    await store.settle({ owner: 'w', settlements, started: [], next: null });
    await insert(10_000);
    const page = await store.find({ filter: { ...noFilter, ...filter }, cursor: null, limit: 100 });
    expect([page.jobs.length, page.next]).toEqual([expected, null]);
  });

  it('finished jobs are found behind thousands that wait, in one page', async () => {
    await insert(50);
    await complete(50);
    await insert(8_000);
    const page = await store.find({ filter: { ...noFilter, states: ['completed'] }, cursor: null, limit: 100 });
    expect(page.jobs).toHaveLength(50);
  });

  it('epochs and events begin anew above the old ones after the data were lost', async () => {
    await insert(2);
    const before = await claim({ slots: 1 });
    const { cursor } = await store.readEvents({ after: null, limit: 1 });
    await client.flushdb();
    const settlements = before.jobs.map(({ id }) => ({
      id,
      epoch: before.epoch,
      ending: { kind: 'release' } as const,
    }));
    expect((await store.settle({ owner: 'w', settlements, started: [], next: null })).answers).toEqual(['STALE_CLAIM']);
    now += 1;
    await insert(1);
    expect((await claim()).epoch).toBeGreaterThan(before.epoch);
    expect((await store.readEvents({ after: cursor, limit: 10 })).reset).toBe(true);
  });

  it('a claim over a thousand queues takes the first of all, with two looks at each queue', async () => {
    const { url } = await privateRedis();
    const asking = plainClient(url);
    store = await openStore({ url });
    const jobs = Array.from({ length: 2_000 }, (_, i) =>
      newJob({ queue: `q${(i * 7) % 1_000}`, priority: i % 50 === 0 ? -1 : 0 }),
    );
    await store.insert(jobs, { atomic: true });
    const inOrder = [...jobs.filter(({ priority }) => priority < 0), ...jobs.filter(({ priority }) => priority === 0)];
    await asking.config('RESETSTAT');
    const first = await claim({ slots: 50 });
    const calls = [...(await asking.info('commandstats')).matchAll(/calls=(\d+)/g)].map(([, n]) => Number(n));
    expect(calls.reduce((a, b) => a + b)).toBeLessThan(2 * 1_000 + 20 * 50);
    const taken = first.jobs.map(({ id }) => id);
    for (let i = 0; i < 19; i++) taken.push(...(await claim({ slots: 50 })).jobs.map(({ id }) => id));
    expect(taken).toEqual(inOrder.slice(0, 1_000).map(({ id }) => id));
  });
});
