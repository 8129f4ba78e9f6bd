// The connection beside the pool: what it hears, when it is there, and what it costs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import type { System } from '../../src/core/system.js';
import { defineJob, open, type Queue } from '../../src/index.js';
import type { Ear } from '../../src/stores/postgres/listen.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { type PostgresOptions, type PostgresSource, serverOf } from '../../src/stores/postgres/server.js';
import { createSystem } from '../../src/system.js';
import { fakeClock } from '../../src/testing/index.js';
import { emptyPostgres, postgresUrl } from '../services.js';
import { closedAfterwards } from '../support.js';
import { newJob } from './new-job.js';
import { cutOff, eventually, named, pidsOf, plainClient, plainPool, system, throughWire } from './postgres-support.js';

async function earOn(source: PostgresSource, options: PostgresOptions = {}, by: System = system): Promise<Ear> {
  const server = await serverOf(source, options)(by);
  onTestFinished(async () => void (await Promise.all([server.pool.end(), server.ear.end()])));
  return server.ear;
}

/** Listens, and writes down what it hears. */
function hearing(ear: Ear, channel: string) {
  const heard: (string | null)[] = [];
  const stop = ear.listen(channel, (payload) => void heard.push(payload));
  return { heard, stop, listens: () => eventually(`it listens to ${channel}`, () => heard.includes(null)) };
}

test('who listens while the connection is made for another reason, or is there already, is heard and told so', async () => {
  const client = await plainClient(postgresUrl());
  const [a, b] = [system.id(), system.id()];
  const ear = await earOn({ url: postgresUrl() });
  const asked = ear.isAtWork(1);
  const meanwhile = hearing(ear, a);
  expect(await asked).toBe(false);
  await meanwhile.listens();
  const later = hearing(ear, b);
  await later.listens();
  await client.query('select pg_notify($1, $2), pg_notify($3, $2)', [a, 'x', b]);
  await eventually('both have heard', () => meanwhile.heard.includes('x') && later.heard.includes('x'));
});

test('what is sent to a channel is heard by all who listen to it, and by nobody else', async () => {
  const client = await plainClient(postgresUrl());
  const [a, b] = [system.id(), system.id()];
  const ear = await earOn({ url: postgresUrl() });
  const [one, two, other] = [hearing(ear, a), hearing(ear, a), hearing(ear, b)];
  await one.listens();
  await other.listens();
  await client.query('select pg_notify($1, $2), pg_notify($3, $4)', [a, 'x', b, '']);
  await eventually('all have heard', () => other.heard.includes('') && two.heard.includes('x'));
  expect(one.heard.filter((payload) => payload !== null)).toEqual(['x']);
  expect(two.heard.filter((payload) => payload !== null)).toEqual(['x']);
  expect(other.heard.filter((payload) => payload !== null)).toEqual(['']);
});

