/**
 * The two rhythms that act on deadlines. Tending, every few seconds: lapsed claims back, ttl, what became due, due
 * schedules. Cleanup, every interval, at the start and at once when the cap is exceeded: what is past its retention
 * goes.
 */
import { LastoutError } from '../core/errors.js';
import { defaults } from '../core/policy.js';
import type { Store } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import { capWarning, standingOf } from './cap.js';
import { oldestLag } from './lag.js';
import { passOnce, type PassParts, termMs } from './pass.js';
import { readReport, type SweepReport } from './report.js';

export interface Sweeper {
  /** A second call does nothing. */
  startPeriodicCleanup(): void;
  /** Resolves when the pass that is under way has ended. */
  stopPeriodicCleanup(): Promise<void>;
  /** Tending and cleanup, once, to the end. Rejects where another process is at it for too long. */
  sweep(): Promise<SweepReport>;
  /** Something was done that belongs into the ledger: a pass soon, where the cleanup goes by itself. */
  noteSoon(): void;
  readonly lastSweepAt: Date | null;
  /** Passes that broke off since the last one that came to its end. */
  readonly failures: number;
  stop(): Promise<void>;
}

const partLimit = 500;
/** A burst of endings above the cap makes one pass, not one per ending. */
const capDelayMs = 20;
/** The next pass will hardly do better than the one that found nothing to remove. */
const stuckDelayMs = 60_000;
/** Sweeps for orphans of several kinds come together. */
const noteDelayMs = 100;
/** Whoever was at it may have looked before the cap was exceeded, or die. */
const busyDelayMs = 1_000;

