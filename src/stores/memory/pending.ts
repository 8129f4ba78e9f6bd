/** The three places of pending jobs. A row that is put gets a new entry; the entry of one that was taken is stale. */
import { Place, type Row } from '../local/tables.js';
import { createLine, firstOf, type Line } from './line.js';

interface Entry {
  readonly row: Row;
  readonly priority: number;
  readonly at: number;
  stands: boolean;
}

/** A row carries its newest entry: a map of them would cost more than all else that is done with a row. */
interface Standing extends Row {
  entry?: Entry | undefined;
}

/** When an entry's row passes its ttl. */
interface Expiry {
  readonly row: Row;
  readonly at: number;
  readonly entry: Entry;
}

type Timed = Pick<Entry, 'row' | 'at'>;

export function createPending() {
  const lanes = new Map<string, Map<string, Line<Entry>>>(); // type → queue → ready
  const behind = new Map<string, Line<Entry>>();
  /** What is due, ready or behind, of each queue: how long the oldest has waited. */
  const waiting = new Map<string, Line<Entry>>();
  const slots = new Map<string, Row>();
  let staleEntries = 0;

  const left = (): number => staleEntries;
  const counts = ({ stands }: Entry): boolean => stands;
  const byTime = (a: Timed, b: Timed): boolean => (a.at !== b.at ? a.at < b.at : a.row.seq < b.row.seq);
  const inOrder = (a: Entry, b: Entry): boolean => (a.priority !== b.priority ? a.priority < b.priority : byTime(a, b));
  const later = createLine<Entry>(byTime, counts, left);
  const expiring = createLine<Expiry>(byTime, ({ entry, row, at }) => entry.stands && row.expiresAt === at, left);
  const behindKey = (row: Row): string => `${row.type}\0${row.queue}\0${row.exclusiveKey}`;

  function laneOf(row: Row): Line<Entry> {
    let queues = lanes.get(row.type);
    if (!queues) lanes.set(row.type, (queues = new Map<string, Line<Entry>>()));
    return lineIn(queues, row.queue, inOrder);
  }
  function lineIn(lines: Map<string, Line<Entry>>, name: string, order: typeof inOrder): Line<Entry> {
    let line = lines.get(name);
    if (!line) lines.set(name, (line = createLine(order, counts, left)));
    return line;
  }
  const isOver = ({ expiresAt }: Row, now: number): boolean => expiresAt !== null && expiresAt <= now;

  /** Live lanes of these types and queues; lanes that ran empty are forgotten on the way. */
  function lanesOf(
    types: Iterable<string>,
    queues: readonly string[] | null,
    room: ReadonlyMap<string, number>,
  ): Line<Entry>[] {
    const found: Line<Entry>[] = [];
    for (const type of new Set(types)) {
      for (const [queue, lane] of lanes.get(type) ?? []) {
        if (room.get(queue) === 0 || (queues !== null && !queues.includes(queue))) continue;
        if (lane.peek()) found.push(lane);
        else if (lane.size === 0) lanes.get(type)!.delete(queue);
      }
      if (lanes.get(type)?.size === 0) lanes.delete(type);
    }
    return found;
  }

  return {
    put(row: Row, place: Exclude<Place, 3>): void {
      row.place = place;
      const entry: Entry = { row, priority: row.priority, at: row.dueAt, stands: true };
      (row as Standing).entry = entry;
      if (place === Place.later) later.push(entry);
      else {
        lineIn(waiting, row.queue, byTime).push(entry);
        if (place === Place.ready) laneOf(row).push(entry);
        else lineIn(behind, behindKey(row), inOrder).push(entry);
      }
      if (row.slot !== null) slots.set(`${row.type}\0${row.slot}`, row);
      if (row.expiresAt !== null) expiring.push({ row, at: row.expiresAt, entry });
    },
    take(row: Row): void {
      const { entry } = row as Standing;
      if (entry) {
        entry.stands = false;
        staleEntries += 1;
      }
      (row as Standing).entry = undefined;
      // Looking drops what has left, so that an idle queue holds nothing.
      if (waiting.get(row.queue)?.peek() === undefined) waiting.delete(row.queue);
      if (row.slot !== null) slots.delete(`${row.type}\0${row.slot}`);
      if (row.place === Place.behind && !behind.get(behindKey(row))?.peek()) behind.delete(behindKey(row));
      row.place = Place.claimed;
    },
    expiryChanged(row: Row): void {
      const { entry } = row as Standing;
      if (entry?.stands && row.expiresAt !== null) {
        staleEntries += 1;
        expiring.push({ row, at: row.expiresAt, entry });
      }
    },
    /** Of several lanes it pops in order and puts back what it popped: the caller decides which ones it takes. */
    ready(
      types: readonly string[],
      queues: readonly string[] | null,
      room: ReadonlyMap<string, number>,
      limit: number,
    ): Row[] {
      let heads = lanesOf(types, queues, room);
      if (heads.length === 1) {
        const most = Math.min(limit, room.get(heads[0]!.peek()!.row.queue) ?? limit);
        return heads[0]!.first(most).map(({ row }) => row);
      }
      const left = new Map(room);
      const popped: { entry: Entry; lane: Line<Entry> }[] = [];
      while (popped.length < limit && heads.length > 0) {
        let best = 0;
        for (let i = 1; i < heads.length; i++) if (inOrder(heads[i]!.peek()!, heads[best]!.peek()!)) best = i;
        const lane = heads[best]!;
        const entry = lane.pop()!;
        popped.push({ entry, lane });
        if (!lane.peek()) heads.splice(best, 1);
        const { queue } = entry.row;
        const leftOf = left.get(queue);
        if (leftOf === undefined) continue;
        left.set(queue, leftOf - 1);
        // All lanes of a queue share its room.
        if (leftOf === 1) heads = heads.filter((head) => head.peek()!.row.queue !== queue);
      }
      for (const { entry, lane } of popped.reverse()) lane.push(entry);
      return popped.reverse().map(({ entry }) => entry.row);
    },
    due: (now: number, limit: number): Row[] =>
      firstOf([later], byTime, limit, ({ at }) => at <= now).map(({ row }) => row),
    nextDueAt: (): number | null => later.peek()?.at ?? null,
    expired(now: number, limit: number): Row[] {
      const over = firstOf([expiring], byTime, limit, ({ at }) => at <= now);
      return [...new Set(over.map(({ row }) => row))];
    },
    expiredIn(queue: string, now: number, limit: number): number {
      const over = new Set<Row>();
      expiring.walk(({ row, at }) => {
        if (at > now || over.size === limit) return false;
        if (row.queue === queue) over.add(row);
        return true;
      });
      return over.size;
    },
    slotOwner: (type: string, slot: string): Row | undefined => slots.get(`${type}\0${slot}`),
    firstBehind: (row: Row): Row | undefined => behind.get(behindKey(row))?.peek()?.row,
    /** Only what is past its moment is looked at. */
    *untold(now: number): Generator<{ queue: string; expired: number; expiredLater: number; due: number }> {
      const over = new Set<Row>();
      expiring.walk(({ row, at }) => at <= now && over.add(row).size > 0);
      for (const { queue, place } of over) yield { queue, expired: 1, expiredLater: +(place === Place.later), due: 0 };
      const due: Row[] = [];
      later.walk(({ row, at }) => at <= now && (isOver(row, now) || due.push(row) > 0));
      for (const { queue } of due) yield { queue, expired: 0, expiredLater: 0, due: 1 };
    },
    /** Of each queue, and of what is not yet promoted, only the first and those past their ttl are looked at. */
    *oldestDue(now: number): Generator<{ queue: string; dueAt: number }> {
      const oldest = new Map<string, number>();
      const see = ({ row, at }: Entry): boolean => {
        if (isOver(row, now)) return true;
        oldest.set(row.queue, Math.min(at, oldest.get(row.queue) ?? at));
        return false;
      };
      for (const line of waiting.values()) line.walk(see);
      later.walk((entry) => entry.at <= now && (see(entry) || true));
      for (const [queue, dueAt] of oldest) yield { queue, dueAt };
    },
    *dueLanes(now: number): Generator<{ type: string; queue: string; dueAt: number }> {
      const lanes = new Map<string, { type: string; queue: string; dueAt: number }>();
      const see = ({ row, at }: Entry): boolean => {
        if (at > now) return false;
        const name = `${row.queue} ${row.type}`;
        if (!isOver(row, now) && at < (lanes.get(name)?.dueAt ?? Number.POSITIVE_INFINITY))
          lanes.set(name, { type: row.type, queue: row.queue, dueAt: at });
        return true;
      };
      for (const line of waiting.values()) line.walk(see);
      later.walk(see);
      yield* lanes.values();
    },
    countDue(types: readonly string[], queues: readonly string[] | null, now: number, limit: number): number {
      const wanted = new Set(types);
      let n = 0;
      const see = ({ row, at }: Entry): boolean => {
        if (at > now || n === limit) return false;
        if (wanted.has(row.type) && (queues === null || queues.includes(row.queue)) && !isOver(row, now)) n += 1;
        return true;
      };
      for (const [queue, line] of waiting) if (queues === null || queues.includes(queue)) line.walk(see);
      later.walk(see);
      return n;
    },
    expiredRows(now: number): Row[] {
      const over = new Set<Row>();
      expiring.walk(({ row, at }) => at <= now && over.add(row).size > 0);
      return [...over];
    },
  };
}
