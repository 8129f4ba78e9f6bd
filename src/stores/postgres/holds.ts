/**
 * What is remembered of claims that were made here, so that their jobs can be settled by their places in the claim: the
 * database then needs to look at none of them. Who is not remembered is settled by its id.
 */
import type { Claimed, SettleAnswer, Settlement } from '../../core/store.js';
import type { Rows } from './run.js';

interface Held {
  readonly ids: readonly string[];
  /** As texts, as they came and as they go back. */
  readonly created: readonly string[];
  /** By id, from 1; made when it is first needed. */
  places: Map<string, number> | null;
  left: number;
}

export interface Holds {
  /** After a claim: only one of plain jobs alike is remembered. */
  learn(claimed: Claimed, rows: Rows): void;
  /** Null: not known. */
  placeOf(epoch: number, id: string): number | null;
  createdAt(epoch: number, place: number): string;
  forget(settlements: readonly Settlement[], answers: readonly SettleAnswer[]): void;
}

/** Claims that nobody settles, because their worker went on without them, are forgotten at last. */
const most = 2_000;

export function createHolds(): Holds {
  const claims = new Map<number, Held>();

  return {
    learn({ epoch, jobs }, rows) {
      const [, , ids, created] = rows[0] as readonly (string | null)[];
      if (rows.length !== 2 || rows[0]![0] !== 'plain') return;
      claims.set(epoch, { ids: ids!.split(','), created: created!.split(','), places: null, left: jobs.length });
      if (claims.size > most) claims.delete(claims.keys().next().value!);
    },
    placeOf(epoch, id) {
      const held = claims.get(epoch);
      if (!held) return null;
      held.places ??= new Map(held.ids.map((each, index) => [each, index + 1]));
      return held.places.get(id) ?? null;
    },
    createdAt: (epoch, place) => claims.get(epoch)!.created[place - 1]!,
    forget(settlements, answers) {
      settlements.forEach(({ epoch }, index) => {
        const held = claims.get(epoch);
        if (!held) return;
        held.left -= 1;
        if (held.left <= 0 || answers[index] !== 'ok') claims.delete(epoch);
      });
    },
  };
}
