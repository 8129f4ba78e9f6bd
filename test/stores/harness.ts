// A store under a clock that only the test moves.
import type { StoreFactory } from '../../src/core/store.js';
import { createSystem } from '../../src/system.js';
import type { StoreHarness } from '../../src/testing/index.js';

export async function harnessOn(
  factory: StoreFactory,
  dispose: () => Promise<void> | void = () => undefined,
  begin?: StoreHarness['begin'],
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
    async open(limits) {
      const another = await factory.open({ ...context, limits });
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
      await dispose();
    },
  };
}
