/**
 * pg-boss. It takes as many jobs at a time as its batch is large: "plain" as many as may run at once, "best" a thousand,
 * with two fetchers where more than one job may run. It goes on at once after a full batch. "notify" wakes its workers
 * by NOTIFY, which costs half of its rate of single sends and is therefore on only where latency counts.
 */
import pg from 'pg';
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

/**
 * Woken by NOTIFY, or a claim would take a poll. Its maintenance is asked for instead of coming by its own rhythm of a day;
 * it is the same.
 */
export async function openCleaner({ at, payload }, { count }) {
  const boss = new PgBoss({
    connectionString: at,
    max: 20,
    useListenNotify: true,
    supervise: false,
    maintenanceIntervalSeconds: 1,
  });
  boss.on('error', (error) => console.error(error));
  await boss.start();
  await boss.createQueue('mail', { notify: true });
  await boss.createQueue('aside');
  const client = new pg.Client({ connectionString: at });
  await client.connect();
  await loadCompleted(boss, client, payload, count);
  const stored = async () => {
    const { rows } = await client.query(
      `select count(*)::int as n from pgboss.job where name = 'mail' and completed_on < now() - interval '7 days'`,
    );
    return rows[0].n;
  };
  return {
    add: () => boss.send('mail', payload),
    addAside: () => boss.send('aside', payload),
    async work(_concurrency, onJob) {
      const options = { batchSize: 2, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
      await boss.work('mail', options, async (jobs) => {
        for (let i = 0; i < jobs.length; i++) onJob();
      });
      return { stop: () => boss.offWork('mail') };
    },
    async clean() {
      await boss.supervise('mail');
      return count - (await stored());
    },
    async close() {
      await client.end();
      await boss.stop({ graceful: true, timeout: 5_000 });
    },
  };
}

/** One job is run to its end; the others are copies of what it left, ended eight days ago: it keeps them for seven. */
async function loadCompleted(boss, client, payload, count) {
  const id = await boss.send('mail', payload);
  await boss.fetch('mail');
  await boss.complete('mail', id);
  const perCall = 20_000;
  for (let from = 0; from < count; from += perCall) {
    await client.query(
      `insert into pgboss.job
       select copy.*
       from pgboss.job j
       cross join (select now() - interval '8 days' as ago) at
       cross join generate_series(1, $2::int) n(no)
       cross join lateral jsonb_populate_record(j, jsonb_build_object(
         'id', case when n.no > 0 then gen_random_uuid() end,
         'created_on', at.ago, 'started_on', at.ago, 'completed_on', at.ago)) copy
       where j.id = $1`,
      [id, Math.min(perCall, count - from)],
    );
  }
}
