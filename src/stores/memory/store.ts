/** The memory store: for tests, and for work that may die with its process. */
import type { Hint, StoreContext, StoreFactory } from '../../core/store.js';
import { openLocal } from '../local/store.js';
import type { Transact } from '../local/tables.js';
import { createTables } from './tables.js';

interface Namespace {
  identity: string;
  readonly transact: Transact;
  readonly listeners: Set<(hint: Hint) => void>;
}

/** Queues opened on the same memory store and namespace share its jobs; closing one leaves them there. */
export function memoryStore(): StoreFactory {
  const namespaces = new Map<string, Namespace>();

  function namespaceOf({ namespace: name, system, identity }: StoreContext): Namespace {
    const known = namespaces.get(name);
    if (known && identity === 'new') known.identity = system.id();
    if (known) return known;
    const tables = createTables();
    // A step is synchronous and checks before it writes, so it needs no rollback.
    const transact: Transact = async (work) => work(tables);
    const made: Namespace = { identity: system.id(), transact, listeners: new Set() };
    namespaces.set(name, made);
    return made;
  }

  return {
    engine: 'memory',
    isVolatile: true,
    async open(context: StoreContext) {
      const namespace = namespaceOf(context);
      const { transact, listeners } = namespace;
      return openLocal(
        {
          engine: 'memory',
          traits: { isVolatile: true, insertsAbreast: 1, leastSweep: 50 },
          durability: 'process',
          transact,
          reading: transact,
          inside: null,
          listeners,
          identity: async () => namespace.identity,
          check: async () => [],
          close: async () => undefined,
        },
        context,
      );
    },
  };
}
