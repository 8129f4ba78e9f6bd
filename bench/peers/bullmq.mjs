/** BullMQ on Redis with its defaults: completed jobs are kept, which is faster here than to remove them. */
import { Queue, Worker } from 'bullmq';

export async function openContender({ at, payload }) {
  const { hostname, port, password } = new URL(at);
  const connection = {
    host: hostname,
    port: Number(port),
    password,
    maxRetriesPerRequest: null,
  };
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
