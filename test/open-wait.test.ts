// `waitFor` of open: a store that is not up yet is waited for, the same on every store; what is wrong for good is told at once.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Store, StoreFactory } from '../src/core/store.js';
import { type Code, LastoutError, memoryStore, open, type OpenOptions } from '../src/index.js';
import { loadDriver } from '../src/stores/sqlite/driver.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { fakeClock } from '../src/testing/index.js';
import { describeOn } from './engines.js';
import { emptyPostgres, emptyRedis, privatePostgres, privateRedis } from './services.js';
import { closedAfterwards, closeUnder, eachStore, expectCode, recordingLogger, temporaryFolder } from './support.js';
import { codeOf } from './stores/redis-support.js';

/** A store that fails in this way until it is told otherwise. */
function notUp(code: Code, takesMs = 0) {
  const within = memoryStore();
  const clock = fakeClock();
  const seen = { tries: 0, closed: 0, isUp: false };
  const factory: StoreFactory = {
    engine: 'memory',
    async open(context) {
      seen.tries += 1;
      const number = seen.tries;
      if (takesMs > 0) await new Promise<void>((resolve) => void context.system.timer(takesMs, resolve));
      if (!seen.isUp) throw new LastoutError(code, `It is away (${number}).`);
      const store: Store = await within.open(context);
      return { ...store, close: () => ((seen.closed += 1), store.close()) };
    },
  };
  const begin = (options: OpenOptions) => {
    const opening = open(factory, { ...options, clock });
    opening.catch(() => undefined);
    return opening;
  };
  return { seen, clock, begin };
}

describe('waitFor by the clock', () => {
  it('without it the first error is told at once', async () => {
    const { seen, begin } = notUp('STORE_UNAVAILABLE');
    expect((await expectCode('STORE_UNAVAILABLE', () => begin({}))).message).toBe('It is away (1).');
    expect((await expectCode('STORE_UNAVAILABLE', () => begin({ waitFor: 0 }))).message).toBe('It is away (2).');
    expect(seen.tries).toBe(2);
  });

  it('it is opened as soon as it is up, and a logger was told once', async () => {
    const { seen, clock, begin } = notUp('STORE_UNAVAILABLE');
    const { lines, logger } = recordingLogger();
    const opening = begin({ waitFor: '30s', logger });
    await clock.advance('10s');
    expect(seen.tries).toBeGreaterThan(9);
    seen.isUp = true;
    await clock.advance('1s');
    await closeUnder(clock, await opening);
    expect(lines.filter(({ level }) => level === 'warn')).toMatchObject([
      { level: 'warn', fields: { waitForMs: 30_000, error: 'It is away (1).' } },
    ]);
  });

  it('when the time is over the store’s own error is told, not earlier and not later, and no timer is left', async () => {
    const { seen, clock, begin } = notUp('STORE_UNAVAILABLE');
    let isOver = false;
    const opening = begin({ waitFor: '30s' });
    opening.catch(() => (isOver = true));
    await clock.advance(29_999);
    expect(isOver).toBe(false);
    await clock.advance(1);
    expect(isOver).toBe(true);
    expect((await expectCode('STORE_UNAVAILABLE', () => opening)).message).toBe(`It is away (${seen.tries}).`);
    expect(clock.pendingTimers).toBe(0);
  });

  it('a try that takes longer is given up in time, and what it opens later is closed', async () => {
    const { seen, clock, begin } = notUp('STORE_UNAVAILABLE', 8_000);
    const opening = begin({ waitFor: '10s' });
    await clock.advance('9s');
    expect(seen.tries).toBe(2);
    seen.isUp = true;
    await clock.advance('1s');
    expect((await expectCode('STORE_UNAVAILABLE', () => opening)).message).toBe('It is away (1).');
    await clock.advance('10s');
    expect(seen).toMatchObject({ tries: 2, closed: 1 });
    expect(clock.pendingTimers).toBe(0);
  });

  it.each(['STORE_DENIED', 'STORE_NEWER', 'STORE_READONLY', 'INVALID_URL', 'INVALID_NAME', 'DRIVER_MISSING'] as const)(
    '%s is told at once',
    async (code) => {
      const { seen, begin } = notUp(code);
      await expectCode(code, () => begin({ waitFor: '30s' }));
      expect(seen.tries).toBe(1);
    },
  );

  it('a later error that is for good ends the wait', async () => {
    const within = notUp('STORE_UNAVAILABLE');
    let tries = 0;
    const factory: StoreFactory = {
      engine: 'memory',
      open: () => Promise.reject(new LastoutError(++tries < 3 ? 'STORE_UNAVAILABLE' : 'STORE_DENIED', 'No.')),
    };
    const opening = open(factory, { waitFor: '30s', clock: within.clock });
    opening.catch(() => undefined);
    await within.clock.advance('2s');
    expect(await codeOf(opening)).toBe('STORE_DENIED');
  });
});

