/** What alerts and metrics ask of the other parts: how many, and some of their ids. */
import type { Tally } from './store.js';

export interface Found {
  readonly count: number;
  /** A few ids. */
  readonly sample: readonly string[];
}

export const nothingFound: Found = { count: 0, sample: [] };

/** What is asked of an entry of the ledger. */
export interface Pass {
  readonly at: Date;
  readonly removedBy: { readonly [kind: string]: number };
  readonly failures: number;
}

export interface Facts {
  /** The last entries of the ledger, newest first. */
  passes(limit: number): Promise<readonly Pass[]>;
  /** Passes of this process that broke off since its last entry. */
  brokenPasses(): number;
  /** Kinds of subjects whose last sweep for orphans failed in this process, or was stopped by the brake. */
  failingSweeps(): readonly string[];
  /** Leases whose resource could not be destroyed. */
  leasesNeedingAttention(tally: Tally): Promise<Found>;
  /** Subjects that were confirmed absent, or are over, and still have pending jobs. */
  orphans(): Promise<Found>;
}
