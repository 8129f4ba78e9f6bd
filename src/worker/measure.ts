/** What the meters, and those who tell of failures, are told about runs. The library's own jobs do not count. */
import type { Ending } from '../core/ending.js';
import type { Failures } from '../core/failures.js';
import type { JobError } from '../core/job.js';
import type { Meters } from '../core/meters.js';
import { systemQueue } from '../core/names.js';
import type { System } from '../core/system.js';
import type { Run } from './run.js';

const outcomes: { readonly [kind in Ending['kind']]: string } = {
  complete: 'completed',
  retry: 'retried',
  exhaust: 'failed',
  fail: 'failed',
  snooze: 'snoozed',
  cancel: 'cancelled',
  release: 'handed_back',
};
const last: ReadonlySet<Ending['kind']> = new Set(['complete', 'exhaust', 'fail', 'cancel']);

/** How long it waited since it was due, by the store's clock. */
export function measureBegun(meters: Meters, { stored, claim }: Run, now: number): void {
  const { queue, type, scheduledFor } = stored;
  if (queue !== systemQueue) meters.took('wait', claim.storeTime(now) - scheduledFor, { queue, type });
}

export function measureRan(meters: Meters, { stored: { queue, type } }: Run, ending: Ending, ms: number): void {
  if (queue !== systemQueue) meters.took('job', ms, { queue, type, outcome: outcomes[ending.kind] });
}

/** The store has taken the ending. */
export function measureSettled(meters: Meters, { stored, claim }: Run, ending: Ending, system: System): void {
  const { queue, type, createdAt } = stored;
  if (queue === systemQueue) return;
  meters.add('settlements', 1, { queue, type, outcome: outcomes[ending.kind] });
  if (last.has(ending.kind)) meters.took('lifetime', claim.storeTime(system.monotonic()) - createdAt, { queue, type });
}

/** The store has taken the ending. Who was asked to cancel does not fail, unless its handler insists. */
export function tellFailure(failures: Failures, { stored, isCancelled }: Run, ending: Ending): void {
  if (ending.kind !== 'retry' && ending.kind !== 'exhaust' && ending.kind !== 'fail') return;
  const { id, type, queue, attempts: attempt, maxAttempts } = stored;
  if (queue === systemQueue || (isCancelled && ending.kind !== 'fail')) return;
  const error = JSON.parse(ending.error) as JobError;
  if (ending.kind === 'retry') failures.retried({ id, type, attempt, maxAttempts, error }, ending.inMs);
  else failures.failed({ id, type, attempt, maxAttempts, error });
}