/** Opening has failed once and waits; then the store comes up, and can be used. */
async function waiting(where: string | StoreFactory): Promise<{ isUp(): Promise<void> }> {
  let told = (): void => undefined;
  const hasFailed = new Promise<void>((resolve) => (told = resolve));
  const { logger } = recordingLogger();
  const opening = open(where, { waitFor: '60s', logger: { ...logger, warn: () => told() } });
  await Promise.race([hasFailed, opening]);
  return {
    async isUp() {
      const queue = closedAfterwards(await opening);
      expect(await queue.enqueue('mail', 1)).toMatchObject({ outcome: 'created' });
    },
  };
}

describe('waitFor is a duration', () => {
  it.each([-1, '30', 'soon', null, {}, Number.NaN])('%j is refused', async (waitFor) => {
    await expectCode('INVALID_DURATION', () => open('memory:', { waitFor: waitFor as never }));
  });
});

eachStore((on) => {
  it('a store that is up is opened at once', async () => {
    const queue = await on.open({ waitFor: '30s' });
    expect(await queue.enqueue('mail', 1)).toMatchObject({ outcome: 'created' });
  });
});

describeOn('sqlite', 'waitFor on sqlite', () => {
  it('a folder that is not there yet is waited for; without waitFor it is STORE_DENIED as ever', async () => {
    const folder = join(temporaryFolder(), 'later');
    const url = `sqlite:${join(folder, 'jobs.db')}`;
    await expectCode('STORE_DENIED', () => open(url));
    await expectCode('STORE_DENIED', () => open(url, { waitFor: 50 }));
    const opening = await waiting(url);
    mkdirSync(folder);
    await opening.isUp();
  });

  it('a file that another program has locked is waited for', async () => {
    const file = join(temporaryFolder(), 'jobs.db');
    const { DatabaseSync } = await loadDriver();
    const other = new DatabaseSync(file);
    onTestFinished(() => void other.close());
    other.exec('create table theirs (a); begin exclusive');
    const store = () => sqliteStore({ file }, { lockWaitMs: 50 });
    await expectCode('STORE_UNAVAILABLE', () => open(store()));
    const opening = await waiting(store());
    other.exec('commit');
    await opening.isUp();
  });

  it('a file that is no database, and one that may not be opened, is told at once', async () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'notes.txt'), 'This is no database, and it will not become one.'.repeat(100));
    const none = await expectCode('STORE_UNAVAILABLE', () =>
      open(`sqlite:${join(folder, 'notes.txt')}`, { waitFor: '1h' }),
    );
    expect(none.message).toContain('not an SQLite database');
    await expectCode('STORE_DENIED', () => open(`sqlite:${folder}`, { waitFor: '1h' }));
  });
});

describeOn('postgres', 'waitFor on postgres', () => {
  it('a server that is started later is waited for', async () => {
    const server = await privatePostgres({ durable: false });
    await server.stop('immediate');
    const opening = await waiting(server.url);
    await server.start();
    await opening.isUp();
  });

  it('a wrong password and a database that does not exist are told at once', async () => {
    const url = await emptyPostgres();
    for (const [part, value] of [
      ['password', 'wrong'],
      ['pathname', '/nowhere'],
    ] as const) {
      const wrong = new URL(url);
      wrong[part] = value;
      await expectCode('STORE_DENIED', () => open(wrong.href, { waitFor: '1h' }));
    }
  });
});

describeOn('redis', 'waitFor on redis', () => {
  it('a server that is started later is waited for', async () => {
    const server = await privateRedis();
    await server.stop();
    const opening = await waiting(server.url);
    await server.start();
    await opening.isUp();
  });

  it('a wrong password and a key of another program are told at once', async () => {
    const url = await emptyRedis();
    const denied = Object.assign(new URL(url), { password: 'wrong' }).href;
    await expectCode('STORE_DENIED', () => open(denied, { waitFor: '1h' }));
    const { Redis } = await import('ioredis');
    const client = new Redis(url);
    onTestFinished(() => client.disconnect());
    await client.lpush('{lastout}:born', 'theirs');
    await expectCode('STORE_UNAVAILABLE', () => open(url, { waitFor: '1h' }));
  });
});
