/** What is done to jobs by hand, and by the cleanup to what stands in its way: each is answered for by itself. */
import type { FinishedState } from './job.js';
import type { JobFilter, Under, When } from './store.js';

export type Move =
  | { readonly kind: 'cancel'; readonly reason: string; readonly force: boolean }
  /** A pending job is an orphan: it is cancelled, code ORPHANED. One that runs is left alone. */
  | { readonly kind: 'condemn'; readonly reason: string }
  /**
   * A held job stays, whatever `force` says. So does one that owns live jobs; if it is pending, it is cancelled in the same
   * step, so that nobody takes it while these end. The reason is kept with the trace of what went.
   */
  | { readonly kind: 'remove'; readonly force: boolean; readonly reason?: string }
  /**
   * Each retried job takes the next of the new ids that stands for no job, and is marked with it for as long as it is stored. One
   * that is marked answers `already_retried` with that id, unless `again`; marked with one of these new ids, it was this call that
   * did it, and answers `retried` once more, dry or not. One whose subject is fenced is skipped. With `failuresOnly`, jobs that a newer
   * one has replaced are passed over: no item answers for them. With `copies`, by the ids of all that the filter can find, a copy has
   * the one of the new ids that is named there, and this text as its input.
   */
  | {
      readonly kind: 'retry';
      readonly newIds: readonly string[];
      readonly again?: true;
      readonly failuresOnly?: true;
      readonly copies?: { readonly [id: string]: { readonly newId: string; readonly input: string } };
    }
  | { readonly kind: 'reschedule'; readonly when: When | null; readonly priority: number | null }
  /**
   * No removal until then, whatever the state; null: until it is released. A second hold replaces the first. What has been
   * dismissed, and what owns such a job, is not held any more: it answers `going`.
   */
  | { readonly kind: 'hold'; readonly reason: string; readonly until: number | null }
  | { readonly kind: 'unhold' }
  /**
   * Sets a job aside: for so long no sweep meets it, so that it gets at what stands behind it. Nothing else minds, and it
   * shows as held without a reason. Null: back again. One that is held stays as it is.
   */
  | { readonly kind: 'defer'; readonly forMs: number | null }
  /**
   * A pending job of queue `lastout` that is not due yet, and that nobody has claimed so far, gets its memo (null: it stays as
   * it is) and another dueAt (null: never). With `under`, its owner must still be held by that claim.
   */
  | { readonly kind: 'confirm'; readonly memo: string | null; readonly when: When | null; readonly under: Under | null }
  /**
   * What an owned pending job of queue `lastout` stands for is about to end: it is due from now on, and shows `cancelAt`.
   * Where it or its owner is held, nothing changes; afterwards neither can be held. The reason says why it has not ended yet.
   */
  | { readonly kind: 'dismiss'; readonly reason?: string };

export interface MoveRequest {
  readonly filter: JobFilter;
  readonly move: Move;
  readonly dryRun: boolean;
  readonly cursor: string | null;
  readonly limit: number;
}

export type MoveOutcome =
  | 'cancelled'
  | 'requested'
  | `already:${FinishedState}`
  | 'retried'
  | 'already_retried'
  | 'skipped'
  | 'not_finished'
  | 'removed'
  | 'held'
  | 'owing'
  | 'moved'
  | 'not_pending'
  | 'released'
  | 'not_held'
  | 'confirmed'
  | 'stale'
  | 'going';

export interface Moved {
  readonly items: readonly { readonly id: string; readonly outcome: MoveOutcome; readonly newId?: string }[];
  readonly next: string | null;
}
