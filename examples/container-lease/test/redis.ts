// A Redis for one test alone, whose settings and rights may be changed.
import { onTestFinished } from 'vitest';
import { redisPrograms } from '../../../scripts/services/index.mjs';
import { startRedis } from '../../../scripts/services/redis.mjs';

const found = await redisPrograms();
export const isRedisThere = 'programs' in found;

export async function privateRedis(): Promise<string> {
  if ('why' in found) throw new Error(`There is no Redis: ${found.why}`);
  const server = await startRedis(found.programs);
  onTestFinished(() => server.dispose());
  return server.url;
}
