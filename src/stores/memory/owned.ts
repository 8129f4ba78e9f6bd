/** Jobs that other jobs own, while they live; and every hold. */
import { systemQueue } from '../../core/names.js';
import { Place, type Position, type Row } from '../local/tables.js';
import { Timed } from './timed.js';

export function createOwned() {
  const byOwner = new Map<string, Set<Row>>();
  /** Of the library's queue, pending and not held, by their deadline. */
  const things = new Timed();
  const dueAt = new Map<Row, number>();
  const holds = new Timed();
  const heldUntil = new Map<Row, number>();
  let size = 0;

  function moveIn(order: Timed, instants: Map<Row, number>, row: Row, at: number | null): void {
    const old = instants.get(row);
    if (old === (at ?? undefined)) return;
    if (old !== undefined) order.remove(old, row);
    if (at === null) instants.delete(row);
    else {
      instants.set(row, at);
      order.add(at, row);
    }
  }
  /** Its place, its deadline or its hold has changed. */
  function follow(row: Row): void {
    if (row.ownedBy === null || row.queue !== systemQueue) return;
    const stands = row.state === null && row.place !== Place.claimed && row.heldUntil === null;
    moveIn(things, dueAt, row, stands ? row.dueAt : null);
  }
  function page(order: Timed, after: Position | null, until: number, limit: number): Row[] {
    const rows: Row[] = [];
    for (const { at, row } of order.after(after)) {
      if (at > until || rows.length === limit) break;
      rows.push(row);
    }
    return rows;
  }

  return {
    follow,
    add(row: Row): void {
      if (row.ownedBy === null) return;
      size += 1;
      const owned = byOwner.get(row.ownedBy);
      if (owned) owned.add(row);
      else byOwner.set(row.ownedBy, new Set([row]));
    },
    /** It has ended, or is removed. */
    leave(row: Row): void {
      if (row.ownedBy === null) return;
      const owned = byOwner.get(row.ownedBy);
      if (owned?.delete(row)) size -= 1;
      if (owned?.size === 0) byOwner.delete(row.ownedBy);
      moveIn(things, dueAt, row, null);
    },
    hold(row: Row): void {
      moveIn(holds, heldUntil, row, row.heldUntil);
      follow(row);
    },
    dropHold: (row: Row): void => moveIn(holds, heldUntil, row, null),
    heldPast: (now: number, limit: number): Row[] => page(holds, null, now, limit),
    heldAfter: (after: Position, limit: number): Row[] => page(holds, after, Number.POSITIVE_INFINITY, limit),
    dueThings: (now: number, after: Position | null, limit: number): Row[] => page(things, after, now, limit),
    owning: (ids: readonly string[]): ReadonlySet<string> =>
      byOwner.size === 0 ? none : new Set(ids.filter((id) => byOwner.has(id))),
    ownedCount: (id: string): number => byOwner.get(id)?.size ?? 0,
    get size(): number {
      return size;
    },
  };
}

const none: ReadonlySet<string> = new Set();
