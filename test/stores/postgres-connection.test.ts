// A queue and its workers while connections are lost and the server is restarted: nothing crashes, nothing is lost.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { defineJob, type Enqueued, LastoutError, open, type Queue } from '../../src/index.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { emptyPostgres, postgresUrl, privatePostgres } from '../services.js';
import { closedAfterwards, expectCode } from '../support.js';
import { cutOff, eventually, named, pidsOf, plainClient, plainPool, system, throughWire } from './postgres-support.js';

/** What nobody caught. */
const strays: unknown[] = [];
const stray = (error: unknown): void => void strays.push(error);
beforeEach(() => {
  process.on('unhandledRejection', stray);
});
afterEach(() => {
  process.removeListener('unhandledRejection', stray);
  expect(strays.splice(0)).toEqual([]);
});

/** Enqueues one after the other until told to stop, again where nothing was stored; ids make repeating safe. */
function producing(queue: Queue, type: string) {
  const acknowledged: string[] = [];
  const refusals: string[] = [];
  let stopped = false;
  async function produce(): Promise<void> {
    for (let no = 0; !stopped; no++) {
      const id = `${type}-${no}`;
      for (;;) {
        try {
          const enqueued: Enqueued = await queue.enqueue(type, no, { id });
          acknowledged.push(enqueued.id);
          break;
        } catch (error) {
          if (!(error instanceof LastoutError)) throw error;
          refusals.push(error.code);
          if (!/^(STORE_UNAVAILABLE|RESULT_UNKNOWN)$/.test(error.code)) throw error;
        }
      }
    }
  }
  const done = produce();
  return {
    acknowledged,
    refusals,
    async stop() {
      stopped = true;
      await done;
    },
  };
}

/** Lets work go on, by the clock: what is waited for is that time passes while things fail. */
const pass = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe('while a worker runs', () => {
  test('a thousand connections lost to pg_terminate_backend: every job is done, and the connections stay as many', async () => {
    const name = system.id();
    const url = await emptyPostgres();
    const watcher = await plainClient(url);
    const done = new Set<string>();
    const producers = await Promise.all(
      ['a', 'b', 'c', 'd', 'e'].map(async (type) => {
        const queue = closedAfterwards(await open(named(url, name)));
        const job = defineJob<number, void>(type, { run: ({ job: { id } }) => void done.add(id) });
        await queue.work([job], { concurrency: 5 });
        return producing(queue, type);
      }),
    );
    const acknowledged = (): number => producers.reduce((sum, one) => sum + one.acknowledged.length, 0);
    let most = 0;
    for (let lost = 0; lost < 1_000; ) {
      const before = acknowledged();
      await eventually('work goes on', () => acknowledged() > before + 25);
      const cut = await cutOff(watcher, name);
      lost += cut;
      most = Math.max(most, cut);
    }
    await Promise.all(producers.map((one) => one.stop()));
    const queue = closedAfterwards(await open(url));
    const isOver = async () => {
      const { total } = await queue.stats();
      return total.pending + total.processing === 0;
    };
    await eventually('all is done', isOver);
    expect((await queue.stats()).total.completed).toBe(acknowledged());
    expect(done.size).toBe(acknowledged());
    expect(most).toBeLessThanOrEqual(5 * producers.length);
    expect((await pidsOf(watcher, name)).length).toBeLessThanOrEqual(5 * producers.length);
  }, 60_000);

  test('the server is stopped at once and started again, three times: work goes on within five seconds', async () => {
    const server = await privatePostgres();
    const queue = closedAfterwards(await open(server.url));
    const done = new Set<number>();
    const job = defineJob<number, void>('count', { run: ({ input }) => void done.add(input) });
    await queue.work([job], { concurrency: 5 });
    const producer = producing(queue, 'count');
    for (let round = 0; round < 3; round++) {
      const before = done.size;
      await eventually('work goes on', () => done.size > before);
      await server.stop('immediate');
      await pass(300);
      await server.start();
      const restarted = done.size;
      await eventually('work goes on again', () => done.size > restarted, 5_000);
    }
    await producer.stop();
    const isOver = async () => {
      const { total } = await queue.stats();
      return total.pending + total.processing === 0;
    };
    // A job whose claim was acknowledged to nobody comes back with its lease.
    await eventually('all is done', isOver, 45_000);
    expect((await queue.stats()).total.completed).toBe(producer.acknowledged.length);
    expect(done.size).toBe(producer.acknowledged.length);
    expect(await queue.health()).toMatchObject({ ok: true, durability: 'fsync' });
  }, 90_000);

  test('connections that go silently hold nothing up for long', async () => {
    const wire = await throughWire(await emptyPostgres());
    const queue = closedAfterwards(await open(wire.url));
    const done = new Set<number>();
    const job = defineJob<number, void>('count', { run: ({ input }) => void done.add(input) });
    await queue.work([job], { concurrency: 5 });
    await queue.enqueue(job, 1);
    await eventually('the first is done', () => done.has(1));
    wire.silence();
    await pass(50);
    wire.heal();
    const began = performance.now();
    await queue.enqueue(job, 2);
    await eventually('the second is done', () => done.has(2));
    expect(performance.now() - began).toBeLessThan(8_000);
  }, 30_000);
});

