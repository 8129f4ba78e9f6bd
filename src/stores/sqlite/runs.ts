/** Runs of ready jobs: plain ones that came together are one row of `pending`, and one that leaves alone divides it. */
import { Place } from '../local/tables.js';
import type { Known, Session } from './session.js';

/** The jobs j of a run p that are below a number, which is the parameter. */
export const inRunBelow = 'j.seq between p.seq and min(p.last, ? - 1)';

export interface RunTaking {
  /** Takes a ready job out of its run. */
  takeOne(known: Known): void;
  /** The jobs between two numbers, both of them too, stand as the given one did; none if the first is above the last. */
  put(like: Known, seq: number, last: number): void;
}

export function takingFromRuns(session: Session, first: Session['sql']): RunTaking {
  const { names, writer } = session;
  const table = names('pending');
  const lane = `place = ${Place.ready} and type = ? and queue = ? and priority = ? and due_at = ?`;
  const removeAlone = first(`delete from ${table} where ${lane} and seq = ? and last = ?`);
  const select = writer(`select seq, last from ${table} where ${lane} and seq <= ? order by seq desc limit 1`);
  const remove = writer(`delete from ${table} where ${lane} and seq = ?`);
  const insert = writer(
    `insert into ${table} (place, type, queue, priority, due_at, seq, last) values (${Place.ready}, ?, ?, ?, ?, ?, ?)`,
  );

  function put({ row: { type, queue }, priority, dueAt }: Known, seq: number, last: number): void {
    if (seq <= last) insert.run(type, queue, priority, dueAt, seq, last);
  }

  return {
    put,
    takeOne(known) {
      const { priority, dueAt } = known;
      const { type, queue, seq } = known.row;
      if (Number(removeAlone.run(type, queue, priority, dueAt, seq, seq).changes) === 1) return;
      const run = select.get(type, queue, priority, dueAt, seq);
      if (!run || (run[1] as number) < seq) return;
      const [from, last] = run as [number, number];
      session.arrivals += 1; // who has read the run knows another end of it
      remove.run(type, queue, priority, dueAt, from);
      put(known, from, seq - 1);
      put(known, seq + 1, last);
    },
  };
}
