/** The event log as it is read: a record per step, a line per run of events that differ only in their job. */
import { LastoutError } from '../../core/errors.js';
import type { EventPage, EventRecord } from '../../core/store.js';
import { errorIn } from '../../core/told.js';

type Told = Omit<EventRecord, 'cursor' | 'at'>;

/** Where to read: a record, and how many of its events were read. -1: from now on. */
export interface From {
  readonly record: number;
  readonly read: number;
}

/** After the last event of a record the cursor names the next one, so that a trimmed record is missed by nobody who read it. */
export function readFrom(cursor: string | null): From {
  if (cursor === null) return { record: -1, read: 0 };
  const match = /^(\d{1,16})\.(\d{1,9})$/.exec(cursor);
  if (!match) throw new LastoutError('INVALID_CURSOR', 'The cursor is not one that an event carried.');
  return { record: Number(match[1]), read: Number(match[2]) };
}

/** Numbers of the first record, of the one after the last, of the first in the list, and of the record that was asked for. */
export type EventsReply = [first: string, end: string, from: string, records: string[], asked: string];

export function eventPage(reply: EventsReply, after: string | null, from: From, limit: number): EventPage {
  const [first, end, start, asked] = [reply[0], reply[1], reply[2], reply[4]].map(Number) as [
    number,
    number,
    number,
    number,
  ];
  if (after === null) return { events: [], cursor: `${end}.0`, reset: false };
  // Past the end: the data are not those that the cursor came from.
  if (asked > end) return { events: [], cursor: `${end}.0`, reset: true };
  const events: EventRecord[] = [];
  for (const [index, text] of reply[3].entries()) {
    const no = start + index;
    const { at, list } = recordIn(text);
    for (let i = no === from.record ? from.read : 0; i < list.length && events.length < limit; i++)
      events.push({ ...list[i]!, at, cursor: i + 1 === list.length ? `${no + 1}.0` : `${no}.${i + 1}` });
    if (events.length === limit) break;
  }
  return { events, cursor: events.at(-1)?.cursor ?? after, reset: asked < first };
}

/** `at,n` and a line per run: its JSON, a tab, and the ids. */
function recordIn(text: string): { at: number; list: Told[] } {
  const [head, ...runs] = text.split('\n');
  const list: Told[] = [];
  for (const run of runs) {
    const [json, ids] = run.split('\t') as [string, string | undefined];
    const { error, ...about } = JSON.parse(json) as Omit<Told, 'error'> & { error?: string };
    const event: Told = { ...about, ...(error !== undefined && { error: errorIn(error) }) };
    if (ids === undefined) list.push(event);
    else for (const id of ids.split(',')) list.push({ ...event, id });
  }
  return { at: Number(head!.slice(0, head!.indexOf(','))), list };
}
