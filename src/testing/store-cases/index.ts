/** The rules a store must keep: one case each, for any engine, in any test runner. */
import { aheadCases } from './ahead.js';
import { auditCases } from './audit.js';
import { claimCases } from './claim.js';
import { codedCases } from './coded.js';
import { columnCases } from './columns.js';
import { deduplicateCases } from './deduplicate.js';
import { dismissCases } from './dismiss.js';
import { dueCases } from './due.js';
import { eventCases } from './events.js';
import { exclusiveCases } from './exclusive.js';
import { fenceCases } from './fence.js';
import { fullCases } from './full.js';
import type { StoreCase } from './harness.js';
import { holdCases } from './hold.js';
import { identityCases } from './identity.js';
import { insertCases } from './insert.js';
import { lapseCases } from './lapse.js';
import { limitCases } from './limits.js';
import { moveCases } from './move.js';
import { noteCases } from './note.js';
import { overdueCases } from './overdue.js';
import { ownCases } from './own.js';
import { pauseCases } from './pause.js';
import { planCases } from './plan.js';
import { printCases } from './print.js';
import { readCases } from './read.js';
import { retryCases } from './retry.js';
import { settleCases } from './settle.js';
import { slotCases } from './slot.js';
import { subjectCases } from './subjects.js';
import { successorCases } from './successors.js';
import { sweepCases } from './sweep.js';
import { tallyCases } from './tally.js';
import { termCases } from './term.js';
import { transactionCases } from './transaction.js';
import { unknownCases } from './unknown.js';
import { whyCases } from './why.js';

export type { StoreCase, StoreHarness } from './harness.js';

export const storeCases: readonly StoreCase[] = [
  ...insertCases,
  ...columnCases,
  ...printCases,
  ...deduplicateCases,
  ...slotCases,
  ...successorCases,
  ...claimCases,
  ...aheadCases,
  ...exclusiveCases,
  ...settleCases,
  ...fenceCases,
  ...lapseCases,
  ...sweepCases,
  ...moveCases,
  ...retryCases,
  ...pauseCases,
  ...subjectCases,
  ...readCases,
  ...dueCases,
  ...overdueCases,
  ...tallyCases,
  ...limitCases,
  ...fullCases,
  ...eventCases,
  ...noteCases,
  ...ownCases,
  ...holdCases,
  ...dismissCases,
  ...planCases,
  ...termCases,
  ...auditCases,
  ...whyCases,
  ...identityCases,
  ...codedCases,
  ...transactionCases,
  ...unknownCases,
];
