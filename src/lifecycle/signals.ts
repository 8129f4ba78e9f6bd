/** Closing on SIGTERM and SIGINT: the first signal drains, the second leaves at once. */
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { Logger } from '../core/job.js';
import type { StopReport } from '../core/stop-report.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { ownOptions } from '../core/own-options.js';
import { reading } from '../core/reading.js';

export interface SignalOptions {
  grace?: Duration;
  signals?: readonly ('SIGTERM' | 'SIGINT' | 'SIGHUP' | 'SIGQUIT' | 'SIGUSR2')[];
  /** Called when the queue is closed, before the process ends: for what else has to be closed. */
  onClosed?(report: StopReport): void | Promise<void>;
}

const exitCodes: { readonly [signal: string]: number } = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
/** A terminal and the programs between it and us each pass on the same Ctrl-C. */
const echoMs = 250;

/** What is known about queues besides what they offer. */
interface Known {
  readonly whenClosed: Promise<unknown>;
  readonly logger: Logger;
}
const known = new WeakMap<object, Known>();

/** Whoever waits for signals goes when the queue is closed by hand, and tells its logger what went wrong. */
export function makeKnown<Q extends object>(queue: Q, about: Known): Q {
  known.set(queue, about);
  return queue;
}

export function closeOnSignalsWith(
  system: System,
  queue: { close(options?: { grace?: Duration }): Promise<StopReport> },
  options: SignalOptions = {},
): Disposable {
  const own = ownOptions(options, ['grace', 'signals', 'onClosed'], 'The options of closeOnSignals');
  const isQueue = reading('What closeOnSignals got', 'TYPE_REQUIRED', () => typeof queue?.close === 'function');
  if (!isQueue)
    throw new LastoutError('TYPE_REQUIRED', `closeOnSignals got ${show(queue)}; give the queue that open returned.`);
  const { grace, signals = ['SIGTERM', 'SIGINT'], onClosed } = own;
  if (grace !== undefined) toMs(grace, 'grace');
  if (onClosed !== undefined && typeof onClosed !== 'function')
    throw new LastoutError('UNKNOWN_OPTION', `onClosed is ${show(onClosed)}; give a function.`);
  let closingSince: number | null = null;
  // Who asks for signals means to live until one comes, also without a worker.
  const letGo = system.stayAlive();
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closingSince !== null) {
      if (system.monotonic() - closingSince >= echoMs) process.exit(exitCodes[signal] ?? 1);
      return;
    }
    closingSince = system.monotonic();
    void close();
  };
  async function close(): Promise<void> {
    try {
      const report = await queue.close(grace === undefined ? {} : { grace });
      await onClosed?.(report);
      process.exitCode ??= 0;
    } catch (error) {
      known.get(queue)?.logger.error('Closing on a signal failed', { error: describeThrown(error).message });
      process.exitCode ??= 1;
    }
    dispose();
  }
  const dispose = (): void => {
    letGo();
    for (const signal of signals) process.off(signal, onSignal);
  };
  for (const signal of signals) process.on(signal, onSignal);
  void known.get(queue)?.whenClosed.then(() => {
    if (closingSince === null) dispose();
  });
  return { [Symbol.dispose]: dispose };
}
