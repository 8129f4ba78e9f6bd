/** What an ending becomes: the table of ARCHITECTURE.md, in one place, for every store. */
import type { When } from './store.js';

/**
 * How a claim on one job may be left by its worker. `exhaust` is a throw at the last attempt. `error` is the JSON of a
 * JobError; an event shows its code and message, or `brief` in their place where the message is coded.
 */
export type Ending =
  | { readonly kind: 'complete'; readonly result: string }
  | { readonly kind: 'retry'; readonly inMs: number; readonly error: string; readonly brief?: string }
  | { readonly kind: 'exhaust'; readonly error: string; readonly brief?: string }
  | { readonly kind: 'fail'; readonly error: string; readonly brief?: string }
  | { readonly kind: 'snooze'; readonly when: When }
  | { readonly kind: 'cancel'; readonly error: string; readonly brief?: string }
  | { readonly kind: 'release' };

export type LeavingKind = Ending['kind'] | 'lapse';

export interface Marks {
  /** Somebody asked to cancel the job while it ran. */
  readonly cancelRequested: boolean;
  /** A coalesced event asked for one more run. */
  readonly runAgain: boolean;
}

export type Verdict =
  | 'completed'
  | 'failed'
  | 'cancelled'
  | 'retry'
  | 'snooze'
  | 'back'
  | 'stall'
  | 'again'
  | 'again-or-snooze';

/**
 * A cancel request outranks the wish to run again: who cancels a job means its next run too.
 * `back` is the old place without a used attempt; `again` starts over with attempts 0.
 */
export function verdictOf(kind: LeavingKind, { cancelRequested, runAgain }: Marks): Verdict {
  switch (kind) {
    case 'complete':
      return runAgain && !cancelRequested ? 'again' : 'completed';
    case 'retry':
      return cancelRequested ? 'cancelled' : runAgain ? 'again' : 'retry';
    case 'exhaust':
      return cancelRequested ? 'cancelled' : runAgain ? 'again' : 'failed';
    case 'fail':
      return runAgain && !cancelRequested ? 'again' : 'failed';
    case 'snooze':
      return cancelRequested ? 'cancelled' : runAgain ? 'again-or-snooze' : 'snooze';
    case 'cancel':
      return 'cancelled';
    case 'release':
      return cancelRequested ? 'cancelled' : 'back';
    case 'lapse':
      return cancelRequested ? 'cancelled' : 'stall';
  }
}
