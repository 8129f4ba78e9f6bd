/** Ends what jobs own: leases, then bytes, then their records. Each failure is one thing's own, and is told. */
import { LastoutError } from '../core/errors.js';
import { isLease } from '../core/lease-record.js';
import { type Finalizer, type Freed, type Freeing, isHeld } from '../core/owned.js';
import { byIds, everyPage, moveEvery } from '../core/pages.js';
import { type Move, type Moved, noFilter, type Store, type StoredJob } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown, storable } from '../core/thrown.js';
import { atOnce } from '../core/at-once.js';

const thingsAtOnce = 8;
const pageLimit = 500;
const reasonBytesMax = 1_024;

/** What became of a thing, or of a job with all that it owns; null: it is gone, or free. */
type Outcome = 'held' | LastoutError | null;

export function freeingOn(store: Store, system: System, finalizer: Finalizer): Freeing {
  /** Ends things and removes their records. */
  async function endAll(records: readonly StoredJob[], width: number): Promise<ReadonlyMap<string, Outcome>> {
    const outcomes = new Map<string, Outcome>();
    const ours: StoredJob[] = [];
    for (const record of records) {
      const why = whyOthers(finalizer, record);
      if (why === null) ours.push(record);
      else outcomes.set(record.id, others(record, why));
    }
    const things = ours.filter((record) => !isLease(record));
    for (const id of await heldAmong(things)) outcomes.set(id, 'held');
    await atOnce(
      width,
      ours.filter(({ id }) => !outcomes.has(id)),
      async (record) => void outcomes.set(record.id, await endThing(finalizer, record)),
    );
    for (const record of things) await keepReason(record, outcomes.get(record.id) ?? null);
    const ended = [...outcomes].flatMap(([id, outcome]) => (outcome === null ? id : []));
    for (const id of await removeRecords(store, ended))
      outcomes.set(id, new LastoutError('JOB_NOT_FOUND', `Record ${id} could not go`));
    return outcomes;
  }

  /**
   * Before its bytes go, a record says so: it is shown no more, nobody can hold it or its job any more, and whatever happens
   * now, the next sweep ends it. Those that somebody holds are left out.
   */
  async function heldAmong(records: readonly StoredJob[]): Promise<string[]> {
    const ids = records.map(({ id }) => id);
    const items = await moveAll(store, ids, { kind: 'dismiss' });
    return items.filter(({ outcome }) => outcome === 'held').map(({ id }) => id);
  }

  /** With its record, where everybody finds it. */
  async function keepReason({ id, cancelReason }: StoredJob, outcome: Outcome): Promise<void> {
    if (!(outcome instanceof LastoutError) || outcome.message === cancelReason) return;
    await moveAll(store, [id], { kind: 'dismiss', reason: storable(outcome.message, reasonBytesMax) });
  }

  async function freeOne(id: string, width: number, answer: Answer): Promise<Outcome> {
    const records = await ownedBy(store, id);
    if (records.some((record) => isHeld(record, system.now()))) return 'held';
    // As long as something outside is held for the job, what it has left is not touched.
    const leases = await endOwned(records.filter(isLease), width, answer);
    return (
      leases ??
      endOwned(
        records.filter((record) => !isLease(record)),
        width,
        answer,
      )
    );
  }

  async function endOwned(records: readonly StoredJob[], width: number, answer: Answer): Promise<Outcome> {
    const outcomes = [...(await endAll(records, width)).values()];
    answer.things += outcomes.filter((outcome) => outcome === null).length;
    return outcomes.includes('held') ? 'held' : (outcomes.find((outcome) => outcome !== null) ?? null);
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
      for (const [id, outcome] of await endAll(records, thingsAtOnce)) answer.add(id, outcome);
      answer.things = answer.freed.length;
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
    add(id: string, outcome: Outcome): void {
      if (outcome === null) freed.push(id);
      else if (outcome === 'held') held.push(id);
      else failed.set(id, outcome);
    },
  } satisfies Freed & { add(id: string, outcome: Outcome): void };
}

async function endThing(finalizer: Finalizer, record: StoredJob): Promise<LastoutError | null> {
  const { id, type } = record;
  try {
    await finalizer.end(record);
    return null;
  } catch (error) {
    const { message } = describeThrown(error);
    const what = isLease(record) ? 'lease could not be ended' : 'artifact could not be deleted';
    return new LastoutError('STORE_UNAVAILABLE', `${what}: ${message}`, { type, id }, error);
  }
}

/** Null: this process can end it. */
export function whyOthers({ knows, isElsewhere }: Finalizer, record: StoredJob): string | null {
  if (!knows(record.type)) return 'this one was not opened with a place, or a resource, for it';
  return isElsewhere(record) ? 'it is on another machine' : null;
}

function others({ id, type }: StoredJob, why: string): LastoutError {
  return new LastoutError('UNKNOWN_OPTION', `${type} ${id} is ended by another process: ${why}`, { type, id });
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
