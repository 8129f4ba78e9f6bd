// Health of the Redis store: not ok where nothing can be written.
import { expect, it } from 'vitest';
import { open } from '../../src/index.js';
import { describeOn } from '../engines.js';
import { privateRedis } from '../services.js';
import { closedAfterwards, expectCode } from '../support.js';
import { plainClient } from './redis-support.js';

describeOn('redis', 'the health of Redis', () => {
  it('is not ok while the server has no memory left, and again when it has', async () => {
    const { url } = await privateRedis();
    const queue = closedAfterwards(await open(url));
    const asking = plainClient(url);
    expect((await queue.health()).ok).toBe(true);
    await asking.config('SET', 'maxmemory', '1');
    expect(await queue.health()).toMatchObject({
      ok: false,
      warnings: expect.arrayContaining([expect.objectContaining({ code: 'OUT_OF_MEMORY' })]),
    });
    await expectCode('STORE_FULL', () => queue.enqueue('mail', 1));
    await asking.config('SET', 'maxmemory', '0');
    expect((await queue.health()).ok).toBe(true);
    await queue.enqueue('mail', 1);
  });

  it('is not ok while the server follows another one, or lacks the replicas that it wants', async () => {
    const [{ url }, other] = [await privateRedis(), await privateRedis()];
    const queue = closedAfterwards(await open(url));
    const asking = plainClient(url);
    await asking.config('SET', 'min-replicas-to-write', '1');
    expect(await queue.health()).toMatchObject({ ok: false, warnings: [{ code: 'STORE_UNAVAILABLE' }] });
    await asking.config('SET', 'min-replicas-to-write', '0');
    expect((await queue.health()).ok).toBe(true);
    await asking.replicaof('127.0.0.1', Number(new URL(other.url).port));
    expect(await queue.health()).toMatchObject({ ok: false, warnings: [{ code: 'STORE_READONLY' }] });
    await asking.replicaof('NO', 'ONE');
    expect((await queue.health()).ok).toBe(true);
  });
});
