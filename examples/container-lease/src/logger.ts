import type { Logger } from 'lastout';

export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

/** One line of the log: these two fields and whatever the event has to say. */
export interface LogEntry {
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly [field: string]: unknown;
}

/** What a cleanup says about each container: with `timestamp` and `level` exactly seven fields. */
export interface CleanupOutcome {
  readonly container_id: string;
  readonly action: 'cleanup';
  readonly status: 'success' | 'failure';
  readonly attempt: number;
  readonly duration_ms: number;
}

/** lastout's own `Logger`, so that the queue writes into the same log. */
export interface AppLogger extends Logger {
  cleanup(outcome: CleanupOutcome): void;
}

export function createLogger(
  lowest: LogLevel,
  write: (entry: LogEntry) => void,
  now: () => Date = () => new Date(),
): AppLogger {
  const put = (level: LogLevel, fields: object): void => {
    if (logLevels.indexOf(level) < logLevels.indexOf(lowest)) return;
    write({ timestamp: now().toISOString(), level, ...fields });
  };
  const at =
    (level: LogLevel) =>
    (message: string, fields: object = {}): void =>
      put(level, { message, ...fields });
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    cleanup: ({ container_id, action, status, attempt, duration_ms }) =>
      put(status === 'success' ? 'info' : 'error', { container_id, action, status, attempt, duration_ms }),
  };
}
