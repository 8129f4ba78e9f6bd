/** The maintainer's term: who cleans up for how long, and the one entry in the ledger that each term may have. */
import type { Term } from '../../core/store.js';
import type { Step } from './step.js';

/** The number of the holder's term, renewed or new; null: another one's is alive. */
export function takeTerm({ tables, now }: Step, { holder, ttlMs }: Term): number | null {
  const last = tables.term();
  const alive = last !== undefined && !last.noted && last.until > now;
  if (alive && last.holder !== holder) return null;
  const no = alive ? last.no : (last?.no ?? 0) + 1;
  tables.setTerm({ no, holder, until: now + ttlMs, noted: false });
  return no;
}

/** Ends the holder's term with its entry; null: it is not the last term, or has its entry. */
export function endTerm({ tables }: Step, holder: string, entry: string): number | null {
  const last = tables.term();
  if (last === undefined || last.holder !== holder || last.noted) return null;
  tables.addEntry(entry);
  tables.setTerm({ ...last, noted: true });
  return last.no;
}
