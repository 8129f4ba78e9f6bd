/**
 * The recurring sweeps for orphans. Each kind has one live job of queue `lastout` that remembers what its sweeps have found;
 * whoever claims it when it is due does the sweep, so that many processes do one.
 */
import { isUnknown } from '../core/deadlines.js';
import { show } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { Logger } from '../core/job.js';
import type { Meters } from '../core/meters.js';
import { systemQueue } from '../core/names.js';
import { everyPage } from '../core/pages.js';
import { liveOnesOf, type Recurring, storeRecurring } from '../core/recurring.js';
import { noFilter, type Settlement, type Store, type StoredJob } from '../core/store.js';
import type { SubjectSweep } from '../core/subject.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { type Memory, noMemory, sweepOrphans, type SweptOrphans } from './orphan-sweep.js';
import type { Presences, Rule } from './presence.js';

const leaseMs = 60_000;
/** A claim that is older than this is extended before the sweep goes on. */
const extendMs = 15_000;
/** A sweep is never given up because its process died. */
const maxStalls = 1_000_000_000;

const dueNow = {
  move: { kind: 'reschedule', when: { inMs: 0 }, priority: null },
  dryRun: false,
  cursor: null,
  limit: 1,
} as const;

export interface OrphanSweeperParts {
  readonly store: Store;
  readonly system: System;
  readonly logger: Logger;
  readonly meters: Meters;
  readonly presences: Presences;
}

/** What sweeps have done since it was last asked. */
export interface OrphanSums {
  readonly examined: number;
  readonly cancelled: number;
  readonly failures: number;
}

export interface OrphanSweeper {
  /** Sweeps of this kind are to happen. */
  add(rule: Rule): void;
  /** Starts what is due, and does not wait for it. Never rejects. */
  tend(): Promise<void>;
  /** Sweeps this kind now, whether it is due or not. Null: another process is at it. */
  sweepNow(kind: string): Promise<SubjectSweep | null>;
  /** Confirmed orphans that are still there, of the kinds that are defined here. */
  left(): Promise<number>;
  /** For the ledger. */
  take(): OrphanSums;
  putBack(sums: OrphanSums): void;
  /** Kinds whose last sweep here failed, or was stopped by the brake. */
  readonly failing: ReadonlySet<string>;
  stop(): Promise<void>;
}

const nothing: OrphanSums = { examined: 0, cancelled: 0, failures: 0 };

