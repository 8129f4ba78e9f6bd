// Whoever starts servers and folders may be killed at any moment, and must leave nothing behind. So each such process
// has a guard: a process of its own that hears what there is, and takes it away once the other end of its pipe closes.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const program = fileURLToPath(import.meta.url);
/** A server that was asked to stop gets this long. */
const patienceMs = 5_000;

/** @typedef {{ kill: number, signal: NodeJS.Signals } | { remove: string } | { run: string[] }} Duty */

/** @type {import('node:child_process').ChildProcess | null} */
let guard = null;
let duties = 0;

/**
 * Hands over what is to be undone when this process is gone. Returns how to call that off.
 * @param {Duty} duty
 * @returns {() => void}
 */
export function whenGone(duty) {
  // In a session of its own: what ends this process by its terminal or its group does not end the guard.
  guard ??= spawn(process.execPath, [program], { stdio: ['pipe', 'ignore', 'ignore'], detached: true, cwd: '/' });
  guard.unref();
  /** @type {import('node:net').Socket} */ (guard.stdin).unref();
  const no = ++duties;
  const tell = (/** @type {object} */ line) => void guard?.stdin?.write(`${JSON.stringify(line)}\n`);
  tell({ no, duty });
  return () => tell({ no, duty: null });
}

/** @param {number} pid */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    // In a container nobody may have collected it.
    const stat = `/proc/${pid}/stat`;
    return !existsSync(stat) || !readFileSync(stat, 'utf8').includes(') Z ');
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM';
  }
}

/** @param {Duty} duty */
async function carryOut(duty) {
  if ('run' in duty) {
    const [command = '', ...args] = duty.run;
    spawnSync(command, args, { stdio: 'ignore', timeout: 60_000 });
  } else if ('remove' in duty) {
    rmSync(duty.remove, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 });
  } else if (isAlive(duty.kill)) {
    process.kill(duty.kill, duty.signal);
    const end = Date.now() + patienceMs;
    while (isAlive(duty.kill) && Date.now() < end) await new Promise((resolve) => setTimeout(resolve, 20));
    if (isAlive(duty.kill)) process.kill(duty.kill, 'SIGKILL');
  }
}

async function stand() {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE']) process.on(signal, () => undefined);
  const open = new Map();
  for await (const line of createInterface({ input: process.stdin })) {
    const { no, duty } = JSON.parse(line);
    if (duty) open.set(no, duty);
    else open.delete(no);
  }
  // Servers before the folders that they write to.
  for (const duty of [...open.values()].reverse()) await carryOut(duty).catch(() => undefined);
}

if (process.argv[1] === program) await stand();
