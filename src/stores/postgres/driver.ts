/** What is used of `pg`, which is loaded when the first store is opened. */
import { LastoutError } from '../../core/errors.js';

/** A statement as `pg` takes it. */
export interface PgQuery {
  readonly text: string;
  readonly name?: string;
  readonly values?: unknown[];
  readonly rowMode?: 'array';
  readonly types?: { getTypeParser(oid: number): (text: string) => unknown };
}

/** What is used of a connection of `pg`. */
export interface PgClient {
  query(query: PgQuery): Promise<{ readonly rows: unknown[] }>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  removeListener(event: 'error', listener: (error: Error) => void): unknown;
}

/** A connection of our own. */
export interface OwnClient extends PgClient {
  connect(): Promise<unknown>;
  end(): Promise<void>;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(event: 'notification', listener: (message: PgNotification) => void): unknown;
  ref(): void;
  unref(): void;
}

export interface PgNotification {
  readonly channel: string;
  readonly payload?: string | undefined;
}

export interface PgDriver {
  readonly Client: new (config: object) => OwnClient;
}

/** What is used of a `Pool` of `pg` that was given to us. */
export interface PgPool {
  connect(): Promise<PgClient & { release(broken?: boolean): void }>;
  on?(event: 'error', listener: (error: Error) => void): unknown;
  removeListener?(event: 'error', listener: (error: Error) => void): unknown;
  /** How the pool makes its connections, and by what: for the one beside it that listens. */
  readonly Client?: unknown;
  readonly options?: unknown;
}

/** Where the driver comes from; tests give their own. */
export type DriverSource = () => Promise<unknown>;

const installed: DriverSource = () => import('pg');

export async function loadDriver(from: DriverSource = installed): Promise<PgDriver> {
  let cause: unknown;
  try {
    const module = (await from()) as Partial<PgDriver> & { readonly default?: Partial<PgDriver> };
    const found = module.Client ? module : module.default;
    if (typeof found?.Client === 'function') return found as PgDriver;
  } catch (error) {
    cause = error;
  }
  const message = 'The PostgreSQL store needs a driver, and "pg" cannot be loaded: run "npm install pg".';
  throw new LastoutError('DRIVER_MISSING', message, undefined, cause);
}

/** The socket of a connection, as far as `pg` shows it. */
interface Wire {
  readonly connection?: { readonly stream?: { destroy(): void; readonly writableLength?: number } };
}

/** The process of the server that a connection talks to, as it said when it connected; a pooler makes one up. */
export function saidPid(client: PgClient): number | null {
  const { processID } = client as { processID?: unknown };
  return typeof processID === 'number' ? processID : null;
}

/** Ends a connection that may not hear any more: who waits for its answer gets an error. */
export function breakOff(client: PgClient): void {
  (client as Wire).connection?.stream?.destroy();
}

/** Bytes that the system has not taken yet. */
export function unsentBytes(client: PgClient): number {
  return (client as Wire).connection?.stream?.writableLength ?? 0;
}

const asIs = (text: string): unknown => text;
const isTrue = (text: string): unknown => text === 't';
/** The numbers that PostgreSQL gives its types bool, int8, int2, int4, float4, float8. */
const parsers = new Map<number, (text: string) => unknown>([
  [16, isTrue],
  [20, Number],
  [21, Number],
  [23, Number],
  [700, Number],
  [701, Number],
]);

/** Numbers and booleans as such, everything else as text, whatever the driver was told to make of it. */
export const types: NonNullable<PgQuery['types']> = { getTypeParser: (oid) => parsers.get(oid) ?? asIs };
