/** The orders of finished jobs beside that of age: pages of each, and what is beyond the newest n of its type and state. */
import type { CountGroup, FinishedOrder, Position, Row, Tables } from '../local/tables.js';
import { limited, type Statement, type Value, type Values } from './driver.js';
import { notHeld, stateNumber, stateOf } from './rows.js';
import type { Session } from './session.js';

type Many = (seqs: readonly number[]) => Row[];

/** Serves a choice that few make, so it is made when the choice is first acted on. */
export function createdIndex({ names }: Session): string {
  const name = names('done_created');
  return `create index if not exists ${name} on ${names('done')} (created_at, seq) where keep_ms is null`;
}

/** The same, for count rules. */
function rankIndex({ names }: Session): string {
  const columns = 'type, state, completed_at, seq, keep_count';
  return `create index if not exists ${names('done_rank')} on ${names('done')} (${columns}) where ${notHeld}`;
}

export function createOrders(session: Session, many: Many): Pick<Tables, 'finishedAfter'> {
  const { names, sql } = session;
  const table = names('done');
  const first: Position = { at: Number.MIN_SAFE_INTEGER, seq: 0 };
  const last: Position = { at: Number.MAX_SAFE_INTEGER, seq: Number.MAX_SAFE_INTEGER };
  /** Upwards from a position, before an instant. */
  const upTo = (at: string, which: string): Statement =>
    sql(
      `select seq from ${table} where ${which} and ${at} < ? and (${at}, seq) > (?, ?) order by ${at}, seq ${limited}`,
    );
  const goes = upTo('go_at', 'go_at is not null');
  const completed = upTo('completed_at', 'keep_ms is null');
  const endedOwn = upTo('completed_at', 'keep_ms >= -1');
  const rank = sql(
    `select seq from ${table} where type = ? and state = ? and ${notHeld} and (completed_at, seq) < (?, ?) ` +
      `order by completed_at desc, seq desc ${limited}`,
  );

  function seqsIn(order: FinishedOrder, after: Position | null, limit: number): readonly Values[] {
    const { at, seq } = after ?? first;
    switch (order.by) {
      case 'goes':
        return goes.all(order.before, at, seq, limit);
      case 'completed':
        return completed.all(order.before, at, seq, limit);
      case 'created':
        return upTo('created_at', 'keep_ms is null').all(order.before, at, seq, limit);
      case 'ended':
        return [endedOwn, completed].flatMap((half) => half.all(last.at, at, seq, limit));
      case 'rank': {
        const below = after ?? last;
        return rank.all(order.type, stateNumber(order.state), below.at, below.seq, limit);
      }
    }
  }
  return {
    finishedAfter(order, after, limit) {
      const seqs = seqsIn(order, after, limit).map(([seq]) => seq as number);
      const rows = new Map(many(seqs).map((row) => [row.seq, row]));
      const inOrder = seqs.map((seq) => rows.get(seq)!);
      // Its two halves come one after the other.
      return order.by === 'ended' ? oldestFirst(inOrder).slice(0, limit) : inOrder;
    },
  };
}

/** Rows beyond the newest n of their type and state. Only groups in which a row has such a rule are looked at. */
export function createCountRules(session: Session, many: Many): Pick<Tables, 'overCount' | 'countGroupAfter'> {
  const { names, sql } = session;
  const table = names('done');
  const nextGroup = sql(
    `select type, state from ${table} where keep_count is not null and (type, state) >= (?, ? + 1) ` +
      'order by type, state limit 1',
  );
  const ofGroup = 'keep_count is not null and type = ? and state = ?';
  const least = sql(`select min(keep_count) from ${table} where ${ofGroup}`);
  const most = sql(`select max(keep_count) from ${table} where ${ofGroup}`);
  const inGroup = `from ${table} where type = ? and state = ? and ${notHeld}`;
  const newestFirst = `order by completed_at desc, seq desc ${limited}`;
  const newest = sql(`select seq, keep_count ${inGroup} ${newestFirst}`);
  const atRank = sql(`select completed_at, seq ${inGroup} ${newestFirst} offset ? + 0`);
  const older = sql(
    `select seq ${inGroup} and keep_count is not null and (completed_at, seq) <= (?, ?) ` +
      `order by completed_at, seq ${limited}`,
  );

  /** What is older than the newest n of the largest rule is over; among those, each is asked for its own. */
  function overIn(group: readonly Value[], limit: number): number[] {
    const rank = atRank.get(...group, 1, most.get(...group)![0]!);
    const seqs = rank ? older.all(...group, ...rank, limit).map(([seq]) => seq as number) : [];
    if (seqs.length === limit || least.get(...group)![0] === most.get(...group)![0]) return seqs;
    const among = newest.all(...group, most.get(...group)![0]!);
    for (let at = among.length - 1; at >= 0 && seqs.length < limit; at--) {
      const [seq, keep] = among[at] as [number, number | null];
      if (keep !== null && at >= keep) seqs.push(seq);
    }
    return seqs;
  }

  return {
    overCount(limit) {
      const seqs: number[] = [];
      let group = nextGroup.get('', -1);
      if (group) sql(rankIndex(session)).run();
      for (; group; group = nextGroup.get(...group)) seqs.push(...overIn(group, limit));
      return seqs.length === 0 ? [] : oldestFirst(many(seqs)).slice(0, limit);
    },
    countGroupAfter(after): CountGroup | null {
      const group = after ? nextGroup.get(after.type, stateNumber(after.state)) : nextGroup.get('', -1);
      return group ? { type: group[0] as string, state: stateOf(group[1]!) } : null;
    },
  };
}

export function oldestFirst(rows: Row[]): Row[] {
  return rows.sort((a, b) => a.completedAt! - b.completedAt! || a.seq - b.seq);
}
