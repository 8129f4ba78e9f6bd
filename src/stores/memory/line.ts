/**
 * Entries in order, first in, mostly first out. Most come in order and leave at the front, and some go back there: both
 * ends cost the same however long the line is. What belongs in the middle stands in a heap. An entry that has left is
 * skipped when it gets to the front.
 */
import { createHeap, type Heap } from './heap.js';

export interface Line<T> {
  push(item: T): void;
  /** The first entry that still counts, or undefined. */
  peek(): T | undefined;
  pop(): T | undefined;
  /** The first entries; they stay where they are. */
  first(limit: number): T[];
  /** Shows entries as long as `visit` says to go on: an entry is shown only if those before it on its way said so. */
  walk(visit: (item: T) => boolean): void;
  readonly size: number;
}

/** `left`: how many entries have left any line so far. */
export function createLine<T>(
  before: (a: T, b: T) => boolean,
  counts: (item: T) => boolean,
  left: () => number,
): Line<T> {
  let items: (T | undefined)[] = [];
  let head = 0;
  let sizeAtSweep = 0;
  let leftAtSweep = 0;
  let middle: Heap<T> | null = null;

  function skipStale(): void {
    while (head < items.length && !counts(items[head]!)) items[head++] = undefined;
  }
  /** Now and then, so that what left behind the front does not gather there; a line that only grows is not gone through. */
  function dropStale(): void {
    if (2 * (left() - leftAtSweep) >= items.length) {
      skipStale();
      items = items.slice(head).filter((item) => counts(item!));
      head = 0;
      leftAtSweep = left();
    }
    sizeAtSweep = items.length;
  }
  /** Whether the front of the line comes from the heap. */
  function middleFirst(): boolean {
    skipStale();
    const other = middle?.peek();
    if (other === undefined) return false;
    return head === items.length || before(other, items[head]!);
  }

  /** What has left on the way is let go, as if all had been taken out and put back. */
  function firstItems(limit: number): T[] {
    const found: T[] = [];
    let end = head;
    for (; end < items.length && found.length < limit; end++) if (counts(items[end]!)) found.push(items[end]!);
    const start = end - found.length;
    if (start === head) return found;
    items.fill(undefined, head, start);
    for (let i = 0; i < found.length; i++) items[start + i] = found[i]!;
    head = start;
    return found;
  }

  const line: Line<T> = {
    push(item) {
      if (items.length > 2 * sizeAtSweep + 1_024) dropStale();
      const isEmpty = head === items.length;
      if (head > 0 && (isEmpty || before(item, items[head]!))) items[--head] = item;
      else if (isEmpty || !before(item, items[items.length - 1]!)) items.push(item);
      else (middle ??= createHeap(before, counts)).push(item);
    },
    peek: () => (middleFirst() ? middle!.peek() : items[head]),
    pop() {
      if (middleFirst()) return middle!.pop();
      const item = items[head];
      if (item !== undefined) items[head++] = undefined;
      return item;
    },
    first: (limit) => (middle?.peek() === undefined ? firstItems(limit) : firstOf([line], before, limit)),
    walk(visit) {
      for (let i = head; i < items.length; i++) if (counts(items[i]!) && !visit(items[i]!)) break;
      middle?.walk(visit);
    },
    get size() {
      return items.length - head + (middle?.size ?? 0);
    },
  };
  return line;
}

/** The first entries of several lines together, while `wanted`; they stay where they are. */
export function firstOf<T>(
  lines: readonly Line<T>[],
  before: (a: T, b: T) => boolean,
  limit: number,
  wanted: (item: T) => boolean = () => true,
): T[] {
  const open = [...lines];
  const found: T[] = [];
  const from: Line<T>[] = [];
  while (found.length < limit && open.length > 0) {
    let best = 0;
    let first = open[0]!.peek();
    for (let i = 1; i < open.length; i++) {
      const other = open[i]!.peek();
      if (first === undefined || (other !== undefined && before(other, first))) [best, first] = [i, other];
    }
    if (first === undefined) break;
    const line = open[best]!;
    if (!wanted(first)) {
      open.splice(best, 1);
      continue;
    }
    line.pop();
    found.push(first);
    from.push(line);
  }
  for (let i = found.length - 1; i >= 0; i--) from[i]!.push(found[i]!);
  return found;
}
