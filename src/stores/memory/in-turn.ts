/** The jobs of a claim mostly begin and end in the order in which they were given out: the next one is at hand without a look-up. */
import type { ClaimRecord, Row } from '../local/tables.js';

interface Given {
  readonly rows: (Row | null)[];
  /** Before this one all have ended. */
  ended: number;
  /** It follows the one that was told last to have begun. */
  begun: number;
  /** Where each one is; made when one comes out of turn. */
  places: Map<string, number> | null;
}

export function createInTurn() {
  const claims = new Map<number, Given>();

  /** −1: it has left, or never was there. */
  function placeOf(given: Given, next: number, id: string): number {
    if (given.rows[next]?.id === id) return next;
    given.places ??= new Map(given.rows.map((row, place) => [row?.id ?? '', place]));
    return given.places.get(id) ?? -1;
  }

  return {
    add({ epoch }: ClaimRecord, rows: readonly Row[]): void {
      claims.set(epoch, { rows: [...rows], ended: 0, begun: 0, places: null });
    },
    /** A live job of a claim that is about to end, or has something to say. */
    ending({ epoch }: ClaimRecord, id: string): Row | undefined {
      const given = claims.get(epoch);
      if (!given) return undefined;
      // What has left the claim is over for it, and let go.
      while ((given.rows[given.ended]?.epoch ?? 0) >= epoch) given.rows[given.ended++] = null;
      const row = given.rows[placeOf(given, given.ended, id)];
      return row?.state === null ? row : undefined;
    },
    /** A job of a claim that has begun. */
    beginning(epoch: number, id: string): Row | undefined {
      const given = claims.get(epoch);
      if (!given) return undefined;
      const place = placeOf(given, Math.max(given.begun, given.ended), id);
      given.begun = place + 1;
      return given.rows[place] ?? undefined;
    },
    drop: ({ epoch }: ClaimRecord): void => void claims.delete(epoch),
  };
}
