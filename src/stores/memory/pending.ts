/** The three places of pending jobs. Every move gives a row a new ticket; an entry with an old one is stale. */
import { Place, type Row } from '../local/tables.js';
import { createHeap, type Heap } from './heap.js';

interface Entry {
  readonly row: Row;
  readonly ticket: number;
  readonly priority: number;
  readonly at: number;
}

export function createPending() {
  const tickets = new Map<Row, number>();
  const lanes = new Map<string, Map<string, Heap<Entry>>>(); // type → queue → ready
  const behind = new Map<string, Heap<Entry>>();
  const slots = new Map<string, Row>();
  let nextTicket = 0;

  const counts = ({ row, ticket }: Entry): boolean => tickets.get(row) === ticket;
  const inOrder = (a: Entry, b: Entry): boolean =>
    a.priority !== b.priority ? a.priority < b.priority : a.at !== b.at ? a.at < b.at : a.row.seq < b.row.seq;
  const byTime = (a: Entry, b: Entry): boolean => (a.at !== b.at ? a.at < b.at : a.row.seq < b.row.seq);
  const later = createHeap<Entry>(byTime, counts);
  const expiring = createHeap<Entry>(byTime, (entry) => counts(entry) && entry.row.expiresAt === entry.at);
  const behindKey = (row: Row): string => `${row.type}\0${row.queue}\0${row.exclusiveKey}`;

  function laneOf(row: Row): Heap<Entry> {
    const queues = lanes.get(row.type) ?? new Map<string, Heap<Entry>>();
    lanes.set(row.type, queues);
    const lane = queues.get(row.queue) ?? createHeap<Entry>(inOrder, counts);
    queues.set(row.queue, lane);
    return lane;
  }
  function behindOf(row: Row): Heap<Entry> {
    const line = behind.get(behindKey(row)) ?? createHeap<Entry>(inOrder, counts);
    behind.set(behindKey(row), line);
    return line;
  }
  /** Live lanes of these types and queues; lanes that ran empty are forgotten on the way. */
  function lanesOf(
    types: Iterable<string>,
    queues: readonly string[] | null,
    without: ReadonlySet<string>,
  ): Heap<Entry>[] {
    const found: Heap<Entry>[] = [];
    for (const type of new Set(types)) {
      for (const [queue, lane] of lanes.get(type) ?? []) {
        if (without.has(queue) || (queues !== null && !queues.includes(queue))) continue;
        if (lane.peek()) found.push(lane);
        else if (lane.size === 0) lanes.get(type)!.delete(queue);
      }
      if (lanes.get(type)?.size === 0) lanes.delete(type);
    }
    return found;
  }
  function take(heap: Heap<Entry>, upTo: number, limit: number): Entry[] {
    const entries: Entry[] = [];
    while (entries.length < limit) {
      const top = heap.peek();
      if (!top || top.at > upTo) break;
      entries.push(heap.pop()!);
    }
    return entries;
  }

  return {
    put(row: Row, place: Exclude<Place, 3>): void {
      row.place = place;
      const entry = { row, ticket: ++nextTicket, priority: row.priority, at: row.dueAt };
      tickets.set(row, entry.ticket);
      if (place === Place.ready) laneOf(row).push(entry);
      else if (place === Place.later) later.push(entry);
      else behindOf(row).push(entry);
      if (row.slot !== null) slots.set(`${row.type}\0${row.slot}`, row);
      if (row.expiresAt !== null) expiring.push({ ...entry, at: row.expiresAt });
    },
    take(row: Row): void {
      tickets.delete(row);
      if (row.slot !== null) slots.delete(`${row.type}\0${row.slot}`);
      if (row.place === Place.behind && !behindOf(row).peek()) behind.delete(behindKey(row));
      row.place = Place.claimed;
    },
    expiryChanged(row: Row): void {
      const ticket = tickets.get(row);
      if (ticket !== undefined && row.expiresAt !== null)
        expiring.push({ row, ticket, priority: 0, at: row.expiresAt });
    },
    /** Pops in order and puts back what it popped: the caller decides which ones it takes. */
    ready(
      types: readonly string[],
      queues: readonly string[] | null,
      without: ReadonlySet<string>,
      limit: number,
    ): Row[] {
      const heads = lanesOf(types, queues, without);
      const popped: { entry: Entry; lane: Heap<Entry> }[] = [];
      while (popped.length < limit && heads.length > 0) {
        let best = 0;
        for (let i = 1; i < heads.length; i++) if (inOrder(heads[i]!.peek()!, heads[best]!.peek()!)) best = i;
        const lane = heads[best]!;
        popped.push({ entry: lane.pop()!, lane });
        if (!lane.peek()) heads.splice(best, 1);
      }
      for (const { entry, lane } of popped) lane.push(entry);
      return popped.map(({ entry }) => entry.row);
    },
    due: (now: number, limit: number): Row[] => take(later, now, limit).map(({ row }) => row),
    nextDueAt: (): number | null => later.peek()?.at ?? null,
    expired: (now: number, limit: number): Row[] => [...new Set(take(expiring, now, limit).map(({ row }) => row))],
    slotOwner: (type: string, slot: string): Row | undefined => slots.get(`${type}\0${slot}`),
    firstBehind: (row: Row): Row | undefined => behind.get(behindKey(row))?.peek()?.row,
    *untold(now: number): Generator<{ queue: string; expired: number; expiredLater: number; due: number }> {
      for (const row of tickets.keys()) {
        const expired = row.expiresAt !== null && row.expiresAt <= now;
        const isLater = row.place === Place.later;
        const due = !expired && isLater && row.dueAt <= now;
        if (expired || due)
          yield { queue: row.queue, expired: +expired, expiredLater: +(expired && isLater), due: +due };
      }
    },
    *oldestDue(now: number): Generator<{ queue: string; dueAt: number }> {
      const oldest = new Map<string, number>();
      for (const { queue, dueAt, expiresAt } of tickets.keys()) {
        if (dueAt > now || (expiresAt !== null && expiresAt <= now)) continue;
        oldest.set(queue, Math.min(dueAt, oldest.get(queue) ?? dueAt));
      }
      for (const [queue, dueAt] of oldest) yield { queue, dueAt };
    },
  };
}
