import { constants } from 'node:os';

/** A terminal and the programs between it and us each pass on the same Ctrl-C. */
const echoMs = 250;

/**
 * Aborted when the process is told to go, or when nobody reads what it says (`npm start | head`). What runs ends in order then;
 * a second signal does not wait for it. The exit code is that of a process that the signal has ended.
 */
export function endOnSignals(): AbortSignal {
  const ending = new AbortController();
  let since = 0;
  const end = (name: 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'SIGPIPE'): void => {
    if (!ending.signal.aborted) {
      since = performance.now();
      process.exitCode = 128 + constants.signals[name];
      ending.abort(new Error(`Ended by ${name}`));
    } else if (name !== 'SIGPIPE' && performance.now() - since >= echoMs) process.exit();
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, () => end(name));
  process.stdout.on('error', () => end('SIGPIPE'));
  return ending.signal;
}
