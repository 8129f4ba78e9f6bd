// Opening: which stores there are, what is refused and why, and what queues on one store share.
import { stat } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { type Code, defineJob, handle, memoryStore, open } from '../src/index.js';
import { closedAfterwards, eachStore, expectCode, temporaryFolder } from './support.js';

it('a logger that throws breaks nothing that it is told of', async () => {
  const refuse = (): never => {
    throw new Error('The disk of the logs is full');
  };
  const logger = { debug: refuse, info: refuse, warn: refuse, error: refuse };
  const queue = closedAfterwards(await open('memory:', { logger }));
  await queue.enqueue('mail', 1, { deduplication: 'skip' });
  expect((await queue.enqueue('mail', 2, { deduplication: 'skip' })).outcome).toBe('skipped');
  expect((await queue.sweep()).failures).toBe(0);
});

describe('open: which store', () => {
  it('memory: keeps jobs in this process', async () => {
    const queue = closedAfterwards(await open('memory:'));
    expect(await queue.health()).toMatchObject({ ok: true, store: 'memory', durability: 'process' });
  });

  it('sqlite:FILE makes the file, readable by its user alone, and keeps every acknowledged job', async () => {
    const file = join(temporaryFolder(), 'jobs.db');
    const first = await open(`sqlite:${file}`);
    const { id } = await first.enqueue('mail', { to: 'a' });
    await first.close();
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const second = closedAfterwards(await open(`sqlite:${file}`));
    expect(await second.get(id)).toMatchObject({ id, type: 'mail', input: { to: 'a' }, state: 'pending' });
    expect(await second.health()).toMatchObject({ store: 'sqlite', durability: 'fsync' });
  });

  it('?synchronous=normal trades durability for speed and says so', async () => {
    const file = join(temporaryFolder(), 'jobs.db');
    const queue = closedAfterwards(await open(`sqlite:${file}?synchronous=normal`));
    expect((await queue.health()).durability).toBe('os');
  });

  it('?synchronous=full is the default in words', async () => {
    const queue = closedAfterwards(await open(`sqlite:${join(temporaryFolder(), 'jobs.db')}?synchronous=full`));
    expect((await queue.health()).durability).toBe('fsync');
  });

  it.each([
    '',
    'jobs.db',
    'memory',
    'memory:jobs',
    'sqlite:',
    'sqlite',
    'mysql://localhost/jobs',
    'reddis://localhost',
    ':memory:',
    '\0',
  ])('%j is refused, and the message says what is allowed', async (url) => {
    const { message } = await expectCode('INVALID_URL', () => open(url));
    expect(message).toContain('"memory:"');
    expect(message).toContain('"sqlite:FILE"');
  });

  it.each([undefined, null, 5, {}, [], { engine: 'memory' }])(
    '%j is neither a URL nor a store, and is refused',
    async (where) => {
      const { message } = await expectCode('INVALID_URL', () => open(where as never));
      expect(message).toContain('"memory:"');
    },
  );

  it.each(['?synchronous=off', '?synchronous=', '?sync=full', '?synchronous=full&mode=ro'])(
    'a setting %j after the file is refused, naming the ones there are',
    async (query) => {
      const file = join(temporaryFolder(), 'jobs.db');
      const { message } = await expectCode('INVALID_URL', () => open(`sqlite:${file}${query}`));
      expect(message).toContain('synchronous=full or synchronous=normal');
      await expect(stat(file)).rejects.toThrow('ENOENT');
    },
  );

  it.each([
    'postgres:jobs',
    'postgres://me:geheim@localhost:99999/jobs',
    'postgres://me:gehe#im@localhost/jobs',
    'postgres://me:geheim@localhost/jo%bs',
    'postgres://me:geheim@localhost/jobs?sslmod=require',
  ])('%j is refused without repeating its password', async (url) => {
    const { message, cause } = await expectCode('INVALID_URL', () => open(url));
    expect(message).toContain('postgres://USER:PASSWORD@HOST:5432/DATABASE');
    expect(message).not.toMatch(/gehe/);
    expect(cause).toBeUndefined();
  });

  it('a PostgreSQL that does not answer is named by its host and port, without the password', async () => {
    const port = await unusedPort();
    const url = `postgres://me:geheim@127.0.0.1:${port}/jobs`;
    const refusal = await expectCode('STORE_UNAVAILABLE', () => open(url));
    expect(refusal.message).toContain(`"jobs" at 127.0.0.1:${port}`);
    expect(inspect(refusal, { depth: 9, showHidden: true })).not.toContain('geheim');
  });

  it.each([
    'redis:geheim@localhost',
    'redis:/me:geheim@localhost',
    'redis://me:geheim@localhost:99999',
    'redis://me:gehe#im@localhost',
    'redis://me:geheim@localhost/jobs',
    'redis://me:geheim@localhost/0?family=6',
  ])('%j is refused without repeating its password', async (url) => {
    const { message, cause } = await expectCode('INVALID_URL', () => open(url));
    expect(message).toMatch(/redis:\/\/USER:PASSWORD@HOST:6379\/DATABASE|redisStore\({ options }\)/);
    expect(message).not.toMatch(/gehe/);
    expect(cause).toBeUndefined();
  });

  it('a slip in the scheme does not show the password', async () => {
    const { message } = await expectCode('INVALID_URL', () => open('Redis://me:geheim@localhost/jobs'));
    expect(message).toContain('redis://…');
    expect(message).not.toMatch(/geheim|localhost/);
  });

  it('a Redis that does not answer is named by its host and port, without the password', async () => {
    const port = await unusedPort();
    const refusal = await expectCode('STORE_UNAVAILABLE', () => open(`redis://me:geheim@127.0.0.1:${port}`));
    expect(refusal.message).toContain(`Redis at 127.0.0.1:${port}`);
    expect(inspect(refusal, { depth: 9, showHidden: true })).not.toContain('geheim');
  });

  it('a file in a folder that does not exist is refused, naming the folder', async () => {
    const folder = join(temporaryFolder(), 'nowhere');
    const { message } = await expectCode('STORE_DENIED', () => open(`sqlite:${join(folder, 'jobs.db')}`));
    expect(message).toContain(folder);
  });
});

