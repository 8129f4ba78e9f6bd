/** Items in the order of their seq, read from the newest. */
import { Blocks } from './blocks.js';

interface Numbered {
  readonly seq: number;
}

export class Ordered<T extends Numbered> {
  readonly #items = new Blocks<Numbered, T>(isOlder);

  get size(): number {
    return this.#items.size;
  }

  add(item: T): void {
    this.#items.add(item);
  }

  at(seq: number): T | undefined {
    const item = this.#items.from({ seq });
    return item?.seq === seq ? item : undefined;
  }

  remove(item: T): void {
    if (item === this.#items.first) this.#items.removeFirst();
    else if (item === this.#items.from(item)) this.#items.remove(item);
  }

  /** From the newest below `beforeSeq`. */
  newestFirst(beforeSeq: number): Iterable<T> {
    return this.#items.before({ seq: beforeSeq });
  }
}

function isOlder(a: Numbered, b: Numbered): boolean {
  return a.seq < b.seq;
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
