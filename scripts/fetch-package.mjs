// One package of the registry, fetched into a folder of its own: for programs that tests need and the project does not.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { run } from './run.mjs';

/**
 * Fetched once; its scripts are not run. Answers its folder, or null: it could not be had.
 * @param {string} name
 * @param {string} version
 * @param {string} folder
 * @returns {Promise<string | null>}
 */
export async function fetchPackage(name, version, folder) {
  const home = resolve(folder, version);
  const inside = (/** @type {string} */ base) => join(base, 'node_modules', name);
  if (existsSync(inside(home))) return inside(home);

  // Installed aside and then moved: a run that was cut short leaves nothing that looks complete.
  const aside = `${home}.${process.pid}`;
  rmSync(aside, { recursive: true, force: true });
  mkdirSync(aside, { recursive: true });
  writeFileSync(join(aside, 'package.json'), '{ "private": true }\n');
  const args = ['install', `${name}@${version}`, '--no-audit', '--no-fund', '--no-package-lock', '--ignore-scripts'];
  const code = await run(
    'npm',
    [...args, '--prefer-offline', '--fetch-retries=1', '--loglevel=error', '--prefix', aside],
    { cwd: aside },
  );
  const isComplete = code === 0 && existsSync(inside(aside));
  if (isComplete) {
    rmSync(home, { recursive: true, force: true });
    renameSync(aside, home);
  }
  rmSync(aside, { recursive: true, force: true });
  return isComplete ? inside(home) : null;
}