describe('open: options', () => {
  it.each([
    ['cleanUp', 'cleanup'],
    ['type', 'types'],
    ['logger_', 'logger'],
    ['namespaces', 'namespace'],
    ['namepsace', 'namespace'],
    ['retries', 'attempts (of a job or its type)'],
    ['connection', 'the URL or store that open takes first'],
    ['prefix', 'namespace'],
  ])('the unknown option %s is refused with "did you mean %s"', async (wrong, right) => {
    const { message, details } = await expectCode('UNKNOWN_OPTION', () => open('memory:', { [wrong]: {} }));
    expect(message).toContain('The options of open');
    expect(message).toContain(`Did you mean ${right}?`);
    expect(details).toEqual({ option: wrong });
  });

  it.each(['retires', 'matrix', 'layers', 'x', 'somethingElse'])(
    'no option is near to %s: the known ones are listed',
    async (wrong) => {
      const { message } = await expectCode('UNKNOWN_OPTION', () => open('memory:', { [wrong]: {} }));
      expect(message).toContain('Known are cleanup, queues, types');
    },
  );

  it.each(['', 'a b', 'a:b', 'a'.repeat(129), '__proto__', 5])('the namespace %j is refused', async (namespace) => {
    await expectCode('INVALID_NAME', () => open('memory:', { namespace: namespace as string }));
  });

  it.each([
    ['types', { name: 'mail' }, 'TYPE_REQUIRED', 'give a list'],
    ['logger', true, 'UNKNOWN_OPTION', 'no function debug, info, warn, error'],
    ['logger', { info: () => undefined }, 'UNKNOWN_OPTION', 'no function debug, warn, error'],
    ['clock', {}, 'UNKNOWN_OPTION', 'now()'],
  ])('a wrong %s (%j) is refused before anything is opened', async (name, value, code, words) => {
    const refusal = await expectCode(code as Code, () => open('memory:', { [name]: value }));
    expect(refusal.message).toContain(words);
  });

  it('a list of types takes only what defineJob returned', async () => {
    await expectCode('TYPE_REQUIRED', () => open('memory:', { types: [{ name: 'mail' }] }));
    await expectCode('TYPE_REQUIRED', () => open('memory:', { types: ['mail' as never] }));
  });
});

