/** Moves a hash slot of a cluster from one master to another, key by key, as `redis-cli --cluster reshard` does it. */
import { Redis } from 'ioredis';
import type { RedisCluster, RedisServer } from '../services.js';

export interface Move {
  readonly source: Redis;
  readonly target: Redis;
  /** Marks the slot as moving on both sides. */
  begin(): Promise<void>;
  keys(): Promise<string[]>;
  moveKey(key: string): Promise<void>;
  /** Says to every master who has the slot now. */
  finish(): Promise<void>;
  close(): void;
}

export async function moveOf(cluster: RedisCluster, slot: number, from: RedisServer, to: RedisServer): Promise<Move> {
  const clients = new Map(cluster.masters.map((node) => [node, new Redis(node.url)]));
  for (const client of clients.values()) client.on('error', () => undefined);
  const source = clients.get(from)!;
  const target = clients.get(to)!;
  const [fromId, toId] = await Promise.all([cluster.idOf(from), cluster.idOf(to)]);
  const keys = (): Promise<string[]> => source.call('cluster', 'getkeysinslot', slot, 100_000) as Promise<string[]>;
  return {
    source,
    target,
    keys,
    async begin() {
      await target.call('cluster', 'setslot', slot, 'importing', fromId);
      await source.call('cluster', 'setslot', slot, 'migrating', toId);
    },
    async moveKey(key) {
      await source.call(
        'migrate',
        '127.0.0.1',
        to.port,
        '',
        0,
        5_000,
        'REPLACE',
        'AUTH',
        cluster.password,
        'KEYS',
        key,
      );
    },
    async finish() {
      await target.call('cluster', 'setslot', slot, 'node', toId);
      await source.call('cluster', 'setslot', slot, 'node', toId);
      for (const client of clients.values()) await client.call('cluster', 'setslot', slot, 'node', toId);
    },
    close() {
      for (const client of clients.values()) client.disconnect();
    },
  };
}

export async function slotOf(cluster: RedisCluster, namespace: string): Promise<number> {
  const client = new Redis(cluster.masters[0]!.url);
  try {
    return (await client.call('cluster', 'keyslot', `{${namespace}}:`)) as number;
  } finally {
    client.disconnect();
  }
}

/** The master that has the slot, as they all say when nothing moves. */
export async function ownerOf(cluster: RedisCluster, slot: number): Promise<RedisServer> {
  const client = new Redis(cluster.masters[0]!.url);
  try {
    const ranges = (await client.call('cluster', 'slots')) as [number, number, [string, number]][];
    const [, , [, port]] = ranges.find(([first, last]) => first <= slot && slot <= last)!;
    return cluster.masters.find((node) => node.port === port)!;
  } finally {
    client.disconnect();
  }
}
