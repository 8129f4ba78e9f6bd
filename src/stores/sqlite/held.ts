/**
 * The rows of claims that were made on this connection: their endings need not read them again. Only plain rows are
 * remembered, which no step writes while they are claimed unless somebody has something to say about the job; whoever
 * ends one asks in the same statement whether that is so.
 */
import type { Row } from '../local/tables.js';
import type { Claims } from './claims.js';
import type { Live } from './live.js';
import { restOf } from './rows.js';
import type { Known, Session, StepPart } from './session.js';

const rowsMax = 5_000;
const inputMax = 2_048;

export interface Held extends StepPart {
  remember(epoch: number, claimed: readonly Row[]): void;
  /** These jobs are about to be ended: `live` is asked for each of them next. */
  expect(endings: readonly { readonly id: string; readonly epoch: number }[]): void;
  /** The number of a job that is remembered. */
  seqOf(id: string, epoch: number): number | undefined;
  /** Something is said about a job. */
  changed(row: Row): void;
  over(epoch: number): void;
}

export function createHeld({ rows }: Session, live: Live, records: Pick<Claims, 'claim'>): Held {
  const claims = new Map<number, Map<string, Known>>();

  /** Endings come in the order of claims: where there is no room, the oldest stay, unless others have ended them. */
  function hasRoomFor(size: number): boolean {
    let total = size;
    for (const claim of claims.values()) total += claim.size;
    for (const [epoch, claim] of claims) {
      if (total <= rowsMax) return true;
      if (records.claim(epoch)) return false;
      total -= claim.size;
      claims.delete(epoch);
    }
    return total <= rowsMax;
  }

  return {
    begin: () => undefined,
    forget: () => claims.clear(),
    remember(epoch, claimed) {
      const claim = new Map<string, Known>();
      for (const row of claimed)
        if (row.input.length <= inputMax && restOf(row, false) === null) claim.set(row.id, rows.get(row.seq)!);
      if (hasRoomFor(claim.size)) claims.set(epoch, claim);
    },
    expect(endings) {
      const unknown: string[] = [];
      for (const { id, epoch } of endings) {
        // Of a claim that has lapsed nothing is true any more.
        if (claims.has(epoch) && !records.claim(epoch)) claims.delete(epoch);
        const claim = claims.get(epoch);
        const known = claim?.get(id);
        if (!known || rows.has(known.row.seq)) {
          unknown.push(id);
          continue;
        }
        // The step may change it, and then fail.
        claim!.delete(id);
        known.guessed = true;
        rows.set(known.row.seq, known);
        live.meet(known.row);
      }
      if (unknown.length > 0) live.expect(unknown);
    },
    seqOf: (id, epoch) => claims.get(epoch)?.get(id)?.row.seq,
    changed(row) {
      for (const claim of claims.values()) claim.delete(row.id);
    },
    over: (epoch) => void claims.delete(epoch),
  };
}
