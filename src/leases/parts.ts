/** What everything about leases is built on, and the few calls to a store that they share. */
import { isUnknown } from '../core/deadlines.js';
import type { Logger } from '../core/job.js';
import type { Meters } from '../core/meters.js';
import { type Move, type MoveOutcome, noFilter, type Store } from '../core/store.js';
import type { System } from '../core/system.js';

export interface LeaseParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly namespace: string;
  readonly meters: Meters;
}

/** Undefined: there is no such job. */
export async function moveOne({ store }: LeaseParts, id: string, move: Move): Promise<MoveOutcome | undefined> {
  const filter = { ...noFilter, ids: [id] };
  const { items } = await store.move({ filter, move, dryRun: false, cursor: null, limit: 1 });
  return items[0]?.outcome;
}

/** For what may be done again: an answer that was lost is asked for a second time. */
export async function twice<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!isUnknown(error)) throw error;
    return call();
  }
}

/** Due now: whoever is first destroys it. What is being ended, or has ended, stays as it is. */
export function makeDue(parts: LeaseParts, id: string): Promise<MoveOutcome | undefined> {
  return twice(() => moveOne(parts, id, { kind: 'reschedule', when: { inMs: 0 }, priority: null }));
}
