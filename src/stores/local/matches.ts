/** The live jobs that a new one meets by its type and key. Only looks. */
import type { NewJob } from '../../core/store.js';
import { isExpired } from './end.js';
import type { Step } from './step.js';
import { Place, type Row } from './tables.js';

export interface Matches {
  /** Newest first; only the newest unless the strategy ends them all. */
  readonly pending: readonly Row[];
  /** The newest one that runs and is not asked to stop. */
  readonly processing: Row | undefined;
  /** Past their ttl: they are to be ended, and match nothing. */
  readonly expired: readonly Row[];
}

/** What earlier jobs of a batch will have done: jobs that they end, and running ones that they mark to run again. */
export interface Foreseen {
  readonly ended: ReadonlySet<Row>;
  readonly again: ReadonlySet<Row>;
}

const nothing: Foreseen = { ended: new Set(), again: new Set() };

export function matchesOf(step: Step, job: NewJob, foreseen: Foreseen = nothing): Matches {
  const pending: Row[] = [];
  const expired: Row[] = [];
  let processing: Row | undefined;
  for (const row of step.tables.matches(job.type, job.key)) {
    if (foreseen.ended.has(row)) continue;
    if (row.place === Place.claimed) {
      if (row.cancelAt !== null) continue;
      processing ??= row;
      // It will be pending again by itself, so for skip it already is.
      if (job.deduplication !== 'skip' || (row.againAt === null && !foreseen.again.has(row))) continue;
    } else if (isExpired(step, row)) {
      expired.push(row);
      continue;
    }
    pending.push(row);
    if (job.deduplication !== 'replace') break;
  }
  return { pending, processing, expired };
}
