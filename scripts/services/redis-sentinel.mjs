// A Redis primary, its replicas, and the Sentinels that watch over them.
import { randomBytes } from 'node:crypto';
import { disposeAll, startAll, until } from './redis-cluster.mjs';
import { startRedis, withClient } from './redis.mjs';

/** @typedef {import('./redis.mjs').RedisPrograms} RedisPrograms */
/** @typedef {import('./redis.mjs').RedisServer} RedisServer */

const host = '127.0.0.1';
/** What the Sentinels call the primary. */
const name = 'jobs';

/**
 * @typedef {object} RedisSentinels
 * @property {readonly RedisServer[]} nodes the first one was the primary when they were started
 * @property {readonly RedisServer[]} sentinels
 * @property {import('ioredis').RedisOptions} options by which ioredis finds the primary
 * @property {() => Promise<RedisServer>} primary of which all Sentinels say that it is the one
 * @property {() => Promise<void>} failover as an operator has it done, while the primary runs; resolves when it has begun
 * @property {(count: number) => Promise<void>} attached resolves when the primary has so many replicas
 * @property {() => Promise<void>} dispose
 */

/**
 * @param {RedisPrograms} programs
 * @param {object} [options]
 * @param {number} [options.replicas]
 * @param {number} [options.sentinels] the majority of them decides
 * @param {'always' | 'everysec' | 'no' | null} [options.appendfsync]
 * @returns {Promise<RedisSentinels>}
 */
export async function startSentinels(programs, { replicas = 2, sentinels = 3, appendfsync = null } = {}) {
  const password = randomBytes(12).toString('hex');
  const settings = { masterauth: password, 'repl-diskless-sync-delay': 0 };
  const nodes = await startAll(1 + replicas, () => startRedis(programs, { password, appendfsync, settings }));
  /** @type {RedisServer[]} */
  let watching = [];
  const dispose = () => disposeAll([...watching, ...nodes]);
  try {
    const [first, ...others] = /** @type {[RedisServer, ...RedisServer[]]} */ (nodes);
    for (const node of others) await call(node, ['replicaof', host, first.port]);
    await until('the replicas follow', async () => (await attachedTo(first)) === replicas);
    watching = await startAll(sentinels, () =>
      startRedis(programs, { sentinel: true, password, settings: watchOver(first, Math.floor(sentinels / 2) + 1) }),
    );
    await until('the Sentinels know all', async () => {
      const views = await Promise.all(watching.map(viewOf));
      return views.every(
        (view) => view['num-slaves'] === `${replicas}` && view['num-other-sentinels'] === `${sentinels - 1}`,
      );
    });
    return control(nodes, watching, dispose);
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** @param {RedisServer} primary @param {number} quorum */
function watchOver({ port, password }, quorum) {
  return {
    'sentinel monitor': `${name} ${host} ${port} ${quorum}`,
    'sentinel auth-pass': `${name} ${password}`,
    'sentinel sentinel-pass': password,
    'sentinel down-after-milliseconds': `${name} 2500`,
    'sentinel failover-timeout': `${name} 20000`,
  };
}

/**
 * @param {readonly RedisServer[]} nodes
 * @param {readonly RedisServer[]} sentinels
 * @param {() => Promise<void>} dispose
 * @returns {RedisSentinels}
 */
function control(nodes, sentinels, dispose) {
  const password = nodes[0]?.password ?? '';
  async function primary() {
    /** @type {RedisServer | undefined} */
    let found;
    await until('the Sentinels agree', async () => {
      const ports = await Promise.all(sentinels.map(async (one) => Number((await viewOf(one))['port'])));
      found = nodes.find(({ port }) => port === ports[0]);
      return new Set(ports).size === 1;
    });
    return /** @type {RedisServer} */ (found);
  }
  return {
    nodes,
    sentinels,
    options: {
      sentinels: sentinels.map(({ port }) => ({ host, port })),
      name,
      password,
      sentinelPassword: password,
    },
    primary,
    async failover() {
      const [asked] = sentinels;
      if (asked) await call(asked, ['sentinel', 'failover', name]);
    },
    async attached(count) {
      await until('the replicas follow', async () => (await attachedTo(await primary())) === count);
    },
    dispose,
  };
}

/** @param {RedisServer} node @param {[string, ...(string | number)[]]} words */
const call = (node, words) =>
  withClient({ port: node.port, password: node.password }, (client) => client.call(...words));

/** @param {RedisServer} node */
async function attachedTo(node) {
  return [...String(await call(node, ['info', 'replication'])).matchAll(/state=online/g)].length;
}

/** Names and values, of which only texts are looked at. @param {RedisServer} sentinel @returns {Promise<{ [name: string]: unknown }>} */
async function viewOf(sentinel) {
  const flat = /** @type {unknown[]} */ (await call(sentinel, ['sentinel', 'master', name]));
  return Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, i) => [String(flat[2 * i]), flat[2 * i + 1]]));
}
