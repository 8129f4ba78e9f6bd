/** The rules a store must keep: one case each, for any engine, in any test runner. */
import { aheadCases } from './ahead.js';
import { claimCases } from './claim.js';
import { deduplicateCases } from './deduplicate.js';
import { eventCases } from './events.js';
import { exclusiveCases } from './exclusive.js';
import { fenceCases } from './fence.js';
import type { StoreCase } from './harness.js';
import { insertCases } from './insert.js';
import { lapseCases } from './lapse.js';
import { moveCases } from './move.js';
import { noteCases } from './note.js';
import { pauseCases } from './pause.js';
import { readCases } from './read.js';
import { settleCases } from './settle.js';
import { slotCases } from './slot.js';
import { sweepCases } from './sweep.js';
import { tallyCases } from './tally.js';

export type { StoreCase, StoreHarness } from './harness.js';

export const storeCases: readonly StoreCase[] = [
  ...insertCases,
  ...deduplicateCases,
  ...slotCases,
  ...claimCases,
  ...aheadCases,
  ...exclusiveCases,
  ...settleCases,
  ...fenceCases,
  ...lapseCases,
  ...sweepCases,
  ...moveCases,
  ...pauseCases,
  ...readCases,
  ...tallyCases,
  ...eventCases,
  ...noteCases,
];
