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

const dayMs = 86_400_000;

/** Its maintenance is asked for instead of coming by its own rhythm of a minute; it is the same. */
export async function openCleaner({ at, setup, payload }, { count }) {
  const database = new Database(at);
  let removed = 0;
  const onDoneJobsRemoved = (n) => (removed += n);
  const queue = defineQueue({ connection: better(database), logger, onDoneJobsRemoved });
  database.pragma(`synchronous = ${setup}`);
  database
    .prepare(
      `insert into plainjob_jobs (type, data, status, next_run_at, created_at)
       with recursive n(i) as (select 1 union all select i + 1 from n where i < ?)
       select 'mail', ?, 2, ? + i / 1000, ? from n`,
    )
    .run(count, JSON.stringify(payload), Date.now() - 8 * dayMs, Date.now() - 8 * dayMs);
  database.pragma('wal_checkpoint(truncate)');
  return {
    add: () => queue.add('mail', payload),
    addAside: () => queue.add('aside', payload),
    async work(_concurrency, onJob) {
      const worker = defineWorker('mail', async () => onJob(), { queue, logger, pollIntervall: 100 });
      const running = worker.start();
      return {
        async stop() {
          await worker.stop();
          await running;
        },
      };
    },
    async clean() {
      queue.removeDoneJobs(7 * dayMs);
      return removed;
    },
    async close() {
      queue.close();
    },
  };
}
