/**
 * PostgreSQL itself: a table of jobs and one of what is done; a batch is one statement, one round trip and one commit
 * that reaches the disk. It survives no lost worker.
 */
import pg from 'pg';
import type { Contender, Where } from '../contender.js';
import { cycle, gatherer } from './gather.js';

const lanes = 2;
const tables = `
  create table if not exists floor_jobs (id bigint generated always as identity primary key, job text not null);
  create table if not exists floor_done (id bigint primary key);`;
const insert = {
  name: 'insert',
  text: 'insert into floor_jobs (job) select json_array_elements_text($1::text::json)',
};
const take = {
  name: 'take',
  rowMode: 'array' as const,
  text: `delete from floor_jobs where ctid = any (array (
           select ctid from floor_jobs order by id limit 500 for update skip locked)) returning id, job`,
};
const mark = { name: 'mark', text: 'insert into floor_done select unnest($1::bigint[])' };

export async function openContender({ at, payload }: Where): Promise<Contender> {
  const text = JSON.stringify(payload);
  const pool = new pg.Pool({ connectionString: at, max: lanes });
  await pool.query(tables);
  const send = (texts: readonly string[]): Promise<unknown> =>
    pool.query({ ...insert, values: [JSON.stringify(texts)] });
  const add = gatherer(send);
  return {
    add: () => add(text),
    addMany: (count) => send(Array.from({ length: count }, () => text)),
    async work(_concurrency, onJob) {
      const lane = async (): Promise<void> => {
        const client = await pool.connect();
        // It would sort and scan what has no statistics yet.
        await client.query('set enable_seqscan = off; set enable_bitmapscan = off; set enable_sort = off');
        await cycle(async (done) => {
          if (done.length > 0) await client.query({ ...mark, values: [done] });
          const { rows } = await client.query<[string, string]>(take);
          return rows.map(([id]) => id);
        }, onJob);
        client.release();
      };
      const running = Promise.all(Array.from({ length: lanes }, lane));
      return { settled: () => running, stop: () => running };
    },
    close: () => pool.end(),
  };
}
