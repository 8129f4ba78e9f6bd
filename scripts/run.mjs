// Starts a program and waits for it.
import { spawn } from 'node:child_process';

/** Its output goes where ours goes; it never waits for input. Answers the exit code; one that could not start answers 127. */
export function run(command, args, { cwd, env = {} } = {}) {
  return new Promise((resolve) => {
    const child = spawn(command, args, {
      cwd,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    child.on('error', (error) => {
      console.error(`${command}: ${error.message}`);
      resolve(127);
    });
    child.on('exit', (code, signal) => resolve(code ?? (signal ? 1 : 0)));
  });
}
