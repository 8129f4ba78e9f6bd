// A small table looks to the planner as if it could be read in any order. What is asked for in an order comes in that order.
import { expect, it } from 'vitest';
import { describeOn } from '../engines.js';
import { emptyPostgres } from '../services.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { contextOf, newJob, plainClient } from './postgres-support.js';

describeOn('postgres', 'the order of a claim on PostgreSQL', () => {
  it.each([
    ['plain jobs', {}],
    ['jobs with a subject', { subject: 'trip:1' }],
    ['jobs with a ttl', { ttlMs: 1_000_000 }],
  ])('is that of the lane, whatever the statistics say: %s', async (_, fields) => {
    const url = await emptyPostgres();
    const first = await postgresStore({ url }).open(contextOf());
    const jobs = ['c', 'b', 'a'].map((id, n) => newJob({ id: `job-${id}-00000000`, priority: 3 - n, ...fields }));
    await first.insert(jobs, { atomic: false });
    await first.close();
    const client = await plainClient(url);
    await client.query('analyze lastout.jobs; analyze lastout.pending');
    const store = await postgresStore({ url }).open(contextOf());
    try {
      const request = { owner: 'w', types: ['mail'], queues: null, slots: 3, ahead: 0, leaseMs: 30_000, maxStalls: 3 };
      const { epoch, jobs: claimed } = await store.claim(request);
      const ids = claimed.map(({ id }) => id);
      expect(ids).toEqual(jobs.map(({ id }) => id).reverse());
      const { events } = await store.read({ log: 'events', after: '0.0', limit: 100 });
      expect(events.flatMap(({ name, id }) => (name === 'claimed' ? [id] : []))).toEqual(ids);
      const settlements = ids.map((id) => ({ id, epoch, ending: { kind: 'complete', result: '1' } as const }));
      await store.settle({ owner: 'w', settlements, started: [], next: null });
      const after = await store.read({ log: 'events', after: '0.0', limit: 100 });
      expect(after.events.flatMap(({ name, id }) => (name === 'completed' ? [id] : []))).toEqual(ids);
    } finally {
      await store.close();
    }
  });
});
