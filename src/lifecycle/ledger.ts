/** The last passes of the cleanup, newest first. */
import { openCursor, sealCursor } from '../core/cursor.js';
import type { Page } from '../core/job.js';
import type { Store } from '../core/store.js';
import { readReport, type SweepReport } from './report.js';

export async function ledgerOn(store: Store, given: string | undefined, limit: number): Promise<Page<SweepReport>> {
  const { entries, next } = await store.readLedger({ cursor: openCursor('ledger', given), limit });
  return { items: entries.flatMap((entry) => readReport(entry) ?? []), next: sealCursor('ledger', next) };
}