/** `tell`: a sweep has done something that belongs into the ledger. */
export function createOrphanSweeper(parts: OrphanSweeperParts, tell: () => void): OrphanSweeper {
  const { store, system, logger, meters, presences } = parts;
  const underWay = new Map<string, Promise<unknown>>();
  /** Kinds whose job is known to be stored. */
  const stored = new Set<string>();
  const stopping = new AbortController();
  const failing = new Set<string>();
  let sums = nothing;

  async function storeJob(rule: Rule): Promise<void> {
    await storeRecurring(store, system.id(), recurring(rule));
    stored.add(rule.kind);
  }

  /** Null: it is not due, or another process is at it. */
  async function sweepDue({ kind }: Rule, isNow: boolean): Promise<SweptOrphans | null> {
    try {
      const rule = presences.rules.get(kind)!;
      if (!stored.has(kind)) await storeJob(rule);
      if (isNow) await store.move({ ...dueNow, filter: liveOnesOf(recurring(rule)) });
      const owner = system.id();
      const request = { owner, types: [typeOf(kind)], queues: [systemQueue], slots: 1, ahead: 0, leaseMs, maxStalls };
      const { jobs, epoch } = await store.claim(request);
      return jobs[0] ? await sweepClaimed(rule, jobs[0], owner, epoch) : null;
    } catch (error) {
      if (!stopping.signal.aborted) fail(kind, error);
      throw error;
    }
  }

  function fail(kind: string, error: unknown): void {
    add(kind, { ...nothing, failures: 1 });
    meters.add('orphan_sweep_failures', 1, { kind });
    logger.error('Sweep for orphans failed; it is tried again', { kind, error: describeThrown(error).message });
  }

  async function sweepClaimed(rule: Rule, job: StoredJob, owner: string, epoch: number): Promise<SweptOrphans> {
    const { kind, everyMs } = rule;
    const goOn = keeper(parts, { id: job.id, owner, epoch });
    const send = (settlement: Omit<Settlement, 'id' | 'epoch'>): Promise<unknown> =>
      settleOnce(store, owner, { id: job.id, epoch, ...settlement });
    try {
      const { signal } = stopping;
      const swept = await sweepOrphans({ store, presences, rule, memory: memoryIn(job), signal, goOn });
      await send({ ending: { kind: 'snooze', when: { inMs: everyMs } }, memo: JSON.stringify(swept.memory) });
      report(kind, swept);
      return swept;
    } catch (error) {
      // Who stops hands it back, for others to do now; what failed here is tried again in its time, with what was known.
      const isStopping = stopping.signal.aborted;
      const ending = isStopping
        ? ({ kind: 'release' } as const)
        : ({ kind: 'snooze', when: { inMs: everyMs } } as const);
      await send({ ending }).catch(() => undefined);
      throw error;
    }
  }

  function report(kind: string, swept: SweptOrphans): void {
    const { checked, confirmed, absent, ended, cancelled, failures, braked } = swept;
    const labels = { kind };
    meters.add('orphan_sweeps', 1, labels);
    if (confirmed > 0) meters.add('orphans_found', confirmed, labels);
    if (cancelled > 0) meters.add('orphans_cancelled', cancelled, labels);
    if (failures > 0) meters.add('orphan_sweep_failures', failures, labels);
    if (braked) {
      meters.add('orphan_sweeps_braked', 1, labels);
      logger.error('Sweep for orphans stopped: it would condemn too many. Is the check right?', {
        kind,
        confirmed: absent,
        checked,
      });
    }
    if (cancelled > 0) logger.info(`Cancelled ${cancelled} orphaned jobs`, { kind, subjects: ended });
    add(kind, { examined: checked, cancelled, failures: failures + (braked ? 1 : 0) });
  }

  /** The ledger is also told of one that goes well after one that did not: else its last word would be the failure. */
  function add(kind: string, more: OrphanSums): void {
    putBack(more);
    if (more.cancelled + more.failures > 0 || failing.has(kind)) tell();
    if (more.failures > 0) failing.add(kind);
    else failing.delete(kind);
  }
  function putBack({ examined, cancelled, failures }: OrphanSums): void {
    sums = {
      examined: sums.examined + examined,
      cancelled: sums.cancelled + cancelled,
      failures: sums.failures + failures,
    };
  }

  function start(rule: Rule): void {
    if (stopping.signal.aborted || underWay.has(rule.kind)) return;
    void begin(rule, false).catch(() => undefined); // it has been told
  }

  function begin(rule: Rule, isNow: boolean): Promise<SweptOrphans | null> {
    const sweeping = sweepDue(rule, isNow).finally(() => underWay.delete(rule.kind));
    underWay.set(
      rule.kind,
      sweeping.catch(() => undefined),
    );
    return sweeping;
  }

  return {
    add(rule) {
      stored.delete(rule.kind);
      start(rule);
    },
    async tend() {
      for (const rule of presences.rules.values()) start(rule);
    },
    async sweepNow(kind) {
      const rule = presences.rules.get(kind);
      if (!rule)
        throw new LastoutError(
          'INVALID_INPUT',
          `Subjects of kind ${show(kind)} are not defined; call defineSubject first.`,
        );
      while (underWay.has(kind)) await underWay.get(kind);
      const swept = await begin(rule, true);
      if (!swept) return null;
      const { checked, confirmed, cancelled, orphans, failures, braked } = swept;
      return { checked, confirmed, cancelled, orphans, failures, braked };
    },
    async left() {
      const types = [...presences.rules.keys()].map(typeOf);
      if (types.length === 0) return 0;
      let n = 0;
      for await (const job of everyPage(store, { ...noFilter, states: ['pending', 'processing'], types }, types.length))
        n += memoryIn(job).confirmed;
      return n;
    },
    take() {
      const taken = sums;
      sums = nothing;
      return taken;
    },
    putBack,
    failing,
    async stop() {
      stopping.abort(new LastoutError('CLOSED', 'The queue is closed'));
      await Promise.all(underWay.values());
    },
  };
}

/** Keeps the claim of a sweep that takes long. */
function keeper(
  { store, system }: OrphanSweeperParts,
  { id, owner, epoch }: { readonly id: string; readonly owner: string; readonly epoch: number },
): () => Promise<void> {
  let keptAt = system.monotonic();
  return async () => {
    const now = system.monotonic();
    if (now - keptAt < extendMs) return;
    const claims = [{ epoch, ids: [id], started: [] }];
    const { lost, cancelled } = await store.extend({ owner, leaseMs, claims, card: null });
    if (lost.length + cancelled.length > 0)
      throw new LastoutError('STALE_CLAIM', 'The sweep took too long: another process does it');
    keptAt = now;
  };
}

/** The same ending by the same claim is answered ok again, so a lost answer is simply asked for again. */
async function settleOnce(store: Store, owner: string, settlement: Settlement): Promise<void> {
  const send = (): Promise<unknown> => store.settle({ owner, settlements: [settlement], started: [], next: null });
  await send().catch((error: unknown) => (isUnknown(error) ? send() : Promise.reject(error as Error)));
}

/** One for each kind, so that a process claims only what it can check. */
function typeOf(kind: string): string {
  return `lastout.orphans.${kind}`;
}

function recurring({ kind, everyMs }: Rule): Recurring {
  return { type: typeOf(kind), key: kind, everyMs, maxAttempts: 1 };
}

/** What cannot be read here is begun anew: then it is confirmed once more. */
function memoryIn({ memo }: StoredJob): Memory {
  try {
    return memo === null ? noMemory : { ...noMemory, ...(JSON.parse(memo) as Memory) };
  } catch {
    return noMemory;
  }
}
