/** What a find reads: every stored row stands in the lists of its state, its type, its subject, its key and its owner. */
import { type FinishedState, finishedStates } from '../../core/job.js';
import type { JobFilter } from '../../core/store.js';
import { passes } from '../local/filter.js';
import type { Row, Scanned, ScanRequest } from '../local/tables.js';
import { newestOf, Ordered } from './ordered.js';

type Lists = Map<string, Ordered<Row>>;

/** Live rows that read as processing, and as expired: few, and found without looking at the others. */
export interface LiveRows {
  held(): Iterable<Row>;
  expired(now: number): Iterable<Row>;
  byIds(ids: readonly string[]): Row[];
}

export function createStored(rows: LiveRows) {
  const live = new Ordered<Row>();
  const done = new Map<FinishedState, Ordered<Row>>(finishedStates.map((state) => [state, new Ordered()]));
  const byType: Lists = new Map();
  const bySubject: Lists = new Map();
  const byKey: Lists = new Map();
  const byOwner: Lists = new Map();

  /** Where most of a find's rows can be left out from the start: the shortest of the lists that the filter allows. */
  function candidates({ filter, before, now }: ScanRequest): Iterable<Row> {
    const { ids, subject, key, types, states, ownedBy } = filter;
    if (ids !== null) return newestFirst(rows.byIds(ids), before);
    const byState = listsOfStates(states);
    const ways = [byState];
    if (subject !== null) ways.push(listsOf(bySubject, [subject]));
    if (key !== null) ways.push(listsOf(byKey, [key]));
    if (ownedBy !== null) ways.push(listsOf(byOwner, [ownedBy]));
    if (types !== null) ways.push(listsOf(byType, types));
    const shortest = ways.reduce((best, way) => (sizeOf(way) < sizeOf(best) ? way : best));
    const lists: Iterable<Row>[] = shortest.map((list) => list.newestFirst(before));
    // These are among the live ones, of which the lists by state have none.
    if (shortest === byState && states !== null && !states.includes('pending')) {
      if (states.includes('processing')) lists.push(newestFirst(rows.held(), before));
      if (states.includes('expired')) lists.push(newestFirst(rows.expired(now), before));
    }
    return newestOf(lists);
  }
  function listsOfStates(states: JobFilter['states']): Ordered<Row>[] {
    const finished = [...done].filter(([state]) => states === null || states.includes(state));
    const lists = finished.map(([, list]) => list);
    return states === null || states.includes('pending') ? [live, ...lists] : lists;
  }

  return {
    liveAt: (seq: number): Row | undefined => live.at(seq),
    add(row: Row): void {
      live.add(row);
      enter(byType, row.type, row);
      if (row.subject !== null) enter(bySubject, row.subject, row);
      if (row.key !== null) enter(byKey, row.key, row);
      if (row.ownedBy !== null) enter(byOwner, row.ownedBy, row);
    },
    finish(row: Row): void {
      live.remove(row);
      done.get(row.state!)!.add(row);
    },
    drop(row: Row): void {
      (row.state === null ? live : done.get(row.state)!).remove(row);
      leave(byType, row.type, row);
      if (row.subject !== null) leave(bySubject, row.subject, row);
      if (row.key !== null) leave(byKey, row.key, row);
      if (row.ownedBy !== null) leave(byOwner, row.ownedBy, row);
    },
    scan(request: ScanRequest): Scanned {
      const { filter, limit, examinedMax } = request;
      const found: Row[] = [];
      let examined = 0;
      for (const row of candidates(request)) {
        examined += 1;
        if (passes(row, filter)) found.push(row);
        if (found.length === limit || examined === examinedMax) return { rows: found, examined, next: row.seq };
      }
      return { rows: found, examined, next: null };
    },
  };
}

export function enter(lists: Lists, name: string, row: Row): void {
  let list = lists.get(name);
  if (!list) lists.set(name, (list = new Ordered()));
  list.add(row);
}

export function leave(lists: Lists, name: string, row: Row): void {
  const list = lists.get(name);
  list?.remove(row);
  if (list?.size === 0) lists.delete(name);
}

function listsOf(lists: Lists, names: readonly string[]): Ordered<Row>[] {
  return [...new Set(names)].map((name) => lists.get(name)).filter((list) => list !== undefined);
}

function sizeOf(lists: readonly Ordered<Row>[]): number {
  return lists.reduce((sum, list) => sum + list.size, 0);
}

function newestFirst(rows: Iterable<Row>, before: number): Row[] {
  return [...rows].filter((row) => row.seq < before).sort((a, b) => b.seq - a.seq);
}
