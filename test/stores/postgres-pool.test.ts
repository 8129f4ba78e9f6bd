// Connections: how many there are, what becomes of a statement when one is lost, and how lost ones come back.
import type { Client } from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { LastoutError } from '../../src/index.js';
import type { System } from '../../src/core/system.js';
import type { Connection } from '../../src/stores/postgres/connection.js';
import { types } from '../../src/stores/postgres/driver.js';
import { createPool } from '../../src/stores/postgres/pool.js';
import { createRun, doubtMs, type Run } from '../../src/stores/postgres/run.js';
import { type PostgresOptions, type PostgresSource, serverOf } from '../../src/stores/postgres/server.js';
import { createSystem } from '../../src/system.js';
import { fakeClock } from '../../src/testing/index.js';
import { postgresUrl } from '../services.js';
import { expectCode } from '../support.js';
import { cutOff, eventually, named, pidsOf, plainClient, plainPool, system, throughWire } from './postgres-support.js';

const reconnects = Number(process.env.LASTOUT_RECONNECTS ?? 200);

/** Its waits are a hundredth as long, once it is told to hurry. */
function hurrying(): System & { hurry(): void } {
  let part = 1;
  const timer: System['timer'] = (ms, callback, hold) => system.timer(ms * part, callback, hold);
  return { ...system, timer, hurry: () => void (part = 0.01) };
}

async function runOn(source: PostgresSource, options: PostgresOptions = {}, by = system): Promise<Run> {
  const server = await serverOf(source, options)(by);
  onTestFinished(async () => void (await Promise.all([server.pool.end(), server.ear.end()])));
  return createRun({ ...server, system: by });
}

const reading = async (run: Run, text: string): Promise<unknown> =>
  (await run(() => ({ text, rowMode: 'array', types }), 'reading'))[0]?.[0];
const writing = async (run: Run, text: string): Promise<unknown> =>
  (await run(() => ({ text, rowMode: 'array', types }), 'writing'))[0]?.[0];

/** An empty table with one column n, gone after the test. */
async function table(): Promise<{ name: string; count(): Promise<number> }> {
  const name = `t_${system.id()}`;
  const client = await plainClient(postgresUrl());
  await client.query(`create table ${name} (n int)`);
  onTestFinished(async () => void (await client.query(`drop table ${name}`)));
  const count = async () => Number((await client.query(`select count(*) from ${name}`)).rows[0].count);
  return { name, count };
}

