// A snapshot that somebody holds open keeps PostgreSQL from clearing away dead rows, and a claim would pass over all of them
// each time. So most claims go on where the last one stopped.
// `npm run bench -- snapshot` measures what is left of the rate.
import type { Client, Pool } from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import type { NewJob, Store } from '../../src/core/store.js';
import type { PgClient, PgPool, PgQuery } from '../../src/stores/postgres/driver.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { emptyPostgres } from '../services.js';
import { contextOf, newJob, plainClient, plainPool, system } from '../stores/postgres-support.js';

const dead = 100_000;
const claims = 60;

/** Entries that the index of ready jobs gave out, those of dead rows too, since this process last reported. */
const entriesRead = `select pg_stat_get_xact_tuples_returned('lastout.pending_ready'::regclass)::int as n`;

/** The same pool; how much each claim reads is written down. */
function counting(pool: Pool): { readonly pool: PgPool; readonly entries: number[] } {
  const entries: number[] = [];
  async function counted(client: PgClient, query: PgQuery): Promise<{ rows: unknown[] }> {
    const look = async () => ((await client.query({ text: entriesRead })).rows as [{ n: number }])[0].n;
    await client.query({ text: 'begin' });
    const before = await look();
    const answer = await client.query(query);
    entries.push((await look()) - before);
    await client.query({ text: 'commit' });
    return answer;
  }
  return {
    entries,
    pool: {
      async connect() {
        const client = await (pool as PgPool).connect();
        const isClaim = (query: PgQuery): boolean => /settle_v1|claim_v1/.test(query.text);
        return {
          query: (query) => (isClaim(query) ? counted(client, query) : client.query(query)),
          on: (event, listener) => client.on(event, listener),
          removeListener: (event, listener) => client.removeListener(event, listener),
          release: (broken) => client.release(broken),
        };
      },
    },
  };
}

type Lane = Pick<NewJob, 'type' | 'queue'>;

/** Inserts as many as it ends, so that the table never runs empty. */
async function work(store: Store, lanes: readonly Lane[], batch: number, times: number): Promise<void> {
  const owner = system.id();
  const types = [...new Set(lanes.map(({ type }) => type))];
  const next = { owner, types, queues: null, slots: batch, ahead: 0, leaseMs: 30_000, maxStalls: 3 };
  await insert(store, lanes, batch * 2);
  let claimed = await store.claim(next);
  for (let time = 1; time < times; time++) {
    await insert(store, lanes, batch);
    const { epoch } = claimed;
    const settlements = claimed.jobs.map(({ id }) => ({
      id,
      epoch,
      ending: { kind: 'complete', result: '1' } as const,
    }));
    const settled = await store.settle({ owner, settlements, started: [], next });
    expect(settled.answers).toEqual(settlements.map(() => 'ok'));
    claimed = settled.claimed!;
    expect(claimed.jobs.length).toBe(batch);
  }
}

async function insert(store: Store, lanes: readonly Lane[], count: number): Promise<void> {
  await store.insert(
    Array.from({ length: count }, (_, n) => newJob(lanes[n % lanes.length])),
    { atomic: false },
  );
}

async function storeOn(pool: PgPool, by = system): Promise<Store> {
  const store = await postgresStore({ pool }, { listen: false }).open(contextOf({ system: by }));
  onTestFinished(() => store.close());
  return store;
}

async function holdSnapshot(client: Client): Promise<void> {
  await client.query('begin isolation level repeatable read; select count(*) from lastout.jobs');
}

/** Rows that stood before all others and are gone, but cannot be cleared away. */
async function leaveDead(client: Client, lanes: readonly Lane[]): Promise<void> {
  await client.query(
    `insert into lastout.pending (seq, due_at, priority, place, dear, type, queue)
    select -g, 0, -1000, 0, false, $1::json -> n ->> 'type', $1::json -> n ->> 'queue'
    from generate_series(1, ${dead}) g, mod(g, json_array_length($1::json)) n`,
    [JSON.stringify(lanes)],
  );
  await client.query('delete from lastout.pending where seq < 0');
  await client.query('select pg_stat_force_next_flush()');
  await client.query('select 1');
}

test.each<[string, Lane[]]>([
  ['one lane', [{ type: 'mail', queue: 'default' }]],
  [
    'two types',
    [
      { type: 'mail', queue: 'default' },
      { type: 'sms', queue: 'default' },
    ],
  ],
  [
    'two queues',
    [
      { type: 'mail', queue: 'fast' },
      { type: 'mail', queue: 'slow' },
    ],
  ],
])(
  `R2: with ${dead} dead rows before the others of %s, most claims read none of them`,
  async (_, lanes) => {
    const url = await emptyPostgres();
    const { pool, entries } = counting(plainPool(url, { max: 2 }));
    // However slow the machine is, the same number of looks at the front come due.
    let at = 0;
    const store = await storeOn(pool, { ...system, monotonic: () => (at += 10) });
    const [holder, writer] = [await plainClient(url), await plainClient(url)];
    await holdSnapshot(holder);
    await leaveDead(writer, lanes);
    await work(store, lanes, 50, claims);
    await holder.query('rollback');
    expect(entries).toHaveLength(claims);
    const fromTheFront = entries.filter((count) => count >= dead).length;
    expect(fromTheFront).toBeGreaterThan(0);
    expect(fromTheFront).toBeLessThan(claims / 2);
    expect(entries.filter((count) => count < 500)).toHaveLength(claims - fromTheFront);
  },
  60_000,
);
