/** The event log in memory: one record per step, the newest kept. A cursor is `record.index`. */
import type { EventPage } from '../../core/store.js';
import { eventPageOf, type StepRecord } from '../local/event-page.js';
import type { Run } from '../local/runs.js';
import { bounds } from '../local/tables.js';

interface LogRecord extends StepRecord {
  /** How many events they are. */
  readonly n: number;
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
    read: (after: string | null, limit: number): EventPage => eventPageOf({ seq, records }, after, limit),
  };
}