describe('how many', () => {
  test.each([
    [{}, 4],
    [{ max: 1 }, 1],
    [{ max: 7 }, 7],
  ])('with %j fifty statements at once share at most %i connections', async (options, most) => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const run = await runOn({ url: named(postgresUrl(), name) }, options);
    // Nobody gets past the door before as many have come as ever will.
    const door = `${1_000 + most}`;
    await watcher.query(`select pg_advisory_lock(${door})`);
    const answers = Promise.all(
      Array.from({ length: 50 }, (_, index) =>
        reading(run, `select ${index} from pg_advisory_xact_lock_shared(${door})`),
      ),
    );
    await eventually('all have come', async () => (await pidsOf(watcher, name)).length === most);
    await watcher.query(`select pg_advisory_unlock(${door})`);
    expect(await answers).toEqual(Array.from({ length: 50 }, (_, index) => index));
    expect(await pidsOf(watcher, name)).toHaveLength(most);
  });

  test('a server that allows fewer is used with those it allows', async () => {
    const [role, admin] = [`r_${system.id().toLowerCase()}`, await plainClient(postgresUrl())];
    await admin.query(`create role ${role} login password 'pw' connection limit 2`);
    onTestFinished(async () => {
      await eventually('all are gone', async () => (await pidsOf(admin, role)).length === 0);
      await admin.query(`drop role ${role}`);
    });
    const url = Object.assign(new URL(named(postgresUrl(), role)), { username: role, password: 'pw' });
    const run = await runOn({ url: url.href }, { max: 6, listen: false });
    const answers = await Promise.all(Array.from({ length: 20 }, () => reading(run, 'select 1 from pg_sleep(0.005)')));
    expect(answers).toEqual(Array.from({ length: 20 }, () => 1));
    await run(() => ({ text: 'select 1' }), 'reading');
    expect((await pidsOf(admin, role)).length).toBeLessThanOrEqual(2);
  });

  test('who waits too long for one is told that nothing was sent', async () => {
    const { name, count } = await table();
    const by = hurrying();
    const run = await runOn({ url: postgresUrl() }, { max: 1 }, by);
    await reading(run, 'select 1');
    const long = reading(run, 'select 1 from pg_sleep(0.5)');
    await new Promise((resolve) => setImmediate(resolve)); // it is under way, and is not to be hurried
    by.hurry();
    const { message } = await expectCode('STORE_UNAVAILABLE', () => writing(run, `insert into ${name} values (1)`));
    expect(message).toContain('all 1 connections were busy');
    await long;
    expect(await count()).toBe(0);
  });

  test('all are gone when the store is closed, also those in use and those on their way', async () => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const brief = { ...system, timer: (ms: number, callback: () => void) => system.timer(ms / 10, callback, 'hold') };
    const { pool } = await serverOf({ url: named(postgresUrl(), name) }, {})(brief);
    const lent = await pool.lend();
    const broken = expectCode('STORE_UNAVAILABLE', async () => {
      await lent.client.query({ text: 'select pg_sleep(1)' }).catch((error: unknown) => {
        throw new LastoutError('STORE_UNAVAILABLE', String(error));
      });
    });
    const coming = pool.lend().catch((error: unknown) => error);
    await pool.end();
    expect(await coming).toMatchObject({ code: 'CLOSED' });
    await broken;
    await expectCode('CLOSED', () => pool.lend());
    await eventually('all are gone', async () => (await pidsOf(watcher, name)).length === 0);
  });

  test('those that nobody has used for half a minute are closed', async () => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const clock = fakeClock();
    const run = await runOn({ url: named(postgresUrl(), name) }, {}, createSystem(clock));
    await Promise.all([1, 2, 3].map(() => reading(run, 'select 1 from pg_sleep(0.3)')));
    expect(await pidsOf(watcher, name)).toHaveLength(3);
    await clock.advance('20s');
    await reading(run, 'select 1');
    await clock.advance('15s');
    await eventually('the one in use is left', async () => (await pidsOf(watcher, name)).length === 1);
    await clock.advance('2m');
    await eventually('none is left', async () => (await pidsOf(watcher, name)).length === 0);
    expect(await reading(run, 'select 1')).toBe(1);
  });
});

describe('what is set', () => {
  const settings = `select concat_ws(' ', current_setting('statement_timeout'), current_setting('synchronous_commit'),
    current_setting('default_transaction_isolation'), current_setting('jit'), current_setting('application_name'))`;

  test('a statement ends before its caller gives up, and what is acknowledged is on disk, whatever the role says', async () => {
    const [role, admin] = [`r_${system.id().toLowerCase()}`, await plainClient(postgresUrl())];
    await admin.query(`create role ${role} login password 'pw';
      alter role ${role} set synchronous_commit = off; alter role ${role} set default_transaction_isolation = 'serializable'`);
    onTestFinished(async () => void (await admin.query(`drop role ${role}`)));
    const url = Object.assign(new URL(postgresUrl()), { username: role, password: 'pw' });
    const run = await runOn({ url: url.href });
    expect(await reading(run, settings)).toBe('10s on read committed off lastout');
  });

  test('a stronger synchronous_commit stays', async () => {
    const run = await runOn({ url: `${postgresUrl()}?options=-c%20synchronous_commit%3Dremote_apply` });
    expect(await reading(run, `select current_setting('synchronous_commit')`)).toBe('remote_apply');
  });

  test('nothing on the connections of a given pool', async () => {
    const pool = plainPool(postgresUrl());
    const run = await runOn({ pool });
    expect(await reading(run, settings)).toBe((await pool.query(settings)).rows[0].concat_ws);
  });
});

