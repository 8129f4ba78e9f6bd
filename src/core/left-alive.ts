/**
 * What a queue had to leave alive when it was closed: a mark for each lease, a job of queue `lastout` whose key is the id of
 * the lease, so that every process sees it at once. A mark counts while its lease lives, and expires when nobody's coming is
 * enough to tell.
 */
import { leftAloneMs } from './lease-record.js';
import { everyPage } from './pages.js';
import { type NewJob, noFilter, type Store } from './store.js';
import { systemJob } from './system-job.js';

const type = 'lastout.left';
const pageLimit = 200;

/** It is never due before it expires: nobody takes it. */
export function markOf(id: string, lease: string): NewJob {
  return systemJob({ id, type, key: lease, when: { inMs: leftAloneMs }, ttlMs: leftAloneMs });
}

/** The ids of the leases that are marked; with `lease`, whether that one is. */
export async function leftAlive(store: Store, lease: string | null = null): Promise<ReadonlySet<string>> {
  const filter = { ...noFilter, types: [type], states: ['pending' as const], key: lease };
  const ids = new Set<string>();
  for await (const { key } of everyPage(store, filter, pageLimit)) ids.add(key!);
  return ids;
}
