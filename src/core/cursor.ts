/** Cursors as callers see them: what a store gave, and a mark by which the call that made it knows it again. */
import { show } from './duration.js';
import { LastoutError } from './errors.js';
import { fingerprint } from './json.js';

/** The calls that give pages. Events have cursors of their own, which outlive versions. */
export type Paged =
  | 'find'
  | 'cancel'
  | 'retry'
  | 'remove'
  | 'reschedule'
  | 'hold'
  | 'release'
  | 'leases.find'
  | 'ledger';

export function sealCursor(by: Paged, cursor: string | null): string | null {
  return cursor === null ? null : `${cursor}.${fingerprint(`${by} ${cursor}`)}`;
}

/** What the store gave; a cursor that this call did not make would silently begin somewhere. */
export function openCursor(by: Paged, given: unknown): string | null {
  if (given === undefined || given === null) return null;
  const cursor = typeof given === 'string' ? given.slice(0, Math.max(0, given.lastIndexOf('.'))) : '';
  if (cursor !== '' && sealCursor(by, cursor) === given) return cursor;
  throw new LastoutError('INVALID_CURSOR', `cursor is ${show(given)}; give what a page of ${by} gave as "next".`);
}
