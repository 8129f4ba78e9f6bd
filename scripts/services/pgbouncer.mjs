// A private PgBouncer in transaction mode before a PostgreSQL: where its program comes from, and how it is started.
import { chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { lesserUser, privateFolder, withinReach } from './folders.mjs';
import { distribution, unpacked } from './packages.mjs';
import { ask } from './postgres.mjs';
import { installed, unpackedProgram } from './program.mjs';
import { freePort, server } from './server.mjs';

const program = 'pgbouncer';
const versionPattern = /PgBouncer (\d+\.\d+(\.\d+)?)/;

/** @typedef {import('./folders.mjs').Programs} Programs */

/** Installed on this machine. @returns {Promise<Programs | null>} */
export const installedPgbouncer = () => installed(program, versionPattern);

/** Unpacked from the distribution's packages. @param {string} cache @returns {Promise<Programs>} */
export async function unpackedPgbouncer(cache) {
  if (!distribution()) throw new Error('this is neither Debian nor Ubuntu');
  const home = await unpacked(cache, program, { find: (has) => has(/^pgbouncer$/) });
  return unpackedProgram(home, program, versionPattern);
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
