// Private Redis servers (or Valkey, which speaks the same): where their programs come from, and how one is started.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { privateFolder, withinReach } from './folders.mjs';
import { distribution, libraryFolders, unpacked } from './packages.mjs';
import { versionOf } from './program.mjs';
import { expectVersion, freePort, server } from './server.mjs';

const oldestRedis = 7;
const versionPattern = /v=(\d+\.\d+\.\d+)/;

/** @typedef {import('./folders.mjs').Programs & { program: string }} RedisPrograms */

/** As the server itself says it (`ask`). @param {string} program @param {string} version */
function nameOf(program, version) {
  return program === 'valkey-server' ? `Valkey ${version}` : version;
}

/** Installed on this machine. @returns {Promise<RedisPrograms | null>} */
export async function installedRedis() {
  for (const program of ['redis-server', 'valkey-server']) {
    for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/bin', '/usr/local/bin']) {
      const path = join(folder, program);
      if (!existsSync(path)) continue;
      const version = await versionOf(path, versionPattern);
      if (Number.parseInt(version, 10) >= oldestRedis)
        return {
          home: folder,
          bin: '',
          libs: [],
          program,
          version: nameOf(program, version),
          how: `of this machine (${path})`,
        };
    }
  }
  return null;
}

/**
 * Unpacked from the distribution's packages.
 * @param {string} cache
 * @param {'redis' | 'valkey'} name
 * @param {string} [suite]
 * @returns {Promise<RedisPrograms>}
 */
export async function unpackedRedis(cache, name = 'redis', suite) {
  const home = await unpacked(cache, name, {
    find: async (has) => {
      const found = await has(new RegExp(`^${name}-(server|tools)$`));
      return found.length === 2 ? found : [];
    },
    ...(suite && { suite }),
  });
  const libs = libraryFolders(home);
  const bin = join('usr', 'bin');
  const program = `${name}-server`;
  const version = await versionOf(
    join(home, bin, program),
    versionPattern,
    libs.map((one) => join(home, one)).join(':'),
  );
  return { home, bin, libs, program, version: nameOf(program, version), how: 'unpacked from packages' };
}

/**
 * Another line than the one above: Valkey, from Debian or its backports.
 * @param {string} cache
 * @returns {Promise<{ programs: RedisPrograms, why?: undefined, missing?: undefined } | { programs: null, why: string, missing: 'platform' | 'network' }>}
 */
export async function anotherRedis(cache) {
  const system = distribution();
  if (system?.id !== 'debian')
    return {
      programs: null,
      missing: 'platform',
      why: 'Valkey is unpacked from packages of Debian, and this is not Debian',
    };
  try {
    const suite = system.codename === 'bookworm' ? 'bookworm-backports' : undefined;
    return { programs: await unpackedRedis(cache, 'valkey', suite) };
  } catch {
    return {
      programs: null,
      missing: 'network',
      why: 'the package valkey-server could not be fetched; is there a network?',
    };
  }
}

/**
 * @typedef {object} RedisServer
 * @property {string} url
 * @property {number} port
 * @property {number} [busPort] by which the nodes of a cluster talk to one another
 * @property {string} password
 * @property {string} version
 * @property {string} folder where its data are
 * @property {() => Promise<void>} start again after `stop` or `kill`
 * @property {() => Promise<void>} stop in good order
 * @property {() => Promise<void>} kill at once
 * @property {() => number | null} pid
 * @property {() => Promise<void>} dispose
 */

/**
 * Takes off the log the transaction that it breaks off in. A server that is to do that by itself takes off the last command
 * only, and the next start takes what is left of the transaction for the beginning of the one behind it.
 * @param {string} program
 * @param {string} folder
 * @param {NodeJS.ProcessEnv} env
 * @returns {Promise<void>}
 */
function mendLog(program, folder, env) {
  const manifest = join(folder, 'appendonlydir', 'appendonly.aof.manifest');
  if (!existsSync(manifest)) return Promise.resolve();
  return new Promise((resolve, reject) => {
    const mending = execFile(program, ['--fix', manifest], { env }, (error, told) =>
      error ? reject(new Error(`${error.message}\n${told}`)) : resolve(),
    );
    mending.stdin?.on('error', () => undefined); // it asks only where it finds something
    mending.stdin?.end('y\n');
  });
}

