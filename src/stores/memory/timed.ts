/**
 * Rows in the order of an instant, then of their seq. They lie in blocks, so that adding, removing and finding a place
 * cost about the same in a list of ten and of a million.
 */
import type { Position, Row } from '../local/tables.js';

const blockMax = 512;

interface Entry extends Position {
  readonly row: Row;
}

export class Timed {
  /** Each in order, and all of them; none is empty. */
  readonly #blocks: Entry[][] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(at: number, row: Row): void {
    this.#size += 1;
    const entry: Entry = { at, seq: row.seq, row };
    const last = this.#blocks.at(-1);
    if (last === undefined) this.#blocks.push([entry]);
    else if (isBefore(entry, last[last.length - 1]!)) this.#insert(entry);
    else if (last.length < blockMax) last.push(entry);
    else this.#blocks.push([entry]);
  }

  remove(at: number, row: Row): void {
    const wanted: Position = { at, seq: row.seq };
    const block = this.#blockOf(wanted);
    const entries = this.#blocks[block];
    const place = entries ? countBefore(entries, wanted) : 0;
    if (entries?.[place]?.row !== row) return;
    this.#size -= 1;
    if (entries.length === 1) this.#blocks.splice(block, 1);
    else entries.splice(place, 1);
  }

  /** From the first after a position on. */
  *after(position: Position | null): Generator<Entry> {
    const from = position && this.#blockOf(position);
    for (let block = from ?? 0; block < this.#blocks.length; block++) {
      const entries = this.#blocks[block]!;
      let place = block === from ? countBefore(entries, position!) : 0;
      if (block === from && entries[place]?.seq === position!.seq && entries[place]?.at === position!.at) place += 1;
      for (; place < entries.length; place++) yield entries[place]!;
    }
  }

  /** From the last before a position on, backwards. */
  *before(position: Position | null): Generator<Entry> {
    const from = position ? this.#blockOf(position) : this.#blocks.length - 1;
    for (let block = from; block >= 0; block--) {
      const entries = this.#blocks[block];
      if (!entries) continue;
      const end = block === from && position ? countBefore(entries, position) : entries.length;
      for (let place = end - 1; place >= 0; place--) yield entries[place]!;
    }
  }

  /** How many are before an instant. */
  countBefore(at: number): number {
    let n = 0;
    for (const entries of this.#blocks) {
      if (entries[entries.length - 1]!.at < at) n += entries.length;
      else return n + countBefore(entries, { at, seq: Number.MIN_SAFE_INTEGER });
    }
    return n;
  }

  /** Where an entry with this position stands or would stand. */
  #blockOf(position: Position): number {
    let low = 0;
    let high = this.#blocks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (isBefore(position, this.#blocks[middle]![0]!)) high = middle;
      else low = middle + 1;
    }
    return Math.max(0, low - 1);
  }

  #insert(entry: Entry): void {
    const at = this.#blockOf(entry);
    const entries = this.#blocks[at]!;
    entries.splice(countBefore(entries, entry), 0, entry);
    if (entries.length > blockMax) this.#blocks.splice(at + 1, 0, entries.splice(blockMax / 2));
  }
}

function isBefore(a: Position, b: Position): boolean {
  return a.at !== b.at ? a.at < b.at : a.seq < b.seq;
}

/** How many of a sorted list stand before a position. */
function countBefore(list: readonly Position[], position: Position): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isBefore(list[middle]!, position)) low = middle + 1;
    else high = middle;
  }
  return low;
}