async function sleeping(watcher: Client, name: string): Promise<number> {
  const text = `select 1 from pg_stat_activity where application_name = $1 and wait_event = 'PgSleep'`;
  return (await watcher.query(text, [name])).rows.length;
}

describe('a lost connection', () => {
  test('that was idle is replaced, and nobody notices', async () => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const run = await runOn({ url: named(postgresUrl(), name) });
    for (let round = 0; round < 5; round++) {
      expect(await Promise.all([1, 2, 3].map((n) => reading(run, `select ${n}`)))).toEqual([1, 2, 3]);
      expect(await cutOff(watcher, name)).toBeGreaterThan(0);
    }
  });

  test('that the server cuts during a statement has taken it back: it is done again, once', async () => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const { name: into, count } = await table();
    const run = await runOn({ url: named(postgresUrl(), name) }, { max: 1 });
    const written = writing(run, `insert into ${into} select 1 from pg_sleep(0.3) returning n`);
    await eventually('it is at work', async () => (await sleeping(watcher, name)) === 1);
    await cutOff(watcher, name);
    expect(await written).toBe(1);
    expect(await count()).toBe(1);
  });

  test('that is reset while a write is under way leaves it unknown; a read is asked again', async () => {
    const wire = await throughWire(postgresUrl());
    const { name } = await table();
    const [own, watcher] = [system.id(), await plainClient(postgresUrl())];
    const run = await runOn({ url: named(wire.url, own) }, { max: 2 });
    const unknown = expectCode('RESULT_UNKNOWN', () => writing(run, `insert into ${name} select 1 from pg_sleep(0.5)`));
    const read = reading(run, 'select 2 from pg_sleep(0.5)');
    await eventually('both are at work', async () => (await sleeping(watcher, own)) === 2);
    wire.cut();
    const { message, cause } = await unknown;
    expect(message).toContain('Look before you repeat it');
    expect(cause).toBeInstanceOf(Error);
    expect(await read).toBe(2);
  });

  test('that went silently is noticed in seconds, because the server is asked about it', async () => {
    const wire = await throughWire(postgresUrl());
    const { name } = await table();
    const run = await runOn({ url: wire.url }, { max: 2 }, { ...system, timer: doubtful });
    expect(await reading(run, 'select 1')).toBe(1);
    wire.silence();
    const write = expectCode('RESULT_UNKNOWN', () => writing(run, `insert into ${name} values (1)`));
    wire.heal();
    await write;
    expect(await reading(run, 'select 2')).toBe(2);
  });

  test('is not suspected while the server works on its statement', async () => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const run = await runOn({ url: named(postgresUrl(), name) }, { max: 1 }, { ...system, timer: doubtful });
    expect(await reading(run, 'select 1 from pg_sleep(0.5)')).toBe(1);
    expect((await pidsOf(watcher, name)).length).toBeLessThanOrEqual(2);
  });

  /** Doubts early, and gives up as late as ever. */
  function doubtful(ms: number, callback: () => void, hold?: 'hold'): () => void {
    return system.timer(ms === doubtMs ? 50 : ms, callback, hold);
  }

  test(`${reconnects} times over: the connections, sockets and timers stay as many`, async () => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const server = await serverOf({ url: named(postgresUrl(), name) }, { max: 2 })(system);
    onTestFinished(async () => void (await Promise.all([server.pool.end(), server.ear.end()])));
    const run = createRun({ ...server, system });
    let heard = 0;
    onTestFinished(server.ear.listen(name, () => void (heard += 1)));
    const most = { pids: 0, sockets: 0, timers: 0 };
    const first = resources();
    for (let round = 1; round <= reconnects; round++) {
      await Promise.all([reading(run, 'select 1'), reading(run, 'select 1'), reading(run, 'select 1')]);
      await eventually('it listens again', () => heard >= round);
      const pids = await pidsOf(watcher, name);
      most.pids = Math.max(most.pids, pids.length);
      most.sockets = Math.max(most.sockets, resources().sockets - first.sockets);
      most.timers = Math.max(most.timers, resources().timers - first.timers);
      await cutOff(watcher, name);
    }
    expect(most.pids).toBe(3);
    expect(most.sockets).toBeLessThanOrEqual(3);
    expect(most.timers).toBeLessThanOrEqual(10);
  }, 120_000);
});

