import type { Store, StoreFactory } from '../src/core/store.js';

/** The same store with some verbs seen or replaced on their way. */
export function tapped(factory: StoreFactory, tap: (store: Store) => Partial<Store>): StoreFactory {
  return {
    ...factory,
    async open(context) {
      const store = await factory.open(context);
      return { ...store, ...tap(store) };
    },
  };
}
