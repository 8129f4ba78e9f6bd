/** One line of the log, before anybody decides how it looks. */
export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  /** Names of the loggers from the root to this one, e.g. `site-builder:DynamicRouteGenerator`. */
  readonly name: string;
  readonly message: string;
  readonly fields: object;
}

/** lastout's `Logger` and a `child`, so that the same object can be handed to `open()`. */
export interface Logger {
  debug(message: string, fields?: object): void;
  info(message: string, fields?: object): void;
  warn(message: string, fields?: object): void;
  error(message: string, fields?: object): void;
  child(name: string): Logger;
}

export function createLogger(write: (line: LogLine) => void, name = ''): Logger {
  const at =
    (level: LogLine['level']) =>
    (message: string, fields: object = {}): void =>
      write({ level, name, message, fields });
  return {
    debug: at('debug'),
    info: at('info'),
    warn: at('warn'),
    error: at('error'),
    child: (childName) => createLogger(write, name === '' ? childName : `${name}:${childName}`),
  };
}
