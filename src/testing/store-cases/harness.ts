/** What a store under test hands over, and how a case is written: one rule each, named `verb: rule`, free of any test runner. */
import type { SqlClient } from '../../core/job.js';
import type { QueueLimits } from '../../core/limits.js';
import type { Store } from '../../core/store.js';

export interface StoreHarness {
  readonly store: Store;
  /** Moves the store's clock. */
  advance(ms: number): void;
  now(): number;
  /** Opens the same jobs once more, as another process would, with these limits and this `identity`; closed with the rest. */
  open(limits: ReadonlyMap<string, QueueLimits>, identity?: 'new'): Promise<Store>;
  /** Begins a transaction on the store's database, as a caller would. Absent: the engine has none. */
  begin?(): Promise<CallerTransaction>;
  dispose(): Promise<void>;
}

export interface CallerTransaction {
  readonly tx: SqlClient;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

export interface StoreCase {
  readonly name: string;
  run(harness: StoreHarness): Promise<void>;
}
