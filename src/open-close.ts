/** Whether a queue still takes calls, and how it closes: workers first, while the store still answers; the store last. */
import { type Duration, toMs } from './core/duration.js';
import { LastoutError } from './core/errors.js';
import { ownOptions } from './core/own-options.js';
import { defaults } from './core/policy.js';
import type { StopReport } from './core/stop-report.js';
import { atMost, type System } from './core/system.js';
import type { Worker } from './worker/worker.js';

/** How long after its grace a close may still take. */
const afterGraceMs = 1_000;
/** The part of it for what handlers had leased that were told to stop when the grace was over. */
const endLeasesMs = 500;

export interface Closing {
  readonly workers: Set<Worker>;
  readonly oneShots: Set<Promise<unknown>>;
  /** Aborted when closing begins. */
  readonly signal: AbortSignal;
  readonly hasBegun: boolean;
  /** Closing waits for running handlers, and these may still use the queue: to enqueue what follows, for example. */
  checkOpen(): void;
  /** Nothing new is started once closing has begun. */
  checkNotBegun(): void;
  /** A refusal that never asked the store is no way past the turns of the event loop either. */
  refused(error: unknown): Promise<never>;
  /** Every call on a closed queue is refused in the same words. */
  whileOpen<A extends unknown[], T>(call: (...args: A) => Promise<T>): (...args: A) => Promise<T>;
  close(options?: { grace?: Duration }): Promise<StopReport>;
  /** Never rejects. */
  readonly whenClosed: Promise<void>;
}

/** `own`: what the jobs of this process have leased. `inOrder`: what is stopped after that. No hang outlasts the end. */
export function closingOf(
  system: System,
  own: { allEnded(until: number): Promise<readonly string[]> },
  inOrder: readonly (() => Promise<unknown>)[],
): Closing {
  const workers = new Set<Worker>();
  const oneShots = new Set<Promise<unknown>>();
  const begun = new AbortController();
  let closed: Promise<StopReport> | null = null;
  let draining = false;
  let tellClosed: () => void = () => undefined;
  const whenClosed = new Promise<void>((resolve) => (tellClosed = resolve));

  function checkOpen(): void {
    if (closed && !draining) throw closedError();
  }
  function refused(error: unknown): Promise<never> {
    return new Promise((_resolve, reject) => system.inTurn(() => reject(error)));
  }

  async function shutDown(graceMs: number): Promise<StopReport> {
    const beganAt = system.monotonic();
    const endAt = beganAt + graceMs + afterGraceMs;
    const untilEnd = (work: Promise<unknown>): Promise<void> => atMost(system, endAt - system.monotonic(), work);
    draining = workers.size > 0;
    begun.abort();
    const reports = await Promise.all([...workers].map((worker) => worker.stop(graceMs)));
    draining = false;
    await untilEnd(Promise.allSettled(oneShots));
    const leases = await own.allEnded(beganAt + graceMs + endLeasesMs);
    for (const stop of inOrder) await untilEnd(stop());
    return {
      finished: reports.reduce((sum, report) => sum + report.finished, 0),
      handedBack: reports.flatMap((report) => report.handedBack),
      abandoned: reports.flatMap((report) => report.abandoned),
      leases,
    };
  }

  return {
    workers,
    oneShots,
    signal: begun.signal,
    get hasBegun() {
      return closed !== null;
    },
    checkOpen,
    checkNotBegun() {
      if (closed) throw closedError();
    },
    refused,
    whileOpen:
      (call) =>
      async (...args) => {
        try {
          checkOpen();
          return await system.hold(call(...args));
        } catch (error) {
          return refused(error);
        }
      },
    close(options = {}) {
      let graceMs: number;
      try {
        graceMs = readGrace(options);
      } catch (error) {
        return refused(error);
      }
      // Closing again with less patience shortens the wait.
      if (closed) for (const worker of workers) void worker.stop(graceMs);
      closed ??= system.hold(shutDown(graceMs)).finally(tellClosed);
      return closed;
    },
    whenClosed,
  };
}

function closedError(): LastoutError {
  return new LastoutError('CLOSED', 'This queue is closed; open it again.');
}

export function readGrace(options: { grace?: Duration }): number {
  const { grace } = ownOptions(options, ['grace'], 'The options of close and stop');
  return grace === undefined ? defaults.graceMs : toMs(grace, 'grace');
}
