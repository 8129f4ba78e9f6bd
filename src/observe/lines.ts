/**
 * What a queue without a logger says: its errors and warnings, one line each. Of one message about one type so many in a while;
 * what is left out is counted, and the count is told when the while is over.
 */
import type { Logger } from '../core/job.js';
import type { System } from '../core/system.js';

export interface Outlet {
  /** Somebody reads it as it comes; else it is gathered, and is JSON. */
  readonly isTerminal: boolean;
  write(line: string): void;
}

/** Lines of one kind, within so long. */
const linesMax = 10;
const withinMs = 10_000;
/** Most kinds that are told apart; what comes beyond them counts as one. */
const kindsMax = 1_000;

type Level = 'warn' | 'error';

interface Kind {
  readonly level: Level;
  readonly message: string;
  readonly type: string | undefined;
  readonly since: number;
  lines: number;
  leftOut: number;
  callOff: () => void;
}

export interface LineLogger extends Logger {
  /** Tells what was left out so far. */
  stop(): void;
}

export function lineLogger(system: System, outlet: Outlet): LineLogger {
  const kinds = new Map<string, Kind>();

  function say(level: Level, message: string, fields?: object): void {
    const at = new Date(system.now()).toISOString();
    outlet.write(
      outlet.isTerminal
        ? `${at} lastout ${level}: ${message}${inWords(fields)}`
        : JSON.stringify({ at, level, from: 'lastout', message, ...fields }),
    );
  }

  function kindOf(level: Level, message: string, type: string | undefined): Kind {
    const name = `${level} ${type ?? ''} ${message}`;
    const known = kinds.get(name);
    if (known && system.monotonic() - known.since < withinMs) return known;
    if (known) end(name, known);
    if (kinds.size >= kindsMax) for (const [other, kind] of kinds) end(other, kind);
    const since = system.monotonic();
    const kind: Kind = { level, message, type, since, lines: 0, leftOut: 0, callOff: () => undefined };
    kinds.set(name, kind);
    return kind;
  }

  function end(name: string, { level, message, type, leftOut, callOff }: Kind): void {
    kinds.delete(name);
    callOff();
    if (leftOut > 0) say(level, message, { ...(type !== undefined && { type }), leftOut });
  }

  function tell(level: Level, message: string, fields?: object): void {
    const given = (fields as { type?: unknown } | undefined)?.type;
    const type = typeof given === 'string' ? given : undefined;
    const kind = kindOf(level, message, type);
    kind.lines += 1;
    if (kind.lines <= linesMax) return say(level, message, fields);
    if (kind.leftOut === 0) {
      const leftMs = Math.max(0, kind.since + withinMs - system.monotonic());
      kind.callOff = system.timer(leftMs, () => end(`${level} ${type ?? ''} ${message}`, kind));
    }
    kind.leftOut += 1;
  }

  return {
    debug: () => undefined,
    info: () => undefined,
    warn: (message, fields) => tell('warn', message, fields),
    error: (message, fields) => tell('error', message, fields),
    stop() {
      for (const [name, kind] of kinds) end(name, kind);
    },
  };
}

/** As JSON, so that no text breaks the line. Nor may one move the cursor. */
function inWords(fields: object = {}): string {
  return Object.entries(fields)
    .map(([name, value]) => ` ${name}=${JSON.stringify(value)}`)
    .join('')
    .replace(/[\u007f-\u009f\u2028\u2029]/g, ' ');
}
