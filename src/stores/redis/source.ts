/** Where connections come from: a URL, options of ioredis, or a client whose settings are taken over. */
import { readFile } from 'node:fs/promises';
import type { RedisOptions } from 'ioredis';
import { show } from '../../core/duration.js';
import { LastoutError } from '../../core/errors.js';
import { ownOptions } from '../../core/own-options.js';
import { reading } from '../../core/reading.js';
import type { StoreWarning } from '../../core/store.js';
import { fullyDecoded, isHost } from '../../core/wire.js';
import { type Client, loadDriver } from './driver.js';

/** A `Redis` or `Cluster` of ioredis 5 or 6. */
export interface GivenClient {
  readonly options: object;
  duplicate(...args: never[]): unknown;
}

export type RedisSource =
  /** `redis://USER:PASSWORD@HOST:6379/DATABASE`, or `rediss://…` for TLS, with `?sslrootcert=FILE` for a CA of your own. */
  | { readonly url: string }
  /** Options of ioredis, for sockets, TLS certificates or Sentinel. */
  | { readonly options: object }
  /** A client of yours. Its settings are used for connections of our own; it is sent nothing, and never closed. */
  | { readonly client: GivenClient };

export interface Source {
  /** How messages name it: without user and password. */
  readonly where: string;
  /** Stands before every key, as it does in the client that was given. */
  readonly keyPrefix: string;
  /** Its number: a server has databases, but one set of channels for all of them. */
  readonly database: number;
  /** A cluster listens with the client that also sends. */
  readonly isCluster: boolean;
  /** What `health` says about what was given. */
  readonly warnings: readonly StoreWarning[];
  /** A client of ours, not connected yet. */
  create(retryMs: (times: number) => number): Promise<Client>;
}

export function readSource(from: RedisSource): Source {
  const own: { url?: string; options?: object; client?: GivenClient } = ownOptions(
    from ?? null,
    ['url', 'options', 'client'],
    'The first argument of redisStore',
  );
  const given = Object.values(own).filter((value) => value !== undefined);
  if (given.length !== 1) throw invalid('redisStore takes one of { url }, { options } and { client }.');
  return reading('What was given to redisStore', 'INVALID_URL', () => {
    if (own.url !== undefined) return byUrl(own.url);
    if (own.options !== undefined) return byOptions(own.options, 'options');
    return byClient(own.client!);
  });
}

const urlForm = 'redis://USER:PASSWORD@HOST:6379/DATABASE, or rediss://… for TLS';

function byUrl(text: string): Source {
  const url = parse(text);
  const authority = authorityIn(url);
  if (authority === null) return byOptions(optionsOf(url), 'url');
  /** Read once: a connection that comes later trusts what the first one did. */
  let ca: Buffer | null = null;
  return byOptions(optionsOf(url), 'url', async () => ({ tls: { ca: (ca ??= await readAuthority(authority)) } }));
}

function parse(text: string): URL {
  const url = typeof text === 'string' && URL.canParse(text) ? new URL(text) : null;
  if (url && /^rediss?:$/.test(url.protocol)) return url;
  throw invalid(`The URL of redisStore is not of the form ${urlForm}.`);
}

/** The file with the CA that is to be trusted, called as in a URL of PostgreSQL. */
function authorityIn({ protocol, searchParams, search, hash }: URL): string | null {
  if (search === '' && hash === '') return null;
  const [[name, file] = ['', ''], ...others] = [...searchParams];
  if (protocol === 'rediss:' && name === 'sslrootcert' && file !== '' && others.length === 0 && hash === '')
    return file;
  throw invalid(
    'The URL of redisStore: nothing may follow the database but, with rediss://, ?sslrootcert=FILE; ' +
      'use redisStore({ options }) for other settings.',
  );
}

async function readAuthority(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    const { code = 'unreadable' } = error as { code?: string };
    throw invalid(`The URL of redisStore: the file that sslrootcert names cannot be read (${code}).`);
  }
}

/** Our own reading of it: ioredis would take any option out of the query, and its errors would show the password. */
function optionsOf(url: URL): RedisOptions {
  const db = /^(?:\/(\d{0,5}))?$/.exec(url.pathname);
  if (!db)
    throw invalid(
      `The URL of redisStore: the part after the host is the number of a database. The form is ${urlForm}.`,
    );
  return {
    host: url.hostname.replace(/^\[|\]$/g, '') || 'localhost',
    port: url.port === '' ? 6379 : Number(url.port),
    db: Number(db[1] ?? 0),
    ...(url.username !== '' && { username: decoded(url.username) }),
    ...(url.password !== '' && { password: decoded(url.password) }),
    ...(url.protocol === 'rediss:' && { tls: {} }),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid('The URL of redisStore: write a "%" in the user name or the password as %25.');
  }
}

