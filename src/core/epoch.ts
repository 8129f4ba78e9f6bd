/**
 * The number of a claim. It comes from the clock, in microseconds, where that is ahead of the last number: so numbers go on growing
 * when a store is older than its clock, after a restored backup or where a server has lost the last claims. This assumes that the
 * clock was not set back by more than the time since.
 */
import type { StoreWarning } from './store.js';

/** Of clocks that are centuries ahead, so much is believed: above it a number would soon be no safe integer any more. */
export const epochMax = 9_000_000_000_000_000;

export const epochAt = (now: number): number => Math.min(now * 1_000, epochMax);

/** Claims that come faster than microseconds, and clocks that are set right by a little, are no reason to worry. */
const toleratedMs = 1_000;

/** The last claim tells what the clock has shown. `whose` clock it is: of a machine, of a server. */
export function clockWarnings(now: number, lastEpoch: number, whose = 'this machine'): readonly StoreWarning[] {
  const behindMs = lastEpoch / 1_000 - now;
  if (behindMs <= toleratedMs) return [];
  const message =
    `The clock of ${whose} is ${Math.ceil(behindMs / 1_000)} s behind what it was at the last claim. ` +
    'Until it has caught up, jobs come due, expire and lapse so much later. Set the clock right, and let a time service keep it.';
  return [{ code: 'CLOCK_BACK', message }];
}