/** How many stores tests may hold at once on one server. */
export const databases = 512;

/**
 * @param {RedisPrograms} programs
 * @param {object} [options]
 * @param {'always' | 'everysec' | 'no' | null} [options.appendfsync] null: nothing is kept on the disk
 * @param {boolean | 'member'} [options.cluster] true: a cluster of this one node; member: one node of a cluster to be made (topologies.mjs)
 * @param {boolean} [options.sentinel] one that keeps no data and watches over others (redis-sentinel.mjs)
 * @param {string} [options.password]
 * @param {Record<string, string | number>} [options.settings]
 * @returns {Promise<RedisServer>}
 */
export async function startRedis(
  programs,
  {
    appendfsync = null,
    cluster = false,
    sentinel = false,
    password = randomBytes(12).toString('hex'),
    settings = {},
  } = {},
) {
  const { folder, remove } = privateFolder(null);
  try {
    const { path, env } = withinReach(programs, programs.program, null, folder);
    const port = await freePort();
    const busPort = cluster ? await freePort() : undefined;
    const url = `redis://:${password}@127.0.0.1:${port}`;
    const all = {
      port,
      bind: '127.0.0.1',
      dir: folder,
      save: '',
      appendonly: appendfsync === null ? 'no' : 'yes',
      ...(appendfsync !== null && { appendfsync, 'aof-load-truncated': 'no' }),
      ...(cluster ? { 'cluster-enabled': 'yes', 'cluster-port': busPort ?? 0 } : { databases }),
      requirepass: password,
      ...settings,
    };
    // In a file: what stands on the command line can be read by everybody.
    const file = join(folder, 'redis.conf');
    const lines = Object.entries(all).map(([name, value]) => `${name} ${value === '' ? '""' : value}\n`);
    writeFileSync(file, lines.join(''), { mode: 0o600 });
    const running = server({
      name: `${programs.program} ${programs.version}`,
      folder,
      command: path(programs.program),
      args: [file, ...(sentinel ? ['--sentinel'] : [])],
      env,
      user: null,
      goodbye: 'SIGKILL',
      answers: () => ask(url),
    });
    await running.start();
    expectVersion(await ask(url), programs);
    if (cluster === true)
      await withClient({ port, password }, async (client) => {
        await client.call('cluster', 'addslotsrange', '0', '16383');
        await isClusterUp(client);
      });
    return {
      url,
      port,
      ...(busPort !== undefined && { busPort }),
      password,
      version: programs.version,
      folder,
      async start() {
        if (!running.pid()) await mendLog(path(programs.program.replace('server', 'check-aof')), folder, env);
        await running.start();
      },
      stop: () => running.end('SIGTERM'),
      kill: () => running.end('SIGKILL'),
      pid: running.pid,
      async dispose() {
        await running.end('SIGKILL');
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** @param {import('ioredis').Redis} client */
async function isClusterUp(client) {
  for (let left = 200; left > 0; left--) {
    if (String(await client.call('cluster', 'info')).includes('cluster_state:ok')) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error('the one-node cluster did not come up');
}

/**
 * @template T
 * @param {import('ioredis').RedisOptions} options
 * @param {(client: import('ioredis').Redis) => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function withClient(options, work) {
  const { Redis } = await import('ioredis');
  const client = new Redis({ ...options, lazyConnect: true, retryStrategy: () => null, connectTimeout: 5_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    client.disconnect();
  }
}

/** @param {string} url @returns {Promise<string>} its version */
export async function ask(url) {
  const { hostname, port, password, username } = new URL(url);
  const info = String(
    await withClient(
      {
        host: hostname,
        port: Number(port || 6_379),
        ...(password && { password: decodeURIComponent(password) }),
        ...(username && { username: decodeURIComponent(username) }),
        ...(url.startsWith('rediss:') && { tls: {} }),
      },
      (client) => client.info('server'),
    ),
  );
  if (info.includes('loading:1')) throw new Error('it is still loading');
  const valkey = /^valkey_version:(\S+)/m.exec(info)?.[1];
  return valkey ? `Valkey ${valkey}` : (/^redis_version:(\S+)/m.exec(info)?.[1] ?? '');
}
