/** The memory store: for tests, and for work that may die with its process. */
import type { Hint, StoreContext, StoreFactory } from '../../core/store.js';
import { localStore } from '../local/store.js';
import type { Transact } from '../local/tables.js';
import { createTables } from './tables.js';

/** Queues opened on the same memory store share its jobs; closing one leaves them there. */
export function memoryStore(): StoreFactory {
  const tables = createTables();
  const listeners = new Set<(hint: Hint) => void>();
  // A step is synchronous and checks before it writes, so it needs no rollback.
  const transact: Transact = async (work) => work(tables);
  return {
    engine: 'memory',
    open: async (context: StoreContext) =>
      localStore(
        {
          engine: 'memory',
          durability: 'process',
          transact,
          reading: transact,
          listeners,
          check: async () => [],
          close: async () => undefined,
        },
        context,
      ),
  };
}
