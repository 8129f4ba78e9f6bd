/** Closing on SIGTERM and SIGINT: the first signal drains, the second leaves at once. */
import type { Duration } from '../core/duration.js';
import type { System } from '../core/system.js';
import { refuseUnknown } from '../core/unknown-option.js';

export interface SignalOptions {
  grace?: Duration;
  signals?: readonly NodeJS.Signals[];
}

const exitCodes: { readonly [signal: string]: number } = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };
const farAwayMs = 2 ** 31 - 1;

export function closeOnSignalsWith(
  system: System,
  queue: { close(options?: { grace?: Duration }): Promise<unknown> },
  options: SignalOptions = {},
): Disposable {
  refuseUnknown(options, ['grace', 'signals'], 'The options of closeOnSignals');
  const { grace, signals = ['SIGTERM', 'SIGINT'] } = options;
  let closing = false;
  // The library's own timers hold no process. Who asks for signals means to live until one comes.
  let letGo = stayAlive(system, (next) => {
    letGo = next;
  });
  const onSignal = (signal: NodeJS.Signals): void => {
    if (closing) process.exit(exitCodes[signal] ?? 1);
    closing = true;
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
