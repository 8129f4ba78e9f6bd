/** Several sorted sources read as one, by pages: no cursor stays open, and about twice what is asked for is read. */
import type { Values } from './driver.js';

/** The next keys of a source after the given one (null: from its start), at most `size`, in order. */
export type ReadPage = (after: Values | null, size: number) => readonly Values[];

/** How many may be taken; several sources may share one. */
export interface Room {
  left: number;
}

interface Source {
  readonly read: ReadPage;
  readonly room: Room;
  page: readonly Values[];
  at: number;
  size: number;
}

export function mergePages(
  reads: readonly ReadPage[],
  order: (a: Values, b: Values) => number,
  limit: number,
  rooms: readonly (Room | undefined)[] = [],
): Values[] {
  const evenly = Math.ceil(limit / Math.max(1, reads.length)) + 1;
  let sources: Source[] = reads.map((read, index) => {
    const room = rooms[index] ?? { left: limit };
    const size = Math.min(evenly, room.left);
    return { read, room, page: read(null, size), at: 0, size };
  });
  const merged: Values[] = [];
  while (merged.length < limit) {
    sources = sources.filter(hasNext);
    const best = firstOf(sources, order);
    if (!best) break;
    merged.push(best.page[best.at]!);
    best.at += 1;
    best.room.left -= 1;
  }
  return merged;
}

/** Reads on where a page is used up; a short page was the last one. */
function hasNext(source: Source): boolean {
  if (source.room.left === 0) return false;
  if (source.at < source.page.length) return true;
  if (source.page.length < source.size) return false;
  const last = source.page.at(-1)!;
  source.size *= 2;
  source.page = source.read(last, source.size);
  source.at = 0;
  return source.page.length > 0;
}

function firstOf(sources: readonly Source[], order: (a: Values, b: Values) => number): Source | undefined {
  let best = sources[0];
  for (const source of sources) {
    if (source !== best && order(source.page[source.at]!, best!.page[best!.at]!) < 0) best = source;
  }
  return best;
}
