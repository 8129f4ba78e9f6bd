/**
 * Items in the order of their seq, read from the newest. They lie in blocks, so that adding, removing and finding a place
 * cost about the same in a list of ten and of a million.
 */
const blockMax = 512;

interface Numbered {
  readonly seq: number;
}

export class Ordered<T extends Numbered> {
  /** Each in order, and all of them; none is empty. */
  readonly #blocks: T[][] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(item: T): void {
    this.#size += 1;
    const last = this.#blocks.at(-1);
    if (last === undefined) this.#blocks.push([item]);
    else if (last[last.length - 1]!.seq > item.seq) this.#insert(item);
    else if (last.length < blockMax) last.push(item);
    else this.#blocks.push([item]);
  }

  at(seq: number): T | undefined {
    const block = this.#blocks[this.#blockOf(seq)];
    const item = block?.[countBelow(block, ownSeq, seq)];
    return item?.seq === seq ? item : undefined;
  }

  remove(item: T): void {
    const at = this.#blockOf(item.seq);
    const block = this.#blocks[at];
    const place = block ? countBelow(block, ownSeq, item.seq) : 0;
    if (block?.[place] !== item) return;
    this.#size -= 1;
    if (block.length === 1) this.#blocks.splice(at, 1);
    else block.splice(place, 1);
  }

  /** From the newest below `beforeSeq`. */
  *newestFirst(beforeSeq: number): Generator<T> {
    for (let at = countBelow(this.#blocks, firstSeq, beforeSeq) - 1; at >= 0; at--) {
      const block = this.#blocks[at]!;
      for (let i = countBelow(block, ownSeq, beforeSeq) - 1; i >= 0; i--) yield block[i]!;
    }
  }

  /** Where an item with this seq stands or would stand. */
  #blockOf(seq: number): number {
    return Math.max(0, countBelow(this.#blocks, firstSeq, seq + 1) - 1);
  }

  #insert(item: T): void {
    const at = this.#blockOf(item.seq);
    const block = this.#blocks[at]!;
    block.splice(countBelow(block, ownSeq, item.seq), 0, item);
    if (block.length > blockMax) this.#blocks.splice(at + 1, 0, block.splice(blockMax / 2));
  }
}

const ownSeq = (item: Numbered): number => item.seq;
const firstSeq = (block: readonly Numbered[]): number => block[0]!.seq;

/** How many of a sorted list have a seq below this one. */
function countBelow<T>(list: readonly T[], seqOf: (item: T) => number, seq: number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (seqOf(list[middle]!) < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Several lists as one, from the newest below `beforeSeq`. An item that stands in two of them comes once. */
export function* newestOf<T extends Numbered>(lists: readonly Iterable<T>[]): Generator<T> {
  const heads: { item: T; rest: Iterator<T> }[] = [];
  const advance = (rest: Iterator<T>): void => {
    const next = rest.next();
    if (!next.done) heads.push({ item: next.value, rest });
  };
  for (const list of lists) advance(list[Symbol.iterator]());
  let last: T | undefined;
  while (heads.length > 0) {
    let best = 0;
    for (let i = 1; i < heads.length; i++) if (heads[i]!.item.seq > heads[best]!.item.seq) best = i;
    const [{ item, rest }] = heads.splice(best, 1) as [{ item: T; rest: Iterator<T> }];
    advance(rest);
    if (item !== last) yield item;
    last = item;
  }
}
