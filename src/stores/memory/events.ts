/** The event log in memory: one record per step, the newest kept. A cursor is `record.index`. */
import { LastoutError } from '../../core/errors.js';
import type { EventRecord } from '../../core/store.js';
import { eventsIn, type Run } from '../local/runs.js';
import { bounds } from '../local/tables.js';

interface LogRecord {
  readonly seq: number;
  readonly at: number;
  /** How many events they are. */
  readonly n: number;
  readonly runs: readonly Run[];
}

/** A record of a busy worker has a thousand events: memory is bounded by events, not only by records. */
const eventsMax = 100_000;

export function createEventLog() {
  let records: LogRecord[] = [];
  let seq = 0;
  let held = 0;

  /** The newest records, as far as they are young enough and their events fit. */
  function trim(now: number): void {
    let first = 0;
    while (
      records.length - first > bounds.eventRecordsMax ||
      (held > eventsMax && records.length - first > 1) ||
      (first < records.length && records[first]!.at <= now - bounds.eventAgeMs)
    )
      held -= records[first++]!.n;
    records = records.slice(first);
  }

  return {
    add(at: number, runs: readonly Run[]): void {
      seq += 1;
      const n = runs.reduce((sum, [, ids]) => sum + (ids?.length ?? 1), 0);
      records.push({ seq, at, n, runs });
      held += n;
      // Some more than the bound may gather, so that trimming is rare.
      if (records.length > bounds.eventRecordsMax * 1.1 || held > eventsMax * 1.1) trim(at);
    },
    read(after: string | null, limit: number): { events: EventRecord[]; cursor: string; reset: boolean } {
      if (after === null) return { events: [], cursor: `${seq + 1}.0`, reset: false };
      const [fromSeq, fromIndex] = parseEventCursor(after);
      // Past the end: the store is not the one that the cursor came from.
      if (fromSeq > seq + 1) return { events: [], cursor: `${seq + 1}.0`, reset: true };
      const first = records[0]?.seq ?? seq + 1;
      const events: EventRecord[] = [];
      for (let at = Math.max(0, fromSeq - first); at < records.length && events.length < limit; at++) {
        const record = records[at]!;
        const list = eventsIn(record.runs);
        for (let i = record.seq === fromSeq ? fromIndex : 0; i < list.length && events.length < limit; i++) {
          events.push({ ...list[i]!, at: record.at, cursor: eventCursor(record.seq, i + 1, list.length) });
        }
      }
      return { events, cursor: events.at(-1)?.cursor ?? after, reset: fromSeq < first };
    },
  };
}

/** After the last event of a record the cursor names the next record, so that a trimmed one is missed by nobody who read it. */
function eventCursor(record: number, read: number, of: number): string {
  return read === of ? `${record + 1}.0` : `${record}.${read}`;
}

/** `[record, how many of its events were read]`. */
function parseEventCursor(cursor: string): [number, number] {
  const match = /^(\d{1,15})\.(\d{1,9})$/.exec(cursor);
  if (!match) throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that an event carried.');
  return [Math.max(1, Number(match[1])), Number(match[2])];
}
