/** The event log as it is read: one row per run of events that differ only in their job. A cursor is `row.events read`. */
import { LastoutError } from '../../core/errors.js';
import type { EventPage, EventRecord } from '../../core/store.js';
import { errorIn } from '../../core/told.js';
import type { Rows } from './run.js';

export interface From {
  readonly row: number;
  readonly read: number;
}

export function fromOf(cursor: string | null): From | null {
  if (cursor === null) return null;
  const match = /^(\d{1,16})\.(\d{1,9})$/.exec(cursor);
  if (!match) throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that an event carried.');
  return { row: Math.max(1, Number(match[1])), read: Number(match[2]) };
}

/** `rows`: of read_events_v2, the first of which says up to where all is decided, up to where rows are gone, and what comes next. */
export function eventPage(rows: Rows, after: string | null, from: From | null, limit: number): EventPage {
  const [decided, trimmed] = rows[0] as readonly number[];
  const next = Number(rows[0]![8]);
  const end = `${decided}.0`;
  if (after === null || from === null) return { events: [], cursor: end, reset: false };
  // Past the end: the database is not the one that the cursor came from.
  if (from.row > next) return { events: [], cursor: end, reset: true };
  const events: EventRecord[] = [];
  for (const row of rows.slice(1)) {
    const no = row[0] as number;
    const list = eventsIn(row);
    // After the last event of a row the cursor names the next one, so that a trimmed row is missed by nobody who read it.
    for (let i = no === from.row ? from.read : 0; i < list.length && events.length < limit; i++)
      events.push({ ...list[i]!, cursor: i + 1 === list.length ? `${no + 1}.0` : `${no}.${i + 1}` });
  }
  return { events, cursor: events.at(-1)?.cursor ?? after, reset: from.row <= trimmed! };
}

function eventsIn(row: readonly unknown[]): Omit<EventRecord, 'cursor'>[] {
  const [, at, name, type, queue, subject, attempt, error, ids, progress] = row;
  const event = {
    at: at as number,
    name: name as EventRecord['name'],
    ...(type !== null && { type: type as string }),
    ...(queue !== null && { queue: queue as string }),
    ...(subject !== null && { subject: subject as string }),
    ...(attempt !== null && { attempt: attempt as number }),
    ...(error !== null && { error: errorIn(error as string) }),
    ...(progress !== null && { progress: progress as string }),
  };
  return ids === null ? [event] : (ids as string).split(',').map((id) => ({ ...event, id }));
}