describe('open: queues that share a store', () => {
  eachStore((on) => {
    it('see the same jobs', async () => {
      const store = on.factory();
      const [one, other] = [closedAfterwards(await open(store)), closedAfterwards(await open(store))];
      const { id } = await one.enqueue('mail', 1);
      expect(await other.get(id)).toMatchObject({ id, input: 1 });
      expect((await other.stats()).total.pending).toBe(1);
    });

    it('wake one another: a job enqueued in one runs in the other', async () => {
      const store = on.factory();
      const [one, other] = [closedAfterwards(await open(store)), closedAfterwards(await open(store))];
      await other.work([defineJob('mail', { run: ({ input }) => input })]);
      const { id } = await one.enqueue('mail', 'hello');
      expect(await one.wait(id)).toMatchObject({ state: 'completed', result: 'hello' });
    });

    it('closing one does not empty the store, and closes nothing for the other', async () => {
      const store = on.factory();
      const [one, other] = [await open(store), closedAfterwards(await open(store))];
      const { id } = await one.enqueue('mail', 1);
      await one.close();
      await expectCode('CLOSED', () => one.get(id));
      expect(await other.get(id)).toMatchObject({ state: 'pending' });
      const second = await other.enqueue('mail', 2);
      expect((await other.find()).items.map((job) => job.id)).toEqual([second.id, id]);
    });

    it('two stores share nothing', async () => {
      const [one, other] = [await on.open(), await on.open()];
      const { id } = await one.enqueue('mail', 1);
      expect(await other.get(id)).toBeNull();
    });
  });

  it('a memory store outlives every queue that was opened on it', async () => {
    const store = memoryStore();
    const first = await open(store);
    const { id } = await first.enqueue('mail', 1);
    await first.close();
    const second = closedAfterwards(await open(store));
    expect(await second.get(id)).toMatchObject({ state: 'pending', input: 1 });
  });

  it('two namespaces of one SQLite file share nothing', async () => {
    const url = `sqlite:${join(temporaryFolder(), 'jobs.db')}`;
    const one = closedAfterwards(await open(url, { namespace: 'one' }));
    const other = closedAfterwards(await open(url, { namespace: 'other' }));
    const { id } = await one.enqueue('mail', 1);
    expect(await other.get(id)).toBeNull();
    expect((await other.stats()).total.pending).toBe(0);
    expect((await one.stats()).total.pending).toBe(1);
  });
});

describe('a closed queue', () => {
  eachStore((on) => {
    it('refuses every call in the same words, and closing it again reports the same', async () => {
      const queue = await on.open();
      const closing = queue.close();
      expect(queue.close()).toBe(closing);
      await closing;
      const calls: (() => unknown)[] = [
        () => queue.enqueue('mail', 1),
        () => queue.enqueueMany([{ type: 'mail', input: 1 }]),
        () => queue.work([defineJob('mail', { run: () => 1 })]),
        () => queue.get('x'),
        () => queue.find(),
        () => queue.logs('x'),
        () => queue.stats(),
        () => queue.cancel('x'),
        () => queue.retry('x'),
        () => queue.remove('x'),
        () => queue.reschedule('x', { delay: 0 }),
        () => queue.pause(),
        () => queue.resume(),
        () => queue.wait('x'),
        () => queue.events(),
        () => queue.on('created', () => undefined),
        () => queue.sweep(),
      ];
      for (const call of calls) {
        const { message } = await expectCode('CLOSED', call);
        expect(message).toBe('This queue is closed; open it again.');
      }
      expect(queue.startPeriodicCleanup()).toBeUndefined();
      await queue.stopPeriodicCleanup();
    });

    it('had every enqueue that it accepted answered before it closed', async () => {
      const store = on.factory();
      const queue = await open(store);
      const calls = Array.from({ length: 50 }, (_, n) => queue.enqueue('mail', n));
      await queue.close();
      const ids = (await Promise.all(calls)).map(({ id }) => id);
      const again = closedAfterwards(await open(store));
      expect((await again.find({ limit: 100 })).items.map((job) => job.id)).toEqual(ids.toReversed());
    });
  });
});

