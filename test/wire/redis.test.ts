// Connections to Redis that break in every way, and servers that are killed, under load.
import { Redis } from 'ioredis';
import { test } from 'vitest';
import { redisStore } from '../../src/stores/redis/index.js';
import { describeOn } from '../engines.js';
import { privateRedis, type RedisServer } from '../services.js';
import { cutLog } from '../services/redis.js';
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

  /** With everysec Redis holds writes back for at most two seconds while the disk is busy: of these, this is a part. */
  const heldBackBytes = 65_536;
  test.each([
    ['always', 0],
    ['everysec', 2_000],
  ] as const)(
    'a kill of the server that appends to its log %s costs only what that promises, and work goes on once it is back',
    { timeout },
    async (appendfsync, mayLoseMs) => {
      const server = await privateRedis({ appendfsync });
      const place = placeOn(server, `Redis killed, appendfsync ${appendfsync}`);
      const down = async (): Promise<void> => {
        await server.kill();
        if (mayLoseMs > 0) cutLog(server, heldBackBytes);
      };
      await restarts(place, { down, up: server.start }, mayLoseMs);
    },
  );
});