function resources(): { sockets: number; timers: number } {
  const all = process.getActiveResourcesInfo();
  const count = (name: RegExp): number => all.filter((one) => name.test(one)).length;
  return { sockets: count(/TCP|TLS/), timers: count(/Timeout/) };
}

describe('coming back', () => {
  /** A pool whose connections are as good as the test says, by a clock that stands still. */
  function poolOf(connect: () => Promise<Connection>) {
    const clock = fakeClock();
    const pool = createPool({ max: 3, where: 'The server', system: createSystem(clock), connect });
    return { clock, pool };
  }

  test('a server that refuses is asked one at a time, less and less often, and at least every second', async () => {
    const tried: number[] = [];
    const { clock, pool } = poolOf(() => {
      tried.push(clock.monotonic());
      return Promise.reject(new Error('refused'));
    });
    const callers = Array.from({ length: 10 }, async () => {
      for (let tries = 0; tries < 8; tries++) await expect(pool.lend()).rejects.toThrow('refused');
    });
    await clock.advance('20s');
    await Promise.all(callers);
    await pool.end();
    const waits = tried.slice(1).map((at, index) => at - tried[index]!);
    const later = waits.filter((ms) => ms > 0);
    expect(later.length).toBeGreaterThanOrEqual(7);
    expect(tried.length).toBeLessThanOrEqual(later.length + 3);
    expect(Math.max(...later)).toBeLessThanOrEqual(1_000);
    expect(later.at(-1)).toBeGreaterThanOrEqual(500);
    expect(clock.pendingTimers).toBe(0);
  });

  test('a call is told what one attempt after it came to, not that of an earlier one', async () => {
    let up = false;
    const { clock, pool } = poolOf(() => (up ? Promise.resolve(made()) : Promise.reject(new Error('refused'))));
    await expect(pool.lend()).rejects.toThrow('refused');
    up = true;
    const lent = pool.lend();
    await clock.advance('1s');
    expect((await lent).pid).toBe(7);
    (await lent).giveBack(false);
    await pool.end();
  });

  test('a server that was there before is waited for, four seconds at most', async () => {
    let up = true;
    let lose!: () => void;
    const { clock, pool } = poolOf(() => {
      const connection = { ...made(), onLost: (callback: () => void) => void (lose = callback) };
      return up ? Promise.resolve(connection) : Promise.reject(new Error('refused'));
    });
    (await pool.lend()).giveBack(false);
    up = false;
    lose();
    const vain = pool.lend().catch((error: Error) => error.message);
    await clock.advance('4s');
    expect(await vain).toBe('refused');
    const patient = pool.lend();
    await clock.advance('2s');
    up = true;
    await clock.advance('1s');
    expect((await patient).pid).toBe(7);
    const closing = pool.end();
    await clock.advance('1s');
    await closing;
  });

  test('a server that refuses the login is not waited for', async () => {
    let refusal: LastoutError | null = null;
    let lose!: () => void;
    const { pool } = poolOf(() => {
      const connection = { ...made(), onLost: (callback: () => void) => void (lose = callback) };
      return refusal ? Promise.reject(refusal) : Promise.resolve(connection);
    });
    (await pool.lend()).giveBack(false);
    refusal = new LastoutError('STORE_DENIED', 'no longer');
    lose();
    await expectCode('STORE_DENIED', () => pool.lend());
    await pool.end();
  });

  function made(): Connection {
    const client = { ref: () => undefined, unref: () => undefined } as unknown as Connection['client'];
    return { client, pid: 7, isLost: false, onLost: () => undefined, close: async () => undefined };
  }
});

