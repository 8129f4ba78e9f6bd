// A private PgBouncer in transaction mode before a PostgreSQL: where its program comes from, and how it is started.
import { execFile } from 'node:child_process';
import { chownSync, existsSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { lesserUser, privateFolder, withinReach } from './folders.mjs';
import { distribution, libraryFolders, unpacked } from './packages.mjs';
import { ask } from './postgres.mjs';
import { freePort, server } from './server.mjs';

const execute = promisify(execFile);
const program = 'pgbouncer';

/** @typedef {import('./folders.mjs').Programs} Programs */

/** @param {string} path @param {string} [libraries] */
async function versionOf(path, libraries) {
  const env = { ...process.env, ...(libraries && { LD_LIBRARY_PATH: libraries }) };
  const { stdout } = await execute(path, ['--version'], { env }).catch(() => ({ stdout: '' }));
  return /PgBouncer (\d+\.\d+(\.\d+)?)/.exec(stdout)?.[1] ?? '';
}

/** Installed on this machine. @returns {Promise<Programs | null>} */
export async function installedPgbouncer() {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/bin']) {
    const path = join(folder, program);
    if (!existsSync(path)) continue;
    const version = await versionOf(path);
    if (version) return { home: folder, bin: '', libs: [], version, how: `of this machine (${path})` };
  }
  return null;
}

/** Unpacked from the distribution's packages. @param {string} cache @returns {Promise<Programs>} */
export async function unpackedPgbouncer(cache) {
  if (!distribution()) throw new Error('this is neither Debian nor Ubuntu');
  const home = await unpacked(cache, program, { find: (has) => has(/^pgbouncer$/) });
  const libs = libraryFolders(home);
  const bin = join('usr', 'sbin');
  const version = await versionOf(join(home, bin, program), libs.map((one) => join(home, one)).join(':'));
  return { home, bin, libs, version, how: 'unpacked from packages' };
}

/**
 * @param {Programs} programs
 * @param {string} target the URL of a database
 * @returns {Promise<{ url: string, version: string, dispose: () => Promise<void> }>}
 */
export async function startPgbouncer(programs, target) {
  const user = lesserUser();
  const { folder, remove } = privateFolder(user);
  try {
    const { path, env } = withinReach(programs, program, user, folder);
    const { hostname, port: targetPort, username, password, pathname } = new URL(target);
    const name = pathname.slice(1);
    const port = await freePort();
    const url = new URL(target);
    url.host = `127.0.0.1:${port}`;
    const settings = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'any',
      pool_mode: 'transaction',
      default_pool_size: 3,
      max_client_conn: 100,
    };
    const file = join(folder, 'pgbouncer.ini');
    const to = `host=${hostname} port=${targetPort} user=${username} password=${password} dbname=${name}`;
    const lines = Object.entries(settings).map(([key, value]) => `${key} = ${value}`);
    writeFileSync(file, ['[databases]', `${name} = ${to}`, '[pgbouncer]', ...lines, ''].join('\n'), { mode: 0o600 });
    if (user) chownSync(file, user.uid, user.gid);
    const running = server({
      name: `PgBouncer ${programs.version}`,
      folder,
      command: path(program),
      args: [file],
      env,
      user,
      goodbye: 'SIGTERM',
      answers: () => ask(url.href),
    });
    await running.start();
    return {
      url: url.href,
      version: programs.version,
      async dispose() {
        await running.end('SIGTERM');
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}
