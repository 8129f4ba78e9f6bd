/** What a store under test hands over, and how a case is written: one rule each, named `verb: rule`, free of any test runner. */
import type { SqlClient } from '../../core/job.js';
import type { QueueLimits } from '../../core/limits.js';
import type { Store, StoreFactory } from '../../core/store.js';
import { createSystem } from '../../system.js';

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

/** An empty store of this factory, under a clock that only the case moves. `begin`: of an engine that takes part in a caller's transactions. */
export async function storeHarness(
  factory: StoreFactory,
  { dispose, begin }: Partial<Pick<StoreHarness, 'dispose' | 'begin'>> = {},
): Promise<StoreHarness> {
  let at = Date.parse('2030-01-01T00:00:00Z');
  const context = {
    system: createSystem({ now: () => new Date(at) }),
    namespace: 'lastout',
    maxStoredJobs: Number.POSITIVE_INFINITY,
  };
  const store = await factory.open(context);
  const stores = [store];
  return {
    store,
    async open(limits, identity) {
      const another = await factory.open({ ...context, limits, ...(identity && { identity }) });
      stores.push(another);
      return another;
    },
    now: () => at,
    ...(begin && { begin }),
    advance(ms) {
      at += ms;
    },
    async dispose() {
      for (const opened of stores) await opened.close();
      await dispose?.();
    },
  };
}
