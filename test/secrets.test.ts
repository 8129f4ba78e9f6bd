// No password is told: not by a message, a stack, a cause, details, inspect, JSON, a log line or stderr, whatever the form in
// which it was given and whatever goes wrong.
import { inspect } from 'node:util';
import { Cluster, Redis } from 'ioredis';
import { Pool } from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { masked } from '../src/core/masked.js';
import { defineJob, open, type OpenOptions, type StoreFactory } from '../src/index.js';
import { dockerContainers, dockerEngine } from '../src/resources/docker.js';
import { migrationPlan, postgresStore } from '../src/stores/postgres/index.js';
import { redisStore } from '../src/stores/redis/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { fakeClock } from '../src/testing/index.js';
import { postgresUrl, privatePostgres, privateRedis, type RedisServer } from './services.js';
import { closedAfterwards, closeUnder, type LoggedLine, recordingLogger, refusalOf } from './support.js';

const secret = 'Ma7kerPw';
/** Nobody listens there. */
const nowhere = '127.0.0.1:1';

/** What was said since the test began. */
function said(): {
  readonly logger: NonNullable<OpenOptions['logger']>;
  readonly lines: readonly LoggedLine[];
  expectNoSecret(...values: unknown[]): void;
} {
  const { lines, logger } = recordingLogger();
  const printed: string[] = [];
  const print = (text: unknown): boolean => printed.push(String(text)) > 0;
  const spies = [
    vi.spyOn(process.stderr, 'write').mockImplementation(print),
    vi.spyOn(process.stdout, 'write').mockImplementation(print),
    ...(['error', 'warn', 'log', 'info', 'debug'] as const).map((level) =>
      vi.spyOn(console, level).mockImplementation((...texts) => void printed.push(inspect(texts, { depth: 20 }))),
    ),
  ];
  onTestFinished(() => spies.forEach((spy) => spy.mockRestore()));
  return { logger, lines, expectNoSecret: (...values) => expectNone([...values, lines, printed]) };
}

function expectNone(values: readonly unknown[]): void {
  for (const value of values.flatMap(chainOf)) {
    const texts = [inspect(value, { depth: 50, showHidden: true, getters: true }), inspect(value), String(value)];
    if (value instanceof Error) texts.push(value.message, value.stack ?? '');
    try {
      texts.push(JSON.stringify(value) ?? '');
    } catch {
      // It refers back to itself; inspect has looked at it.
    }
    for (const text of texts) expect(text).not.toContain(secret);
  }
}

function chainOf(value: unknown): unknown[] {
  return value instanceof Error && value.cause !== undefined ? [value, ...chainOf(value.cause)] : [value];
}

