/** Finished jobs and their retention. */
import type { AgeRule, Row, Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import { createEnded } from './ended.js';
import type { Live } from './live.js';
import { doneColumns } from './rows.js';
import type { Session } from './session.js';

type Part = Pick<
  Tables,
  'finished' | 'finish' | 'drop' | 'overAge' | 'countOverAge' | 'overCount' | 'oldestFinished' | 'storedTotal'
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
  const remove = sql(`delete from ${table} where seq = ?`);
  const oldest = (own: string): string =>
    `${select} where d.keep_ms is ${own} order by d.completed_at, d.seq ${limited}`;
  const oldestOwn = sql(oldest('not null'));
  const oldestOther = sql(oldest('null'));
  const overOwnAge = sql(`${select} where d.go_at < ? order by d.go_at, d.seq ${limited}`);
  const countOverOwnAge = sql(`select count(*) from ${table} where go_at < ?`);
  const countRules = createCountRules(session);
  const end = createEnded(session, (row) => live.sure(row));

  const rowsIn = (list: readonly Values[]): Row[] => list.map((values) => session.done(values));
  const baseOf = (rule: AgeRule): string => (rule.useCompletedTime ? 'completed_at' : 'created_at');

  return {
    finished(id) {
      const values = byId.get(id);
      return values && session.done(values);
    },
    many: (seqs) => rowsIn(bySeqs.all(JSON.stringify(seqs))),
    finish(row) {
      live.follow(row);
      end(row);
    },
    drop(row) {
      live.sure(row);
      if (row.state !== null) remove.run(row.seq);
      live.remove(row);
      dropLines(row);
      policies.release(rows.get(row.seq)!.policy);
      rows.delete(row.seq);
      counts.add('stored', '', -1);
    },
    overAge(now, rule, limit) {
      // The index serves a choice that few make, so it is made when the choice is first acted on.
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
    overCount: (limit) => oldestFirst(rowsIn(bySeqs.all(JSON.stringify(countRules.over(limit))))).slice(0, limit),
    oldestFinished: (limit) =>
      oldestFirst([...rowsIn(oldestOwn.all(limit)), ...rowsIn(oldestOther.all(limit))]).slice(0, limit),
    storedTotal: () => counts.read('stored'),
  };
}

function createdIndex({ names }: Session): string {
  const name = names('done_created');
  return `create index if not exists ${name} on ${names('done')} (created_at, seq) where keep_ms is null`;
}

/** Rows beyond the newest n of their type and state. Only groups in which a row has such a rule are looked at. */
function createCountRules({ names, sql }: Session): { over(limit: number): number[] } {
  const table = names('done');
  const nextGroup = sql(
    `select type, state from ${table} where keep_count is not null and (type, state) >= (?, ? + 1) ` +
      'order by type, state limit 1',
  );
  const least = sql(`select min(keep_count) from ${table} where keep_count is not null and type = ? and state = ?`);
  const size = sql(`select count(*) from ${table} where type = ? and state = ?`);
  const beyond = sql(
    'select seq from (select seq, completed_at, keep_count, row_number() over (order by completed_at desc, seq desc) ' +
      `as rank from ${table} where type = ? and state = ?) ` +
      `where keep_count is not null and rank > keep_count order by completed_at, seq ${limited}`,
  );
  return {
    over(limit) {
      const seqs: number[] = [];
      for (let group = nextGroup.get('', -1); group; group = nextGroup.get(...group)) {
        const smallestRule = least.get(...group)![0] as number;
        if ((size.get(...group)![0] as number) <= smallestRule) continue;
        for (const [seq] of beyond.all(...group, limit)) seqs.push(seq as number);
      }
      return seqs;
    },
  };
}

function oldestFirst(rows: Row[]): Row[] {
  return rows.sort((a, b) => a.completedAt! - b.completedAt! || a.seq - b.seq);
}