describe('a session that is shared with others', () => {
  const statement = { text: 'select 5', name: 'lastout_test', rowMode: 'array', types } as const;
  const call = async (run: Run): Promise<unknown> =>
    (await run((isOwn) => (isOwn ? statement : { text: statement.text, rowMode: 'array', types }), 'writing'))[0]?.[0];

  test.each(['deallocate all', 'discard all'])('%s between two calls is survived', async (text) => {
    const run = await runOn({ url: postgresUrl() }, { max: 1 });
    expect(await call(run)).toBe(5);
    await writing(run, text);
    expect(await call(run)).toBe(5);
    expect(await call(run)).toBe(5);
  });

  test('what somebody else has prepared by that name is survived', async () => {
    const run = await runOn({ url: postgresUrl() }, { max: 1 });
    await writing(run, 'prepare lastout_test as select 6');
    expect(await call(run)).toBe(5);
  });

  test('behind a pooler nothing is prepared, and nothing is set that others would get', async () => {
    // A pooler names a process that is not the one which runs the statements.
    const pool = plainPool(postgresUrl(), { max: 1 });
    pool.on('connect', (client) => Object.assign(client, { processID: 1 }));
    const run = await runOn({ pool });
    expect(await call(run)).toBe(5);
    expect(await reading(run, 'select count(*) from pg_prepared_statements')).toBe(0);
  });
});

describe('a given pool', () => {
  test('is used and given back, and lives on after us', async () => {
    const pool = plainPool(postgresUrl(), { max: 2 });
    const server = await serverOf({ pool }, {})(system);
    const run = createRun({ ...server, system });
    await Promise.all([1, 2, 3, 4].map((n) => reading(run, `select ${n}`)));
    await Promise.all([server.pool.end(), server.ear.end()]);
    expect(pool.totalCount - pool.idleCount).toBe(0);
    expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await expectCode('CLOSED', () => server.pool.lend());
  });

  test('leaves nothing on its connections', async () => {
    const pool = plainPool(postgresUrl(), { max: 1 });
    const before = await listeners(pool);
    const run = await runOn({ pool });
    for (let n = 0; n < 20; n++) await reading(run, 'select 1');
    expect(await listeners(pool)).toBe(before);
  });

  async function listeners(pool: ReturnType<typeof plainPool>): Promise<number> {
    const client = await pool.connect();
    const count = client.listenerCount('error');
    client.release();
    return count;
  }

  test('whose connections are lost goes on, also where nobody listens to its errors', async () => {
    const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
    const pool = plainPool(named(postgresUrl(), name), { max: 2 });
    pool.removeAllListeners('error');
    const run = await runOn({ pool });
    for (let round = 0; round < 3; round++) {
      expect(await reading(run, 'select 1')).toBe(1);
      await cutOff(watcher, name);
    }
    expect(await reading(run, 'select 1')).toBe(1);
  });

  test('that has no connection to spare is not waited for without end', async () => {
    const pool = plainPool(postgresUrl(), { max: 1 });
    const by = hurrying();
    const run = await runOn({ pool }, {}, by);
    const held = await pool.connect();
    by.hurry();
    await expectCode('STORE_UNAVAILABLE', () => writing(run, 'select 1'));
    held.release();
    expect(await reading(run, 'select 1')).toBe(1);
    expect(pool.waitingCount).toBe(0);
  });

  test('that was ended is unavailable', async () => {
    const pool = plainPool(postgresUrl());
    const run = await runOn({ pool });
    await pool.end();
    await expectCode('STORE_UNAVAILABLE', () => reading(run, 'select 1'));
    pool.end = () => Promise.resolve();
  });
});
