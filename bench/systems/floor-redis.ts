/** Redis itself: a list of jobs and a list of what is done, whole batches per command. It survives no lost worker. */
import { Redis } from 'ioredis';
import type { Contender, Where } from '../contender.js';
import { cycle, gatherer } from './gather.js';

const batch = 500;

export async function openContender({ at, payload }: Where): Promise<Contender> {
  const text = JSON.stringify(payload);
  const redis = new Redis(at);
  const add = gatherer((texts) => redis.rpush('jobs', ...texts));
  let marked = 0;
  return {
    add: () => add(text),
    addMany: (count) => redis.rpush('jobs', ...Array.from({ length: count }, () => text)),
    async work(_concurrency, onJob) {
      const running = cycle(async (done) => {
        // Both are written before either is answered: one round trip.
        const marking = done.length > 0 ? redis.rpush('done', ...done.map(() => ++marked)) : null;
        const taken = await redis.lpop('jobs', batch);
        await marking;
        return taken ?? [];
      }, onJob);
      return { settled: () => running, stop: () => running };
    },
    close: () => redis.quit(),
  };
}
