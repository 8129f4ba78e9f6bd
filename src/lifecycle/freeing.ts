/** Ends what jobs own: the bytes, then the record. Each failure is one thing's own, and is told. */
import { LastoutError } from '../core/errors.js';
import { type Finalizer, type Freed, type Freeing, isHeld } from '../core/owned.js';
import { byIds, everyPage, moveEvery } from '../core/pages.js';
import { noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { atOnce } from './at-once.js';

const thingsAtOnce = 8;
const pageLimit = 500;

export function freeingOn(store: Store, system: System, finalizer: Finalizer): Freeing {
  /** Ends things and removes their records; the error of the first that could not be ended, or null. */
  async function endAll(records: readonly StoredJob[], width: number): Promise<LastoutError | null> {
    const ended: string[] = [];
    let fault: LastoutError | null = null;
    await atOnce(width, records, async (record) => {
      const failure = await endThing(finalizer, record);
      if (failure) fault ??= failure;
      else ended.push(record.id);
    });
    const left = await removeRecords(store, ended);
    return fault ?? (left === undefined ? null : new LastoutError('JOB_NOT_FOUND', `Record ${left} could not go`));
  }

  async function freeOne(id: string, width: number): Promise<'held' | LastoutError | null> {
    const [owner] = await byIds(store, [id]);
    if (owner && isHeld(owner, system.now())) return 'held';
    const records = await ownedBy(store, id);
    if (records.some((record) => isHeld(record, system.now()))) return 'held';
    return endAll(records, width);
  }

  return {
    async free(owners) {
      const answer = answers();
      const width = Math.max(1, Math.floor(thingsAtOnce / Math.max(1, owners.length)));
      await atOnce(thingsAtOnce, owners, async (id) => answer.add(id, await freeOne(id, width)));
      return answer;
    },
    async endThings(records) {
      const answer = answers();
      const owners = await ownersOf(store, records);
      await atOnce(thingsAtOnce, records, async (record) => {
        const owner = owners.get(record.ownedBy ?? '');
        const stays = [record, owner].some((job) => job && isHeld(job, system.now()));
        answer.add(record.id, stays ? 'held' : await endAll([record], 1));
      });
      return answer;
    },
  };
}

function answers() {
  const freed: string[] = [];
  const held: string[] = [];
  const failed = new Map<string, LastoutError>();
  return {
    freed,
    held,
    failed,
    add(id: string, outcome: 'held' | LastoutError | null): void {
      if (outcome === null) freed.push(id);
      else if (outcome === 'held') held.push(id);
      else failed.set(id, outcome);
    },
  } satisfies Freed & { add(id: string, outcome: 'held' | LastoutError | null): void };
}

async function endThing(finalizer: Finalizer, record: StoredJob): Promise<LastoutError | null> {
  const { id, type } = record;
  if (!finalizer.types.has(type)) {
    const message = `${type} ${id} is ended by another process: this one was not opened with a place for it`;
    return new LastoutError('UNKNOWN_OPTION', message, { type, id });
  }
  try {
    await finalizer.end(record);
    return null;
  } catch (error) {
    const { message } = describeThrown(error);
    return new LastoutError('STORE_UNAVAILABLE', `artifact could not be deleted: ${message}`, { type, id }, error);
  }
}

/** True: nobody failed, but this process has no way to end it. */
export function isOthers(error: LastoutError): boolean {
  return error.code === 'UNKNOWN_OPTION';
}

/** Whoever is not among them is gone. */
export async function ownersOf(store: Store, records: readonly StoredJob[]): Promise<ReadonlyMap<string, StoredJob>> {
  const owners = await byIds(
    store,
    records.flatMap(({ ownedBy }) => ownedBy ?? []),
  );
  return new Map(owners.map((owner) => [owner.id, owner]));
}

async function ownedBy(store: Store, id: string): Promise<StoredJob[]> {
  const filter = { ...noFilter, ownedBy: id, states: ['pending' as const, 'processing' as const] };
  const records: StoredJob[] = [];
  for await (const record of everyPage(store, filter, pageLimit)) records.push(record);
  return records;
}

/** One that stayed; a record that is gone already is fine. */
async function removeRecords(store: Store, ids: readonly string[]): Promise<string | undefined> {
  for (let at = 0; at < ids.length; at += pageLimit) {
    const filter = { ...noFilter, ids: ids.slice(at, at + pageLimit) };
    const move = { kind: 'remove', force: false } as const;
    const items = await moveEvery(store, { filter, move, dryRun: false, limit: pageLimit });
    const left = items.find(({ outcome }) => outcome !== 'removed');
    if (left) return left.id;
  }
  return undefined;
}
