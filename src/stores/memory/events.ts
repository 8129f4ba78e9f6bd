/** The event log in memory: one record per step, the newest kept. A cursor is `record.index`. */
import { LastoutError } from '../../core/errors.js';
import type { EventRecord } from '../../core/store.js';
import { bounds } from '../local/tables.js';

type Event = Omit<EventRecord, 'cursor' | 'at'>;

export function createEventLog() {
  let records: { readonly seq: number; readonly at: number; readonly events: readonly Event[] }[] = [];
  let seq = 0;

  return {
    add(at: number, events: readonly Event[]): void {
      seq += 1;
      records.push({ seq, at, events: [...events] });
      if (records.length < bounds.eventRecordsMax * 1.1) return;
      records = records.slice(-bounds.eventRecordsMax).filter((record) => record.at > at - bounds.eventAgeMs);
    },
    read(after: string | null, limit: number): { events: EventRecord[]; cursor: string; reset: boolean } {
      if (after === null) return { events: [], cursor: `${seq}.${records.at(-1)?.events.length ?? 0}`, reset: false };
      const [fromSeq, fromIndex] = parseEventCursor(after);
      // Past the end: the store is not the one that the cursor came from.
      if (fromSeq > seq) return { events: [], cursor: `${seq}.${records.at(-1)?.events.length ?? 0}`, reset: true };
      const first = records[0]?.seq ?? seq + 1;
      const events: EventRecord[] = [];
      for (const record of records.slice(Math.max(0, fromSeq - first))) {
        const start = record.seq === fromSeq ? fromIndex : 0;
        for (let i = record.seq < fromSeq ? record.events.length : start; i < record.events.length; i++) {
          if (events.length === limit) return { events, cursor: events.at(-1)!.cursor, reset: fromSeq < first - 1 };
          events.push({ ...record.events[i]!, at: record.at, cursor: `${record.seq}.${i + 1}` });
        }
      }
      return { events, cursor: events.at(-1)?.cursor ?? after, reset: fromSeq < first - 1 };
    },
  };
}

/** `[record, how many of its events were read]`. */
function parseEventCursor(cursor: string): [number, number] {
  const match = /^(\d{1,15})\.(\d{1,9})$/.exec(cursor);
  if (!match) throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that an event carried.');
  return [Number(match[1]), Number(match[2])];
}
