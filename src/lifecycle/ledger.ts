/** The last passes of the cleanup, newest first. */
import type { Page } from '../core/job.js';
import type { Store } from '../core/store.js';
import { readReport, type SweepReport } from './report.js';

export async function ledgerOn(store: Store, cursor: string | null, limit: number): Promise<Page<SweepReport>> {
  const { entries, next } = await store.read({ log: 'ledger', cursor, limit });
  return { items: entries.flatMap((entry) => readReport(entry) ?? []), next };
}
