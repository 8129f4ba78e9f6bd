// Redis Cluster while the slot of a namespace moves to another master: nothing that was acknowledged is lost, and nothing runs on half of the keys.
import { Cluster } from 'ioredis';
import { Cluster as Cluster5 } from 'ioredis-5';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { noFilter } from '../../src/core/store.js';
import { open, type Queue } from '../../src/index.js';
import { redisStore } from '../../src/stores/redis/index.js';
import { expectTrueCounts } from '../crash/afterwards.js';
import { describeOn } from '../engines.js';
import { privateCluster, type RedisCluster } from '../services.js';
import { type Losses, startLoad } from '../topologies/load.js';
import { type Move, moveOf, ownerOf, slotOf } from '../topologies/moving.js';
import { auditKeys } from './redis-audit.js';
import { codeOf, newJob, openStore, system } from './redis-support.js';

let cluster: RedisCluster;

function clusterClient(Client: typeof Cluster | typeof Cluster5 = Cluster): Cluster | Cluster5 {
  const nodes = cluster.masters.map(({ port }) => ({ host: '127.0.0.1', port }));
  const client = new Client(nodes, { redisOptions: { password: cluster.password } });
  client.on('error', () => undefined);
  onTestFinished(() => client.disconnect());
  return client;
}

/** With limits and a cap, because these have scripts and rules of their own. */
async function openQueue(namespace: string, client = clusterClient()): Promise<Queue> {
  const queues = { default: { maxPending: 1_000_000, concurrency: 20 } };
  const queue = await open(redisStore({ client }), { namespace, queues, cleanup: { maxStoredJobs: 1_000_000 } });
  onTestFinished(async () => void (await queue.close({ grace: 0 })));
  return queue;
}

async function moveAway(namespace: string): Promise<Move> {
  const slot = await slotOf(cluster, namespace);
  const from = await ownerOf(cluster, slot);
  const to = cluster.masters.find((node) => node !== from)!;
  const move = await moveOf(cluster, slot, from, to);
  onTestFinished(() => move.close());
  return move;
}

function expectNoLoss({ acknowledged, lost, repeated, overlapped, refused, jobs }: Losses): void {
  expect({ lost, repeated, overlapped, refused }).toEqual({ lost: [], repeated: [], overlapped: [], refused: {} });
  expect(acknowledged).toBeGreaterThan(1_000);
  expect(jobs.filter(({ state }) => state !== 'completed')).toEqual([]);
}

const markLast = (keys: readonly string[]): string[] => [...keys].sort((a, b) => +isMark(a) - +isMark(b));
const isMark = (key: string): boolean => key.endsWith(':born');
/** The keys go in this order. Without the mark, which only a FLUSHALL takes away, a slot moves as safely. */
const orders: readonly (readonly [string, typeof Cluster | typeof Cluster5, (keys: readonly string[]) => string[]])[] =
  [
    ['the mark first', Cluster, (keys) => markLast(keys).reverse()],
    ['the mark last', Cluster5, markLast],
    ['without the mark', Cluster, (keys) => [...keys]],
  ];

describeOn('redis', 'the slot of a namespace moves under load', () => {
  beforeAll(async () => {
    cluster = await privateCluster({}, afterAll);
  });

  it.each(orders)('key by key, %s: nothing is lost, and nothing runs twice', async (order, Client, inOrder) => {
    const queue = await openQueue('lastout', clusterClient(Client));
    const load = await startLoad(queue);
    await load.progress(500);
    const move = await moveAway('lastout');
    if (order === 'without the mark') await move.source.del('{lastout}:born');
    await move.begin();
    for (let keys = await move.keys(); keys.length > 0; keys = await move.keys())
      for (const key of inOrder(keys)) await move.moveKey(key);
    await move.finish();
    await load.progress(500);
    const losses = await load.judged();
    expectNoLoss(losses);
    expect(await queue.audit()).toMatchObject({ clean: true });
    await expectTrueCounts(queue, losses.jobs);
    await auditKeys(move.target, await openStore({ client: clusterClient() }));
    expect(await move.source.keys('{lastout}:*')).toEqual([]);
    await move.target.flushall();
  });

  it('by redis-cli --cluster reshard: nothing is lost, and nothing runs twice', async () => {
    // It moves the lowest slots of a master, so the namespace is to be among them.
    const [namespace, slot, among] = ['app-1176', 7, 10] as const;
    expect(await slotOf(cluster, namespace)).toBe(slot);
    const queue = await openQueue(namespace);
    const load = await startLoad(queue);
    await load.progress(500);
    const from = await ownerOf(cluster, slot);
    const to = cluster.masters.find((node) => node !== from)!;
    const ids = ['--cluster-from', await cluster.idOf(from), '--cluster-to', await cluster.idOf(to)];
    await cluster.cli('reshard', `127.0.0.1:${from.port}`, ...ids, '--cluster-slots', `${among}`, '--cluster-yes');
    expect(await ownerOf(cluster, slot)).toBe(to);
    await load.progress(500);
    const losses = await load.judged();
    expectNoLoss(losses);
    expect(await queue.audit()).toMatchObject({ clean: true });
    await expectTrueCounts(queue, losses.jobs);
  });

  it('a slot that stays half moved: calls do nothing, and say STORE_UNAVAILABLE after a while', async () => {
    /** Ten times as fast: nobody waits ten seconds here. */
    const hurried = {
      ...system,
      monotonic: () => system.monotonic() * 10,
      timer: ((ms, ...rest) => system.timer(ms / 10, ...rest)) as typeof system.timer,
    };
    const store = await openStore({ client: clusterClient() }, { system: hurried });
    await store.insert([newJob({ id: 'before' })], { atomic: false });
    const move = await moveAway('lastout');
    await move.begin();
    const insert = (id: string): Promise<unknown> => store.insert([newJob({ id })], { atomic: false });
    expect(await codeOf(insert('none-moved'))).toBe('STORE_UNAVAILABLE');
    const keys = markLast(await move.keys());
    for (const key of keys.slice(0, 2)) await move.moveKey(key);
    expect(await codeOf(insert('some-moved'))).toBe('STORE_UNAVAILABLE');
    expect(await codeOf(store.find({ filter: noFilter, cursor: null, limit: 10 }))).toBe('STORE_UNAVAILABLE');
    for (const key of keys.slice(2)) await move.moveKey(key);
    expect(await codeOf(insert('all-moved'))).toBe('STORE_UNAVAILABLE');
    await move.finish();
    await insert('after');
    const { jobs } = await store.find({ filter: noFilter, cursor: null, limit: 10 });
    expect(jobs.map(({ id }) => id).sort()).toEqual(['after', 'before']);
    await move.target.flushall();
  });
});
