// Somebody empties Redis under a running worker, or it comes back without its data: the worker goes on, and health says it.
import { statSync, truncateSync } from 'node:fs';
import { expect, it } from 'vitest';
import { defineJob, type JobOptions, open, type Queue } from '../../src/index.js';
import { describeOn } from '../engines.js';
import { privateRedis, type RedisServer } from '../services.js';
import { logOf } from '../services/redis.js';
import { closedAfterwards } from '../support.js';
import { eventually, newJob, openStore, plainClient } from './redis-support.js';

async function running(appendfsync: 'always' | null = 'always'): Promise<{
  server: RedisServer;
  queue: Queue;
  ran: string[];
  add(name: string, options?: JobOptions): Promise<void>;
}> {
  const server = await privateRedis({ appendfsync });
  const queue = closedAfterwards(await open(server.url));
  const ran: string[] = [];
  const task = defineJob('task', {
    async run({ input }: { input: string }) {
      ran.push(input);
    },
  });
  await queue.work([task]);
  const add = async (name: string, options?: JobOptions): Promise<void> =>
    void (await queue.enqueue(task, name, options));
  return { server, queue, ran, add };
}

const warningsOf = async (queue: Queue): Promise<string[]> =>
  (await queue.health()).warnings.map(({ code }) => code).filter((code) => code !== 'NO_PERSISTENCE');

describeOn('redis', 'a worker on Redis', () => {
  it('goes on after SCRIPT FLUSH, and nothing is said to be lost', async () => {
    const { server, queue, ran, add } = await running();
    await add('before');
    await eventually('it ran', () => ran.includes('before'));
    await plainClient(server.url).script('FLUSH');
    await add('after');
    await eventually('it ran', () => ran.includes('after'));
    expect(await warningsOf(queue)).toEqual([]);
  });

  it('survives FLUSHALL: new jobs run, and health says that the data were lost', async () => {
    const { server, queue, ran, add } = await running();
    await add('before');
    await add('gone', { delay: '1h' });
    await eventually('it ran', () => ran.includes('before'));
    expect(await warningsOf(queue)).toEqual([]);
    await plainClient(server.url).flushall();
    await add('after');
    await eventually('it ran', () => ran.includes('after'));
    const { ok, warnings } = await queue.health();
    expect(ok).toBe(true);
    expect(warnings.map(({ code }) => code)).toEqual(['DATA_LOST']);
    expect((await queue.stats()).total).toMatchObject({ pending: 0, delayed: 0, processing: 0, completed: 1 });
    expect(await warningsOf(queue)).toEqual(['DATA_LOST']); // for as long as it is open
    const reopened = closedAfterwards(await open(server.url));
    expect(await warningsOf(reopened)).toEqual([]);
  });

  it('whose job was running when the data were deleted ends it without harm to others', async () => {
    const server = await privateRedis();
    const queue = closedAfterwards(await open(server.url));
    let release = (): void => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const ran: string[] = [];
    const task = defineJob('task', {
      async run({ input }: { input: string }) {
        ran.push(input);
        if (input === 'slow') await released;
      },
    });
    await queue.work([task], { concurrency: 2 });
    const slow = await queue.enqueue(task, 'slow');
    await eventually('it runs', () => ran.includes('slow'));
    await plainClient(server.url).flushall();
    const quick = await queue.enqueue(task, 'quick');
    release();
    await eventually('the new one completed', async () => (await queue.get(quick.id))?.state === 'completed');
    expect(await queue.get(slow.id)).toBeNull();
    expect((await queue.stats()).total).toMatchObject({ pending: 0, processing: 0, completed: 1 });
  });

  it('goes on after the server came back without its data, and health says so', async () => {
    const { server, queue, ran, add } = await running(null);
    await add('before');
    await eventually('it ran', () => ran.includes('before'));
    await server.kill();
    await server.start();
    await add('after');
    await eventually('it ran', () => ran.includes('after'));
    expect(await warningsOf(queue)).toEqual(['DATA_LOST']);
  });

  it('goes on after the server came back with its data, and nothing is said to be lost', async () => {
    const { server, queue, ran, add } = await running('always');
    await add('before');
    await eventually('it ran', () => ran.includes('before'));
    await server.kill();
    await server.start();
    await add('after');
    await eventually('it ran', () => ran.includes('after'));
    expect(await warningsOf(queue)).toEqual([]);
  });

  it('holds its limits from the first call after FLUSHALL, in every process that was opened with them', async () => {
    const server = await privateRedis();
    const limited = (): Promise<Queue> => open(server.url, { queues: { default: { concurrency: 1, maxPending: 3 } } });
    const [queue, other] = [closedAfterwards(await limited()), closedAfterwards(await limited())];
    let running = 0;
    let most = 0;
    const task = defineJob('task', {
      async run() {
        most = Math.max(most, ++running);
        await new Promise((resolve) => setTimeout(resolve, 20));
        running--;
      },
    });
    await queue.work([task], { concurrency: 5 });
    await plainClient(server.url).flushall();
    const taken = await Promise.allSettled(Array.from({ length: 8 }, () => other.enqueue(task, null)));
    expect(taken.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
    await eventually('they ran', async () => (await queue.stats()).total.completed === 3);
    expect(most).toBe(1);
    expect((await queue.health()).warnings.map(({ message }) => message).join()).toContain('limits');
  });

  it('gets its limits back from the process that has them, where another one came first after FLUSHALL', async () => {
    const server = await privateRedis();
    const store = await openStore({ url: server.url });
    const limits = new Map([['default', { maxPending: 1, concurrency: null, rate: null }]]);
    const limited = await openStore({ url: server.url }, { limits });
    await plainClient(server.url).flushall();
    await store.insert([newJob()], { atomic: true });
    await limited.extend({ owner: 'w', leaseMs: 1_000, claims: [], card: null });
    await expect(store.insert([newJob()], { atomic: true })).rejects.toMatchObject({ code: 'QUEUE_FULL' });
  });

  it('gets its limits back from the process that has them, where the server has lost no more than them', async () => {
    const server = await privateRedis({ appendfsync: 'always' });
    const store = await openStore({ url: server.url });
    const before = statSync(logOf(server)).size;
    const limits = new Map([['default', { maxPending: 1, concurrency: null, rate: null }]]);
    const limited = await openStore({ url: server.url }, { limits });
    await server.kill();
    truncateSync(logOf(server), before);
    await server.start();
    await store.insert([newJob()], { atomic: true });
    await limited.extend({ owner: 'w', leaseMs: 1_000, claims: [], card: null });
    await expect(store.insert([newJob()], { atomic: true })).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    expect(await limited.check()).toEqual([]);
  });
});
