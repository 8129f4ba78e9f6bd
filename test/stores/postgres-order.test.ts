// A small table looks to the planner as if it could be read in any order. What is asked for in an order comes in that order.
import { expect, it } from 'vitest';
import { describeOn } from '../engines.js';
import { emptyPostgres } from '../services.js';
import { noFilter } from '../../src/core/store.js';
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
      const { events } = await store.readEvents({ after: '0.0', limit: 100 });
      expect(events.flatMap(({ name, id }) => (name === 'claimed' ? [id] : []))).toEqual(ids);
      const settlements = ids.map((id) => ({ id, epoch, ending: { kind: 'complete', result: '1' } as const }));
      await store.settle({ owner: 'w', settlements, started: [], next: null });
      const after = await store.readEvents({ after: '0.0', limit: 100 });
      expect(after.events.flatMap(({ name, id }) => (name === 'completed' ? [id] : []))).toEqual(ids);
    } finally {
      await store.close();
    }
  });

  it('is that of its own type and its own queues, where names share a hash or the order of their hashes is another', async () => {
    const url = await emptyPostgres();
    const client = await plainClient(url);
    const { rows } = await client.query(
      `select array_agg('mail' || n) as types from generate_series(1, 300000) n group by hashtext('mail' || n) having count(*) > 1 limit 1`,
    );
    const [other, own] = (rows[0] as { types: string[] }).types as [string, string];
    const store = await postgresStore({ url }).open(contextOf());
    try {
      const queues = ['a', 'b', 'c', 'd', 'default'];
      const jobs = [...queues, ...queues].flatMap((queue, n) => [
        newJob({ id: `job-other-0000${n}`, type: other, queue, idGiven: false }),
        newJob({ id: `job-own-000000${n}`, type: own, queue, idGiven: false }),
      ]);
      await store.insert(jobs, { atomic: false });
      const ids = jobs.filter(({ type }) => type === own).map(({ id }) => id);
      const found = await store.find({ filter: { ...noFilter, types: [own] }, cursor: null, limit: 100 });
      expect(found.jobs.map(({ id }) => id)).toEqual([...ids].reverse());
      const asked = { owner: 'w', slots: 100, ahead: 0, leaseMs: 30_000, maxStalls: 3 };
      expect(await store.countDue({ types: [own], queues: null, limit: 100 })).toBe(ids.length);
      const first = await store.claim({ ...asked, types: [own], queues: null, slots: 3 });
      const rest = await store.claim({ ...asked, types: [own], queues: null });
      expect([...first.jobs, ...rest.jobs].map(({ id }) => id)).toEqual(ids);
      const others = await store.claim({ ...asked, types: [other], queues: ['default'] });
      expect(others.jobs.map(({ id }) => id)).toEqual(['job-other-00004', 'job-other-00009']);
    } finally {
      await store.close();
    }
  });
});
