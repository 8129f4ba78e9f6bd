/**
 * Compares what there is with what is stored, now and then, for each kind by one process at a time. What bears a name of this
 * store and belongs to no lease is destroyed: it was made too late, or its record was lost. A lease whose thing has gone is ended.
 * A look that fails, or an answer that cannot be read in full, changes nothing.
 */
import { atOnce } from '../core/at-once.js';
import type { TypeDetails } from '../core/definition.js';
import { isLease, leaseStateOf, leaseType } from '../core/lease-record.js';
import { type Outcome, snooze } from '../core/outcome.js';
import { byIds, everyPage } from '../core/pages.js';
import type { Recurring } from '../core/recurring.js';
import { readName, type ResourceSteps } from '../core/resource.js';
import { noFilter, type StoredJob } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import { libraryType } from './ending.js';
import { type LeaseParts, makeDue } from './parts.js';
import { attemptsMax, destroyMs, listMs, within } from './taking.js';

export const reconcileMs = 60_000;
/** What has no lease is left alone so long: a list may be late, in both directions. */
const graceMs = 60_000;
/** A lease is taken for gone when so many looks in a row have not shown its thing, and one more. */
const looksMin = 3;
/** Where more than one, and more than this share, would be gone at once, the list is to blame: their time ends them anyway. */
const shareMax = 0.3;
const destroysMax = 200;
const destroysAtOnce = 4;

const typeOf = (kind: string): string => `lastout.compare.${kind}`;
/** That of 0.1.0 does not know the names of now: it would take a living lease for one whose thing has gone. */
export const formerTypeOf = (kind: string): string => `lastout.reconcile.${kind}`;

/** There is one for each kind, for ever. */
export function reconciling(kind: string): Recurring {
  return { type: typeOf(kind), key: kind, everyMs: reconcileMs, maxAttempts: attemptsMax };
}

interface Thing {
  readonly name: string;
  readonly createdAt: number;
  /** By its name alone. Else 0.1.0 has named it, and it is ours if it was leased here. */
  readonly isOurs: boolean;
}

/** By the id of their lease. What bears the identity of another store is not among them. */
type Listed = ReadonlyMap<string, Thing>;

export function reconcilerOf(parts: LeaseParts, kind: string, steps: ResourceSteps<unknown>): TypeDetails {
  const { store, system, logger, meters } = parts;
  /** How many looks in a row have not shown it. */
  let unseen = new Map<string, number>();

  async function look(signal: AbortSignal, identity: string): Promise<Listed> {
    const answer: unknown = await within(parts, listMs, signal, (called) => steps.list(called));
    if (!Array.isArray(answer)) throw new Error(`list of resource "${kind}" gave no list`);
    const listed = new Map<string, Thing>();
    for (const one of answer as ({ name?: unknown; createdAt?: unknown } | null)[]) {
      if (typeof one?.name !== 'string') throw new Error(`list of resource "${kind}" gave something without a name`);
      const read = readName(one.name, parts.namespace, kind);
      const createdAt = one.createdAt instanceof Date ? one.createdAt.getTime() : Number.NaN;
      const isOurs = read?.identity === identity;
      if (read && (isOurs || read.identity === null)) listed.set(read.id, { name: one.name, createdAt, isOurs });
    }
    return listed;
  }

  /** What the store says counts; the age only keeps us from hurrying. One that does not tell its age is old. */
  async function unknownAmong(listed: Listed): Promise<string[]> {
    const old = [...listed].filter(([, { createdAt }]) => !(system.now() - createdAt < graceMs)).map(([id]) => id);
    const records = new Map((await byIds(store, old)).map((record) => [record.id, record]));
    return old.filter((id) => isNobodys(records.get(id), listed.get(id)!));
  }

  function isNobodys(record: StoredJob | undefined, { name, isOurs }: Thing): boolean {
    if (!record || !isLease(record) || record.key !== name) return isOurs;
    return record.completedAt !== null && record.completedAt + graceMs <= system.now();
  }

  async function destroyUnknown(listed: Listed, signal: AbortSignal): Promise<void> {
    const ids = (await unknownAmong(listed)).slice(0, destroysMax);
    await atOnce(destroysAtOnce, ids, async (id) => {
      const thing = listed.get(id)!;
      const { name } = thing;
      const [record] = await byIds(store, [id]);
      if (signal.aborted || !isNobodys(record, thing)) return;
      try {
        const at = { name, info: null, attempt: 1 };
        await within(parts, destroyMs, signal, (called) => steps.destroy({ ...at, signal: called }));
        meters.add('leases_reconciled', 1, { kind, outcome: 'destroyed' });
        logger.warn('Something that belonged to no lease was destroyed', { kind, name });
      } catch (error) {
        meters.add('lease_end_failures', 1, { kind });
        const { message } = describeThrown(error);
        logger.warn('Something that belongs to no lease could not be destroyed; it is tried again', {
          name,
          error: message,
        });
      }
    });
  }

  async function closeGone(listed: Listed, signal: AbortSignal, identity: string): Promise<void> {
    const looks = new Map<string, number>();
    let live = 0;
    const filter = { ...noFilter, types: [leaseType(kind)], states: ['pending' as const] };
    for await (const record of everyPage(store, filter, 200)) {
      live += 1;
      if (mayBeGone(record, identity) && !listed.has(record.id)) looks.set(record.id, (unseen.get(record.id) ?? 0) + 1);
    }
    unseen = looks;
    const gone = [...looks].filter(([, times]) => times > looksMin).map(([id]) => id);
    if (gone.length === 0) return;
    if (gone.length > 1 && gone.length > live * shareMax)
      return logger.error('Many things on lease are not listed any more; nothing is closed', {
        kind,
        live,
        gone: gone.length,
      });
    const again = await look(signal, identity);
    for (const id of gone) {
      unseen.delete(id);
      if (!again.has(id)) await close(id);
    }
  }

  /** One that is being made is left alone, and one that is being ended has a worker that finds out. Another store's is not looked for. */
  function mayBeGone(record: StoredJob, identity: string): boolean {
    if ((readName(record.key, parts.namespace, kind)?.identity ?? identity) !== identity) return false;
    const state = leaseStateOf(record, system.now());
    return state === 'held' || state === 'needs_attention';
  }

  /** By its name, like any other: should it be there after all, it does not stay behind. */
  async function close(id: string): Promise<void> {
    await makeDue(parts, id);
    meters.add('leases_reconciled', 1, { kind, outcome: 'closed' });
    logger.warn('A lease was closed: what it stood for is gone', { kind, id });
  }

  async function run({ signal }: { readonly signal: AbortSignal }): Promise<Outcome> {
    try {
      const identity = await store.readIdentity();
      const listed = await look(signal, identity);
      await destroyUnknown(listed, signal);
      await closeGone(listed, signal, identity);
      return snooze(reconcileMs);
    } catch (error) {
      if (!signal.aborted)
        logger.warn('Leases could not be compared with what there is; nothing was changed', {
          kind,
          error: describeThrown(error).message,
        });
      throw error;
    }
  }

  return libraryType(typeOf(kind), () => reconcileMs, run);
}
