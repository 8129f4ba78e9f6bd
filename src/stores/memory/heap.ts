/** A binary heap whose entries may go stale: what has left is skipped when it comes to the top. */
export interface Heap<T> {
  push(item: T): void;
  /** The first entry that still counts, or undefined. */
  peek(): T | undefined;
  pop(): T | undefined;
  /** Shows entries as long as `visit` says to go on below them. */
  walk(visit: (item: T) => boolean): void;
  readonly size: number;
}

export function createHeap<T>(before: (a: T, b: T) => boolean, counts: (item: T) => boolean): Heap<T> {
  let items: T[] = [];
  let sizeAtSweep = 0;

  function sift(from: number): void {
    let at = from;
    const item = items[at]!;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= items.length) break;
      if (child + 1 < items.length && before(items[child + 1]!, items[child]!)) child += 1;
      if (!before(items[child]!, item)) break;
      items[at] = items[child]!;
      at = child;
    }
    items[at] = item;
  }
  function removeTop(): void {
    const last = items.pop()!;
    if (items.length === 0) return;
    items[0] = last;
    sift(0);
  }
  /** What is left at the top is dropped when it gets there; what lies deeper, when the heap has doubled. */
  function dropStale(): void {
    items = items.filter(counts);
    for (let i = (items.length >> 1) - 1; i >= 0; i--) sift(i);
    sizeAtSweep = items.length;
  }
  function peek(): T | undefined {
    while (items.length > 0 && !counts(items[0]!)) removeTop();
    return items[0];
  }

  return {
    push(item) {
      if (items.length > 2 * sizeAtSweep + 1_024) dropStale();
      let at = items.length;
      items.push(item);
      while (at > 0) {
        const parent = (at - 1) >> 1;
        if (!before(item, items[parent]!)) break;
        items[at] = items[parent]!;
        at = parent;
      }
      items[at] = item;
    },
    peek,
    pop() {
      const top = peek();
      if (top !== undefined) removeTop();
      return top;
    },
    walk(visit) {
      const open = items.length > 0 ? [0] : [];
      for (let at = open.pop(); at !== undefined; at = open.pop()) {
        if (counts(items[at]!) && !visit(items[at]!)) continue;
        for (const child of [2 * at + 1, 2 * at + 2]) if (child < items.length) open.push(child);
      }
    },
    get size() {
      return items.length;
    },
  };
}
