/** A store under a clock that only a case moves. */
import type { StoreFactory } from '../core/store.js';
import { createSystem } from '../system.js';
import type { StoreHarness } from './store-cases/harness.js';

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