describe('a server that is away', () => {
  test('refuses calls with STORE_UNAVAILABLE, and is there again without opening anew', async () => {
    const wire = await throughWire(await emptyPostgres());
    const queue = closedAfterwards(await open(wire.url));
    const { id } = await queue.enqueue('mail', 1);
    await wire.close();
    const [refusal, health] = await Promise.all([expectCode('STORE_UNAVAILABLE', () => queue.get(id)), queue.health()]);
    expect(refusal.message).toContain('cannot be reached');
    await expectCode('STORE_UNAVAILABLE', () => queue.enqueue('mail', 2));
    expect(health).toMatchObject({ ok: false });
    await wire.reopen();
    expect(await queue.get(id)).toMatchObject({ input: 1 });
    expect(await queue.health()).toMatchObject({ ok: true });
    expect((await queue.stats()).total.pending).toBe(1);
  });

  test('for a moment is waited for, and nobody notices', async () => {
    const wire = await throughWire(await emptyPostgres());
    const queue = closedAfterwards(await open(wire.url));
    await queue.enqueue('mail', 1);
    await wire.close();
    const enqueued = queue.enqueue('mail', 2);
    await pass(200);
    await wire.reopen();
    expect(await enqueued).toMatchObject({ outcome: 'created' });
  });
});

describe('opening', () => {
  test('several queues of one factory share its connections', async () => {
    const name = system.id();
    const url = await emptyPostgres();
    const watcher = await plainClient(url);
    const factory = postgresStore({ url: named(url, name) }, { max: 2 });
    const queues = await Promise.all(['lastout', 'lastout', 'other'].map((namespace) => open(factory, { namespace })));
    await Promise.all(queues.flatMap((queue) => Array.from({ length: 10 }, () => queue.enqueue('mail', 1))));
    expect((await pidsOf(watcher, name)).length).toBeLessThanOrEqual(3);
    expect((await queues[0]!.stats()).total.pending).toBe(20);
    expect((await queues[2]!.stats()).total.pending).toBe(10);
    await queues[0]!.close();
    await queues[1]!.enqueue('mail', 1);
    await queues[1]!.close();
    await queues[2]!.close();
    await eventually('all are gone', async () => (await pidsOf(watcher, name)).length === 0);
    const again = closedAfterwards(await open(factory));
    expect((await again.stats()).total.pending).toBe(21);
  });

  test('a queue that cannot be opened leaves no connection behind', async () => {
    const name = system.id();
    const watcher = await plainClient(postgresUrl());
    await expectCode('INVALID_NAME', () => open(named(postgresUrl(), name), { namespace: 'public' }));
    await eventually('all are gone', async () => (await pidsOf(watcher, name)).length === 0);
  });

  test('a given pool serves a queue, and is not ended with it', async () => {
    const pool = plainPool(await emptyPostgres(), { max: 3 });
    const queue = await open(postgresStore({ pool }));
    const mail = defineJob<number, number>('mail', { run: ({ input }) => input + 1 });
    await queue.work([mail]);
    const { id } = await queue.enqueue(mail, 1);
    expect(await queue.wait(id)).toMatchObject({ result: 2 });
    expect(pool.totalCount).toBeLessThanOrEqual(3);
    await queue.close();
    expect((await pool.query('select count(*)::int from lastout.jobs')).rows).toEqual([{ count: 1 }]);
  });

  test('a job of another process starts without waiting for the poll', async () => {
    const url = await emptyPostgres();
    const [here, there] = [closedAfterwards(await open(url)), closedAfterwards(await open(url))];
    const mail = defineJob<number, number>('mail', { run: ({ input }) => input + 1 });
    await here.work([mail], { poll: '1h' });
    for (let n = 0; n < 3; n++) {
      const { id } = await there.enqueue(mail, n);
      expect(await there.wait(id, { timeout: '10s' })).toMatchObject({ result: n + 1 });
    }
  });

  test('without listening everything works by polling', async () => {
    const url = await emptyPostgres();
    const quiet = postgresStore({ url }, { listen: false });
    const [here, there] = [closedAfterwards(await open(quiet)), closedAfterwards(await open(url))];
    const mail = defineJob<number, number>('mail', { run: ({ input }) => input + 1 });
    await here.work([mail]);
    const { id } = await there.enqueue(mail, 1);
    expect(await there.wait(id, { timeout: '10s' })).toMatchObject({ result: 2 });
  });
});

describe('what health says', () => {
  test('of a server that syncs: fsync, and no warning', async () => {
    const server = await privatePostgres();
    const queue = closedAfterwards(await open(server.url));
    expect(await queue.health()).toMatchObject({ ok: true, store: 'postgres', durability: 'fsync', warnings: [] });
  });

  test('of connections that do not wait for the disk: os, and why', async () => {
    const server = await privatePostgres();
    const options = { connectionString: server.url, options: '-c synchronous_commit=off' };
    const pool = plainPool(server.url, options);
    const queue = closedAfterwards(await open(postgresStore({ pool })));
    const health = await queue.health();
    expect(health.durability).toBe('os');
    expect(health.warnings.map(({ code }) => code)).toEqual(['SYNCHRONOUS_COMMIT_OFF']);
    // On connections of our own it is switched on.
    const own = closedAfterwards(await open(`${server.url}?options=-c%20synchronous_commit%3Doff`));
    expect(await own.health()).toMatchObject({ durability: 'fsync', warnings: [] });
  });

  test('of a server without fsync: os, and why', async () => {
    const server = await privatePostgres({ durable: false });
    const queue = closedAfterwards(await open(server.url));
    const health = await queue.health();
    expect(health.durability).toBe('os');
    expect(health.warnings.map(({ code }) => code)).toEqual(['FSYNC_OFF']);
  });

  test('of transactions that begin stricter than they need to be', async () => {
    const pool = plainPool(await emptyPostgres(), { options: '-c default_transaction_isolation=serializable' });
    const queue = closedAfterwards(await open(postgresStore({ pool })));
    expect((await queue.health()).warnings.map(({ code }) => code)).toContain('ISOLATION');
    await Promise.all(Array.from({ length: 20 }, () => queue.enqueue('mail', 1, { deduplication: 'skip' })));
    expect((await queue.stats()).total.pending).toBe(1);
  });
});