/** `alsoTend` is what else goes by the rhythm of tending; it does not reject. */
export function createSweeper(parts: PassParts, alsoTend: () => Promise<void>): Sweeper {
  const { store, system, logger, cleanup, meters } = parts;
  const warnOfCap = capWarning(system, logger);
  let passing: Promise<SweepReport | null> | null = null;
  let next: Promise<SweepReport | null> | null = null;
  /** It was started in this very turn: who comes now comes with it. */
  let isFresh = false;
  let callOffTending: () => void = () => undefined;
  let callOffCleanup: (() => void) | null = null;
  let callOffCap: (() => void) | null = null;
  let callOffAgain: (() => void) | null = null;
  let callOffNote: (() => void) | null = null;
  /** All above the cap that has finished is held, or what it owns cannot be ended. */
  let isStuck = false;
  let lastSweepAt: Date | null = null;
  let failures = 0;
  const stopping = new AbortController();
  /** Who has no cap does not listen for it. */
  const unsubscribe =
    cleanup.maxStoredJobs === Number.POSITIVE_INFINITY
      ? () => undefined
      : store.subscribe((hint) => {
          if (hint.kind === 'cap') lookAtCap(isStuck ? stuckDelayMs : capDelayMs);
        });

  /** Never two at once. */
  function pass(busy: 'wait' | 'leave', orphans: boolean): Promise<SweepReport | null> {
    if (passing) return passing;
    isFresh = true;
    void Promise.resolve().then(() => {
      isFresh = false;
    });
    passing = passOne(busy, orphans).finally(() => {
      passing = null;
    });
    return passing;
  }

  async function passOne(busy: 'wait' | 'leave', orphans: boolean): Promise<SweepReport | null> {
    try {
      // A pass for the cap comes often and looks at no age.
      const lag = meters.isOn && orphans ? await oldestLag(parts).catch(() => null) : null;
      const report = await passOnce(parts, { busy, orphans, failuresBefore: failures, signal: stopping.signal });
      await alsoTend();
      if (!report) return null;
      if (meters.isOn) count(report, lag);
      failures = 0;
      lastSweepAt = report.at;
      await tell(report);
      return report;
    } catch (error) {
      failures += 1;
      meters.add('cleanup_failures', 1);
      throw error;
    }
  }

  /** Passes that broke off are in the report too, and were counted when they did. */
  function count(report: SweepReport, lag: (() => number) | null): void {
    meters.add('cleanup_passes', 1);
    for (const [kind, n] of Object.entries(report.removedBy)) if (n > 0) meters.add('cleanup_removed', n, { kind });
    if (report.failures > failures) meters.add('cleanup_failures', report.failures - failures);
    meters.took('cleanup', report.durationMs);
    if (lag && (report.removedBy.age ?? 0) > 0) meters.took('cleanup_lag', lag());
  }

  async function tell({ removed }: SweepReport): Promise<void> {
    isStuck = false;
    if (removed > 0) return logger.info(`Removed ${removed} old jobs from ${store.engine}`);
    // Of a queue in memory the words are fixed; elsewhere nobody wants to read every hour that nothing happened.
    const { isVolatile } = store.traits;
    if (isVolatile) for (const words of ['No cleanup needed', 'Removed: 0 jobs']) logger.info(words);
    else logger.debug('No cleanup needed');
    const standing = await standingOf(store, cleanup).catch(() => null); // the pass itself went well
    if (!standing) return;
    if (isVolatile && standing.stored === 0) logger.info('Nothing to clean');
    warnOfCap(standing);
    isStuck = standing.over > 0 && standing.finished > 0;
  }

  /** One that is under way may have looked already at what has become due since: the next one is asked for. */
  function ownPass(): Promise<SweepReport | null> {
    if (!passing || isFresh) return pass('wait', true);
    next ??= passing
      .catch(() => undefined)
      .then(() => {
        next = null;
        return pass('wait', true);
      });
    return next;
  }

  /** Waits for a pass that leaves the work to another process, and then does its own. */
  async function sweep(): Promise<SweepReport> {
    const report = (await ownPass()) ?? (await ownPass());
    if (report) return report;
    throw new LastoutError('WAIT_TIMEOUT', 'Another process is cleaning up and does not come to an end; sweep later.');
  }

  async function quietly(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!stopping.signal.aborted)
        logger.error('Cleanup failed; it is tried again', { error: describeThrown(error).message });
    }
  }

  /** By the rhythm. Whoever is at it may die: it is looked after, once, when its term would be over. */
  async function cleanUp(): Promise<void> {
    const since = system.now();
    if ((await pass('leave', true)) || stopping.signal.aborted || !callOffCleanup || callOffAgain) return;
    callOffAgain = system.timer(termMs, () => {
      callOffAgain = null;
      void quietly(async () => {
        if (!(await hasPassedSince(store, since))) await cleanUp();
      });
    });
  }

  /** One look for many hints. It comes after a pass that is under way: that may be past the removal by the cap. */
  function lookAtCap(inMs: number): void {
    if (!callOffCleanup || callOffCap) return;
    callOffCap = system.timer(inMs, () => {
      void quietly(async () => {
        await passing?.catch(() => undefined);
        callOffCap = null;
        if (callOffCleanup) await cleanUpAtCap();
      });
    });
  }

  async function cleanUpAtCap(): Promise<void> {
    const standing = await standingOf(store, cleanup);
    warnOfCap(standing);
    if (standing.over <= 0 || standing.finished === 0) return;
    if (!(await pass('leave', false))) lookAtCap(busyDelayMs);
  }

  /** One pass for many notes. Where another process is at it, the next pass of this one has them. */
  function noteSoon(): void {
    if (!callOffCleanup || callOffNote) return;
    callOffNote = system.timer(noteDelayMs, () => {
      callOffNote = null;
      void quietly(() => pass('leave', false));
    });
  }

  /** To the end: a crash of many workers comes back in one go. */
  async function tend(): Promise<void> {
    for (let more = true; more && !stopping.signal.aborted; ) {
      ({ more } = await store.sweep({ limit: partLimit, cleanup: null }));
      if (more) await new Promise<void>((resolve) => system.soon(resolve));
    }
    await alsoTend();
  }
  function tendLater(): void {
    callOffTending = system.timer(defaults.tendMs, () => {
      void quietly(tend).then(() => {
        if (!stopping.signal.aborted) tendLater();
      });
    });
  }
  function cleanLater(): void {
    callOffCleanup = system.timer(cleanup.cleanupIntervalMs, () => {
      cleanLater();
      void quietly(cleanUp);
    });
  }

  tendLater();
  return {
    sweep,
    noteSoon,
    get lastSweepAt() {
      return lastSweepAt;
    },
    get failures() {
      return failures;
    },
    startPeriodicCleanup() {
      if (callOffCleanup || stopping.signal.aborted) return;
      cleanLater();
      void quietly(cleanUp);
    },
    async stopPeriodicCleanup() {
      for (const callOff of [callOffCleanup, callOffCap, callOffAgain, callOffNote]) callOff?.();
      callOffCleanup = callOffCap = callOffAgain = callOffNote = null;
      await passing?.catch(() => undefined);
    },
    async stop() {
      stopping.abort();
      callOffTending();
      unsubscribe();
      await this.stopPeriodicCleanup();
    },
  };
}

async function hasPassedSince(store: Store, since: number): Promise<boolean> {
  const { entries } = await store.readLedger({ cursor: null, limit: 1 });
  const last = entries[0] === undefined ? undefined : readReport(entries[0]);
  return last !== undefined && last.at.getTime() >= since;
}
