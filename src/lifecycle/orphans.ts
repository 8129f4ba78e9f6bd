/** Files that nobody owns: what is stored outside and has no record any more. */
import type { Finalizer, Listed } from '../core/owned.js';
import { byIds } from '../core/pages.js';
import type { Store } from '../core/store.js';

/** A file without a record may be one whose record this process cannot see yet, or no longer: it is left alone so long. */
const orphanAgeMs = 3_600_000;
const batchMax = 200;

/** An answer of the store confirms that there is no record; without one, there is no orphan. */
export async function* orphansOn(store: Store, finalizer: Finalizer): AsyncGenerator<Listed> {
  let batch: Listed[] = [];
  for await (const thing of finalizer.list(orphanAgeMs)) {
    batch.push(thing);
    if (batch.length < batchMax) continue;
    yield* await unrecorded(store, batch);
    batch = [];
  }
  yield* await unrecorded(store, batch);
}

async function unrecorded(store: Store, batch: readonly Listed[]): Promise<readonly Listed[]> {
  const records = await byIds(
    store,
    batch.map(({ id }) => id),
  );
  const known = new Set(records.map(({ id }) => id));
  return batch.filter(({ id }) => !known.has(id));
}
