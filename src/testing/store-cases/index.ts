import type { StoreCase } from './harness.js';

export type { StoreCase, StoreHarness } from './harness.js';

export const storeCases: readonly StoreCase[] = [];
