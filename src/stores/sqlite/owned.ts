/** Jobs that other jobs own, and holds. Most stores have neither: while the tables are empty, a removal need not look. */
import { systemQueue } from '../../core/names.js';
import { Place, type Row, type Tables } from '../local/tables.js';
import { limited, type Values } from './driver.js';
import { keepValues, restOf } from './rows.js';
import type { Session, StepPart } from './session.js';

export interface Owned extends Pick<Tables, 'owning' | 'ownedCount' | 'dueThings'>, StepPart {
  /** The place, the deadline or the hold of an owned row has changed; it is written when it first stands somewhere. */
  follow(row: Row): void;
  ended(row: Row): void;
  drop(row: Row): void;
}

export function createOwned({ names, sql }: Session): Owned {
  const table = names('owned');
  const put = sql(
    `insert into ${table} (seq, owner, due_at) values (?, ?, ?) on conflict do update set due_at = excluded.due_at`,
  );
  const end = sql(`update ${table} set ended = 1, due_at = null where seq = ?`);
  const remove = sql(`delete from ${table} where seq = ?`);
  const any = sql(`select 1 from ${table} limit 1`);
  const owners = sql(
    `select value from json_each(?) where exists (select 1 from ${table} where owner = json_each.value and ended = 0)`,
  );
  const count = sql(`select count(*) from ${table} where owner = ? and ended = 0`);
  const due = sql(
    `select (select j.id from ${names('jobs')} j where j.seq = o.seq), due_at, seq from ${table} o indexed by ${names('owned_due')} ` +
      `where due_at <= ? and (due_at, seq) > (?, ?) order by due_at, seq ${limited}`,
  );
  let mayHaveAny: boolean | null = null;

  return {
    begin() {
      mayHaveAny = null;
    },
    follow(row) {
      mayHaveAny = true;
      const isThing = row.queue === systemQueue && row.place !== Place.claimed && row.heldUntil === null;
      put.run(row.seq, row.ownedBy, isThing ? row.dueAt : null);
    },
    ended: (row) => void end.run(row.seq),
    drop: (row) => void remove.run(row.seq),
    owning(ids) {
      mayHaveAny ??= any.get() !== undefined;
      if (!mayHaveAny || ids.length === 0) return none;
      return new Set(owners.all(JSON.stringify(ids)).map(([id]) => id as string));
    },
    ownedCount: (id) => count.get(id)![0] as number,
    dueThings(now, after, limit) {
      const { at, seq } = after ?? { at: Number.MIN_SAFE_INTEGER, seq: 0 };
      return due.all(now, at, seq, limit).map(([id, dueAt, seq]) => ({ id, dueAt, seq }) as DueThing);
    },
  };
}

type DueThing = ReturnType<Tables['dueThings']>[number];

const none: ReadonlySet<string> = new Set();

export interface Holds extends Pick<Tables, 'heldPast' | 'heldAfter'> {
  /** Writes the hold of a row, and of a finished one also where it stands. */
  write(row: Row): void;
  drop(row: Row): void;
}

export function createHolds({ names, sql }: Session, many: (seqs: readonly number[]) => Row[]): Holds {
  const table = names('holds');
  const put = sql(`insert or replace into ${table} (seq, until) values (?, ?)`);
  const remove = sql(`delete from ${table} where seq = ?`);
  const past = sql(`select seq from ${table} where until <= ? order by until, seq ${limited}`);
  // Very many end at one instant: for ever. A row value would be compared with each of them.
  const alike = sql(`select seq from ${table} where until = ? and seq > ? order by seq ${limited}`);
  const after = sql(`select seq from ${table} where until > ? order by until, seq ${limited}`);
  const shelve = sql(`update ${names('done')} set rest = ?, keep_ms = ?, keep_count = ?, go_at = ? where seq = ?`);

  function inOrder(found: readonly Values[]): Row[] {
    const seqs = found.map(([seq]) => seq as number);
    if (seqs.length === 0) return [];
    const rows = new Map(many(seqs).map((row) => [row.seq, row]));
    return seqs.map((seq) => rows.get(seq)!);
  }

  return {
    write(row) {
      if (row.heldUntil === null) remove.run(row.seq);
      else put.run(row.seq, row.heldUntil);
      if (row.state !== null) shelve.run(restOf(row, true), ...keepValues(row), row.seq);
    },
    drop: (row) => void remove.run(row.seq),
    heldPast: (now, limit) => inOrder(past.all(now, limit)),
    heldAfter({ at, seq }, limit) {
      const found = alike.all(at, seq, limit);
      return inOrder(found.length === limit ? found : [...found, ...after.all(at, limit - found.length)]);
    },
  };
}
