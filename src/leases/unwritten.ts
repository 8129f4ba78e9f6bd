/**
 * Ends leases while nothing can be written. The ordinary ending begins with a claim, so a store that is full or read-only would keep
 * alive what has expired for as long as it stays so. Where the primary itself refuses every write for longer than an interval of
 * tending, and says that a lease is over, the thing is destroyed without one; the ordinary ending finds it gone when writes return.
 * Where the server may not have the last word, everything is kept, and said.
 */
import { atOnce } from '../core/at-once.js';
import { infoOf, kindOf, leaseType } from '../core/lease-record.js';
import { defaults } from '../core/policy.js';
import { readName, type ResourceSteps } from '../core/resource.js';
import type { OverduePage, StoredJob } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import type { Attention } from './book.js';
import { waitAfter } from './ending.js';
import type { LeaseParts } from './parts.js';
import { destroyMs, within } from './taking.js';

const destroysAtOnce = 8;
const pageMax = 200;

export interface Unwritten {
  /** Leases that are over and that are kept: whether they were renewed elsewhere is not known. */
  readonly kept: Attention;
  /** For `health`. */
  readonly warnings: readonly { readonly code: string; readonly message: string }[];
  stop(): void;
}

const nothing: Attention = { count: 0, sample: [] };

/** `isFailing`: what ends leases ordinarily gets nothing done. Without that nothing is asked here. */
export function endUnwritten(
  parts: LeaseParts,
  known: ReadonlyMap<string, ResourceSteps<unknown>>,
  isFailing: () => boolean,
): Unwritten {
  const { store, system, logger, meters } = parts;
  const stopping = new AbortController();
  /** Since then, by the monotonic clock, each look has found that writes are refused. */
  let refusedSince: number | null = null;
  let kept = nothing;
  let doubted: string | null = null;
  /** Of this outage: when it may be tried again; never, where it is gone. */
  const tried = new Map<string, { failures: number; againAt: number }>();

  function over(): void {
    refusedSince = null;
    doubted = null;
    kept = nothing;
    tried.clear();
  }

  /** Refused for certain; or only without success, and then nothing is destroyed. */
  async function isRefused(): Promise<boolean> {
    try {
      return (await store.check()).some(({ blocks }) => blocks);
    } catch {
      return false;
    }
  }

  async function look(): Promise<void> {
    if (!isFailing()) return over();
    const isCertain = await isRefused();
    if (!isCertain) refusedSince = null;
    else refusedSince ??= system.monotonic();
    const mayDestroy = refusedSince !== null && system.monotonic() - refusedSince >= defaults.tendMs;
    for (let cursor: string | null = null; !stopping.signal.aborted; ) {
      const page: OverduePage = await ask(null, cursor);
      if (page.doubt !== null) return keep(page.doubt, page.jobs);
      doubted = null;
      kept = nothing;
      if (mayDestroy) await atOnce(destroysAtOnce, page.jobs, destroy);
      if (!mayDestroy || page.next === null) return;
      cursor = page.next;
    }
  }

  function ask(ids: readonly string[] | null, cursor: string | null): Promise<OverduePage> {
    return store.readOverdue({ types: [...known.keys()].map(leaseType), ids, cursor, limit: pageMax });
  }

  function keep(doubt: string, jobs: readonly StoredJob[]): void {
    kept = { count: jobs.length, sample: jobs.slice(0, 10).map(({ id }) => id) };
    if (doubted === doubt || jobs.length === 0) return;
    doubted = doubt;
    logger.error('Leases are over and nothing can be written; what they stand for is kept', {
      doubt,
      leases: kept.sample,
    });
  }

  /** By its name, like any other. That its time is over is asked again right before: a lease that is due cannot be renewed. */
  async function destroy({ id }: StoredJob): Promise<void> {
    const before = tried.get(id) ?? { failures: 0, againAt: 0 };
    if (system.monotonic() < before.againAt) return;
    const { jobs, doubt } = await ask([id], null);
    const record = jobs[0];
    if (!record || doubt !== null || stopping.signal.aborted || (await isAnothers(record))) return;
    const { key: name } = record;
    const kind = kindOf(record);
    const attempt = before.failures + 1;
    const at = { name: name!, info: infoOf(record), attempt };
    try {
      await within(parts, destroyMs, stopping.signal, (signal) => known.get(kind)!.destroy({ ...at, signal }));
      tried.set(id, { failures: 0, againAt: Number.POSITIVE_INFINITY });
      meters.add('leases_ended', 1, { kind });
      logger.warn('A lease is over and was ended, though nothing can be written', { id, kind, name });
    } catch (error) {
      if (stopping.signal.aborted) return;
      tried.set(id, { failures: attempt, againAt: system.monotonic() + waitAfter(attempt) });
      meters.add('lease_end_failures', 1, { kind });
      const { message } = describeThrown(error);
      logger.warn('A lease could not be ended; it is tried again', { id, name, attempt, error: message });
    }
  }

  async function isAnothers(record: StoredJob): Promise<boolean> {
    const of = readName(record.key, parts.namespace, kindOf(record))?.identity ?? null;
    return of !== null && of !== (await store.readIdentity());
  }

  /** A store that cannot be read either says nothing about what is over. */
  let callOff = system.timer(defaults.tendMs, beat);
  function beat(): void {
    void look()
      .catch(() => undefined)
      .then(() => {
        if (!stopping.signal.aborted) callOff = system.timer(defaults.tendMs, beat);
      });
  }

  return {
    get kept() {
      return kept;
    },
    get warnings() {
      const gone = [...tried.values()].filter(({ againAt }) => againAt === Number.POSITIVE_INFINITY).length;
      return [
        ...(gone > 0 ? [{ code: 'LEASES_ENDED_UNWRITTEN', message: `${gone} ${endedUnwritten}` }] : []),
        ...(kept.count > 0
          ? [{ code: 'LEASES_KEPT', message: `${kept.count} ${keptOf(doubted ?? 'the server is in doubt')}` }]
          : []),
      ];
    },
    stop() {
      stopping.abort();
      callOff();
    },
  };
}

const endedUnwritten =
  'leases are over, and what they stood for was destroyed though nothing can be written; they are closed when writes return.';
const keptOf = (doubt: string): string =>
  `leases are over, and what they stand for is kept: nothing can be written, and the server may not have the last word: ${doubt}.`;
