import type { Logger } from 'lastout';

export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: object;
}

/** lastout's own `Logger`, so that the queue and the services write into one log. */
export function createLogger(lowest: LogLevel, write: (line: LogLine) => void): Logger {
  const at =
    (level: LogLevel) =>
    (message: string, fields: object = {}): void => {
      if (logLevels.indexOf(level) >= logLevels.indexOf(lowest)) write({ level, message, fields });
    };
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') };
}
