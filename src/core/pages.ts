/**
 * All that a question finds. A store looks at a bounded number of rows and bytes in one go, so a page may be short, even
 * empty, and have a next one: what is missing is gone only after the last page.
 */
import {
  type JobFilter,
  type Move,
  type Moved,
  type MoveRequest,
  noFilter,
  type Store,
  type StoredJob,
} from './store.js';

/** Their inputs and results come with them. */
const idsMax = 100;

/** Newest first. */
export async function* everyPage(store: Store, filter: JobFilter, limit: number): AsyncGenerator<StoredJob> {
  for (let cursor: string | null = null; ; ) {
    const page: Awaited<ReturnType<Store['find']>> = await store.find({ filter, cursor, limit });
    yield* page.jobs;
    if (page.next === null) return;
    cursor = page.next;
  }
}

/** Those of these ids that are stored, each once. */
export async function byIds(store: Store, ids: Iterable<string>): Promise<StoredJob[]> {
  const asked = [...new Set(ids)];
  const jobs: StoredJob[] = [];
  for (let at = 0; at < asked.length; at += idsMax) {
    const filter = { ...noFilter, ids: asked.slice(at, at + idsMax) };
    for await (const job of everyPage(store, filter, idsMax)) jobs.push(job);
  }
  return jobs;
}

/** Moves every job that the filter finds; what became of each. */
export async function moveEvery(store: Store, request: Omit<MoveRequest, 'cursor'>): Promise<Moved['items']> {
  const all: Moved['items'][number][] = [];
  for (let cursor: string | null = null; ; ) {
    const move = goingOn(request.move, all);
    const { items, next }: Moved = await store.move({ ...request, move, cursor });
    all.push(...items);
    if (next === null) return all;
    cursor = next;
  }
}

/** The new ids of a retry are given out from the first on in each call: those that are in use stay out of the next one. */
function goingOn(move: Move, done: Moved['items']): Move {
  if (move.kind !== 'retry' || done.length === 0) return move;
  const used = new Set(done.map(({ newId }) => newId));
  return { ...move, newIds: move.newIds.filter((id) => !used.has(id)) };
}
