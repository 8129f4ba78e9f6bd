// What a claim and a read may cost beside a crowd of other jobs, whatever the engine. Rows are counted by the store
// under test; time is for the benchmark.
import { expect, test } from 'vitest';
import type { ClaimRequest, JobFilter, NewJob, Store } from '../../src/core/store.js';
import { noFilter } from '../../src/core/store.js';
import { claim, cleanupOf, ending, newJob } from '../../src/testing/store-cases/bench.js';
import { crowd, key } from './rows.js';

export interface CountedStore {
  readonly store: Store;
  /** What was read since the last time it was asked. */
  takeCount(): Count;
  /** The job that runs and has the turn of the key: all others of that key stand behind it. */
  holder: { id: string; epoch: number };
}

export interface Count {
  /** Rows of jobs. */
  readonly rows: number;
  /** Single values found by a seek: which queue comes next, when the next job is due. */
  readonly looks: number;
}

/** At most: rows read for one claimed job, for one job shown, and looks for one call. */
const perClaimed = 3;
const perShown = 4;
const perCall = 5;

export function costRules(open: () => CountedStore): void {
  let counted: CountedStore;
  const ready = async (n: number, job: Partial<NewJob> = {}): Promise<void> => {
    counted = open();
    for (let done = 0; done < n; done += 500) {
      const jobs = Array.from({ length: Math.min(500, n - done) }, () => ({ ...newJob(), ...job }));
      await counted.store.insert(jobs, { atomic: true });
    }
    counted.takeCount();
  };
  /** Claims and completes until nothing is left; what the endings read is not the claims' affair. */
  async function drain(request: Partial<ClaimRequest>): Promise<{ jobs: number; perJob: number; looks: number }> {
    const { store, takeCount } = counted;
    const sum = { jobs: 0, rows: 0, looks: 0 };
    for (;;) {
      const { jobs, epoch } = await claim(store, request);
      const { rows, looks } = takeCount();
      sum.looks = Math.max(sum.looks, looks);
      if (jobs.length === 0) return { jobs: sum.jobs, perJob: sum.rows / sum.jobs, looks: sum.looks };
      sum.rows += rows;
      sum.jobs += jobs.length;
      const settlements = jobs.map(({ id }) => ({ id, epoch, ending: ending.complete() }));
      await store.settle({ owner: 'worker-1', settlements, started: [], next: null });
      takeCount();
    }
  }

  test.each([
    ['one by one', { slots: 1 }],
    ['ten at a time', { slots: 10 }],
    ['a hundred at a time', { slots: 100 }],
    ['many ahead', { slots: 10, ahead: 490 }],
    ['from a named queue', { slots: 10, queues: ['default'] }],
    ['from queues of which most are empty', { slots: 10, queues: ['a', 'b', 'c', 'default', 'e'] }],
  ])('claimed %s, a job costs no more than three rows read', async (_, request) => {
    await ready(1_000);
    const { jobs, perJob, looks } = await drain(request);
    expect(jobs).toBe(1_000);
    expect(perJob).toBeLessThanOrEqual(perClaimed);
    expect(looks).toBeLessThanOrEqual(perCall);
  });

  test('claimed from several lanes at once, a job costs no more than three rows read', async () => {
    await ready(250);
    await ready(250, { type: 'sms' });
    await ready(250, { type: 'sms', queue: 'fast' });
    await ready(250, { type: 'letter', queue: 'slow' });
    const { jobs, perJob } = await drain({ types: ['mail', 'sms', 'letter'], slots: 20 });
    expect(jobs).toBe(1_000);
    expect(perJob).toBeLessThanOrEqual(perClaimed);
  });

  test('R2: of a hundred thousand jobs behind one key, a claim reads the one that has its turn', async () => {
    await ready(0);
    const { store, takeCount, holder } = counted;
    for (let i = 0; i < 100; i++) {
      const settlements = [{ ...holder, ending: ending.complete() }];
      const settled = await store.settle({ owner: 'worker-1', settlements, started: [], next: null });
      expect(settled.answers).toEqual(['ok']);
      expect(takeCount().rows).toBeLessThanOrEqual(perClaimed);
      const { jobs, epoch } = await claim(store, { slots: 10 });
      const { rows, looks } = takeCount();
      expect(rows).toBeLessThanOrEqual(perClaimed);
      expect(looks).toBeLessThanOrEqual(perCall);
      expect(jobs.map(({ exclusiveKey }) => exclusiveKey)).toEqual([key]);
      Object.assign(holder, { id: jobs[0]!.id, epoch });
    }
  });

  test('a claim that finds nothing reads next to nothing', async () => {
    await ready(0);
    expect((await claim(counted.store, { types: ['sms'] })).jobs).toEqual([]);
    const { rows, looks } = counted.takeCount();
    expect(rows).toBe(0);
    expect(looks).toBeLessThanOrEqual(perCall);
  });

  test.each<[string, Partial<JobFilter>, number]>([
    ['a subject', { subject: 'trip:77' }, crowd.delayed / crowd.subjects],
    ['a state', { states: ['completed'] }, 100],
    ['a type', { types: ['mail'] }, 100],
    ['an id', { ids: ['crowd-1000'] }, 1],
    ['nothing in particular', {}, 100],
  ])('a page by %s reads little more than it shows', async (_, filter, expected) => {
    await ready(0);
    const { jobs } = await counted.store.find({ filter: { ...noFilter, ...filter }, cursor: null, limit: 100 });
    expect(jobs).toHaveLength(expected);
    expect(counted.takeCount().rows).toBeLessThanOrEqual(perShown * (expected + 1));
  });

  test('a page by something that has no index is short rather than slow, and the next one goes on', async () => {
    await ready(0);
    const filter = { ...noFilter, source: 'nobody' };
    let cursor: string | null = null;
    for (let page = 0; page < 3; page++) {
      const { jobs, next } = await counted.store.find({ filter, cursor, limit: 100 });
      expect(jobs).toEqual([]);
      expect(next).not.toBeNull();
      expect(next).not.toBe(cursor);
      expect(counted.takeCount().rows).toBeLessThanOrEqual(25_000);
      cursor = next;
    }
  });

  test('the counts of everything are read without the jobs', async () => {
    await ready(0);
    const { queues } = await counted.store.tally(cleanupOf());
    const { pending, delayed, completed } = queues.find(({ queue }) => queue === 'default')!;
    expect({ pending, delayed }).toEqual({ pending: expect.any(Number), delayed: crowd.delayed });
    expect(completed).toBeGreaterThanOrEqual(crowd.finished);
    const { rows, looks } = counted.takeCount();
    expect(rows).toBe(0);
    expect(looks).toBeLessThanOrEqual(50);
  });

  test('a sweep that finds nothing to do reads next to nothing', async () => {
    await ready(0);
    const swept = await counted.store.sweep({ limit: 500, cleanup: cleanupOf() });
    expect(swept).toMatchObject({ lapsed: 0, expired: 0, removedBy: { age: 0, count: 0, cap: 0 } });
    expect(counted.takeCount().rows).toBe(0);
  });
}
