// The books are even after anything that ends: what was created was released, or lives.
import { Redis } from 'ioredis';
import { Client } from 'pg';
import { describe, expect, it } from 'vitest';
import type { AuditPage, Store } from '../src/core/store.js';
import { defineJob, open } from '../src/index.js';
import { auditOn } from '../src/lifecycle/audit.js';
import { cleanupOf } from '../src/testing/store-cases/bench.js';
import { createSystem } from '../src/system.js';
import { describeOn, emptyStore } from './engines.js';
import { byHand, completes, day, runJob, t0, things } from './lifecycle-support.js';
import { connect } from './stores/sqlite-support.js';
import { closedAfterwards, eachStore, gate } from './support.js';

describe('an audit', () => {
  eachStore((on) => {
    it('of an empty store is clean', async () => {
      const { queue } = await byHand(on);
      const { clean, kinds } = await queue.audit();
      expect(clean).toBe(true);
      for (const { created, live } of Object.values(kinds)) expect([created, live]).toEqual([0, 0]);
    });

    it('counts each kind of thing apart, from its creation to its release', async () => {
      const { queue, clock } = await byHand(on);
      await completes(queue, async ({ artifact, tempDir }) => {
        await tempDir();
        await artifact.put('a', 'x');
        await artifact.put('a', 'y');
      });
      await runJob(queue, () => {
        throw new Error('no');
      });
      await queue.enqueue('later', null, { delay: '1d' });
      await queue.schedule('nightly', 'later', null, { every: '1d' });
      expect(await queue.audit()).toEqual({
        clean: true,
        counts: [],
        kinds: {
          job: { created: 3, released: 0, live: 3, attention: [] },
          artifact: { created: 2, released: 1, live: 1, attention: [] },
          temp: { created: 1, released: 1, live: 0, attention: [] },
          schedule: { created: 1, released: 0, live: 1, attention: [] },
        },
      });
      clock.at = t0 + day + 1;
      await queue.sweep();
      await queue.remove({ type: 'later' });
      await queue.unschedule('nightly');
      clock.at += 2;
      await queue.sweep();
      const { clean, kinds } = await queue.audit();
      expect(clean).toBe(true);
      expect(await things(queue)).toEqual([]);
      for (const [kind, { created, released, live }] of Object.entries(kinds))
        expect([released, live], kind).toEqual([created, 0]);
    });

    it('is clean while jobs run, wait and stand behind one another', async () => {
      const { queue } = await byHand(on);
      const running = gate();
      const goOn = gate();
      const type = defineJob<any, any>('job', {
        async run() {
          running.open();
          await goOn.opened;
        },
      });
      await queue.work([type], { concurrency: 1 });
      for (let i = 0; i < 3; i++) await queue.enqueue(type, null, { exclusiveKey: 'k' });
      await running.opened;
      expect(await queue.audit()).toMatchObject({ clean: true, kinds: { job: { created: 3, live: 3 } } });
      goOn.open();
    });

    it('is clean while others add and end jobs all the time', async () => {
      const { queue } = await byHand(on);
      const type = defineJob<number, number>('job', { run: ({ input }) => input });
      await queue.work([type], { concurrency: 3 });
      let goesOn = true;
      const adding = (async () => {
        while (goesOn) await queue.enqueueMany([1, 2, 3].map((input) => ({ type, input })));
      })();
      for (let i = 0; i < 10; i++) expect((await queue.audit()).counts).toEqual([]);
      goesOn = false;
      await adding;
    });

    it('goes on over more rows than one page', async () => {
      const { queue } = await byHand(on, { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
      for (let i = 0; i < 3; i++)
        await queue.enqueueMany(Array.from({ length: 900 }, () => ({ type: 'job', input: null })));
      await queue.cancel({ type: 'job' });
      expect(await queue.audit()).toMatchObject({ clean: true, kinds: { job: { created: 2_700, live: 2_700 } } });
    });
  });
});

describe('an audit is not clean', () => {
  const part = { created: 2, released: 1, live: 1, attention: [] as string[] };
  const auditOf = (...pages: AuditPage['kinds'][]) => {
    const readAudit = async ({ cursor }: { cursor: string | null }): Promise<AuditPage> => {
      const at = Number(cursor ?? 0);
      return { kinds: pages[at]!, found: [], next: at + 1 < pages.length ? String(at + 1) : null };
    };
    const find = async () => ({ jobs: [], next: null });
    const tally = async () => ({ queues: [] });
    return auditOn({ readAudit, find, tally } as unknown as Store, createSystem(), cleanupOf());
  };

  it.each([
    ['where less lives than should', [{ job: { ...part, live: 0 } }]],
    ['where more lives than should', [{ job: part }, { job: { ...part, created: 0, released: 0 } }]],
    ['where something needs attention', [{ job: { ...part, live: 0, attention: ['lost'] } }]],
    ['where one kind of several is not', [{ job: part, 'lastout.artifact': { ...part, live: 0 } }]],
  ])('%s', async (_what, pages) => {
    expect((await auditOf(...pages)).clean).toBe(false);
  });

  it('and adds up all its pages', async () => {
    const later = { created: 0, released: 0, live: 3, attention: ['lost'] };
    expect(await auditOf({ job: { ...part, created: 6 } }, { job: later, 'lastout.temp': part })).toEqual({
      clean: false,
      counts: [],
      kinds: { job: { created: 6, released: 1, live: 4, attention: ['lost'] }, temp: part },
    });
  });
});

describe('counts that differ from what is there', () => {
  /** Makes the store count a pending job that it does not have, as a half-done step would. */
  const spoil: { readonly [engine in 'sqlite' | 'postgres' | 'redis']: (url: string) => Promise<unknown> } = {
    async sqlite(url) {
      const db = await connect(url.slice('sqlite:'.length).split('?')[0]!);
      db.exec(`update lastout_counts set n = n + 1 where name = 'pending'`);
      db.close();
    },
    async postgres(url) {
      const client = new Client({ connectionString: url });
      await client.connect();
      await client.query(`insert into lastout.events (step, at, queue, pending) values (0, 0, 'default', 1)`);
      await client.end();
    },
    async redis(url) {
      const client = new Redis(url);
      await client.hincrby('{lastout}:tally', 'default:pending', 1);
      client.disconnect();
    },
  };

  for (const engine of ['sqlite', 'postgres', 'redis'] as const)
    describeOn(engine, `on ${engine}`, () => {
      it('are named, and the audit is not clean', async () => {
        const { url } = await emptyStore[engine]();
        const queue = closedAfterwards(await open(url));
        await queue.enqueue('mail', 1);
        expect(await queue.audit()).toMatchObject({ clean: true, counts: [] });
        await spoil[engine](url);
        const counts = [{ queue: 'default', state: 'pending', counted: 2, found: 1 }];
        expect(await queue.audit()).toMatchObject({ clean: false, counts, kinds: { job: { created: 1, live: 1 } } });
      });
    });
});
