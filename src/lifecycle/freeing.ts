/** Ends what jobs own: the bytes, then the record. Each failure is one thing's own, and is told. */
import { LastoutError } from '../core/errors.js';
import { type Finalizer, type Freed, type Freeing, goneMemo, isHeld } from '../core/owned.js';
import { byIds, everyPage, moveEvery } from '../core/pages.js';
import { type Move, type Moved, noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { atOnce } from './at-once.js';

const thingsAtOnce = 8;
const pageLimit = 500;

export function freeingOn(store: Store, system: System, finalizer: Finalizer): Freeing {
  /** Ends things and removes their records; why those that could not be ended stay, by their ids. */
  async function endAll(records: readonly StoredJob[], width: number): Promise<ReadonlyMap<string, LastoutError>> {
    const failed = new Map<string, LastoutError>();
    const ended: string[] = [];
    await sendOff(records.filter((record) => whyOthers(finalizer, record) === null));
    await atOnce(width, records, async (record) => {
      const failure = await endThing(finalizer, record);
      if (failure) failed.set(record.id, failure);
      else ended.push(record.id);
    });
    for (const id of await removeRecords(store, ended))
      failed.set(id, new LastoutError('JOB_NOT_FOUND', `Record ${id} could not go`));
    return failed;
  }

  /** Before its bytes go, a record says so: it is shown no more, and whatever happens now, the next sweep ends it. */
  async function sendOff(records: readonly StoredJob[]): Promise<void> {
    const ids = records.filter(({ dueAt }) => dueAt === null || dueAt > system.now()).map(({ id }) => id);
    await moveAll(store, ids, { kind: 'confirm', memo: goneMemo, when: { inMs: 0 }, under: null });
  }

  async function freeOne(id: string, width: number, answer: Answer): Promise<'held' | LastoutError | null> {
    const [owner] = await byIds(store, [id]);
    if (owner && isHeld(owner, system.now())) return 'held';
    const records = await ownedBy(store, id);
    if (records.some((record) => isHeld(record, system.now()))) return 'held';
    const failed = await endAll(records, width);
    answer.things += records.length - failed.size;
    const [fault] = failed.values();
    return fault ?? null;
  }

  return {
    async free(owners) {
      const answer = answers();
      const width = Math.max(1, Math.floor(thingsAtOnce / Math.max(1, owners.length)));
      await atOnce(thingsAtOnce, owners, async (id) => answer.add(id, await freeOne(id, width, answer)));
      return answer;
    },
    async endThings(records) {
      const answer = answers();
      const owners = await ownersOf(store, records);
      const stays = (record: StoredJob): boolean =>
        [record, owners.get(record.ownedBy ?? '')].some((job) => job && isHeld(job, system.now()));
      const held = new Set(records.filter(stays));
      const going = records.filter((record) => !held.has(record));
      const failed = await endAll(going, thingsAtOnce);
      answer.things = going.length - failed.size;
      for (const { id } of held) answer.add(id, 'held');
      for (const { id } of going) answer.add(id, failed.get(id) ?? null);
      return answer;
    },
  };
}

type Answer = ReturnType<typeof answers>;

function answers() {
  const freed: string[] = [];
  const held: string[] = [];
  const failed = new Map<string, LastoutError>();
  return {
    freed,
    held,
    failed,
    things: 0,
    add(id: string, outcome: 'held' | LastoutError | null): void {
      if (outcome === null) freed.push(id);
      else if (outcome === 'held') held.push(id);
      else failed.set(id, outcome);
    },
  } satisfies Freed & { add(id: string, outcome: 'held' | LastoutError | null): void };
}

async function endThing(finalizer: Finalizer, record: StoredJob): Promise<LastoutError | null> {
  const { id, type } = record;
  const why = whyOthers(finalizer, record);
  if (why !== null)
    return new LastoutError('UNKNOWN_OPTION', `${type} ${id} is ended by another process: ${why}`, { type, id });
  try {
    await finalizer.end(record);
    return null;
  } catch (error) {
    const { message } = describeThrown(error);
    return new LastoutError('STORE_UNAVAILABLE', `artifact could not be deleted: ${message}`, { type, id }, error);
  }
}

/** Null: this process can end it. */
export function whyOthers({ types, isElsewhere }: Finalizer, record: StoredJob): string | null {
  if (!types.has(record.type)) return 'this one was not opened with a place for it';
  return isElsewhere(record) ? 'it is on another machine' : null;
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

export async function ownedBy(store: Store, id: string): Promise<StoredJob[]> {
  const filter = { ...noFilter, ownedBy: id, states: ['pending' as const, 'processing' as const] };
  const records: StoredJob[] = [];
  for await (const record of everyPage(store, filter, pageLimit)) records.push(record);
  return records;
}

/** Those that stayed; a record that is gone already is fine. */
async function removeRecords(store: Store, ids: readonly string[]): Promise<string[]> {
  const items = await moveAll(store, ids, { kind: 'remove', force: false });
  return items.filter(({ outcome }) => outcome !== 'removed').map(({ id }) => id);
}

async function moveAll(store: Store, ids: readonly string[], move: Move): Promise<Moved['items'][number][]> {
  const items: Moved['items'][number][] = [];
  for (let at = 0; at < ids.length; at += pageLimit) {
    const filter = { ...noFilter, ids: ids.slice(at, at + pageLimit) };
    items.push(...(await moveEvery(store, { filter, move, dryRun: false, limit: pageLimit })));
  }
  return items;
}
