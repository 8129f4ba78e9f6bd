// A store under a clock that only the test moves.
import type { StoreFactory } from '../../src/core/store.js';
import { createSystem } from '../../src/system.js';
import type { StoreHarness } from '../../src/testing/index.js';

export async function harnessOn(factory: StoreFactory, dispose: () => Promise<void> | void = () => undefined) {
  let at = Date.parse('2030-01-01T00:00:00Z');
  const store = await factory.open({
    system: createSystem({ now: () => new Date(at) }),
    namespace: 'lastout',
    maxStoredJobs: Number.POSITIVE_INFINITY,
  });
  return {
    store,
    now: () => at,
    advance(ms) {
      at += ms;
    },
    async dispose() {
      await store.close();
      await dispose();
    },
  } satisfies StoreHarness;
}
