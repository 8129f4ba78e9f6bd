// A private Docker Engine: where its programs come from, and how one is started so that nothing of it can stay behind.
import { execFile } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { privateFolder, withinReach } from './folders.mjs';
import { whenGone } from './guard.mjs';
import { unpacked } from './packages.mjs';
import { installed, unpackedProgram } from './program.mjs';
import { expectVersion, server } from './server.mjs';

const execute = promisify(execFile);
const program = 'dockerd';
const versionPattern = /version ([^\s,]+)/;
/** Of an engine that runs on this machine anyway, unless DOCKER_HOST says another. */
export const usualHost = 'unix:///var/run/docker.sock';

/** @typedef {import('./folders.mjs').Programs} Programs */

/** Installed on this machine. @returns {Promise<Programs | null>} */
export const installedEngine = () => installed(program, versionPattern);

/** Unpacked from the distribution's packages. @param {string} cache @returns {Promise<Programs>} */
export async function unpackedEngine(cache) {
  const home = await unpacked(cache, 'docker', {
    find: async (has) => {
      const found = await has(/^(docker\.io|containerd|runc)$/);
      return found.length === 3 ? found : [];
    },
  });
  return unpackedProgram(home, program, versionPattern);
}

/** Why this process cannot have an engine of its own, or null. */
export function whyNotHere() {
  if (process.platform !== 'linux') return 'a private Docker Engine needs Linux';
  if (process.getuid?.() !== 0) return 'a private Docker Engine needs root';
  return null;
}

/**
 * The engine, its containers and all that it mounts live in namespaces of their own, which end with the one process that
 * opened them: killing it leaves no process and no mount. Some folders are hidden from it behind memory that ends in the same
 * way. Only the control groups remain; they are removed by name.
 */
const inNamespaces = ['--pid', '--fork', '--kill-child', '--mount', '--mount-proc', '--'];
const hide = 'until [ "$1" = -- ]; do mount -t tmpfs tmpfs "$1"; shift; done; shift; exec "$@"';

/** Where an engine writes besides its own folders: a key, places for plugins. Not where something lies that it needs. */
const hiddenFrom = (/** @type {readonly string[]} */ needed) =>
  ['/etc', '/opt', '/run'].filter((folder) => !needed.some((path) => path.startsWith(`${folder}/`)));

/** Removes them once their processes, which are being killed, are gone. @param {string} group */
function withoutGroups(group) {
  const mine = `find /sys/fs/cgroup -depth -type d -path '*/${group}*'`;
  const script = `for i in $(seq 100); do ${mine} -exec rmdir {} + 2>/dev/null; [ "$(${mine})" ] || exit; sleep 0.1; done`;
  return ['sh', '-c', script];
}

/**
 * @param {Programs} programs
 * @returns {Promise<{ url: string, version: string, pid: () => number | null, start: () => Promise<void>, kill: () => Promise<void>, dispose: () => Promise<void> }>}
 */
export async function startEngine(programs) {
  const { folder, remove } = privateFolder(null);
  const group = basename(folder);
  const forget = whenGone({ run: withoutGroups(group) });
  const tidy = async () => {
    const [command = '', ...args] = withoutGroups(group);
    await execute(command, args).catch(() => undefined);
    forget();
    remove();
  };
  try {
    const { path, env } = withinReach(programs, program, null, folder);
    const url = `unix://${join(folder, 'engine.sock')}`;
    mkdirSync(join(folder, 'run'));
    const hidden = [...hiddenFrom([folder, programs.home]), join(folder, 'run'), '--'];
    // It starts containerd, which starts runc: each by its name. In a package they lie in two folders.
    const beside = [programs.bin, join('usr', 'bin')].map((one) => join(programs.home, one));
    const running = server({
      name: `Docker Engine ${programs.version}`,
      folder,
      command: 'unshare',
      args: [...inNamespaces, 'sh', '-c', hide, 'sh', ...hidden, path(program), ...settings(folder, url, group)],
      env: { ...env, PATH: [...beside, env.PATH].join(delimiter) },
      user: null,
      goodbye: 'SIGKILL',
      answers: () => ask(url),
    });
    await running.start();
    expectVersion(await ask(url), programs);
    return {
      url,
      version: programs.version,
      pid: running.pid,
      start: running.start,
      kill: () => running.end('SIGKILL'),
      async dispose() {
        await running.end('SIGKILL');
        await tidy();
      },
    };
  } catch (error) {
    await tidy();
    throw error;
  }
}

/** No network, no firewall, no kernel features that a container or a small machine may lack. */
function settings(/** @type {string} */ folder, /** @type {string} */ url, /** @type {string} */ group) {
  return [
    `--host=${url}`,
    `--data-root=${join(folder, 'data')}`,
    // Where nothing of a predecessor is found: its process ids mean others here.
    `--exec-root=${join(folder, 'run')}`,
    `--pidfile=${join(folder, 'run', 'pid')}`,
    `--cgroup-parent=/${group}`,
    '--exec-opt=native.cgroupdriver=cgroupfs',
    '--storage-driver=vfs',
    '--bridge=none',
    ...['iptables', 'ip6tables', 'ip-forward', 'ip-masq'].map((name) => `--${name}=false`),
  ];
}

/** A client for the engine at an address like those of DOCKER_HOST. @param {string} url */
export async function engineAt(url) {
  const { default: Docker } = await import('dockerode');
  if (!url.startsWith('unix://')) return new Docker(); // DOCKER_HOST itself, with its certificates and all
  // By hand, because a DOCKER_HOST of the environment would win over the socket.
  return new Docker({ socketPath: url.slice('unix://'.length), host: undefined });
}

/** @param {string} url @returns {Promise<string>} its version */
export async function ask(url) {
  return (await (await engineAt(url)).version()).Version;
}