describe('an address that is refused is not repeated', () => {
  it.each([
    secret,
    `u:${secret}@h/db`,
    `host=h user=u password=${secret}`,
    `postgresq://u:${secret}@h/db`,
    `postgresq://h/db?password=${secret}`,
    ` postgres://u:${secret}@h/db`,
    `postgres:u:${secret}@h/db`,
    `postgres://u:12/${secret}@h/db`,
    `postgres://u:12?${secret}@h/db`,
    `postgres://u:12#${secret}@h/db`,
    `postgres://u:${secret}#x@h/db`,
    `postgres://u:${secret}/x@h/db`,
    `postgres://u:${secret}?x@h/db`,
    `postgres://u:${secret}%zz@h/db?host=%zz`,
    `postgres://u:${secret}@h:x/db`,
    `postgres://u:${secret}@h/%zz`,
    `postgres://u:${secret}@h/db?pasword=${secret}`,
    `postgres://h/db?${secret}=1`,
    `postgres://h/db?host=u:${secret}@h`,
    `postgres://h/db?port=${secret}`,
    `postgres://u:${secret}@h/db?sslrootcert=/nowhere/ca.pem`,
    `postgres://u:${secret}@h/db?sslmode=${secret}`,
    `mysql://u:${secret}@h/db`,
    `memory:${secret}`,
    `memory://u:${secret}@h`,
    `sqlite:postgres://u:${secret}@h/db`,
    `sqlite://u:${secret}@h/db`,
    `sqlite:u:${secret}@h/db`,
    `sqlite:jobs.db?key=${secret}`,
    `sqlite:jobs.db?synchronous=${secret}`,
    `sqlite:?${secret}`,
    `redis://u:12/${secret}@h`,
    `redis://u:12?${secret}@h`,
    `redis://u:12#${secret}@h`,
    `redis://u:${secret}/x@h`,
    `redis://:${secret}@h/x`,
    `redis://:${secret}@h/0?a=1`,
    `redis://h?password=${secret}`,
    `redis://:${secret}%zz@h`,
    `redis:u:${secret}@h`,
    `rediss://:${secret}@h:x`,
    `REDIS://:${secret}@h`,
    `postgres://u%3A${secret}%40h/db`,
    `postgres://u%253A${secret}%2540h/db`,
    `postgres://${secret}%40h/db`,
    `postgres://h/db%3Fpassword%3D${secret}`,
    `postgres://h/db%253Fpassword%253D${secret}`,
    `postgres://h/u%3A${secret}%40h`,
    `postgres://h/u%253A${secret}%2540h%25zz`,
    `postgres://h/db?host=u%253A${secret}%2540h`,
    `postgres://h/db?host=u%25253A${secret}%252540h`,
    `redis://u%3A${secret}%40h`,
    `redis://u%253A${secret}%2540h`,
    `rediss://u%3A${secret}%40h`,
  ])('open: %j', async (url) => {
    const { logger, expectNoSecret } = said();
    const refusal = await refusalOf(() => open(url, { logger }));
    expect(['INVALID_URL', 'STORE_DENIED', 'STORE_UNAVAILABLE']).toContain(refusal.code);
    expectNoSecret(refusal);
  });

  const url = `postgres://u:${secret}@h/db`;
  it.each<readonly [what: string, call: () => unknown]>([
    ['the file of sqliteStore', () => sqliteStore({ file: url })],
    ['the URL of postgresStore', () => postgresStore({ url: `u:${secret}@h/db` })],
    ['keywords to postgresStore', () => postgresStore({ url: `host=h password=${secret}` })],
    ['a text as a pool', () => postgresStore({ pool: url as never })],
    ['a text as first argument of postgresStore', () => postgresStore(url as never)],
    ['the URL of redisStore', () => redisStore({ url: `u:${secret}@h` })],
    ['a text as options of redisStore', () => redisStore({ options: `redis://:${secret}@h` as never })],
    ['a URL as host of redisStore', () => redisStore({ options: { host: `redis://:${secret}@h` } })],
    ['a coded URL as host of redisStore', () => redisStore({ options: { host: `u%3A${secret}%40h` } })],
    ['a port of redisStore that is none', () => redisStore({ options: { port: secret as never } })],
    ['the database of redisStore that is none', () => redisStore({ options: { db: secret as never } })],
    ['a coded URL to migrationPlan', () => migrationPlan({ url: `postgres://u%3A${secret}%40h/db` })],
    ['a URL as path of redisStore', () => redisStore({ options: { path: `redis://:${secret}@h` } })],
    [
      'a URL as Sentinel of redisStore',
      () => redisStore({ options: { name: 'm', sentinels: [{ host: `u:${secret}@h`, port: 1 }] } }),
    ],
    ['a text as client of redisStore', () => redisStore({ client: `redis://:${secret}@h` as never })],
    ['a text as first argument of redisStore', () => redisStore(`redis://:${secret}@h` as never)],
    ...[
      'https://u:PW@h',
      'tcp://u:PW@h:2375',
      'http://u:PW@h',
      'ssh://u:PW@h',
      'u:PW@h',
      'unix://u:PW@h',
      'PW',
    ].flatMap((host) => {
      const given = { host: host.replace('PW', secret) };
      return [
        [`dockerEngine: ${host}`, () => dockerEngine(given)],
        [`dockerContainers: ${host}`, () => dockerContainers(given)],
      ] as const;
    }),
    ['a number as host of dockerEngine', () => dockerEngine({ host: 5 as never })],
    ...[`https://u:${secret}@h`, secret, `ftp://h/${secret}`, `//h/${secret}`].map(
      (webhook) => [`webhook ${webhook}`, () => open('memory:', { alerts: { notify: [{ webhook }] } })] as const,
    ),
    [
      'headers of a webhook',
      () => open('memory:', { alerts: { notify: [{ webhook: 'http://h', headers: { a: `a\n${secret}` } }] } }),
    ],
    ['a URL as namespace', () => open('memory:', { namespace: url })],
    ['a URL as the name of an option', () => open('memory:', { [url]: 1 } as never)],
    ['a URL as the name of an option of postgresStore', () => postgresStore({ [url]: 1 } as never)],
    ['a key as codec', () => open('memory:', { codec: secret as never })],
    ['a text as notifier', () => open('memory:', { alerts: { notify: [`https://h/${secret}` as never] } })],
  ])('%s', async (_, call) => {
    const { expectNoSecret } = said();
    const refusal = await refusalOf(call);
    expectNoSecret(refusal);
    expect(`${refusal.message} ${inspect(refusal.details)}`).not.toMatch(/\bu:|@h\b|\/\/h\b/);
  });
});

