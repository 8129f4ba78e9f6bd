/** Rows in the order of an instant, then of their seq. */
import type { Position, Row } from '../local/tables.js';
import { Blocks } from './blocks.js';

export interface Entry extends Position {
  readonly row: Row;
}

export class Timed {
  readonly #entries = new Blocks<Position, Entry>(isBefore);

  get size(): number {
    return this.#entries.size;
  }

  add(at: number, row: Row): void {
    this.#entries.add({ at, seq: row.seq, row });
  }

  remove(at: number, row: Row): void {
    if (this.#entries.first?.row === row) return this.#entries.removeFirst();
    const entry = this.#entries.from({ at, seq: row.seq });
    if (entry?.row === row) this.#entries.remove(entry);
  }

  /** From the first after a position on. */
  after(position: Position | null): Iterable<Entry> {
    return this.#entries.after(position && { at: position.at, seq: position.seq + 1 });
  }

  /** From the last before a position on, backwards. */
  before(position: Position | null): Iterable<Entry> {
    return this.#entries.before(position);
  }

  /** How many are before an instant. */
  countBefore(at: number): number {
    return this.#entries.countBefore({ at, seq: Number.MIN_SAFE_INTEGER });
  }
}

export function isBefore(a: Position, b: Position): boolean {
  return a.at !== b.at ? a.at < b.at : a.seq < b.seq;
}
