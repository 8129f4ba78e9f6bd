/** The Redis driver: ioredis 5 or 6, loaded when a store is opened by a URL or by options. */
import { LastoutError } from '../../core/errors.js';

/** What is used of an ioredis client, a `Redis` or a `Cluster`. */
export interface Client {
  readonly status: string;
  call(command: string, args: readonly (string | number)[]): Promise<unknown>;
  connect(): Promise<unknown>;
  disconnect(reconnect?: boolean): void;
  on(event: string, listener: (...args: never[]) => void): unknown;
  off(event: string, listener: (...args: never[]) => void): unknown;
  /** Of a `Cluster`: a client per node. */
  nodes?(role: 'master'): readonly Client[];
  /** Of a `Redis`: how it connects. */
  readonly options?: Way;
  /** Of a `Redis`: what would keep the process alive. */
  readonly stream?: { unref?(): unknown };
  readonly reconnectTimeout?: { unref?(): unknown } | null;
  /** By Sentinel: its detector has connections of its own, by which it hears of a failover. */
  readonly connector?: {
    readonly failoverDetector?: { readonly sentinels: readonly { readonly client: Client }[] } | null;
  };
}

/** What is used of the options of a connection. */
export interface Way {
  readonly host?: string;
  readonly path?: string;
  readonly tls?: object;
  readonly sentinels?: readonly { readonly host?: string }[] | null;
  /** Without it, `tls` is for the Sentinels alone. */
  readonly enableTLSForSentinelMode?: boolean;
}

export interface RedisDriver {
  readonly Redis: new (options: object) => Client;
}

/** Where the driver comes from; tests give their own. */
export interface DriverSource {
  installed(): Promise<unknown>;
}

const source: DriverSource = { installed: () => import('ioredis') };

export async function loadDriver(from: DriverSource = source): Promise<RedisDriver> {
  let cause: unknown;
  try {
    const found = (await from.installed()) as Partial<RedisDriver>;
    if (typeof found.Redis === 'function') return found as RedisDriver;
  } catch (error) {
    cause = error;
  }
  const message = 'The Redis store needs ioredis 5.4 or newer, and it cannot be loaded: run "npm install ioredis".';
  throw new LastoutError('DRIVER_MISSING', message, undefined, cause);
}
