/** PostgreSQL's error codes in our words. */
import { type Code, LastoutError } from '../../core/errors.js';
import { bareError, masked } from '../../core/masked.js';
import { distrustIn } from '../../core/wire.js';

/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
export const state = {
  uniqueViolation: '23505',
  noTransaction: '25P01',
  failedTransaction: '25P02',
  readOnly: '25006',
  noSuchStatement: '26000',
  noSuchSchema: '3F000',
  noSuchDatabase: '3D000',
  serialization: '40001',
  unknownCompletion: '40003',
  deadlock: '40P01',
  statementExists: '42P05',
  denied: '42501',
  noSuchTable: '42P01',
  noSuchFunction: '42883',
  diskFull: '53100',
  lockTimeout: '55P03',
  cancelled: '57014',
  /** Raised by our own functions: see sql/settings.ts and sql/matches.ts. */
  notReadCommitted: 'LO003',
  steppedBack: 'LO004',
} as const;

type Wrapped = { readonly code?: unknown; readonly meta?: { readonly code?: unknown }; readonly cause?: unknown };

/** The SQLSTATE of an error, also where a library has wrapped it. */
export function stateOf(error: unknown): string | undefined {
  return originOf(error)?.code;
}

/** Not every code of five characters is a SQLSTATE: Node has EPIPE, Prisma P2010. */
function originOf(error: unknown): { readonly code: string; readonly error: unknown } | undefined {
  let at = error as Wrapped | null | undefined;
  for (let depth = 0; at !== null && typeof at === 'object' && depth < 4; depth++) {
    for (const code of [at.meta?.code, at.code]) {
      if (typeof code === 'string' && /^(?!E|P[1-9])[0-9A-Z]{5}$/.test(code)) return { code, error: at };
    }
    at = at.cause as Wrapped | undefined;
  }
  return undefined;
}

/** Two transactions got in each other's way, and this one was taken back: worth another try. */
export function isConflict(error: unknown): boolean {
  const code = stateOf(error);
  return code === state.serialization || code === state.deadlock || code === state.steppedBack;
}

/** The session begins its transactions stricter than read committed, and nothing has happened. */
export function isTooStrict(error: unknown): boolean {
  return stateOf(error) === state.notReadCommitted;
}

/** Another transaction has stored the same at the same moment. */
export function isDuplicate(error: unknown): boolean {
  return stateOf(error) === state.uniqueViolation;
}

/** Somebody else uses the connection too, and has dropped what was prepared on it, or prepared it already. */
export function isUnprepared(error: unknown): boolean {
  const code = stateOf(error);
  return code === state.noSuchStatement || code === state.statementExists;
}

/** The server hung up on purpose: the statement was taken back, and the connection is of no more use. */
export function isCutOff(error: unknown): boolean {
  return stateOf(error)?.startsWith('57P') === true;
}

/** The driver knew that the connection is gone before it sent anything. */
export function isUnsent(error: unknown): boolean {
  return stateOf(error) === undefined && /not queryable/.test(textOf(error));
}

/**
 * No answer will come, so whether the statement was done is open. A pooler says so with a code of class 08; any other
 * error that the server itself raised has taken back the statement.
 */
export function isLost(error: unknown): boolean {
  const code = stateOf(error);
  return code === undefined || code.startsWith('08') || code === state.unknownCompletion;
}

/** A connection could not be had: nothing has happened. */
export function unreachable(error: unknown, where: string): LastoutError {
  if (error instanceof LastoutError) return error;
  const code = stateOf(error);
  if (code?.startsWith('28') || code === state.noSuchDatabase || code === state.denied || /^SASL/.test(textOf(error))) {
    const message = `${where} refused the login: check the user, the password and the database of the URL. (${textOf(error)})`;
    return new LastoutError('STORE_DENIED', message, detailsOf(code), bare(error));
  }
  const distrust = distrustIn(error);
  if (distrust) {
    const message = `${where} is not connected to: ${distrust.why}. (${textOf(error)})`;
    return new LastoutError('STORE_DENIED', message, distrust.details, bare(error));
  }
  const message = `${where} cannot be reached: check that it runs and accepts connections there. (${textOf(error)})`;
  return new LastoutError('STORE_UNAVAILABLE', message, detailsOf(code), bare(error));
}

/** Nobody needs to know whether a read was done. */
export function lost(error: unknown, where: string, kind: 'reading' | 'writing'): LastoutError {
  const what = `The connection to ${where.replace(/^The/, 'the')} was lost before the answer came`;
  if (kind === 'reading')
    return new LastoutError('STORE_UNAVAILABLE', `${what}. (${textOf(error)})`, undefined, bare(error));
  const message = `${what}: whether it was done is not known. Look before you repeat it. (${textOf(error)})`;
  return new LastoutError('RESULT_UNKNOWN', message, undefined, bare(error));
}

/** The server refused the statement and has taken it back. */
export function refused(error: unknown, where: string): LastoutError {
  if (error instanceof LastoutError) return error;
  const code = stateOf(error);
  const [name, message] = describe(code ?? '', where);
  return new LastoutError(name, `${message} (PostgreSQL: ${textOf(error)})`, detailsOf(code), bare(error));
}

function describe(code: string, where: string): [Code, string] {
  switch (code) {
    case state.diskFull:
      return ['STORE_FULL', `${where} cannot grow: the disk is full. Nothing was written.`];
    case state.readOnly:
      return ['STORE_READONLY', `${where} cannot be written: it is a standby, or its transactions are read-only.`];
    case state.denied:
      return ['STORE_DENIED', `${where} does not let this role do that: grant it the rights on the schema.`];
    case state.noSuchSchema:
    case state.noSuchTable:
    case state.noSuchFunction:
      return [
        'STORE_UNAVAILABLE',
        `${where} no longer has the tables of this store: was its schema dropped? Open it anew.`,
      ];
    case state.serialization:
    case state.deadlock:
    case state.steppedBack:
      return ['STORE_UNAVAILABLE', `${where} took the step back again and again: others change the same jobs.`];
    case state.cancelled:
    case state.lockTimeout:
      return ['STORE_UNAVAILABLE', `${where} was too busy: the step took too long and was taken back.`];
    default:
      return ['STORE_UNAVAILABLE', `${where} took the step back.`];
  }
}

function detailsOf(sqlState: string | undefined): { readonly sqlState: string } | undefined {
  return sqlState === undefined ? undefined : { sqlState };
}

/** What the server itself said: a library that wraps it may add the statement with its values, which are nobody's business. */
export function textOf(error: unknown): string {
  const at = originOf(error)?.error ?? error;
  if (!(at instanceof Error)) return typeof at === 'string' ? masked(at) : 'an error without a message';
  if (at.message !== '') return masked(at.message);
  // Several addresses were tried: the message of such an error is empty.
  return at instanceof AggregateError ? at.errors.map(textOf).join(', ') : at.name;
}

/** Without what a driver or a library adds: statements with their values, rows, the address. */
function bare(error: unknown): Error {
  return bareError(originOf(error)?.error ?? error, textOf(error));
}
