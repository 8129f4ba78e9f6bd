/** What a sweep answers. */
import type { Swept } from '../../core/store.js';

export type SweepReply = [
  examined: number,
  lapsed: number,
  expired: number,
  fenced: number,
  age: number,
  count: number,
  cap: number,
  more: number,
  term: number,
  busy: number,
  owing: string[],
  dueThings: string[],
];

export function sweptIn(reply: SweepReply): Swept {
  const [examined, lapsed, expired, fenced, age, count, cap, more, term, busy, owing, dueThings] = reply;
  return {
    examined,
    lapsed,
    expired,
    fenced,
    removedBy: { age, count, cap },
    owing,
    dueThings,
    term: termIn(term),
    busy: busy === 1,
    more: more === 1,
  };
}

/** Nothing else was done than to end a term; -1: not even that. */
export function closedTerm(term: number): Swept {
  return sweptIn([0, 0, 0, 0, 0, 0, 0, 0, term, 0, [], []]);
}

function termIn(term: number): number | null {
  return term === -1 ? null : term;
}
