/** Finished jobs and their retention. */
import type { AgeRule, Row, Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import { createEnded } from './ended.js';
import type { Live } from './live.js';
import { doneColumns, restOf } from './rows.js';
import { createCountRules, createdIndex, createOrders, oldestFirst } from './retention.js';
import type { Session } from './session.js';

type Part = Pick<
  Tables,
  | 'finished'
  | 'finish'
  | 'retried'
  | 'drop'
  | 'overAge'
  | 'countOverAge'
  | 'overCount'
  | 'oldestFinished'
  | 'storedTotal'
  | 'finishedAfter'
  | 'countGroupAfter'
>;

export interface Finished extends Part {
  /** Finished rows by number, in any order. */
  many(seqs: readonly number[]): Row[];
}

export function createFinished(session: Session, live: Live, dropLines: (row: Row) => void): Finished {
  const { names, sql, rows, policies, counts } = session;
  const table = names('done');
  const from = (source: string): string =>
    `select ${doneColumns} from ${source} cross join ${names('jobs')} j on j.seq = d.seq`;
  const select = from(`${table} d`);
  const byId = sql(
    `select ${doneColumns} from ${names('jobs')} j cross join ${table} d on d.seq = j.seq where j.id = ?`,
  );
  const bySeqs = sql(from(`json_each(?) cross join ${table} d on d.seq = json_each.value`));
  const mark = sql(`update ${table} set rest = ? where seq = ?`);
  const remove = sql(`delete from ${table} where seq = ?`);
  const oldest = (own: string): string => `${select} where d.keep_ms ${own} order by d.completed_at, d.seq ${limited}`;
  const oldestOwn = sql(oldest('>= -1'));
  const oldestOther = sql(oldest('is null'));
  const overOwnAge = sql(`${select} where d.go_at < ? order by d.go_at, d.seq ${limited}`);
  const countOverOwnAge = sql(`select count(*) from ${table} where go_at < ?`);
  const end = createEnded(session, (row) => live.sure(row));

  const rowsIn = (list: readonly Values[]): Row[] => list.map((values) => session.done(values));
  const many = (seqs: readonly number[]): Row[] => rowsIn(bySeqs.all(JSON.stringify(seqs)));
  const baseOf = (rule: AgeRule): string => (rule.useCompletedTime ? 'completed_at' : 'created_at');

  return {
    finished(id) {
      const values = byId.get(id);
      return values && session.done(values);
    },
    ...createOrders(session, many),
    ...createCountRules(session, many),
    many,
    finish(row) {
      live.follow(row);
      end(row);
      if (row.ownedBy !== null) counts.add('stored', '', 1);
    },
    retried: (row) => void mark.run(restOf(row, true), row.seq),
    drop(row) {
      live.sure(row);
      if (row.state !== null) remove.run(row.seq);
      live.remove(row);
      dropLines(row);
      policies.release(rows.get(row.seq)!.policy);
      rows.delete(row.seq);
      if (row.ownedBy === null || row.state !== null) counts.add('stored', '', -1);
    },
    overAge(now, rule, limit) {
      if (!rule.useCompletedTime) sql(createdIndex(session)).run();
      const base = baseOf(rule);
      const other = sql(`${select} where d.keep_ms is null and d.${base} < ? order by d.${base}, d.seq ${limited}`);
      const found = [...rowsIn(overOwnAge.all(now, limit)), ...rowsIn(other.all(now - rule.retentionMs, limit))];
      return oldestFirst(found).slice(0, limit);
    },
    countOverAge(now, rule) {
      const other = sql(`select count(*) from ${table} where keep_ms is null and ${baseOf(rule)} < ?`);
      return (countOverOwnAge.get(now)![0] as number) + (other.get(now - rule.retentionMs)![0] as number);
    },
    oldestFinished: (limit) =>
      oldestFirst([...rowsIn(oldestOwn.all(limit)), ...rowsIn(oldestOther.all(limit))]).slice(0, limit),
    storedTotal: () => counts.read('stored'),
  };
}
