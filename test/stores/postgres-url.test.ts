// Which database a URL names, where its gaps come from, and what messages say about it.
import { inspect } from 'node:util';
import { describe, expect, test, vi } from 'vitest';
import { loadDriver } from '../../src/stores/postgres/driver.js';
import { serverOf } from '../../src/stores/postgres/server.js';
import { addressOf } from '../../src/stores/postgres/url.js';
import { postgresUrl } from '../services.js';
import { expectCode } from '../support.js';
import { system } from './postgres-support.js';

interface Shown {
  readonly user: string;
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly password: unknown;
  readonly ssl: unknown;
  readonly connectionParameters: { readonly options: unknown; readonly application_name: string };
}

async function clientOf(url: string): Promise<Shown> {
  return addressOf(url).newClient(await loadDriver()) as unknown as Shown;
}

describe('what a URL names', () => {
  test.each([
    ['postgres://ann:pw@db.example:6000/jobs', { user: 'ann', host: 'db.example', port: 6000, database: 'jobs' }],
    ['postgresql://ann@db.example/jobs', { user: 'ann', host: 'db.example', port: 5432, database: 'jobs' }],
    ['postgres://ann@[::1]:6000/jobs', { host: '::1', port: 6000 }],
    ['postgres://ann@/jobs?host=/run/pg', { user: 'ann', host: '/run/pg', database: 'jobs' }],
    ['postgres://ann@%2Frun%2Fpg/jobs', { host: '/run/pg', database: 'jobs' }],
    ['postgres://a%40b:p%23w@db/j%20s', { user: 'a@b', password: 'p#w', database: 'j s' }],
    ['postgres://ann@db', { database: 'ann' }],
    ['postgres://ann@db/jobs?sslmode=verify-full', { ssl: {} }],
    ['postgres://ann@db/jobs?sslmode=no-verify', { ssl: { rejectUnauthorized: false } }],
    ['postgres://ann@db/jobs', { ssl: false, password: '' }],
  ])('%s', async (url, expected) => {
    expect(await clientOf(url)).toMatchObject(expected);
  });

  test('connections are called lastout, unless the URL calls them something else', async () => {
    const nameOf = async (url: string) => (await clientOf(url)).connectionParameters.application_name;
    expect(await nameOf('postgres://ann@db/jobs')).toBe('lastout');
    expect(await nameOf('postgres://ann@db/jobs?application_name=mailer')).toBe('mailer');
  });

  test('nothing comes from the environment', async () => {
    const before = await clientOf('postgres://');
    const names = ['USER', 'PASSWORD', 'HOST', 'DATABASE', 'OPTIONS', 'APPNAME', 'REPLICATION', 'CLIENT_ENCODING'];
    for (const name of names) vi.stubEnv(`PG${name}`, 'geheim');
    vi.stubEnv('PGPORT', '1');
    vi.stubEnv('PGSSLMODE', 'require');
    vi.stubEnv('PGSSLNEGOTIATION', 'direct');
    try {
      const after = await clientOf('postgres://');
      expect(after).toMatchObject({ host: 'localhost', port: 5432, ssl: false, password: '' });
      expect(after.user).toBe(before.user);
      expect(inspect([after, after.connectionParameters], { showHidden: true })).not.toContain('geheim');
    } finally {
      vi.unstubAllEnvs();
    }
  });
});

describe('what is refused', () => {
  test.each([
    [{ url: 'postgres://db/jobs', pool: {} }, 'INVALID_URL', 'either { url }, or { pool }'],
    [{ url: 5 }, 'INVALID_URL', 'either { url }, or { pool }'],
    [{}, 'INVALID_URL', 'either { url }, or { pool }'],
    [{ pool: {} }, 'INVALID_URL', 'give a Pool of "pg"'],
    [{ uri: 'postgres://db/jobs' }, 'UNKNOWN_OPTION', 'Did you mean url?'],
  ] as const)('%j', async (source, code, words) => {
    const { message } = await expectCode(code, () => serverOf(source as never, {}));
    expect(message).toContain(words);
  });

  test.each([
    [{ max: 0 }, 'INVALID_LIMIT'],
    [{ max: 1.5 }, 'INVALID_LIMIT'],
    [{ max: 101 }, 'INVALID_LIMIT'],
    [{ listen: 'no' }, 'UNKNOWN_OPTION'],
    [{ maxConnections: 4 }, 'UNKNOWN_OPTION'],
  ] as const)('the options %j', async (options, code) => {
    await expectCode(code, () => serverOf({ url: 'postgres://db/jobs' }, options as never));
  });

  test('a machine without the driver is told what to install', async () => {
    const { message, cause } = await expectCode('DRIVER_MISSING', () =>
      loadDriver(() => Promise.reject(new Error('Cannot find package'))),
    );
    expect(message).toContain('npm install pg');
    expect(String(cause)).toContain('Cannot find package');
    await expectCode('DRIVER_MISSING', () => loadDriver(async () => ({ default: {} })));
  });

  test.each([
    ['a wrong password', { password: 'geheim' }],
    ['no password', { password: '' }],
    ['a user that does not exist', { username: 'nobody', password: 'geheim' }],
    ['a database that does not exist', { pathname: '/nowhere' }],
  ])('%s is STORE_DENIED, and the password is in no message', async (_, change) => {
    const url = Object.assign(new URL(postgresUrl()), change);
    const server = await serverOf({ url: url.href }, {})(system);
    const refusal = await expectCode('STORE_DENIED', () => server.pool.lend());
    expect(refusal.message).toContain(`127.0.0.1:${url.port}`);
    const secret = url.password || new URL(postgresUrl()).password;
    if (secret) expect(inspect(refusal, { depth: 9, showHidden: true })).not.toContain(secret);
    await server.pool.end();
  });
});
