// What Redis keeps: the declared durability is the real one, warnings say what to fear, and a full server does nothing by halves.
import { expect, it } from 'vitest';
import { noFilter, type Store } from '../../src/core/store.js';
import { type LastoutError, open } from '../../src/index.js';
import { describeOn } from '../engines.js';
import { privateRedis, type RedisServer } from '../services.js';
import { closedAfterwards } from '../support.js';
import { codeOf, newJob, openStore, plainClient } from './redis-support.js';

const codesOf = async (store: Store): Promise<string[]> => (await store.check()).map(({ code }) => code);

/** The same server for a user with fewer rights. */
async function asUser(server: RedisServer, ...rights: string[]): Promise<string> {
  await plainClient(server.url).call('acl', ['setuser', 'guest', 'reset', 'on', '>guest-secret', ...rights]);
  const url = new URL(server.url);
  url.username = 'guest';
  url.password = 'guest-secret';
  return url.href;
}

describeOn('redis', 'durability of the Redis store', () => {
  it.each([
    ['always', {}, 'fsync', []],
    ['everysec', {}, 'everysec', []],
    ['no', {}, 'os', []],
    ['always', { 'no-appendfsync-on-rewrite': 'yes' }, 'os', ['SYNC_PAUSES']],
    [null, { save: '3600 1' }, 'process', ['SNAPSHOTS_ONLY']],
    [null, {}, 'process', ['NO_PERSISTENCE']],
  ] as const)('with appendfsync %s and %j is %s, warning of %j', async (appendfsync, settings, durability, codes) => {
    const server = await privateRedis({ appendfsync, settings });
    const store = await openStore({ url: server.url });
    expect(store.durability).toBe(durability);
    expect(await codesOf(store)).toEqual(codes);
  });

  it('is shown by health as it is now, not as it was when the queue was opened', async () => {
    const server = await privateRedis({ appendfsync: 'always' });
    const queue = closedAfterwards(await open(server.url));
    expect(await queue.health()).toMatchObject({ ok: true, store: 'redis', durability: 'fsync', warnings: [] });
    await plainClient(server.url).config('SET', 'appendfsync', 'everysec');
    expect((await queue.health()).durability).toBe('everysec');
    await plainClient(server.url).config('SET', 'appendonly', 'no');
    expect((await queue.health()).durability).toBe('process');
  });

  it('is the least that is known where CONFIG is forbidden, and that is said', async () => {
    const server = await privateRedis({ appendfsync: 'always' });
    const store = await openStore({ url: await asUser(server, '~*', '&*', '+@all', '-config') });
    expect(store.durability).toBe('os');
    expect(await codesOf(store)).toEqual(['DURABILITY_UNKNOWN']);
  });

  it('is none where INFO is forbidden too, and that is said', async () => {
    const server = await privateRedis({ appendfsync: 'always' });
    const store = await openStore({ url: await asUser(server, '~*', '&*', '+@all', '-config', '-info') });
    expect(store.durability).toBe('process');
    expect(await codesOf(store)).toEqual(['DURABILITY_UNKNOWN']);
  });

  it('a killed server has everything that it acknowledged with appendfsync always', async () => {
    const server = await privateRedis({ appendfsync: 'always' });
    const store = await openStore({ url: server.url });
    const acknowledged: string[] = [];
    const killing: Promise<void>[] = [];
    const producers = Array.from({ length: 8 }, async () => {
      for (;;) {
        const job = newJob();
        try {
          await store.insert([job], { atomic: false });
        } catch (error) {
          expect(['RESULT_UNKNOWN', 'STORE_UNAVAILABLE']).toContain((error as LastoutError).code);
          return;
        }
        acknowledged.push(job.id);
        if (acknowledged.length === 400) killing.push(server.kill());
      }
    });
    await Promise.all(producers);
    await Promise.all(killing);
    await server.start();
    expect(acknowledged.length).toBeGreaterThanOrEqual(400);
    const { jobs } = await store.find({ filter: { ...noFilter, ids: acknowledged }, cursor: null, limit: 1_000 });
    expect(jobs.map(({ id }) => id).sort()).toEqual([...acknowledged].sort());
    expect(await codesOf(store)).toEqual([]);
  });
});

describeOn('redis', 'health of the Redis store', () => {
  it.each(['allkeys-lru', 'volatile-ttl'])('warns of maxmemory-policy %s', async (policy) => {
    const server = await privateRedis({ appendfsync: 'everysec', settings: { 'maxmemory-policy': policy } });
    const store = await openStore({ url: server.url });
    const warnings = await store.check();
    expect(warnings.map(({ code }) => code)).toEqual(['EVICTION']);
    expect(warnings[0]!.message).toContain(policy);
  });

  it('is not ok while the server is a replica, and writes are refused; it is when the server is a primary again', async () => {
    const primary = await privateRedis();
    const server = await privateRedis({ appendfsync: 'everysec', settings: { masterauth: primary.password } });
    const store = await openStore({ url: server.url });
    await plainClient(server.url).replicaof('127.0.0.1', primary.port);
    expect(await codeOf(store.insert([newJob()], { atomic: false }))).toBe('STORE_READONLY');
    expect(await codeOf(store.check())).toBe('STORE_READONLY');
    await plainClient(server.url).replicaof('NO', 'ONE');
    expect((await store.insert([newJob()], { atomic: false }))[0]).toMatchObject({ outcome: 'created' });
  });

  it('is not ok, and says why, while the server is away', async () => {
    const server = await privateRedis();
    const queue = closedAfterwards(await open(server.url));
    await server.kill();
    const { ok, warnings } = await queue.health();
    expect(ok).toBe(false);
    expect(warnings[0]).toMatchObject({ code: 'STORE_UNAVAILABLE' });
    expect(warnings[0]!.message).not.toContain(server.password);
  });
});

