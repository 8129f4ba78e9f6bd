// Images for the tests. None can be pulled everywhere, so a static busybox stands in for them under their names.
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { engineAt } from './engine.mjs';
import { privateFolder } from './folders.mjs';
import { distribution, unpacked } from './packages.mjs';

const names = ['ubuntu', 'alpine'];
const applets = ['sh', 'sleep', 'echo', 'cat', 'true', 'false', 'ls'];

/** One that runs where there are no libraries. @param {string} cache @returns {Promise<string>} its path */
async function staticBusybox(cache) {
  for (const folder of [...(process.env.PATH ?? '').split(delimiter), '/bin']) {
    const path = join(folder, 'busybox');
    if (existsSync(path) && !/ld-(linux|musl)/.test(readFileSync(path, 'latin1'))) return path;
  }
  if (!distribution()) throw new Error('the images of the tests need a static busybox in the PATH');
  const home = await unpacked(cache, 'busybox', { find: (has) => has(/^busybox-static$/) });
  const found = ['bin', 'usr/bin'].map((folder) => join(home, folder, 'busybox')).find(existsSync);
  if (!found) throw new Error('the package busybox-static holds no busybox');
  return found;
}

/**
 * Gives the engine the images that it lacks; one that it has stays as it is. Answers how to take them back.
 * @param {string} url
 * @param {string} cache
 * @returns {Promise<() => Promise<void>>}
 */
export async function prepareImages(url, cache) {
  const engine = await engineAt(url);
  const known = await Promise.all(
    names.map((name) =>
      engine
        .getImage(name)
        .inspect()
        .then(() => true, isMissing),
    ),
  );
  const lacking = names.filter((_, i) => !known[i]);
  if (lacking.length === 0) return async () => undefined;
  const { folder, remove } = privateFolder(null);
  try {
    const root = join(folder, 'image');
    mkdirSync(join(root, 'bin'), { recursive: true });
    copyFileSync(await staticBusybox(cache), join(root, 'bin', 'busybox'));
    for (const applet of applets) symlinkSync('busybox', join(root, 'bin', applet));
    for (const name of lacking) await importImage(engine, root, name);
  } finally {
    remove();
  }
  return async () => {
    for (const name of lacking)
      await engine
        .getImage(name)
        .remove({ force: true })
        .catch(() => undefined);
  };
}

/** @param {{ statusCode?: number }} error */
function isMissing(error) {
  if (error.statusCode === 404) return false;
  throw error;
}

/** @param {import('dockerode')} engine @param {string} root @param {string} name */
async function importImage(engine, root, name) {
  const tar = spawn('tar', ['--create', '--directory', root, '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const progress = await engine.importImage(tar.stdout, { repo: name, tag: 'latest' });
  await new Promise((resolve, reject) => {
    engine.modem.followProgress(progress, (error) => (error ? reject(error) : resolve(undefined)));
  });
}
