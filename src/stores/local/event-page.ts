/** The events after a cursor, `record.index`, of records that an engine keeps: one per step, the newest of them. */
import { LastoutError } from '../../core/errors.js';
import type { EventPage, EventRecord } from '../../core/store.js';
import { eventsIn, type Run } from './runs.js';

export interface StepRecord {
  readonly seq: number;
  readonly at: number;
  readonly runs: readonly Run[];
}

/** `seq`: the number of the last step, whether or not its record is kept. */
export function eventPageOf(
  { seq, records }: { readonly seq: number; readonly records: readonly StepRecord[] },
  after: string | null,
  limit: number,
): EventPage {
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