describe('defineJob and handle', () => {
  it('a definition is a frozen name', () => {
    const type = defineJob('mail', { attempts: 2, run: () => 1 });
    expect(type).toEqual({ name: 'mail' });
    expect(Object.isFrozen(type)).toBe(true);
  });

  it('handle adds code for the worker and leaves the definition without it', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const mail = defineJob<{ to: string }, string>('mail', { attempts: 7 });
    const withCode = handle(mail, ({ input }) => `sent to ${input.to}`);
    const { message } = await expectCode('UNKNOWN_TYPE', () => queue.work([mail]));
    expect(message).toContain('handle(type, run)');
    await queue.work([withCode]);
    const { id } = await queue.enqueue(mail, { to: 'a' });
    expect(await queue.wait(id)).toMatchObject({ result: 'sent to a', maxAttempts: 7 });
  });

  it('handle replaces code that was there', async () => {
    const queue = closedAfterwards(await open('memory:'));
    const mail = defineJob('mail', { run: () => 'old' });
    await queue.work([handle(mail, () => 'new')]);
    expect((await queue.wait((await queue.enqueue(mail, null)).id)).result).toBe('new');
  });

  it.each([
    ['a name that is none', () => defineJob('a b', {}), 'INVALID_NAME'],
    ['an empty name', () => defineJob('', {}), 'INVALID_NAME'],
    ['an unknown option', () => defineJob('mail', { dely: 5 } as never), 'UNKNOWN_OPTION'],
    ['a wrong id', () => defineJob('mail', { id: 'a b' }), 'INVALID_ID'],
    ['a runAt', () => defineJob('mail', { runAt: new Date(0) } as never), 'UNKNOWN_OPTION'],
    ['a schema that is none', () => defineJob('mail', { input: {} as never }), 'INVALID_INPUT'],
    ['a null schema', () => defineJob('mail', { input: null as never }), 'INVALID_INPUT'],
    ['code that is no function', () => defineJob('mail', { run: 'send' as never }), 'UNKNOWN_TYPE'],
    ['a wrong option', () => defineJob('mail', { attempts: 0 }), 'INVALID_ATTEMPTS'],
    ['a wrong subject', () => defineJob('mail', { subject: 'trip' }), 'INVALID_KEY'],
    ['no definition', () => defineJob('mail', undefined as never), 'UNKNOWN_OPTION'],
    ['handle on what is no definition', () => handle({ name: 'mail' }, () => 1), 'TYPE_REQUIRED'],
    ['handle without code', () => handle(defineJob('mail', {}), undefined as never), 'UNKNOWN_TYPE'],
  ] as const)('%s is refused when it is defined, not when it runs', async (_what, define, code) => {
    await expectCode(code, define);
  });
});

describe('work: what it takes', () => {
  it.each([
    ['nothing', [], 'TYPE_REQUIRED'],
    ['no list', undefined, 'TYPE_REQUIRED'],
    ['a name', ['mail'], 'UNKNOWN_TYPE'],
    ['the same type twice', [defineJob('mail', { run: () => 1 }), defineJob('mail', { run: () => 2 })], 'INVALID_NAME'],
  ] as const)('%s is refused', async (_what, types, code) => {
    const queue = closedAfterwards(await open('memory:'));
    await expectCode(code, () => queue.work(types as never));
  });
});

/** Of a server that is gone. */
async function unusedPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => void server.close(resolve));
  return port;
}
