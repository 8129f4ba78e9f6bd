// What a waiting job costs in Redis, as the server itself counts it.
import { expect, it } from 'vitest';
import { describeOn } from '../engines.js';
import { privateRedis } from '../services.js';
import { newJob, openStore, plainClient } from './redis-support.js';

const jobs = 20_000;
const batch = 500;

describeOn('redis', 'the memory of Redis', () => {
  it('is at most 300 bytes per waiting job with a payload of 100 bytes', async () => {
    const server = await privateRedis();
    const store = await openStore({ url: server.url });
    const asking = plainClient(server.url);
    const used = async (): Promise<number> => Number(/used_memory:(\d+)/.exec(await asking.info('memory'))![1]);
    const insert = (n: number): Promise<unknown> =>
      store.insert(
        Array.from({ length: n }, () => newJob({ input: JSON.stringify('x'.repeat(98)) })),
        { atomic: false },
      );
    await insert(1); // the script, the policy, the counters
    const before = await used();
    for (let stored = 0; stored < jobs; stored += batch) await insert(batch);
    const perJob = ((await used()) - before) / jobs;
    expect(perJob).toBeGreaterThan(100); // the payloads are there
    expect(perJob).toBeLessThanOrEqual(300);
  });
});
