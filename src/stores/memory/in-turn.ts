/** The jobs of a claim mostly end in the order in which they were given out: the next one is at hand without a look-up. */
import type { ClaimRecord, Row } from '../local/tables.js';

export function createInTurn() {
  const claims = new Map<number, { readonly rows: (Row | null)[]; next: number }>();

  return {
    add: ({ epoch }: ClaimRecord, rows: readonly Row[]): void => void claims.set(epoch, { rows: [...rows], next: 0 }),
    /** Undefined: another one is next. */
    next({ epoch }: ClaimRecord, id: string): Row | undefined {
      const claim = claims.get(epoch);
      if (!claim) return undefined;
      // What has left the claim is over for it, and let go.
      while ((claim.rows[claim.next]?.epoch ?? 0) >= epoch) claim.rows[claim.next++] = null;
      const row = claim.rows[claim.next];
      return row?.id === id && row.state === null ? row : undefined;
    },
    drop: ({ epoch }: ClaimRecord): void => void claims.delete(epoch),
  };
}
