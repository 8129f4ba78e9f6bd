/** What the meters are told about runs. Asked only where somebody counts; the library's own jobs do not count. */
import type { Ending } from '../core/ending.js';
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
