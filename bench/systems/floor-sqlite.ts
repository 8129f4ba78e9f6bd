/** SQLite itself, by the driver that lastout uses: a table of jobs and one of what is done, a commit per batch. */
import { loadDriver, prepare } from '../../src/stores/sqlite/driver.js';
import type { Contender, Where } from '../contender.js';
import { cycle, gatherer } from './gather.js';

export async function openContender({ at, setup, payload }: Where): Promise<Contender> {
  const text = JSON.stringify(payload);
  const { DatabaseSync } = await loadDriver();
  const db = new DatabaseSync(at);
  db.exec(`pragma journal_mode = wal; pragma synchronous = ${setup};
    create table jobs (id integer primary key, job text not null);
    create table done (id integer not null);`);
  const insertOne = prepare(db, 'insert into jobs (job) values (?)');
  const insert = prepare(db, 'insert into jobs (job) select value from json_each(?)');
  const take = prepare(
    db,
    'delete from jobs where id in (select id from jobs order by id limit 500) returning id, job',
  );
  const mark = prepare(db, 'insert into done select value from json_each(?)');
  const send = async (texts: readonly string[]): Promise<void> => {
    if (texts.length === 1) insertOne.run(text);
    else insert.run(JSON.stringify(texts));
  };
  const add = gatherer(send);
  return {
    add: () => add(text),
    addMany: (count) => send(Array.from({ length: count }, () => text)),
    async work(_concurrency, onJob) {
      const running = cycle(async (done) => {
        db.exec('begin immediate');
        if (done.length > 0) mark.run(`[${done.join()}]`);
        const taken = take.all();
        db.exec('commit');
        return taken.map(([id]) => String(id));
      }, onJob);
      return { settled: () => running, stop: () => running };
    },
    close: async () => db.close(),
  };
}
