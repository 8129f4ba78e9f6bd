// Somebody empties Redis under a running worker, or it comes back without its data: the worker goes on, and health says it.
import { expect, it } from 'vitest';
import { defineJob, type JobOptions, open, type Queue } from '../../src/index.js';
import { describeOn } from '../engines.js';
import { privateRedis, type RedisServer } from '../services.js';
import { closedAfterwards } from '../support.js';
import { eventually, plainClient } from './redis-support.js';

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
});
