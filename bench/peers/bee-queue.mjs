/** bee-queue without events and without keeping jobs, in memory or in Redis: what its README says makes it fast. */
import Queue from 'bee-queue';

export async function openContender({ at, payload }) {
  const { hostname, port, password } = new URL(at);
  const settings = {
    redis: { host: hostname, port: Number(port), password },
    getEvents: false,
    sendEvents: false,
    storeJobs: false,
    removeOnSuccess: true,
  };
  const producer = new Queue('mail', { ...settings, isWorker: false });
  await producer.ready();
  return {
    add: () => producer.createJob(payload).save(),
    async addMany(count) {
      const errors = await producer.saveAll(Array.from({ length: count }, () => producer.createJob(payload)));
      if (errors.size > 0) throw [...errors.values()][0];
    },
    async work(concurrency, onJob) {
      const worker = new Queue('mail', settings);
      worker.process(concurrency, async () => onJob());
      return { stop: () => worker.close() };
    },
    close: () => producer.close(),
  };
}