/** `more`: what is known only when a connection is made. */
function byOptions(options: RedisOptions, name: string, more?: () => Promise<RedisOptions>): Source {
  if (options === null || typeof options !== 'object')
    throw invalid(`{ ${name} } of redisStore is no object; give options of ioredis.`);
  const { host = 'localhost', port = 6379, path, sentinels, db = 0 } = options;
  // Messages name the host, and a URL in its place would show a password.
  const hosts: readonly unknown[] = [host, ...(sentinels ?? []).map((sentinel) => sentinel?.host)];
  if (sentinels?.length === 0) throw invalid(`{ ${name} } of redisStore has an empty list of sentinels.`);
  const isPath = path === undefined || (typeof path === 'string' && !/@|:\/\//.test(fullyDecoded(path)));
  if (!isPath || hosts.some((one) => one !== undefined && (typeof one !== 'string' || !isHost(one))))
    throw invalid(`{ ${name} } of redisStore has a host or a path that is none; a URL goes into { url }.`);
  if (![port, db].every((number: unknown) => /^\d{1,5}$/.test(typeof number === 'symbol' ? '' : String(number))))
    throw invalid(`{ ${name} } of redisStore has a port or a db that is no number.`);
  const address = path ?? (sentinels ? `the Sentinels of ${show(options.name ?? '')}` : `${host}:${port}`);
  return {
    where: `Redis at ${address}`,
    keyPrefix: prefixOf(options),
    database: db,
    isCluster: false,
    warnings: [],
    async create(retryMs) {
      const { Redis } = await loadDriver();
      return new Redis({ connectTimeout: connectMs, ...options, ...(await more?.()), ...settings(retryMs, options) });
    },
  };
}

interface ClusterOptions {
  readonly redisOptions?: object;
}

function byClient(client: GivenClient): Source {
  const { options, duplicate, isCluster, call } = (client ?? {}) as Partial<GivenClient & Client> & {
    isCluster?: boolean;
  };
  if (typeof duplicate !== 'function' || typeof call !== 'function' || typeof options !== 'object')
    throw invalid('{ client } of redisStore takes a Redis or Cluster of ioredis 5 or 6, and no other client.');
  const copy = duplicate.bind(client) as (...args: readonly unknown[]) => Client;
  return {
    where: isCluster ? 'The Redis cluster of the given client' : 'Redis of the given client',
    keyPrefix: prefixOf(options),
    database: (options as RedisOptions).db ?? 0,
    isCluster: isCluster === true,
    warnings: isCluster ? [] : detectorWarnings(options),
    async create(retryMs) {
      if (!isCluster) return copy(settings(retryMs, options));
      return copy([], clusterSettings(retryMs, (options as ClusterOptions).redisOptions));
    },
  };
}

function prefixOf(options: object): string {
  const { keyPrefix, redisOptions } = options as { keyPrefix?: unknown; redisOptions?: { keyPrefix?: unknown } };
  const prefix = keyPrefix || redisOptions?.keyPrefix || '';
  if (typeof prefix === 'string') return prefix;
  throw invalid('The keyPrefix of a Redis client must be text.');
}

interface BySentinel {
  readonly sentinels?: readonly object[] | null | undefined;
  readonly failoverDetector?: boolean | undefined;
}

/** Connections of ours follow whatever the client does; but who gave it may write with it, and not know. */
function detectorWarnings({ sentinels, failoverDetector }: BySentinel): readonly StoreWarning[] {
  if (!sentinels || failoverDetector) return [];
  const message =
    'The client given to redisStore stays with the old primary after a failover: what you send with it may be lost. ' +
    'The connections of lastout follow. Set failoverDetector: true in the options of your client.';
  return [{ code: 'FAILOVER_UNNOTICED', message }];
}

const connectMs = 3_000;

/**
 * A command is written once or not at all, and one that loses its connection is told so at once: nothing is kept to be
 * sent later, nothing is sent again. The ready check holds commands back until user and database are accepted.
 */
function settings(retryMs: (times: number) => number, { sentinels }: BySentinel): RedisOptions {
  return {
    ...answers,
    lazyConnect: true,
    enableOfflineQueue: false,
    enableReadyCheck: true,
    autoResubscribe: false,
    maxLoadingRetryTime: 250,
    disconnectTimeout: 100,
    keepAlive: 10_000,
    retryStrategy: retryMs,
    // The old primary takes writes for seconds after another one was promoted, and loses them all.
    ...(sentinels && { failoverDetector: true }),
  };
}

/** The same on every version and with every client: what comes back, and that nothing is sent twice. */
const answers = {
  keyPrefix: '',
  readOnly: false,
  stringNumbers: false,
  protocol: 2,
  replyMapping: 'legacy',
  enableAutoPipelining: false,
  showFriendlyErrorStack: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  reconnectOnError: null,
} as const;

/** A cluster answers for its nodes: they are left for good when lost, and what was under way is not tried elsewhere. */
function clusterSettings(retryMs: (times: number) => number, redisOptions: object | undefined): object {
  return {
    keyPrefix: '',
    lazyConnect: true,
    enableOfflineQueue: true, // for the moment in which a node is found; commands wait for the cluster before
    enableAutoPipelining: false,
    showFriendlyErrorStack: false,
    retryDelayOnFailover: 0,
    retryDelayOnTryAgain: 50,
    maxRedirections: 5,
    clusterNodeRetryStrategy: null,
    clusterRetryStrategy: retryMs,
    redisOptions: { ...redisOptions, ...answers, disconnectTimeout: 100, keepAlive: 10_000 },
  };
}

function invalid(message: string): LastoutError {
  return new LastoutError('INVALID_URL', message);
}
