/** The bounded logs: events, log lines of jobs, tombstones. */
import { LastoutError } from '../../core/errors.js';
import type { EventRecord, LogLine } from '../../core/store.js';
import { eventsIn, type Run } from '../local/runs.js';
import { bounds, type Row, type Tables } from '../local/tables.js';
import type { Untold } from './open-run.js';
import { leavingNumber, leavingOf, removedNumber, removedOf, whyNumber, whyOf } from './rows.js';
import type { Session, StepPart } from './session.js';

/** Trimming touches other pages than adding does, so it is done for several records at once. */
const trimEvery = 64;

/**
 * A cursor is `record.events`: so many events of that record were read. What has joined the open run is the record that comes
 * next, and may grow until it is written. `trimmed` in `meta` is the cursor of the last event that was trimmed.
 */
export function createEventLog(
  { names, sql }: Session,
  untold: () => Untold | null,
): Pick<Tables, 'addEvents' | 'events'> {
  const table = names('events');
  const insert = sql(`insert into ${table} (at, body) values (?, ?)`);
  const newest = sql(`select max(no) from ${table}`);
  const oldest = sql(`select min(no) from ${table}`);
  const from = sql(`select no, at, body from ${table} where no >= ? order by no limit 1`);
  const lastBefore = sql(`select no, body from ${table} where no < ? order by no desc limit 1`);
  // Reads from the oldest up to the first that stays; the newest always stays, so numbers never start over.
  const firstKept = sql(`select no from ${table} where no > ? and (at > ? or no = ?) order by no limit 1`);
  const removeBefore = sql(`delete from ${table} where no < ?`);
  const trimmed = sql(`select value from ${names('meta')} where name = 'trimmed'`);
  const setTrimmed = sql(`insert or replace into ${names('meta')} (name, value) values ('trimmed', ?)`);

  function trim(now: number, newestNo: number): void {
    const kept = firstKept.get(newestNo - bounds.eventRecordsMax, now - bounds.eventAgeMs, newestNo)![0] as number;
    const last = lastBefore.get(kept) as [number, string] | undefined;
    if (!last) return;
    setTrimmed.run(cursorOf(last[0], eventsIn(JSON.parse(last[1]) as Run[]).length));
    removeBefore.run(kept);
  }
  /** The records before the oldest are gone: whether something of them was not read. */
  function hasMissed({ record, read }: Position, oldestNo: number): boolean {
    if (record >= oldestNo) return false;
    const gone = trimmed.get()?.[0];
    if (record < oldestNo - 1 || typeof gone !== 'string') return true;
    const last = parseCursor(gone);
    return last.record !== record || read < last.read;
  }

  return {
    addEvents(at, runs) {
      const no = Number(insert.run(at, JSON.stringify(runs)).lastInsertRowid);
      if (no % trimEvery === 0) trim(at, no);
    },
    events(after, limit) {
      const last = Number(newest.get()?.[0] ?? 0);
      const next = untold();
      const coming = next ? eventsIn(next.runs) : [];
      const end = cursorOf(last + 1, coming.length);
      if (after === null) return { events: [], cursor: end, reset: false };
      const start = parseCursor(after);
      // Past the end: the file is not the one that the cursor came from.
      if (start.record > last + 1 || (start.record === last + 1 && start.read > coming.length))
        return { events: [], cursor: end, reset: true };
      const reset = hasMissed(start, Number(oldest.get()?.[0] ?? last + 1));
      const events: EventRecord[] = [];
      for (let record = from.get(start.record); record && events.length < limit; ) {
        const [no, at, body] = record as [number, number, string];
        const list = eventsIn(JSON.parse(body) as Run[]);
        for (let i = no === start.record ? start.read : 0; i < list.length && events.length < limit; i++) {
          events.push({ ...list[i]!, at, cursor: cursorOf(no, i + 1) });
        }
        record = from.get(no + 1);
      }
      for (let i = start.record > last ? start.read : 0; i < coming.length && events.length < limit; i++)
        events.push({ ...coming[i]!, at: next!.at, cursor: cursorOf(last + 1, i + 1) });
      return { events, cursor: events.at(-1)?.cursor ?? after, reset };
    },
  };
}

interface Position {
  readonly record: number;
  readonly read: number;
}

const cursorOf = (record: number, read: number): string => `${record}.${read}`;

function parseCursor(cursor: string): Position {
  const match = /^(\d{1,15})\.(\d{1,9})$/.exec(cursor);
  if (!match) throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that an event carried.');
  return { record: Math.max(1, Number(match[1])), read: Number(match[2]) };
}

export interface LineLog extends Pick<Tables, 'addLines' | 'lines'>, StepPart {
  drop(row: Row): void;
}

export function createLineLog({ names, sql }: Session): LineLog {
  const table = names('lines');
  const insert = sql(`insert into ${table} (seq, no, at, message, fields) values (?, ?, ?, ?, ?)`);
  const count = sql(`select count(*) from ${table} where seq = ?`);
  const select = sql(
    `select at, message, fields from ${table} where seq = (select seq from ${names('jobs')} where id = ?) order by no`,
  );
  const remove = sql(`delete from ${table} where seq = ?`);
  const any = sql(`select 1 from ${table} limit 1`);
  /** Most jobs write no line: while the table is empty, a removal need not look. */
  let mayHaveAny: boolean | null = null;

  return {
    begin() {
      mayHaveAny = null;
    },
    addLines(row, lines) {
      mayHaveAny = true;
      let no = count.get(row.seq)![0] as number;
      for (const { at, message, fields } of lines) insert.run(row.seq, no++, at, message, fields);
    },
    lines: (id) =>
      select.all(id).map(
        ([at, message, fields]): LogLine => ({
          at: at as number,
          message: message as string,
          fields: fields as string | null,
        }),
      ),
    drop(row) {
      mayHaveAny ??= any.get() !== undefined;
      if (mayHaveAny) remove.run(row.seq);
    },
  };
}

export function createTombstones({ names, sql }: Session): Pick<Tables, 'tombstone' | 'addTombstone'> & StepPart {
  const table = names('tombs');
  const columns = 'id, at, why, type, queue, state, reason, print, epoch, "left"';
  const select = sql(`select ${columns} from ${table} where id = ?`);
  const insert = sql(`insert or replace into ${table} (${columns}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const trim = sql(`delete from ${table} where no <= (select max(no) from ${table}) - ?`);
  let added = false;

  return {
    begin() {
      added = false;
    },
    tombstone(wanted) {
      const found = select.get(wanted);
      if (!found) return undefined;
      const [id, at, why, type, queue, state, reason, print, epoch, left] = found;
      return {
        id: id as string,
        at: at as number,
        why: whyOf(why!),
        type: type as string,
        queue: queue as string,
        state: removedOf(state!),
        reason: reason as string | null,
        print: print as string,
        epoch: epoch as number,
        left: leavingOf(left),
      };
    },
    addTombstone({ id, at, why, type, queue, state, reason, print, epoch, left }) {
      insert.run(id, at, whyNumber(why), type, queue, removedNumber(state), reason, print, epoch, leavingNumber(left));
      added = true;
    },
    flush() {
      if (added) trim.run(bounds.tombstonesMax);
    },
  };
}
