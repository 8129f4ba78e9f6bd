// A Redis cluster: masters that share the slots, and their replicas.
import { randomBytes } from 'node:crypto';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { withinReach } from './folders.mjs';
import { startRedis, withClient } from './redis.mjs';
import { pause } from './server.mjs';

const execute = promisify(execFile);

/** @typedef {import('./redis.mjs').RedisPrograms} RedisPrograms */
/** @typedef {import('./redis.mjs').RedisServer} RedisServer */

const host = '127.0.0.1';

/**
 * Asks until the answer is yes.
 * @param {string} what
 * @param {() => Promise<boolean>} isSo
 */
export async function until(what, isSo) {
  for (const end = Date.now() + 30_000; Date.now() < end; await pause(20)) if (await isSo().catch(() => false)) return;
  throw new Error(`${what}: not within 30 s`);
}

/** @param {RedisServer} node @param {[string, ...(string | number)[]]} words */
const call = (node, words) =>
  withClient({ port: node.port, password: node.password }, (client) => client.call(...words));

/** @param {readonly { dispose(): Promise<void> }[]} parts */
export const disposeAll = async (parts) => void (await Promise.all(parts.map((part) => part.dispose())));

/**
 * @typedef {object} RedisCluster
 * @property {readonly RedisServer[]} masters each has a third of the slots, where there are three
 * @property {readonly RedisServer[]} replicas those of the first master come first
 * @property {string} password
 * @property {(...args: string[]) => Promise<string>} cli runs `redis-cli --cluster …`
 * @property {(node: RedisServer) => Promise<string>} idOf
 * @property {() => Promise<void>} dispose
 */

/**
 * @param {RedisPrograms} programs
 * @param {object} [options]
 * @param {number} [options.masters]
 * @param {number} [options.replicas] of each master
 * @param {'always' | 'everysec' | 'no' | null} [options.appendfsync]
 * @param {Record<string, string | number>} [options.settings]
 * @returns {Promise<RedisCluster>}
 */
export async function startCluster(programs, { masters = 3, replicas = 0, appendfsync = null, settings = {} } = {}) {
  const password = randomBytes(12).toString('hex');
  const all = { masterauth: password, 'repl-diskless-sync-delay': 0, 'cluster-node-timeout': 1_500, ...settings };
  const nodes = await startAll(masters * (1 + replicas), () =>
    startRedis(programs, { cluster: 'member', password, appendfsync, settings: all }),
  );
  try {
    const [first, ...others] = /** @type {[RedisServer, ...RedisServer[]]} */ (nodes);
    await Promise.all(nodes.map((node, index) => call(node, ['cluster', 'set-config-epoch', index + 1])));
    for (const node of others) await call(first, ['cluster', 'meet', host, node.port, node.busPort ?? 0]);
    const leading = nodes.slice(0, masters);
    const share = (/** @type {number} */ index) => Math.floor((16_384 * index) / masters);
    await Promise.all(
      leading.map((node, index) => call(node, ['cluster', 'addslotsrange', share(index), share(index + 1) - 1])),
    );
    await until('the nodes have met', () => knowAll(nodes, nodes.length));
    const idOf = async (/** @type {RedisServer} */ node) => String(await call(node, ['cluster', 'myid']));
    const following = nodes.slice(masters);
    for (const [index, node] of following.entries())
      await call(node, ['cluster', 'replicate', await idOf(leading[Math.floor(index / replicas)] ?? first)]);
    await until('the replicas follow', () => allAttached(leading, replicas));
    await until('the cluster is up', () => knowAll(nodes, nodes.length, 'cluster_state:ok'));
    const { path, env } = withinReach(programs, programs.program, null, first.folder);
    return {
      masters: leading,
      replicas: following,
      password,
      idOf,
      async cli(...args) {
        const words = ['--no-auth-warning', '-a', password, '--cluster', ...args];
        const { stdout } = await execute(path(programs.program.replace('server', 'cli')), words, { env });
        return stdout;
      },
      dispose: () => disposeAll(nodes),
    };
  } catch (error) {
    await disposeAll(nodes);
    throw error;
  }
}

/** All or none. @param {number} count @param {() => Promise<RedisServer>} start */
export async function startAll(count, start) {
  const started = await Promise.allSettled(Array.from({ length: count }, start));
  const running = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  if (running.length === count) return running;
  await disposeAll(running);
  throw started.find((one) => one.status === 'rejected')?.reason;
}

/** @param {readonly RedisServer[]} nodes @param {number} count @param {string} [also] */
async function knowAll(nodes, count, also = '') {
  const infos = await Promise.all(nodes.map(async (node) => String(await call(node, ['cluster', 'info']))));
  return infos.every((info) => info.includes(`cluster_known_nodes:${count}\r`) && info.includes(also));
}

/** @param {readonly RedisServer[]} primaries @param {number} replicas */
async function allAttached(primaries, replicas) {
  const infos = await Promise.all(primaries.map(async (node) => String(await call(node, ['info', 'replication']))));
  return infos.every((info) => [...info.matchAll(/state=online/g)].length === replicas);
}
