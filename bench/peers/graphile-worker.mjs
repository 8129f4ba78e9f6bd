/**
 * graphile-worker. Its defaults fetch and complete one job at a time; "tuned" turns on the local queue and the batches
 * that its page on performance describes. Completed jobs are deleted, it has no other way.
 */
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';

const logger = new Logger(() => () => undefined);
const tuned = {
  localQueue: { size: 500, refetchDelay: { durationMs: 10 } },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

export async function openContender({ at, setup, payload }) {
  const pgPool = new pg.Pool({ connectionString: at, max: 20 });
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  return {
    add: () => utils.addJob('mail', payload),
    addMany: (count) => utils.addJobs(Array.from({ length: count }, () => ({ identifier: 'mail', payload }))),
    async work(concurrency, onJob) {
      const pool = new pg.Pool({ connectionString: at, max: Math.min(20, concurrency + 4) });
      const preset = { worker: { concurrentJobs: concurrency, ...(setup === 'tuned' && tuned) } };
      const taskList = { mail: async () => onJob() };
      const runner = await run({ pgPool: pool, preset, logger, taskList, noHandleSignals: true });
      return {
        async stop() {
          await runner.stop();
          await pool.end();
        },
      };
    },
    async close() {
      await utils.release();
      await pgPool.end();
    },
  };
}
