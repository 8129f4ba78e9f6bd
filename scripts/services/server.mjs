// A server of our own on a free port: started, stopped, killed, started again, and gone with its folder in the end.
import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { isAlive, whenGone } from './guard.mjs';

const startMaxMs = 30_000;
const stopMaxMs = 20_000;

/** @returns {Promise<number>} */
export function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = /** @type {import('node:net').AddressInfo} */ (probe.address());
      probe.close(() => resolve(port));
    });
  });
}

/** @param {number} ms @returns {Promise<void>} */
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What the table of services prints is what the tests ran on. @param {string} answered @param {import('./folders.mjs').Programs} programs */
export function expectVersion(answered, { version, how }) {
  if (answered !== version) throw new Error(`the server that is ${version}, ${how}, says that it is ${answered}`);
}

/**
 * @typedef {object} Running
 * @property {() => Promise<void>} start again, with the same data on the same port; resolves when it answers
 * @property {(signal: NodeJS.Signals) => Promise<void>} end sends the signal; resolves when the process is gone
 * @property {() => number | null} pid
 */

/**
 * @param {object} given
 * @param {string} given.name
 * @param {string} given.folder where its log goes
 * @param {string} given.command
 * @param {readonly string[]} given.args
 * @param {NodeJS.ProcessEnv} given.env
 * @param {{ uid: number, gid: number } | null} given.user
 * @param {NodeJS.Signals} given.goodbye what makes it leave at once and clean
 * @param {() => Promise<unknown>} given.answers rejects while it does not
 * @returns {Running}
 */
export function server({ name, folder, command, args, env, user, goodbye, answers }) {
  const log = join(folder, 'server.log');
  /** @type {{ pid: number, exited: Promise<void>, isOver: boolean } | null} */
  let running = null;

  function launch() {
    const output = openSync(log, 'a');
    const child = spawn(command, args, {
      cwd: '/',
      env,
      stdio: ['ignore', output, output],
      detached: true, // Ctrl-C is for the tests: they end their servers in order
      ...(user && { uid: user.uid, gid: user.gid }),
    });
    closeSync(output);
    const { pid = 0 } = child;
    const forget = pid ? whenGone({ kill: pid, signal: goodbye }) : () => undefined;
    const made = { pid, isOver: false, exited: Promise.resolve() };
    made.exited = new Promise((resolve) => {
      const over = () => {
        made.isOver = true;
        forget();
        resolve();
      };
      child.once('exit', over);
      child.once('error', over);
    });
    child.unref();
    return made;
  }

  async function start() {
    if (running && !running.isOver) return;
    const end = Date.now() + startMaxMs;
    /** @type {unknown} */
    let failure = null;
    for (running = launch(); Date.now() < end; ) {
      // A predecessor that was killed may still hold the port or the memory for a moment.
      if (running.isOver) {
        await pause(100);
        running = launch();
      }
      try {
        await answers();
        if (!running.isOver) return;
      } catch (error) {
        failure = error;
      }
      await pause(20);
    }
    await finish('SIGKILL');
    const tail = readFileSync(log, 'utf8').slice(-1_500);
    throw new Error(`${name} did not start: ${/** @type {Error} */ (failure)?.message ?? ''}\n${tail}`);
  }

  /** @param {NodeJS.Signals} signal */
  async function finish(signal) {
    const ending = running;
    if (!ending || ending.isOver || !ending.pid) return;
    process.kill(ending.pid, signal);
    // The child is not referenced: something must keep this process alive while it waits.
    const end = Date.now() + stopMaxMs;
    while (!ending.isOver && Date.now() < end) await Promise.race([ending.exited, pause(50)]);
    if (!ending.isOver && isAlive(ending.pid)) process.kill(ending.pid, 'SIGKILL');
    while (!ending.isOver) await pause(20);
  }
  return { start, end: finish, pid: () => (running && !running.isOver ? running.pid : null) };
}
