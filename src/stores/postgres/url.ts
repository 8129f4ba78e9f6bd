/** What a URL says, completed: the driver would fill its gaps from the environment, and this library reads none. */
import { userInfo } from 'node:os';
import { LastoutError } from '../../core/errors.js';
import type { StoreWarning } from '../../core/store.js';
import { fullyDecoded, isHost, noTlsWarnings } from '../../core/wire.js';
import type { OwnClient, PgDriver } from './driver.js';

export interface Address {
  /** How messages name it: without the user and the password. */
  readonly where: string;
  newClient(driver: PgDriver): OwnClient;
  /** What is to be feared on the way there. */
  warnings(driver: PgDriver): readonly StoreWarning[];
}

/** How long a server may take to accept a connection. */
export const connectMs = 5_000;

/** What the driver understands of a URL, and what libpq does besides, which changes nothing here. */
const known = new Set([
  ...['host', 'port', 'user', 'password', 'application_name', 'options', 'client_encoding'],
  ...['ssl', 'sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'sslnegotiation', 'uselibpqcompat', 'channel_binding'],
  ...['connect_timeout', 'target_session_attrs', 'gssencmode', 'fallback_application_name'],
  ...['keepalives', 'keepalives_idle', 'keepalives_interval', 'keepalives_count'],
]);

const writeSo = 'Write letters such as # / ? @ in a password as %23 %2F %3F %40';

export function addressOf(url: string): Address {
  const parsed = parse(url);
  const query = parsed.searchParams;
  checkParts(parsed);
  const password = query.get('password') ?? parsed.password;
  complete(parsed);
  const config = {
    connectionString: parsed.href,
    application_name: 'lastout',
    client_encoding: 'utf8',
    sslnegotiation: 'postgres',
    keepAlive: true,
    connectionTimeoutMillis: connectMs,
    enableChannelBinding: /^(prefer|require)$/.test(query.get('channel_binding') ?? ''),
  };
  const where = nameOf(parsed);
  function newClient({ Client }: PgDriver): OwnClient {
    let client: OwnClient;
    try {
      client = new Client(config);
    } catch (error) {
      throw unreadable(error);
    }
    forgetEnvironment(client, query, password);
    return client;
  }
  return {
    where,
    newClient,
    warnings(driver) {
      // As the driver has read it: it has several ways to ask for TLS.
      const { host = '', ssl } = newClient(driver) as { host?: string; ssl?: unknown };
      return ssl ? [] : noTlsWarnings(host, where, 'Add sslmode=verify-full to the URL.');
    },
  };
}

/** Without the error itself: it may quote the URL, and with it the password. */
function unreadable(error: unknown): LastoutError {
  const { code, syscall } = error as { readonly code?: string; readonly syscall?: string };
  const what = syscall
    ? 'a file that sslrootcert, sslcert or sslkey names cannot be read'
    : 'the driver cannot read it';
  return invalid(`${what} (${code ?? 'malformed'})`);
}

function parse(url: string): URL {
  // The user of a socket stands before no host, which a URL does not allow.
  for (const text of [url, url.replace('@/', '@localhost/')])
    if (URL.canParse(text) && /^[a-z]+:\/\//i.test(text)) return new URL(text);
  throw invalid(`it cannot be read. ${writeSo}`);
}

/** A password with one of these letters in it ends up in another part, and must not be shown with it. */
function checkParts({ hostname, pathname, hash, searchParams: query }: URL): void {
  const isStrange = [...query.keys()].some((name) => !known.has(name));
  if (isStrange) throw invalid(`a parameter after "?" is not known; known are ${[...known].join(', ')}. ${writeSo}`);
  if (pathname.includes('@') || pathname.indexOf('/', 1) > 0 || hash !== '')
    throw invalid(`the part after the host is not the name of a database. ${writeSo}`);
  if (/[@?=:]|%(40|3f|3d|3a)/i.test(fullyDecoded(pathname)))
    throw invalid('the name of a database with one of @ ? = : in it is not taken: it may be a password');
  if (!isHost(hostname)) throw invalid(`the part before the database is not the name of a host. ${writeSo}`);
  if (!isHost(query.get('host') ?? '')) throw invalid('the parameter host is not the name of a host');
  if (!/^\d{0,5}$/.test(query.get('port') ?? '')) throw invalid('the parameter port is not a number');
}

/** As libpq does without an environment. */
function complete(url: URL): void {
  const query = url.searchParams;
  if (url.hostname === '') url.hostname = 'localhost';
  if (url.username === '' && !query.has('user')) url.username = encodeURIComponent(accountName());
  if (url.port === '' && !query.has('port')) url.port = '5432';
  if (url.pathname.length < 2) url.pathname = `/${query.get('user') ?? url.username}`;
  if (!['ssl', 'sslmode', 'sslcert', 'sslkey', 'sslrootcert', 'sslnegotiation'].some((name) => query.has(name)))
    query.set('ssl', '0');
}

function accountName(): string {
  try {
    return userInfo().username;
  } catch {
    throw invalid('it names no user, and neither does the account of this process');
  }
}

function nameOf(url: URL): string {
  const host = url.searchParams.get('host') ?? decoded(url.hostname);
  const port = url.searchParams.get('port') ?? url.port;
  return `The PostgreSQL database "${decoded(url.pathname.slice(1))}" at ${host}:${port}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid('it has a % that is not followed by two hexadecimal digits; write it as %25');
  }
}

/** PGPASSWORD, PGOPTIONS, PGREPLICATION and ~/.pgpass. The rest is in the URL by now. */
function forgetEnvironment(client: OwnClient, query: URLSearchParams, password: string): void {
  const inside = client as Partial<Record<'password' | 'replication' | 'connectionParameters', unknown>>;
  const read = (inside.connectionParameters ?? {}) as Record<'password' | 'options' | 'replication', unknown>;
  read.options = query.get('options') ?? '';
  inside.replication = read.replication = '';
  if (password === '') inside.password = read.password = '';
}

function invalid(why: string): LastoutError {
  const message = `The URL of the PostgreSQL store is refused: ${why}. Write it as postgres://USER:PASSWORD@HOST:5432/DATABASE?sslmode=verify-full.`;
  return new LastoutError('INVALID_URL', message);
}