it.each([
  `postgres://u:my ${secret}@h/db`,
  `"postgres://u:a"b'${secret}@h/db"`,
  `connect to u:${secret}@h failed`,
  `connect to :${secret}@h:6379 failed`,
  `postgres%3A%2F%2Fu%3A${secret}%40h`,
  `host=h password = ${secret} user=u`,
  `password='it\\'s ${secret}'`,
  `password='it''s ${secret}'`,
  `password=a;b${secret}&x=1`,
  `PGPASSWORD=${secret}`,
  `sentinelPassword: '${secret}'`,
  `{"password":"a\\"${secret}"}`,
  `alter role u password '${secret}'`,
  `ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' '${secret}'`,
])('what a driver says is passed on without the password: %j', (text) => {
  expect(masked(text)).not.toContain(secret);
});

it.each([
  'connect ECONNREFUSED 127.0.0.1:5432',
  'password authentication failed for user "ann"',
  'WRONGPASS invalid username-password pair or user is disabled.',
  'getaddrinfo ENOTFOUND db.example.com',
  'Unexpected token \'a\', "abc" is not valid JSON',
])('and what has none stays as it is: %j', (text) => {
  expect(masked(text)).toBe(text);
});

function hostOf(at: string): { host: string; port: number } {
  const { hostname, port } = new URL(`x://${at}`);
  return { host: hostname, port: Number(port) };
}

describe('a server that refuses or cannot be reached', () => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await privateRedis({ appendfsync: null }, afterAll);
  });
  const redisAt = (): string => new URL(redis.url).host;
  const postgresAt = (): string => new URL(postgresUrl()).host;
  function pooled(config: object): StoreFactory {
    const pool = new Pool({ connectionTimeoutMillis: 2_000, ...config });
    pool.on('error', () => undefined);
    onTestFinished(() => pool.end());
    return postgresStore({ pool });
  }
  function given(client: Redis | Cluster): StoreFactory {
    client.on('error', () => undefined);
    onTestFinished(() => client.disconnect());
    return redisStore({ client });
  }
  const redisClient = (options: object): StoreFactory => given(new Redis({ lazyConnect: true, ...options }));
  const { host, port } = hostOf(nowhere);
  const wrong = { password: secret };

  const cases: readonly (readonly [what: string, where: () => string | StoreFactory])[] = [
    ['postgres://u:PW@nowhere', () => `postgres://u:${secret}@${nowhere}/db`],
    ['postgres://nowhere?password=PW', () => `postgres://${nowhere}/db?user=u&password=${secret}`],
    ['postgres with a wrong password', () => `postgres://postgres:${secret}@${postgresAt()}/postgres`],
    ['postgres with a wrong user', () => `postgres://nobody:${secret}@${postgresAt()}/postgres`],
    ['postgres without such a database', () => `postgres://postgres:${secret}@${postgresAt()}/none`],
    ['postgres of a host that there is not', () => `postgres://u:${secret}@no-such-host.invalid/db`],
    ['postgres with TLS that it has not', () => `postgres://u:${secret}@${postgresAt()}/postgres?sslmode=require`],
    ['redis://:PW@nowhere', () => `redis://:${secret}@${nowhere}`],
    ['rediss://u:PW@nowhere', () => `rediss://u:${secret}@${nowhere}`],
    ['redis with a wrong password', () => `redis://:${secret}@${redisAt()}`],
    ['redis with a wrong user', () => `redis://u:${secret}@${redisAt()}`],
    ['redis of a host that there is not', () => `redis://u:${secret}@no-such-host.invalid`],
    ['options of redis, nowhere', () => redisStore({ options: { host, port, ...wrong } })],
    ['options of redis, a wrong password', () => redisStore({ options: { ...hostOf(redisAt()), ...wrong } })],
    ['a client of redis, nowhere', () => redisClient({ host, port, ...wrong })],
    ['a client of redis, a wrong password', () => redisClient({ ...hostOf(redisAt()), ...wrong })],
    ['a client of redis, a URL as host', () => redisClient({ host: `u:${secret}@no-such-host.invalid` })],
    [
      'Sentinels, nowhere',
      () => redisStore({ options: { name: 'm', sentinels: [{ host, port }], sentinelPassword: secret, ...wrong } }),
    ],
    ['a cluster, nowhere', () => given(new Cluster([{ host, port }], { lazyConnect: true, redisOptions: wrong }))],
    ['a pool, nowhere', () => pooled({ connectionString: `postgres://u:${secret}@${nowhere}/db` })],
    ['a pool, a wrong password', () => pooled({ connectionString: `postgres://u:${secret}@${postgresAt()}/postgres` })],
    ['a pool, fields', () => pooled({ ...hostOf(postgresAt()), user: 'u', database: 'postgres', ...wrong })],
    ['a pool, a URL as host', () => pooled({ host: `u:${secret}@no-such-host.invalid` })],
  ];
  // All at once: each waits for seconds until it gives up.
  it('tells no password', { timeout: 30_000 }, async () => {
    const { logger, expectNoSecret } = said();
    const refusals = await Promise.all(
      cases.map(async ([what, where]) => {
        const to = where();
        const refusal = await refusalOf(() => open(to, { logger }));
        return [what, refusal, typeof to === 'string' ? null : to] as const;
      }),
    );
    for (const [what, refusal, store] of refusals) {
      expectNoSecret(refusal, store);
      expect([what, refusal.code]).toEqual([what, expect.stringMatching(/^STORE_(DENIED|UNAVAILABLE)$/)]);
    }
  });
});

