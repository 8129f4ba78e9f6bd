// The last way to servers: compose.yaml, where a Docker engine answers.
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { whenGone } from './guard.mjs';
import { freePort } from './server.mjs';

const execute = promisify(execFile);
const file = fileURLToPath(new URL('../../compose.yaml', import.meta.url));

/** @returns {Promise<boolean>} */
export async function hasDocker() {
  try {
    await execute('docker', ['compose', 'version'], { timeout: 10_000 });
    await execute('docker', ['info', '--format', '{{.ServerVersion}}'], { timeout: 10_000 });
    return true;
  } catch {
    return false;
  }
}

/**
 * One service of compose.yaml on a free port.
 * @param {'postgres' | 'redis'} service
 * @returns {Promise<{ url: string, stop: () => Promise<void> }>}
 */
export async function compose(service) {
  const port = await freePort();
  const project = `lastout-${service}-${process.pid}`;
  const prefix = ['compose', '--file', file, '--project-name', project];
  const down = [...prefix, 'down', '--volumes', '--timeout', '1'];
  const forget = whenGone({ run: ['docker', ...down] });
  const stop = async () => {
    await execute('docker', down, { timeout: 60_000 }).catch(() => undefined);
    forget();
  };
  const env = { ...process.env, [`LASTOUT_${service.toUpperCase()}_PORT`]: String(port) };
  try {
    await execute('docker', [...prefix, 'up', '--detach', '--wait', service], { env, timeout: 300_000 });
  } catch (error) {
    await stop();
    throw error;
  }
  const url =
    service === 'postgres' ? `postgres://lastout:lastout@127.0.0.1:${port}/lastout` : `redis://127.0.0.1:${port}`;
  return { url, stop };
}
