/**
 * pg-boss. It takes as many jobs at a time as its batch is large: "plain" as many as may run at once, "best" a thousand,
 * with two fetchers where more than one job may run. It goes on at once after a full batch. "notify" wakes its workers
 * by NOTIFY, which costs half of its rate of single sends and is therefore on only where latency counts.
 */
import { PgBoss } from 'pg-boss';

export async function openContender({ at, setup, payload }) {
  const notify = setup === 'notify';
  const boss = new PgBoss({ connectionString: at, max: 20, useListenNotify: notify });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  await boss.createQueue('mail', { notify });
  return {
    add: () => boss.send('mail', payload),
    addMany: (count) =>
      boss.insert(
        'mail',
        Array.from({ length: count }, () => ({ data: payload })),
      ),
    async work(concurrency, onJob) {
      const best = setup === 'best';
      const options = {
        // With a batch of one it takes one job per poll.
        batchSize: best ? 1_000 : Math.max(2, concurrency),
        localConcurrency: best && concurrency > 1 ? 2 : 1,
        burstWhenBatchFull: true,
        pollingIntervalSeconds: 0.5,
      };
      await boss.work('mail', options, async (jobs) => {
        for (let i = 0; i < jobs.length; i++) onJob();
      });
      return { stop: () => boss.offWork('mail') };
    },
    close: () => boss.stop({ graceful: true, timeout: 5_000 }),
  };
}
