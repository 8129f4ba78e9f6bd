/** Rows in the order of their seq, read from the newest; a row that left is skipped and swept out in bulk. */
export interface Ordered<T extends { readonly seq: number }> {
  add(item: T): void;
  /** Tells that an item no longer counts. */
  left(): void;
  /** From the newest below `beforeSeq`. */
  newestFirst(beforeSeq: number): Generator<T>;
}

export function createOrdered<T extends { readonly seq: number }>(counts: (item: T) => boolean): Ordered<T> {
  let items: T[] = [];
  let stale = 0;
  return {
    add(item) {
      items.push(item);
    },
    left() {
      stale += 1;
      if (stale <= 64 || stale <= items.length / 2) return;
      items = items.filter(counts);
      stale = 0;
    },
    *newestFirst(beforeSeq) {
      const list = items;
      let low = 0;
      let high = list.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (list[middle]!.seq < beforeSeq) low = middle + 1;
        else high = middle;
      }
      for (let i = low - 1; i >= 0; i--) if (counts(list[i]!)) yield list[i]!;
    },
  };
}
