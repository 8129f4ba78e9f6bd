// Connections to Redis that break in every way, and servers that are killed, under load.
import { statSync } from 'node:fs';
import { Redis } from 'ioredis';
import { onTestFinished, test } from 'vitest';
import { redisStore } from '../../src/stores/redis/index.js';
import { describeOn } from '../engines.js';
import { privateRedis, type RedisServer } from '../services.js';
import { cutLog, logOf } from '../services/redis.js';
import { breakWires, type Place, restarts, timeout } from './load.js';
import { redisProtocol } from './protocol.js';

function placeOn({ url, port }: RedisServer, name: string): Place {
  return {
    name,
    url,
    port,
    protocol: redisProtocol,
    factory: redisStore({ url }),
    async connections() {
      const client = new Redis(url);
      const list = String(await client.client('LIST'));
      client.disconnect();
      return list.trim().split('\n').length;
    },
    connectionsPerProcess: 2,
  };
}

describeOn('redis', 'redis', () => {
  test('connections that are reset, swallowed, half-open or lose a reply cost no job, and work goes on', {
    timeout,
  }, async () => {
    await breakWires(placeOn(await privateRedis(), 'broken connections to Redis'));
  });

  /** With everysec Redis holds writes back for at most two seconds while the disk is busy. */
  test.each([
    ['always', 0],
    ['everysec', 2_000],
  ] as const)(
    'a kill of the server that appends to its log %s costs only what that promises, and work goes on once it is back',
    { timeout },
    async (appendfsync, mayLoseMs) => {
      const server = await privateRedis({ appendfsync });
      const place = placeOn(server, `Redis killed, appendfsync ${appendfsync}`);
      const lastWritten = watchLog(server, mayLoseMs / 2);
      const down = async (): Promise<void> => {
        const bytes = lastWritten();
        await server.kill();
        cutLog(server, bytes);
      };
      await restarts(place, { down, up: server.start }, mayLoseMs);
    },
  );
});

/** How many bytes were appended to the log in about the last so many milliseconds, and not before. */
function watchLog(server: RedisServer, ms: number): () => number {
  const size = (): number => statSync(logOf(server)).size;
  const seen: { readonly at: number; readonly bytes: number }[] = [];
  const look = (): void => void seen.push({ at: performance.now(), bytes: size() });
  const looking = setInterval(look, 100);
  onTestFinished(() => clearInterval(looking));
  return () => {
    const now = performance.now();
    const bytes = size();
    return Math.max(0, bytes - (seen.find(({ at }) => now - at <= ms)?.bytes ?? bytes));
  };
}
