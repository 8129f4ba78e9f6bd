// The crowd that a claim must not look at: jobs that wait for later or for a key, and jobs long finished.
import { newRow } from '../../src/stores/local/new-row.js';
import type { Row } from '../../src/stores/local/tables.js';
import { newJob } from '../stores/new-job.js';

export const crowd = { delayed: 1_000_000, behind: 100_000, subjects: 100_000, finished: 1_000_000 } as const;
/** From the first to the last: whatever a claim takes, some of the crowd would come before it. */
export const priorities = { first: -1_000, count: 2_001 } as const;

export const now = Date.parse('2030-01-01T00:00:00Z');
export const hour = 3_600_000;
export const key = 'trip-42';

/** A plain job, as `insert` makes it. */
export function plainRow(seq: number): Row {
  return newRow(newJob({ id: `crowd-${seq}` }), seq, now, now, null);
}
