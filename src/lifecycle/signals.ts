/** Closing on SIGTERM and SIGINT: the first signal drains, the second leaves at once. */
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import type { System } from '../core/system.js';
import { refuseUnknown } from '../core/unknown-option.js';

export interface SignalOptions {
  grace?: Duration;
  signals?: readonly NodeJS.Signals[];
}

const exitCodes: { readonly [signal: string]: number } = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
const farAwayMs = 2 ** 31 - 1;
/** A terminal and the programs between it and us each pass on the same Ctrl-C. */
const echoMs = 250;

export function closeOnSignalsWith(
  system: System,
  queue: { close(options?: { grace?: Duration }): Promise<unknown> },
  options: SignalOptions = {},
): Disposable {
  refuseUnknown(options, ['grace', 'signals'], 'The options of closeOnSignals');
  if (typeof (queue as Partial<typeof queue> | null | undefined)?.close !== 'function')
    throw new LastoutError('TYPE_REQUIRED', `closeOnSignals got ${show(queue)}; give the queue that open returned.`);
  const { grace, signals = ['SIGTERM', 'SIGINT'] } = options;
  if (grace !== undefined) toMs(grace, 'grace');
  let closingSince: number | null = null;
  // The library's own timers hold no process. Who asks for signals means to live until one comes.
  let letGo = stayAlive(system, (next) => {
    letGo = next;
  });
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closingSince !== null) {
      if (system.monotonic() - closingSince >= echoMs) process.exit(exitCodes[signal] ?? 1);
      return;
    }
    closingSince = system.monotonic();
    void queue.close(grace === undefined ? {} : { grace }).finally(() => {
      dispose();
      process.exitCode ??= 0;
    });
  };
  const dispose = (): void => {
    letGo();
    for (const signal of signals) process.off(signal, onSignal);
  };
  for (const signal of signals) process.on(signal, onSignal);
  return { [Symbol.dispose]: dispose };
}

function stayAlive(system: System, renewed: (letGo: () => void) => void): () => void {
  return system.timer(farAwayMs, () => renewed(stayAlive(system, renewed)), 'hold');
}
