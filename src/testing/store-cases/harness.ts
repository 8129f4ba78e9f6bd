/** What a store under test hands over, and how a case is written: one rule each, named `verb: rule`, free of any test runner. */
import type { Store } from '../../core/store.js';

export interface StoreHarness {
  readonly store: Store;
  /** Moves the store's clock. */
  advance(ms: number): void;
  now(): number;
  dispose(): Promise<void>;
}

export interface StoreCase {
  readonly name: string;
  run(harness: StoreHarness): Promise<void>;
}
