/** What a sweep answers. */
import type { SweptInTerm } from '../../core/store.js';

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
  owing: string[],
  dueThings: string[],
];

export function sweptIn(reply: SweepReply): SweptInTerm {
  const [examined, lapsed, expired, fenced, age, count, cap, more, term, owing, dueThings] = reply;
  return {
    examined,
    lapsed,
    expired,
    fenced,
    removedBy: { age, count, cap },
    owing,
    dueThings,
    term: termIn(term),
    more: more === 1,
  };
}

export function termIn(term: number): number | null {
  return term === -1 ? null : term;
}
