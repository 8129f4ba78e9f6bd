// Where servers live while they run, and as whom. PostgreSQL refuses to run as root: it gets another user, who must be
// able to reach its data and its programs, wherever the project itself lies.
import {
  chmodSync,
  chownSync,
  cpSync,
  lchownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { whenGone } from './guard.mjs';

/** @typedef {{ uid: number, gid: number }} User */

/**
 * Whom a server runs as that must not be root; null: as ourselves.
 * @returns {User | null}
 */
export function lesserUser() {
  if (process.getuid?.() !== 0) return null;
  const lines = readFileSync('/etc/passwd', 'utf8').split('\n');
  for (const name of ['postgres', 'nobody']) {
    const [found, , uid, gid] = lines.find((line) => line.startsWith(`${name}:`))?.split(':') ?? [];
    if (found) return { uid: Number(uid), gid: Number(gid) };
  }
  return { uid: 65_534, gid: 65_534 };
}

/**
 * Whether the user may enter every folder on the way to a path.
 * @param {string} path
 * @param {User | null} user
 */
export function isReachable(path, user) {
  if (!user) return true;
  for (let at = resolve(path); ; at = dirname(at)) {
    const { mode, uid, gid } = statSync(at);
    const bits = uid === user.uid ? mode >> 6 : gid === user.gid ? mode >> 3 : mode;
    if ((bits & 1) === 0) return false;
    if (at === dirname(at)) return true;
  }
}

/**
 * A folder for one server, which goes with this process or earlier by its `remove`.
 * @param {User | null} user
 */
export function privateFolder(user) {
  const place = [tmpdir(), '/tmp', '/var/tmp'].find((folder) => isReachable(folder, user));
  if (!place) throw new Error(`the user ${user?.uid} can reach none of ${tmpdir()}, /tmp and /var/tmp`);
  const folder = mkdtempSync(join(place, 'lastout-service-'));
  const forget = whenGone({ remove: folder });
  if (user) chownSync(folder, user.uid, user.gid);
  chmodSync(folder, 0o700);
  return {
    folder,
    remove() {
      rmSync(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
      forget();
    },
  };
}

/** @typedef {{ home: string, bin: string, libs: readonly string[], version: string, how: string }} Programs
 * Programs of a server: `bin` and `libs` lie below `home`. */

/**
 * The same programs where the user can reach them: copied into the given folder if need be.
 * @param {Programs} programs
 * @param {string} name
 * @param {User | null} user
 * @param {string} into
 */
export function withinReach(programs, name, user, into) {
  let { home } = programs;
  if (user && !isReachable(join(home, programs.bin, name), user)) {
    home = join(into, 'programs');
    cpSync(programs.home, home, { recursive: true, verbatimSymlinks: true });
    lchownSync(home, user.uid, user.gid);
    for (const path of readdirSync(home, { recursive: true, encoding: 'utf8' }))
      lchownSync(join(home, path), user.uid, user.gid);
  }
  const libs = programs.libs.map((folder) => join(home, folder));
  /** @type {NodeJS.ProcessEnv} */
  const env = { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' };
  if (libs.length > 0) env.LD_LIBRARY_PATH = libs.join(':');
  return { path: (/** @type {string} */ program) => join(home, programs.bin, program), env };
}
