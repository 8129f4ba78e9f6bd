/**
 * The two rhythms that act on deadlines. Tending, every few seconds: lapsed claims back, ttl, what became due, due
 * schedules. Cleanup, every interval, at the start and at once when the cap is exceeded: what is past its retention
 * goes.
 */
import type { Logger } from '../core/job.js';
import { type CleanupPolicy, defaults } from '../core/policy.js';
import type { Store } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';

export interface SweepReport {
  readonly at: Date;
  readonly by: string;
  readonly examined: number;
  readonly removed: number;
  readonly removedBy: { readonly [kind: string]: number };
  readonly failures: number;
  readonly durationMs: number;
}

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

/** `alsoTend` is what else goes by the rhythm of tending; it does not reject. */
export function createSweeper(
  store: Store,
  system: System,
  logger: Logger,
  cleanup: CleanupPolicy,
  alsoTend: () => Promise<void>,
): Sweeper {
  const by = system.id();
  let passing: Promise<SweepReport> | null = null;
  let callOffTending: () => void = () => undefined;
  let callOffCleanup: (() => void) | null = null;
  let callOffCap: (() => void) | null = null;
  let lastSweepAt: Date | null = null;
  let stopped = false;
  const unsubscribe = store.subscribe((hint) => {
    if (hint.kind !== 'cap' || !callOffCleanup || callOffCap) return;
    callOffCap = system.timer(capDelayMs, () => {
      callOffCap = null;
      void quietly(sweep);
    });
  });

  function sweep(): Promise<SweepReport> {
    passing ??= pass().finally(() => {
      passing = null;
    });
    return passing;
  }

  async function pass(): Promise<SweepReport> {
    const began = system.monotonic();
    const removedBy: { [kind: string]: number } = {};
    let examined = 0;
    for (let more = true; more && !stopped; ) {
      const part = await store.sweep({ limit: partLimit, cleanup });
      for (const [kind, n] of Object.entries(part.removedBy)) removedBy[kind] = (removedBy[kind] ?? 0) + n;
      examined += part.examined;
      more = part.more;
      // Between two parts everybody else has a turn.
      if (more) await new Promise<void>((resolve) => system.soon(resolve));
    }
    await alsoTend();
    const removed = Object.values(removedBy).reduce((sum, n) => sum + n, 0);
    lastSweepAt = new Date(system.now());
    if (removed > 0) logger.info(`Removed ${removed} old jobs from ${store.engine}`);
    return {
      at: lastSweepAt,
      by,
      examined,
      removed,
      removedBy,
      failures: 0,
      durationMs: Math.round(system.monotonic() - began),
    };
  }

  async function quietly(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!stopped) logger.error('Cleanup failed; it is tried again', { error: describeThrown(error).message });
    }
  }

  /** To the end: a crash of many workers comes back in one go. */
  async function tend(): Promise<void> {
    for (let more = true; more && !stopped; ) {
      ({ more } = await store.sweep({ limit: partLimit, cleanup: null }));
      if (more) await new Promise<void>((resolve) => system.soon(resolve));
    }
    await alsoTend();
  }
  function tendLater(): void {
    callOffTending = system.timer(defaults.tendMs, () => {
      void quietly(tend).then(() => {
        if (!stopped) tendLater();
      });
    });
  }
  function cleanLater(): void {
    callOffCleanup = system.timer(cleanup.cleanupIntervalMs, () => {
      cleanLater();
      void quietly(sweep);
    });
  }

  tendLater();
  return {
    sweep,
    get lastSweepAt() {
      return lastSweepAt;
    },
    startPeriodicCleanup() {
      if (callOffCleanup || stopped) return;
      cleanLater();
      void quietly(sweep);
    },
    async stopPeriodicCleanup() {
      callOffCleanup?.();
      callOffCap?.();
      callOffCleanup = callOffCap = null;
      await passing?.catch(() => undefined);
    },
    async stop() {
      stopped = true;
      callOffTending();
      unsubscribe();
      await this.stopPeriodicCleanup();
    },
  };
}