describeOn('redis', 'a user of Redis with few rights', () => {
  it('needs its own keys and channel, no command of administrators, and INFO for health', async () => {
    const server = await privateRedis({ appendfsync: 'everysec' });
    const rights = ['~{lastout}:*', '&{lastout}:hints', '+@all', '-@admin', '-@dangerous', '+info'];
    const url = await asUser(server, ...rights);
    const store = await openStore({ url });
    store.subscribe(() => undefined);
    const [inserted] = await store.insert([newJob()], { atomic: false });
    const { jobs, epoch } = await store.claim({
      owner: 'worker',
      types: ['mail'],
      queues: null,
      slots: 1,
      ahead: 0,
      leaseMs: 1_000,
      maxStalls: 3,
    });
    expect(jobs.map(({ id }) => id)).toEqual([inserted!.id]);
    const { answers } = await store.settle({
      owner: 'worker',
      settlements: [{ id: inserted!.id, epoch, ending: { kind: 'complete', result: '1' } }],
      started: [],
      next: null,
    });
    expect(answers).toEqual(['ok']);
  });

  it('does without hints where it may not publish: nothing breaks off at its end', async () => {
    const server = await privateRedis({ appendfsync: 'everysec' });
    const store = await openStore({ url: await asUser(server, '~*', 'resetchannels', '+@all') });
    store.subscribe(() => undefined);
    for (const way of ['long', 'short']) {
      expect((await store.insert([newJob()], { atomic: false }))[0], way).toMatchObject({ outcome: 'created' });
      const request = {
        owner: 'worker',
        slots: 1,
        ahead: 0,
        leaseMs: 30_000,
        maxStalls: 3,
        types: ['mail'],
        queues: null,
      };
      expect((await store.claim(request)).jobs, 'the next one is the first of its lane, too').toHaveLength(1);
    }
  });

  it('is refused with STORE_DENIED where it may not run scripts', async () => {
    const server = await privateRedis();
    expect(await codeOf(openStore({ url: await asUser(server, '~*', '&*', '+@all', '-@scripting') }))).toBe(
      'STORE_DENIED',
    );
  });
});

describeOn('redis', 'a Redis server whose memory is full', () => {
  async function fullServer(): Promise<{ server: RedisServer; store: Store; stored: string[] }> {
    const server = await privateRedis({ appendfsync: 'everysec', settings: { maxmemory: '4mb' } });
    const store = await openStore({ url: server.url });
    const stored: string[] = [];
    const input = JSON.stringify('x'.repeat(2_000));
    for (;;) {
      const jobs = Array.from({ length: 20 }, () => newJob({ input }));
      try {
        await store.insert(jobs, { atomic: true });
      } catch (error) {
        expect(error).toMatchObject({ code: 'STORE_FULL' });
        return { server, store, stored };
      }
      stored.push(...jobs.map(({ id }) => id));
    }
  }
  const storedNow = async (store: Store): Promise<string[]> => {
    const ids: string[] = [];
    for (let cursor: string | null = null; ; ) {
      const page = await store.find({ filter: noFilter, cursor, limit: 500 });
      ids.push(...page.jobs.map(({ id }) => id));
      if (page.next === null) return ids.sort();
      cursor = page.next;
    }
  };

  it('refuses jobs with STORE_FULL, stores nothing of them, and still reads', async () => {
    const { store, stored } = await fullServer();
    expect(stored.length).toBeGreaterThan(0);
    expect(await storedNow(store)).toEqual(stored.sort());
    const cleanup = { maxStoredJobs: 1e9, jobRetentionMs: 1e9, cleanupIntervalMs: 1e9, useCompletedTime: true };
    expect((await store.tally(cleanup)).queues[0]).toMatchObject({ pending: stored.length });
    expect((await store.check()).map(({ code }) => code)).toEqual(['OUT_OF_MEMORY']);
  });

  it('lets what is stored be worked off and removed, and takes jobs again', async () => {
    const { store, stored } = await fullServer();
    let done = 0;
    while (done < stored.length) {
      const request = { owner: 'w', types: ['mail'], queues: null, slots: 50, ahead: 0, leaseMs: 1e5, maxStalls: 3 };
      const { jobs, epoch } = await store.claim(request);
      expect(jobs.length).toBeGreaterThan(0);
      const settlements = jobs.map(({ id }) => ({ id, epoch, ending: { kind: 'complete', result: '1' } as const }));
      const { answers } = await store.settle({ owner: 'w', settlements, started: [], next: null });
      expect(new Set(answers)).toEqual(new Set(['ok']));
      done += jobs.length;
    }
    const filter = { ...noFilter, states: ['completed' as const] };
    for (let more = true; more; ) {
      const request = {
        filter,
        move: { kind: 'remove', force: false } as const,
        dryRun: false,
        cursor: null,
        limit: 500,
      };
      more = (await store.move(request)).items.length > 0;
    }
    expect(await storedNow(store)).toEqual([]);
    expect((await store.insert([newJob()], { atomic: true }))[0]).toMatchObject({ outcome: 'created' });
  });
});
