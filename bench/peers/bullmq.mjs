/** BullMQ on Redis with its defaults: completed jobs are kept, which is faster here than to remove them. */
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';

function connectionTo(at) {
  const { hostname, port, password } = new URL(at);
  return { host: hostname, port: Number(port), password, maxRetriesPerRequest: null };
}

export async function openContender({ at, payload }) {
  const connection = connectionTo(at);
  const queue = new Queue('mail', { connection });
  await queue.waitUntilReady();
  return {
    add: () => queue.add('mail', payload),
    addMany: (count) => queue.addBulk(Array.from({ length: count }, () => ({ name: 'mail', data: payload }))),
    async work(concurrency, onJob) {
      const worker = new Worker('mail', async () => onJob(), { connection, concurrency });
      return { stop: () => worker.close() };
    },
    close: () => queue.close(),
  };
}

const dayMs = 86_400_000;

/** Cleans in calls of its own size, 10,000 jobs, or of the size that `setup` says. */
export async function openCleaner({ at, setup, payload }, { count }) {
  const connection = connectionTo(at);
  const queue = new Queue('mail', { connection });
  const aside = new Queue('aside', { connection });
  await Promise.all([queue.waitUntilReady(), aside.waitUntilReady()]);
  await loadCompleted(queue, connection, payload, count);
  return {
    add: () => queue.add('mail', payload),
    addAside: () => aside.add('aside', payload),
    async work(concurrency, onJob) {
      const worker = new Worker('mail', async () => onJob(), { connection, concurrency });
      await worker.waitUntilReady();
      return { stop: () => worker.close() };
    },
    async clean() {
      if (setup === '') return (await queue.clean(dayMs, count)).length;
      const perCall = Number(setup);
      let removed = 0;
      for (let n = perCall; n === perCall; removed += n) n = (await queue.clean(dayMs, perCall)).length;
      return removed;
    },
    close: () => Promise.all([queue.close(), aside.close()]),
  };
}

/** One job is run to its end; the others are copies of what it left, ended two days ago. */
async function loadCompleted(queue, connection, payload, count) {
  const worker = new Worker('mail', async () => undefined, { connection });
  const completed = new Promise((resolve) => worker.once('completed', resolve));
  const { id } = await queue.add('mail', payload);
  await completed;
  await worker.close();
  const redis = new Redis(connection);
  const copy = `
    local fields = redis.call('HGETALL', KEYS[1] .. ARGV[1])
    for i = 1, #fields, 2 do
      if fields[i] == 'finishedOn' or fields[i] == 'processedOn' or fields[i] == 'timestamp' then fields[i + 1] = ARGV[4] end
    end
    for n = tonumber(ARGV[2]), tonumber(ARGV[3]) do
      redis.call('HSET', KEYS[1] .. n, unpack(fields))
      redis.call('ZADD', KEYS[1] .. 'completed', ARGV[4], n)
    end`;
  const prefix = `${queue.toKey('')}`;
  const first = Number(id) + 1;
  await redis.incrby(`${prefix}id`, count);
  for (let from = 0; from < count; from += 1_000) {
    const to = Math.min(count, from + 1_000) - 1;
    const endedAt = Date.now() - 2 * dayMs + from / 1_000;
    await redis.eval(copy, 1, prefix, id, first + from, first + to, endedAt);
  }
  redis.disconnect();
}