describe('a server that goes while it is in use', () => {
  const mail = defineJob('mail', { run: () => null });

  async function useUntilGone(url: string, stop: () => Promise<unknown>): Promise<void> {
    const { logger, expectNoSecret } = said();
    const queue = closedAfterwards(await open(url, { logger, queues: { mail: { maxPending: 1 } } }));
    await queue.enqueue(mail, {});
    await queue.work([mail], { poll: 20 });
    queue.on('completed', () => undefined);
    await stop();
    const answers = await Promise.allSettled([queue.enqueue(mail, {}), queue.find(), queue.stats(), queue.pause()]);
    const failed = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []));
    expect(failed.length).toBeGreaterThan(2);
    expectNoSecret(queue, await queue.health(), ...failed);
  }

  it('Redis', { timeout: 60_000 }, async () => {
    const server = await privateRedis({ password: secret });
    await useUntilGone(server.url, () => server.kill());
  });

  it('PostgreSQL', { timeout: 60_000 }, async () => {
    const server = await privatePostgres({ durable: false });
    const url = new URL(server.url);
    const admin = new Pool({ connectionString: server.url });
    admin.on('error', () => undefined);
    await admin.query(`create role marked superuser login password '${secret}'`);
    await admin.end();
    url.username = 'marked';
    url.password = secret;
    await useUntilGone(url.href, () => server.stop('immediate'));
  });
});

describe('Docker and webhooks', () => {
  it('what DOCKER_HOST says is in no error', async () => {
    const { logger, expectNoSecret } = said();
    vi.stubEnv('DOCKER_HOST', `tcp://u:${secret}@${nowhere}`);
    onTestFinished(() => void vi.unstubAllEnvs());
    const queue = closedAfterwards(await open('memory:', { logger }));
    const spec = { Image: 'none', Env: [`TOKEN=${secret}`] };
    const error: unknown = await queue
      .lease(dockerContainers(), spec, { ttl: '1m' })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(Error);
    const { items } = await queue.leases.find();
    expectNoSecret(error, queue, items);
  });

  it('neither the path nor the headers of a webhook are logged', { timeout: 20_000 }, async () => {
    const { logger, lines, expectNoSecret } = said();
    const webhook = `http://${nowhere}/${secret}?${secret}`;
    const notify = [{ webhook, headers: { authorization: secret } }];
    const rules = { noWorkers: { above: 0, pending: 0 } } as const;
    const clock = fakeClock();
    const queue = await open('memory:', { logger, clock, alerts: { every: '1s', notify, rules } });
    onTestFinished(() => closeUnder(clock, queue));
    await queue.enqueue('mail', {});
    while (!lines.some(({ message }) => message === 'An alert could not be delivered')) await clock.advance('1s');
    expectNoSecret(await queue.alerts(), queue);
  });
});
