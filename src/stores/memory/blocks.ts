/**
 * Items in an order. They lie in blocks, so that adding, removing and finding a place cost about the same in a list of ten
 * and of a million. Most come at the end and leave at the front: both are cheaper still.
 */
const blockMax = 512;

/** `P` is what says where an item stands: of two items, and of an item and a position, one is before the other. */
export class Blocks<P, T extends P> {
  /** Each in order, and all of them; none is empty. */
  readonly #blocks: T[][] = [];
  /** So many of the first block have left. */
  #head = 0;
  #size = 0;
  readonly #isBefore: (a: P, b: P) => boolean;

  constructor(isBefore: (a: P, b: P) => boolean) {
    this.#isBefore = isBefore;
  }

  get size(): number {
    return this.#size;
  }

  get first(): T | undefined {
    return this.#blocks[0]?.[this.#head];
  }

  add(item: T): void {
    this.#size += 1;
    const last = this.#blocks[this.#blocks.length - 1];
    if (last === undefined) this.#blocks.push([item]);
    else if (this.#isBefore(item, last[last.length - 1]!)) this.#insert(item);
    else if (last.length < blockMax) last.push(item);
    else this.#blocks.push([item]);
  }

  /** The first item that is not before a position. */
  from(position: P): T | undefined {
    const block = this.#blockOf(position);
    return this.#blocks[block]?.[this.#placeIn(block, position)];
  }

  removeFirst(): void {
    const block = this.#blocks[0]!;
    this.#size -= 1;
    block[this.#head] = undefined as never; // nothing holds what has left
    this.#head += 1;
    if (this.#head < block.length) return;
    this.#blocks.shift();
    this.#head = 0;
  }

  /** `item` stands in the list. */
  remove(item: T): void {
    if (item === this.first) return this.removeFirst();
    this.#size -= 1;
    this.#closeUp();
    const at = this.#blockOf(item);
    const block = this.#blocks[at]!;
    if (block.length === 1) this.#blocks.splice(at, 1);
    else block.splice(this.#placeIn(at, item), 1);
  }

  /** From the first that is not before a position on. */
  *after(position: P | null): Generator<T> {
    const from = position === null ? 0 : this.#blockOf(position);
    let place = position === null ? this.#head : this.#placeIn(from, position);
    for (let at = from; at < this.#blocks.length; at++, place = 0) {
      const block = this.#blocks[at]!;
      for (; place < block.length; place++) yield block[place]!;
    }
  }

  /** From the last before a position on, backwards. */
  *before(position: P | null): Generator<T> {
    const from = position === null ? this.#blocks.length - 1 : this.#blockOf(position);
    for (let at = from; at >= 0; at--) {
      const end = position !== null && at === from ? this.#placeIn(at, position) : (this.#blocks[at]?.length ?? 0);
      for (let place = end - 1; place >= (at === 0 ? this.#head : 0); place--) yield this.#blocks[at]![place]!;
    }
  }

  /** How many are before a position. */
  countBefore(position: P): number {
    const from = this.#blockOf(position);
    let n = this.#placeIn(from, position) - this.#head;
    for (let at = 0; at < from; at++) n += this.#blocks[at]!.length;
    return n;
  }

  /** The block in which a position is, or would be. */
  #blockOf(position: P): number {
    let low = 1;
    let high = this.#blocks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#isBefore(position, this.#blocks[middle]![0]!)) high = middle;
      else low = middle + 1;
    }
    return low - 1;
  }

  /** The place in that block of the first item that is not before the position. */
  #placeIn(at: number, position: P): number {
    const block = this.#blocks[at] ?? [];
    let low = at === 0 ? this.#head : 0;
    let high = block.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#isBefore(block[middle]!, position)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #insert(item: T): void {
    this.#closeUp();
    const at = this.#blockOf(item);
    const block = this.#blocks[at]!;
    block.splice(this.#placeIn(at, item), 0, item);
    if (block.length > blockMax) this.#blocks.splice(at + 1, 0, block.splice(blockMax / 2));
  }

  #closeUp(): void {
    if (this.#head > 0) this.#blocks[0]!.splice(0, this.#head);
    this.#head = 0;
  }
}
