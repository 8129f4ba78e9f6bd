// A later version of the schema is applied while workers of this version run: they go on, and nothing is lost.
import { expect, onTestFinished, test } from 'vitest';
import { defineJob, open, type Queue } from '../../src/index.js';
import { migrate, type Migration, versionOf } from '../../src/stores/postgres/migrate.js';
import { layout } from '../../src/stores/postgres/schema.js';
import { serverOf } from '../../src/stores/postgres/server.js';
import { emptyPostgres } from '../services.js';
import { closedAfterwards, expectCode } from '../support.js';
import { eventually, plainClient, system } from './postgres-support.js';

/** As the next version might: a column, an index, a table, and functions beside those that are in use. */
const next: Migration = (schema) => `
  alter table ${schema}.jobs add column region text not null default 'here';
  create index on ${schema}.jobs (region) where region <> 'here';
  create table ${schema}.regions (name text primary key);
  insert into ${schema}.regions values ('here');
  create function ${schema}.regions_v2() returns table (name text, n bigint) language sql as $$
    select r.name, count(j.id) from ${schema}.regions r left join ${schema}.jobs j on j.region = r.name group by r.name
  $$;
  create function ${schema}.claim_v2(p_region text) returns table (id text) language sql as $$
    select j.id from ${schema}.jobs j where j.region = p_region
  $$;
`;

async function upgrade(url: string): Promise<void> {
  const { pool, where } = await serverOf({ url }, { listen: false })(system);
  try {
    await migrate({
      pool,
      where,
      system,
      namespace: 'lastout',
      layout: { ...layout, upgrades: [...layout.upgrades, next] },
    });
  } finally {
    await pool.end();
  }
}

test('workers and producers of the version before go on without an error, and a new one is told to upgrade', async () => {
  const url = await emptyPostgres();
  const queues = [await open(url), await open(url)];
  for (const queue of queues) closedAfterwards(queue);
  const [producer, consumer] = queues as [Queue, Queue];
  const client = await plainClient(url);
  // The database of the test is as it was before, for the next one.
  onTestFinished(async () => void (await client.query(undo)));

  const ran: number[] = [];
  const job = defineJob<number, number>('count', {
    deduplicationKey: (n) => String(n),
    deduplication: 'skip',
    attempts: 2,
    backoff: { type: 'fixed', base: 1 },
    run({ input, job: { attempts } }) {
      if (input % 7 === 0 && attempts === 1) throw new Error('once');
      ran.push(input);
      return input;
    },
  });
  await consumer.work([job], { concurrency: 10 });
  let enqueued = 0;
  const produceUntil = async (isOver: () => boolean): Promise<void> => {
    while (!isOver()) {
      const at = enqueued;
      enqueued += 12;
      await producer.enqueueMany(Array.from({ length: 10 }, (_, index) => ({ type: job, input: at + index })));
      await producer.enqueue(job, at + 10, { exclusiveKey: 'one' });
      await producer.enqueue(job, at + 11, { delay: 5, subject: 'trip:1' });
    }
  };
  await produceUntil(() => ran.length > 50);
  let upgraded = false;
  const upgrading = upgrade(url).then(() => {
    upgraded = true;
  });
  await produceUntil(() => upgraded);
  await upgrading;
  const then = ran.length;
  await produceUntil(() => ran.length > then + 50);

  await eventually('all is done', async () => (await producer.stats()).total.completed === enqueued);
  expect(ran.sort((a, b) => a - b)).toEqual(Array.from({ length: enqueued }, (_, index) => index));
  expect((await client.query('select * from lastout.regions_v2()')).rows).toEqual([
    { name: 'here', n: String(enqueued) },
  ]);
  const refusal = await expectCode('STORE_NEWER', () => open(url));
  expect(refusal.details).toEqual({ found: versionOf(layout) + 1, known: versionOf(layout) });
  expect(refusal.message).toContain('upgrade lastout');
  expect(await producer.health()).toMatchObject({ ok: true });
}, 60_000);

const undo = `drop function lastout.regions_v2, lastout.claim_v2; drop table lastout.regions;
  alter table lastout.jobs drop column region;
  update lastout.meta set value = '${versionOf(layout)}' where name = 'schema'`;
