// Server programs out of Debian's or Ubuntu's packages, unpacked into a folder: nothing is installed, and nothing of the
// machine is changed, so it needs no rights.
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';

const execute = promisify(execFile);

/** The distribution as /etc/os-release has it, or null where packages cannot be had in this way. */
export function distribution() {
  if (!existsSync('/usr/bin/apt-get') || !existsSync('/usr/bin/dpkg-deb') || !existsSync('/etc/os-release'))
    return null;
  const text = readFileSync('/etc/os-release', 'utf8');
  const field = (/** @type {string} */ name) => new RegExp(`^${name}="?([^"\\n]*)`, 'm').exec(text)?.[1] ?? '';
  const ids = [field('ID'), ...field('ID_LIKE').split(' ')];
  return ids.includes('debian') || ids.includes('ubuntu')
    ? { id: field('ID'), codename: field('VERSION_CODENAME') }
    : null;
}

/**
 * Package lists to choose from: the machine's own, or fresh ones in a folder of ours. `suite` names another suite of Debian.
 * @param {string} cache
 * @param {{ fresh: boolean, suite?: string }} wanted
 */
async function lists(cache, { fresh, suite }) {
  const options = ['-o', 'Acquire::Retries=1', '-o', 'Acquire::http::Timeout=20', '-o', 'APT::Sandbox::User=root'];
  if (!fresh) return options;
  const state = join(cache, 'apt', suite ?? 'own');
  for (const folder of ['lists/partial', 'cache/archives/partial']) mkdirSync(join(state, folder), { recursive: true });
  options.push('-o', `Dir::State::Lists=${join(state, 'lists')}`, '-o', `Dir::Cache=${join(state, 'cache')}`);
  if (suite) {
    const sources = join(state, 'sources.list');
    const key = '/usr/share/keyrings/debian-archive-keyring.gpg';
    const given = '/etc/apt/sources.list';
    const own = existsSync(given) ? readFileSync(given, 'utf8') : '';
    writeFileSync(sources, `${own}\ndeb [signed-by=${key}] http://deb.debian.org/debian ${suite} main\n`);
    options.push('-o', `Dir::Etc::SourceList=${sources}`);
  }
  await apt(['update', ...options]);
  return options;
}

/** @param {string[]} args @param {string} [cwd] */
async function apt(args, cwd = '/') {
  const { stdout } = await execute('apt-get', ['-q', ...args], {
    cwd,
    env: { ...process.env, LC_ALL: 'C', DEBIAN_FRONTEND: 'noninteractive' },
    timeout: 180_000,
    maxBuffer: 2 ** 26,
  });
  return stdout;
}

/**
 * Unpacks the first of the named packages that can be had, with the libraries that the machine lacks; answers its folder.
 * @param {string} cache
 * @param {string} name what the folder is called
 * @param {{ find: (has: (pattern: RegExp) => Promise<string[]>) => Promise<string[]>, suite?: string, without?: RegExp }} wanted
 */
export async function unpacked(cache, name, { find, suite, without }) {
  const home = join(cache, 'packages', name);
  if (existsSync(home)) return home;
  const attempts = suite ? [true] : [false, true];
  /** @type {unknown} */
  let failure = null;
  for (const fresh of attempts) {
    try {
      return await unpack(home, await lists(cache, { fresh, ...(suite && { suite }) }), find, without);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

/**
 * @param {string} home
 * @param {string[]} options
 * @param {(has: (pattern: RegExp) => Promise<string[]>) => Promise<string[]>} find
 * @param {RegExp} [without]
 */
async function unpack(home, options, find, without) {
  const { stdout } = await execute('apt-cache', [...options, 'pkgnames'], { maxBuffer: 2 ** 26 });
  const names = stdout.split('\n');
  const wanted = await find(async (pattern) => names.filter((one) => pattern.test(one)));
  if (wanted.length === 0) throw new Error('the package lists have no such package');
  // What an installation would bring along tells which libraries are missing here; of the rest, nothing is needed.
  const plan = await apt(['install', '--simulate', '--no-install-recommends', ...options, ...wanted]);
  const brings = [...plan.matchAll(/^Inst (\S+)/gm)].map(([, one]) => /** @type {string} */ (one));
  const libraries = brings.filter((one) => one.startsWith('lib') && !without?.test(one));
  mkdirSync(dirname(home), { recursive: true });
  const aside = mkdtempSync(`${home}.`);
  try {
    await apt(['download', ...options, ...new Set([...wanted, ...libraries])], aside);
    const root = join(aside, 'root');
    for (const file of readdirSync(aside).filter((one) => one.endsWith('.deb')))
      await execute('dpkg-deb', ['-x', join(aside, file), root]);
    renameSync(root, home);
  } finally {
    rmSync(aside, { recursive: true, force: true });
  }
  return home;
}

/**
 * Folders of libraries in what was unpacked, below it.
 * @param {string} home
 */
export function libraryFolders(home) {
  return ['lib', 'usr/lib'].flatMap((folder) =>
    existsSync(join(home, folder))
      ? readdirSync(join(home, folder))
          .filter((one) => one.includes('-linux-gnu'))
          .map((one) => join(folder, one))
      : [],
  );
}
