/** Live jobs of a type, newest first. By pages rather than by an open cursor: the verbs change rows while they read on. */
import type { Row, Tables } from '../local/tables.js';
import type { Live } from './live.js';

/** A search reads a few rows first, because the first one is mostly the one. */
const pages = { first: 4, next: 64 } as const;

export function createMatches(live: Live, heldSeqs: () => Iterable<number>): Pick<Tables, 'matches'> {
  function* paged(read: (below: number, limit: number) => Row[]): Generator<Row> {
    let below = Number.MAX_SAFE_INTEGER;
    for (let size: number = pages.first; ; size = pages.next) {
      const page = read(below, size);
      if (page.length > 0) below = page.at(-1)!.seq;
      yield* page;
      if (page.length < size) return;
    }
  }
  /** What waits is in the order of an index; what runs is named by the claims, which are few. */
  function* ofType(type: string): Generator<Row> {
    const held = [...heldSeqs()];
    const running = held.length === 0 ? [] : live.claimedOfType(type, held);
    let next = 0;
    for (const row of paged((below, limit) => live.pendingOfType(type, below, limit))) {
      for (; next < running.length && running[next]!.seq > row.seq; next++) yield running[next]!;
      yield row;
    }
    yield* running.slice(next);
  }
  return {
    matches: (type, key) =>
      key === null ? ofType(type) : paged((below, limit) => live.ofKey(type, key, below, limit)),
  };
}
