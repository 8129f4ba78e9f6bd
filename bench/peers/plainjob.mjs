/**
 * plainjob on better-sqlite3. A worker of it runs one job at a time, so there are as many as may run at once. It asks
 * for new jobs every 100 ms, like a worker of lastout that hears of none, instead of every second.
 */
import Database from 'better-sqlite3';
import { better, defineQueue, defineWorker } from 'plainjob';

const nothing = () => undefined;
const logger = { error: console.error, warn: nothing, info: nothing, debug: nothing };

export async function openContender({ at, setup, payload }) {
  const database = new Database(at);
  const queue = defineQueue({ connection: better(database), logger });
  // It asks for "normal" itself.
  database.pragma(`synchronous = ${setup}`);
  return {
    add: () => queue.add('mail', payload),
    async addMany(count) {
      queue.addMany(
        'mail',
        Array.from({ length: count }, () => payload),
      );
    },
    async work(concurrency, onJob) {
      const options = { queue, logger, pollIntervall: 100 };
      const workers = Array.from({ length: concurrency }, () => defineWorker('mail', async () => onJob(), options));
      const running = workers.map((worker) => worker.start());
      return {
        async stop() {
          await Promise.all(workers.map((worker) => worker.stop()));
          await Promise.all(running);
        },
      };
    },
    async close() {
      queue.close();
    },
  };
}
