// With `replicas`, what a caller is told has reached the replicas: those that are asked for, and those that may take over.
import { Cluster, Redis } from 'ioredis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { noFilter, type ClaimRequest, type Store, type StoredJob } from '../../src/core/store.js';
import { LastoutError, open, type OpenOptions, type Queue } from '../../src/index.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { describeOn, emptyStore, engines } from '../engines.js';
import { privateRedis, type RedisServer } from '../services.js';
import { codeOf, eventually, killAll, newJob, openStore, plainClient, system } from './redis-support.js';

/** So many times as fast: nobody waits ten seconds here. */
const faster = (times: number): typeof system => ({
  ...system,
  monotonic: () => system.monotonic() * times,
  timer: (ms, ...rest) => system.timer(ms / times, ...rest),
});
const hurried = faster(10);

interface Servers {
  readonly primary: RedisServer;
  readonly replicas: readonly RedisServer[];
}

async function call(server: RedisServer, ...words: [string, ...string[]]): Promise<unknown> {
  const client = new Redis(server.url);
  client.on('error', () => undefined);
  return client.call(...words).finally(() => client.disconnect());
}

const attached = async (primary: RedisServer): Promise<number> =>
  [...String(await call(primary, 'info', 'replication')).matchAll(/state=online/g)].length;

async function follow(replica: RedisServer, primary: RedisServer): Promise<void> {
  const before = await attached(primary);
  await call(replica, 'replicaof', '127.0.0.1', `${primary.port}`);
  await eventually('the replica follows', async () => (await attached(primary)) === before + 1);
  // One that is still loading what it was sent counts as online, and acknowledges nothing.
  const client = plainClient(primary.url);
  await client.set('followed', 'yes');
  expect(await client.wait(before + 1, 20_000)).toBe(before + 1);
}

async function startServers(count: number): Promise<Servers> {
  const settings = { 'repl-diskless-sync-delay': 0 };
  const primary = await privateRedis({ settings });
  const { password } = primary;
  const replicas: RedisServer[] = [];
  for (let n = 0; n < count; n++) {
    const replica = await privateRedis({ password, settings: { ...settings, masterauth: password } });
    await follow(replica, primary);
    replicas.push(replica);
  }
  return { primary, replicas };
}

/** It stays attached and acknowledges nothing. */
function freeze(replica: RedisServer): () => void {
  process.kill(replica.pid()!, 'SIGSTOP');
  const thaw = (): void => void process.kill(replica.pid()!, 'SIGCONT');
  onTestFinished(thaw);
  return thaw;
}

const replicated = ({ url }: RedisServer, by = hurried): Promise<Store> =>
  openStore({ url }, { system: by, replicas: 1 });

async function openQueue(url: string, options: OpenOptions): Promise<Queue> {
  const queue = await open(url, options);
  onTestFinished(async () => void (await queue.close({ grace: 0 })));
  return queue;
}

const insert = (store: Store, id: string) => store.insert([newJob({ id })], { atomic: false });
async function find(store: Store): Promise<string[]> {
  const { jobs } = await store.find({ filter: noFilter, cursor: null, limit: 10 });
  return jobs.map(({ id }: StoredJob) => id).sort();
}
const request: ClaimRequest = {
  owner: 'worker',
  types: [newJob({}).type],
  queues: null,
  slots: 1,
  ahead: 0,
  leaseMs: 60_000,
  maxStalls: 3,
};