test('which jobs a step has ended as STALLED is for its caller alone', async () => {
  const url = await emptyPostgres();
  const clock = fakeClock();
  const told: string[] = [];
  const context = { system: createSystem(clock), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
  const stalled = (jobs: readonly { id: string }[]): void => void told.push(...jobs.map(({ id }) => id));
  const store = await postgresStore({ url }).open({ ...context, stalled });
  onTestFinished(() => store.close());
  const { heard, listens } = hearing(await earOn({ url }), 'lastout');
  await listens();
  await store.insert([newJob({ id: 'poisoned' })], { atomic: false });
  const request = { owner: 'one', types: ['mail'], queues: null, slots: 1, ahead: 0, leaseMs: 1_000, maxStalls: 1 };
  expect((await store.claim(request)).jobs).toHaveLength(1);
  await clock.advance(1_000);
  await store.sweep({ limit: 10, cleanup: null });
  expect(told).toEqual(['poisoned']);
  const lines = () => heard.flatMap((payload) => payload?.replace(/^\S+ /, '') ?? []);
  await eventually('others hear of the insert, the claim and the sweep', () => lines().length === 3);
  expect(lines()).toEqual(['r:mail e', 'e', 'e']);
});

test('it is there only while somebody listens', async () => {
  const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
  const ear = await earOn({ url: named(postgresUrl(), name) });
  const count = async () => (await pidsOf(watcher, name)).length;
  expect(await count()).toBe(0);
  const [one, two] = [hearing(ear, 'a'), hearing(ear, 'b')];
  await one.listens();
  expect(await count()).toBe(1);
  one.stop();
  expect(await count()).toBe(1);
  two.stop();
  await eventually('it is gone', async () => (await count()) === 0);
  const again = hearing(ear, 'a');
  await again.listens();
  expect(await count()).toBe(1);
});

test.each([
  ['works', async (queue: Queue) => void (await queue.work([defineJob('mail', { run: () => null })]))],
  ['follows', async (queue: Queue) => void queue.on('completed', () => undefined)],
  ['waits', async (queue: Queue) => void queue.wait((await queue.enqueue('mail', 2)).id).catch(() => undefined)],
])('a process that only enqueues has none, until it %s', async (_, begin) => {
  const url = await emptyPostgres();
  const [name, watcher] = [system.id(), await plainClient(url)];
  const queue = closedAfterwards(await open(named(url, name)));
  const text = `select 1 from pg_stat_activity where application_name = $1 and query like 'listen %'`;
  const count = async () => (await watcher.query(text, [name])).rows.length;
  await queue.enqueue('mail', 1);
  await queue.schedule('daily', 'mail', 1, { every: '1d' });
  await new Promise((resolve) => setTimeout(resolve, 100)); // who listens from the start would do so by now
  expect(await count()).toBe(0);
  await begin(queue);
  await eventually('it listens', async () => (await count()) === 1);
});

test('a channel that nobody listens to any more is not heard', async () => {
  const client = await plainClient(postgresUrl());
  const [a, b] = [system.id(), system.id()];
  const ear = await earOn({ url: postgresUrl() });
  const [one, two] = [hearing(ear, a), hearing(ear, b)];
  await one.listens();
  await two.listens();
  one.stop();
  await client.query('select pg_notify($1, $2), pg_notify($3, $4)', [a, 'x', b, 'y']);
  await eventually('the other was heard', () => two.heard.includes('y'));
  expect(one.heard).not.toContain('x');
});

test('a lost one comes back by itself, and says that something may have been missed', async () => {
  const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
  const ear = await earOn({ url: named(postgresUrl(), name) });
  const { heard, listens } = hearing(ear, name);
  await listens();
  for (let round = 2; round < 5; round++) {
    await cutOff(watcher, name);
    await eventually('it listens again', () => heard.filter((payload) => payload === null).length === round);
    await watcher.query('select pg_notify($1, $2)', [name, `round ${round}`]);
    await eventually('it hears again', () => heard.includes(`round ${round}`));
  }
});

test('one that went silently is noticed by asking it', async () => {
  const wire = await throughWire(postgresUrl());
  const clock = fakeClock();
  // The clock decides when it is asked; how long the answer may take is as long as it takes.
  const ear = await earOn(
    { url: wire.url },
    {},
    { ...createSystem(clock), timer: patient, awaiting: (answer) => answer },
  );
  function patient(ms: number, callback: () => void): () => void {
    return ms === 30_000 ? clock.timer(ms, callback) : system.timer(ms / 10, callback);
  }
  const { heard, listens } = hearing(ear, 'a');
  await listens();
  wire.silence();
  wire.heal();
  await clock.advance('30s');
  await eventually('it listens again', () => heard.filter((payload) => payload === null).length === 2);
});

test('a server that is away is asked less and less often', async () => {
  const wire = await throughWire(postgresUrl());
  const clock = fakeClock();
  let tried = 0;
  const server = await serverOf({ url: wire.url }, {})({ ...createSystem(clock), awaiting });
  onTestFinished(async () => void (await Promise.all([server.pool.end(), server.ear.end()])));
  function awaiting<T>(answer: Promise<T>): Promise<T> {
    tried += 1;
    clock.awaiting(answer);
    return answer;
  }
  const { listens } = hearing(server.ear, 'a');
  await listens();
  const before = tried;
  await wire.close();
  await clock.advance('1m');
  expect(tried - before).toBeGreaterThan(10);
  expect(tried - before).toBeLessThan(40);
});

test('it can be told not to be there', async () => {
  const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
  const ear = await earOn({ url: named(postgresUrl(), name) }, { listen: false });
  const { heard, stop } = hearing(ear, name);
  await watcher.query('select pg_notify($1, $2)', [name, 'x']);
  await expect(ear.isAtWork(1)).rejects.toThrow();
  expect(await pidsOf(watcher, name)).toEqual([]);
  expect(heard).toEqual([]);
  stop();
});

test('beside a given pool it is made as the pool makes its own, and takes none of them', async () => {
  const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
  const pool = plainPool(named(postgresUrl(), name), { max: 1 });
  const ear = await earOn({ pool });
  const { heard, listens } = hearing(ear, name);
  await listens();
  expect(pool.idleCount).toBe(pool.totalCount);
  expect(await pidsOf(watcher, name)).toHaveLength(2);
  await pool.query('select pg_notify($1, $2)', [name, 'x']);
  await eventually('it is heard', () => heard.includes('x'));
});

test('behind a pooler it does not listen: the session would be given to others', async () => {
  const [name, watcher] = [system.id(), await plainClient(postgresUrl())];
  const pool = plainPool(named(postgresUrl(), name), { max: 1 });
  const Client = (pool as unknown as { Client: new (config: object) => { processID: number | null } }).Client;
  class Pooled extends Client {
    constructor(config: object) {
      super(config);
      // A pooler makes one up.
      Object.defineProperty(this, 'processID', { get: () => 1, set: () => undefined });
    }
  }
  Object.assign(pool, { Client: Pooled });
  const ear = await earOn({ pool });
  const { heard } = hearing(ear, name);
  await eventually('it has come and gone', async () => (await pidsOf(watcher, name)).length === 1);
  await pool.query('select pg_notify($1, $2)', [name, 'x']);
  expect(heard).toEqual([]);
});

test('whether the server is at work for a connection can be asked', async () => {
  const [client, busy] = [await plainClient(postgresUrl()), await plainClient(postgresUrl())];
  const pidOf = async (of: typeof client) => (await of.query('select pg_backend_pid() as pid')).rows[0].pid as number;
  const [idlePid, busyPid] = [await pidOf(client), await pidOf(busy)];
  const ear = await earOn({ url: postgresUrl() });
  const sleep = busy.query('select pg_sleep(0.5)');
  await eventually('it sleeps', async () => await ear.isAtWork(busyPid));
  expect(await ear.isAtWork(idlePid)).toBe(false);
  expect(await ear.isAtWork(0)).toBe(false);
  await sleep;
  await eventually('it is over', async () => !(await ear.isAtWork(busyPid)));
});

test('it keeps no process alive', async () => {
  const program = `
    import { serverOf } from './src/stores/postgres/server.ts';
    import { createSystem } from './src/system.ts';
    const { ear } = await serverOf({ url: process.argv[1] }, {})(createSystem());
    const alive = setInterval(() => undefined, 1_000);
    await new Promise((resolve) => void ear.listen('a', resolve));
    clearInterval(alive);
    console.log('listens');
  `;
  const cwd = fileURLToPath(new URL('../..', import.meta.url));
  const args = ['--import', 'tsx', '--input-type=module', '--eval', program, postgresUrl()];
  const child = spawn(process.execPath, args, { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  let said = '';
  child.stdout.on('data', (bytes) => void (said += String(bytes)));
  const [code] = (await once(child, 'close')) as [number];
  expect([code, said.trim()]).toEqual([0, 'listens']);
});
