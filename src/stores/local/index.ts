/** `lastout/store`: what a store of one's own is made of. docs/custom-store.md has one of a single file. */
export type * from '../../core/store.js';
export { eventPageOf, type StepRecord } from './event-page.js';
export { passes } from './filter.js';
export { runningIn } from './limits.js';
export { wholeRow } from './new-row.js';
export { emptySideState, type SideState, sideTables } from './side-tables.js';
export { type LocalEngine, openLocal } from './store.js';
export * from './tables.js';
