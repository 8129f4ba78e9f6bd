// One program of a service: on this machine or unpacked, and which version it is.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { libraryFolders } from './packages.mjs';

const execute = promisify(execFile);

/** @typedef {import('./folders.mjs').Programs} Programs */

/**
 * Empty: it does not run, or is another one.
 * @param {string} path @param {RegExp} pattern its first group is the version @param {string} [libraries]
 */
export async function versionOf(path, pattern, libraries) {
  const env = { ...process.env, ...(libraries && { LD_LIBRARY_PATH: libraries }) };
  const { stdout } = await execute(path, ['--version'], { env }).catch(() => ({ stdout: '' }));
  return pattern.exec(stdout)?.[1] ?? '';
}

/** Installed on this machine. @param {string} program @param {RegExp} pattern @returns {Promise<Programs | null>} */
export async function installed(program, pattern) {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/bin']) {
    const path = join(folder, program);
    if (!existsSync(path)) continue;
    const version = await versionOf(path, pattern);
    if (version) return { home: folder, bin: '', libs: [], version, how: `of this machine (${path})` };
  }
  return null;
}

/**
 * Unpacked from the distribution's packages into `home`.
 * @param {string} home @param {string} program @param {RegExp} pattern @returns {Promise<Programs>}
 */
export async function unpackedProgram(home, program, pattern) {
  const libs = libraryFolders(home);
  const bin = join('usr', 'sbin');
  const libraries = libs.map((one) => join(home, one)).join(':');
  const version = await versionOf(join(home, bin, program), pattern, libraries);
  return { home, bin, libs, version, how: 'unpacked from packages' };
}
