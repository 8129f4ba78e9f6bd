/**
 * The two rhythms that act on deadlines. Tending, every few seconds: lapsed claims back, ttl, what became due, due
 * schedules. Cleanup, every interval, at the start and at once when the cap is exceeded: what is past its retention
 * goes.
 */
import type { Store } from '../core/store.js';
import { defaults } from '../core/policy.js';
import { noFilter } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import { passOnce, type PassParts, termMs } from './pass.js';
import { readReport, type SweepReport } from './report.js';

export interface Sweeper {
  /** A second call does nothing. */
  startPeriodicCleanup(): void;
  /** Resolves when the pass that is under way has ended. */
  stopPeriodicCleanup(): Promise<void>;
  /** Tending and cleanup, once, to the end. */
  sweep(): Promise<SweepReport>;
  readonly lastSweepAt: Date | null;
  stop(): Promise<void>;
}

const partLimit = 500;
/** A burst of endings above the cap makes one pass, not one per ending. */
const capDelayMs = 20;
const longestPassMs = 86_400_000;

/** `alsoTend` is what else goes by the rhythm of tending; it does not reject. */
export function createSweeper(parts: PassParts, alsoTend: () => Promise<void>): Sweeper {
  const { store, system, logger, cleanup, by } = parts;
  let passing: Promise<SweepReport | null> | null = null;
  let next: Promise<SweepReport | null> | null = null;
  /** It was started in this very turn: who comes now comes with it. */
  let isFresh = false;
  let callOffTending: () => void = () => undefined;
  let callOffCleanup: (() => void) | null = null;
  let callOffCap: (() => void) | null = null;
  let callOffAgain: (() => void) | null = null;
  let lastSweepAt: Date | null = null;
  let failures = 0;
  const stopping = new AbortController();
  const unsubscribe = store.subscribe((hint) => {
    if (hint.kind !== 'cap' || !callOffCleanup || callOffCap) return;
    callOffCap = system.timer(capDelayMs, () => {
      callOffCap = null;
      void quietly(() => pass('leave', false));
    });
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
      const report = await passOnce(parts, { busy, orphans, failuresBefore: failures, signal: stopping.signal });
      await alsoTend();
      if (!report) return null;
      failures = 0;
      lastSweepAt = report.at;
      await tell(report);
      return report;
    } catch (error) {
      failures += 1;
      throw error;
    }
  }

  async function tell({ removed }: SweepReport): Promise<void> {
    if (removed > 0) return logger.info(`Removed ${removed} old jobs from ${store.engine}`);
    logger.info('No cleanup needed');
    logger.info('Removed: 0 jobs');
    if (await isEmpty(store)) logger.info('Nothing to clean');
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
    return awaited(async () => (await ownPass()) ?? (await ownPass()) ?? nothingDone());
  }

  /** The rhythm keeps no process alive; who awaits a pass gets its report before the process ends. */
  async function awaited<T>(work: () => Promise<T>): Promise<T> {
    const letGo = system.timer(longestPassMs, () => undefined, 'hold');
    try {
      return await work();
    } finally {
      letGo();
    }
  }

  /** Another process is at it, and goes on being at it. */
  function nothingDone(): SweepReport {
    const removedBy = { age: 0, count: 0, cap: 0 };
    return { at: new Date(system.now()), by, examined: 0, removed: 0, removedBy, failures: 0, durationMs: 0 };
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

  /** To the end: a crash of many workers comes back in one go. */
  async function tend(): Promise<void> {
    for (let more = true; more && !stopping.signal.aborted; ) {
      ({ more } = await store.sweep({ limit: partLimit, cleanup: null, term: null, entry: null }));
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
    get lastSweepAt() {
      return lastSweepAt;
    },
    startPeriodicCleanup() {
      if (callOffCleanup || stopping.signal.aborted) return;
      cleanLater();
      void quietly(cleanUp);
    },
    async stopPeriodicCleanup() {
      for (const callOff of [callOffCleanup, callOffCap, callOffAgain]) callOff?.();
      callOffCleanup = callOffCap = callOffAgain = null;
      if (passing) await awaited(async () => passing?.catch(() => undefined));
    },
    async stop() {
      stopping.abort();
      callOffTending();
      unsubscribe();
      await this.stopPeriodicCleanup();
    },
  };
}

/** Of any state; the library's own jobs do not count. */
async function isEmpty(store: Store): Promise<boolean> {
  try {
    const { jobs, next } = await store.find({ filter: { ...noFilter, system: false }, cursor: null, limit: 1 });
    return jobs.length === 0 && next === null;
  } catch {
    return false; // the pass itself went well
  }
}

async function hasPassedSince(store: Store, since: number): Promise<boolean> {
  const { entries } = await store.read({ log: 'ledger', cursor: null, limit: 1 });
  const last = entries[0] === undefined ? undefined : readReport(entries[0]);
  return last !== undefined && last.at.getTime() >= since;
}