describeOn('redis', 'with replicas', () => {
  it('what callers rely on is told when a replica has it, and is RESULT_UNKNOWN when none has it in time', async () => {
    const { primary, replicas } = await startServers(1);
    const store = await replicated(primary);
    await insert(store, 'first');
    await insert(store, 'second');
    const { jobs, epoch } = await store.claim({ ...request, slots: 2 });
    expect(jobs).toHaveLength(2);
    const [settled, again] = jobs.map(({ id }) => ({ id, epoch, ending: { kind: 'complete', result: '1' } }) as const);
    const settle = (settlement: typeof settled) =>
      store.settle({ owner: 'worker', settlements: [settlement!], started: [], next: null });
    await settle(settled);

    freeze(replicas[0]!);
    const move = { kind: 'cancel', reason: 'no' } as never;
    const unknown = [
      insert(store, 'third'),
      store.claim(request),
      settle(again),
      store.pause('mail', true),
      store.fence('trip:1', { reason: 'over', forMs: 1_000 }),
      store.move({ filter: { ...noFilter, ids: ['third'] }, move, dryRun: false, cursor: null, limit: 1 }),
    ];
    // What is done again anyhow does not wait.
    await store.extend({ owner: 'worker', leaseMs: 60_000, claims: [], card: null });
    await store.note('worker', []);
    const codes = await Promise.all(unknown.map(codeOf));
    expect(codes).toEqual(unknown.map(() => 'RESULT_UNKNOWN'));
  });

  it('looking it up does not say that it is there before a replica has it, whatever connection asks', async () => {
    const { primary, replicas } = await startServers(1);
    const store = await replicated(primary);
    const thaw = freeze(replicas[0]!);
    expect(await codeOf(insert(store, 'one'))).toBe('RESULT_UNKNOWN');
    const careless = await openStore({ url: primary.url });
    expect(await find(careless)).toEqual(['one']);
    expect(await codeOf(find(store))).toBe('STORE_UNAVAILABLE');
    await killAll(plainClient(primary.url), primary.url);
    expect(await codeOf(find(store))).toBe('STORE_UNAVAILABLE');
    expect(await codeOf(store.readClaims('worker'))).toBe('STORE_UNAVAILABLE');
    // It is there, so nothing is written; but that it is there must not be told yet.
    await killAll(plainClient(primary.url), primary.url);
    expect(await codeOf(insert(store, 'one'))).toBe('RESULT_UNKNOWN');
    thaw();
    expect(await find(store)).toEqual(['one']);
    freeze(replicas[0]!);
    expect(await find(store), 'nothing is uncertain any more').toEqual(['one']);
  });

  it('a queue waits for a replica that comes back in time, and nobody notices', async () => {
    const { primary, replicas } = await startServers(1);
    const queue = await openQueue(primary.url, { replicas: 1 });
    const careless = await openStore({ url: primary.url });
    const thaw = freeze(replicas[0]!);
    let isTold = false;
    const enqueued = queue.enqueue('mail', null).finally(() => (isTold = true));
    await eventually('it is stored', async () => (await find(careless)).length === 1);
    expect(isTold).toBe(false);
    thaw();
    expect(await enqueued).toMatchObject({ outcome: 'created' });
  });

  describe('a second replica, which may take over', () => {
    const leaving: readonly (readonly [string, (replica: RedisServer) => unknown])[] = [
      ['was promoted or has died', (replica) => call(replica, 'replicaof', 'no', 'one')],
      ['is behind', freeze],
    ];
    it.each(leaving)('%s: it is waited for, and after five seconds given up', async (_, leave) => {
      const { primary, replicas } = await startServers(2);
      const slower = faster(2);
      const store = await replicated(primary, slower);
      await insert(store, 'before');
      await leave(replicas[0]!);
      const began = slower.monotonic();
      await insert(store, 'after');
      expect(slower.monotonic() - began).toBeGreaterThanOrEqual(5_000);
      const again = slower.monotonic();
      await insert(store, 'later');
      expect(slower.monotonic() - again).toBeLessThan(5_000);
    });

    it('was promoted, and the other one follows it: nothing that came later is acknowledged', async () => {
      const { primary, replicas } = await startServers(2);
      const store = await replicated(primary);
      await insert(store, 'before');
      await call(replicas[0]!, 'replicaof', 'no', 'one');
      const inserted = codeOf(insert(store, 'after'));
      await eventually('the other one has it', async () => {
        const [, keys] = (await call(replicas[1]!, 'scan', '0')) as [string, string[]];
        return keys.length > 0 && (await attached(primary)) === 1;
      });
      await follow(replicas[1]!, replicas[0]!);
      expect(await inserted).toBe('RESULT_UNKNOWN');
    });
  });

  it('an idle worker writes nothing', async () => {
    const { primary } = await startServers(1);
    const store = await openStore({ url: primary.url }, { replicas: 1 });
    await insert(store, 'one');
    const writes = async () =>
      /^cmdstat_set:calls=(\d+)/m.exec(String(await call(primary, 'info', 'commandstats')))?.[1];
    const before = await writes();
    for (let n = 0; n < 20; n++) await store.claim({ ...request, types: ['none'] });
    expect(await writes()).toBe(before);
  });
});

describeOn('redis', 'health about replicas', () => {
  it('says replicated where they are waited for, and warns where they are not, or where there are too few', async () => {
    const { primary } = await startServers(1);
    const codes = async (queue: Queue): Promise<readonly string[]> =>
      (await queue.health()).warnings.map(({ code }) => code).filter((code) => code.includes('REPLICAS'));
    const careless = await openQueue(primary.url, {});
    expect(await careless.health()).toMatchObject({ ok: true, durability: 'process' });
    expect(await codes(careless)).toEqual(['REPLICAS_NOT_AWAITED']);
    const careful = await openQueue(primary.url, { replicas: 1 });
    expect(await careful.health()).toMatchObject({ ok: true, durability: 'replicated' });
    expect(await codes(careful)).toEqual([]);
    const demanding = await openQueue(primary.url, { replicas: 2 });
    expect(await demanding.health()).toMatchObject({ ok: false, durability: 'replicated' });
    expect(await codes(demanding)).toEqual(['TOO_FEW_REPLICAS']);
  });
});

describe('the option replicas', () => {
  it.each([0, -1, 1.5, 101, '1', null, Number.NaN])('%j is refused', async (replicas) => {
    expect(await codeOf(open('memory:', { replicas } as never))).toBe('INVALID_LIMIT');
  });

  it.each(engines.filter((engine) => engine !== 'redis'))('is refused in words on %s', async (engine) => {
    const store = (await emptyStore[engine]()).connect();
    await expect(open(store, { replicas: 1 })).rejects.toThrow(/replicas is for Redis, .*leave it out/);
    expect(await codeOf(open(store, { replicas: 1 }))).toBe('UNKNOWN_OPTION');
  });

  describeOn('redis', 'on Redis', () => {
    it('is refused in words for a cluster, and before a job comes where the user may not wait', async () => {
      const node = await privateRedis({ cluster: true });
      const cluster = new Cluster([{ host: '127.0.0.1', port: node.port }], {
        redisOptions: { password: node.password },
      });
      onTestFinished(() => cluster.disconnect());
      await expect(open(redisStore({ client: cluster }), { replicas: 1 })).rejects.toThrow(/client is of a cluster/);

      const server = await privateRedis();
      const may = ['~{lastout}:*', '&{lastout}:hints', '+@all', '-@admin', '-@dangerous', '+info']; // as docs/stores.md says
      await call(server, 'acl', 'setuser', 'jobs', 'on', '>secret', ...may);
      await call(server, 'acl', 'setuser', 'other', 'on', '>secret', ...may, '-wait');
      const as = (user: string): string => `redis://${user}:secret@127.0.0.1:${server.port}`;
      expect((await (await openQueue(as('jobs'), { replicas: 1 })).health()).durability).toBe('replicated');
      const error: unknown = await open(as('other'), { replicas: 1 }).catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(LastoutError);
      expect((error as LastoutError).code).toBe('STORE_DENIED');
    });
  });
});
