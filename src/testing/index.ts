/** lastout/testing: a clock to move by hand, a queue on it, the check at the end, and the cases that certify a store. */
export { type FakeClock, fakeClock } from './fake-clock.js';
export { expectNothingLeft } from './nothing-left.js';
export { type StoreCase, storeCases, type StoreHarness } from './store-cases/index.js';
export { storeHarness } from './store-harness.js';
export { type TestQueue, testQueue } from './test-queue.js';
export type * from '../core/store.js';
