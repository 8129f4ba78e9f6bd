// The Docker Engine of the tests: it runs containers under limits, and nothing of it outlives the process that started it.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import { isAlive } from '../scripts/services/guard.mjs';
import { enginePrograms } from '../scripts/services/index.mjs';
import { engine, isEngineThere } from './docker.js';
import { temporaryFolder } from './engines.js';
import { eventually } from './worker-support.js';

const scripts = fileURLToPath(new URL('../scripts/services/', import.meta.url));

/** A process that starts an engine with a running container, says its id, and waits to be killed. */
const owner = `
  import { cache, enginePrograms } from '${scripts}index.mjs';
  import { engineAt, startEngine } from '${scripts}engine.mjs';
  import { prepareImages } from '${scripts}images.mjs';
  const { url, pid } = await startEngine((await enginePrograms()).programs);
  await prepareImages(url, cache);
  const container = await (await engineAt(url)).createContainer({ Image: 'ubuntu', Cmd: ['sleep', '1000'] });
  await container.start();
  console.log(pid());
  setInterval(() => undefined, 1000);
`;

/** Process ids in a namespace that the engine has for itself. */
const processesIn = (namespace: string): string[] =>
  readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && namespaceOf(pid) === namespace && isAlive(Number(pid)));

function namespaceOf(pid: string): string | null {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`);
  } catch {
    return null; // it has ended meanwhile
  }
}

/** Mounts and control groups in which the name of its folder occurs. */
function tracesOf(name: string): string[] {
  const groups = ['', 'memory', 'unified'].map((one) => join('/sys/fs/cgroup', one, name)).filter(existsSync);
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n');
  return [...groups, ...mounts.filter((line) => line.includes(name))];
}

describe.skipIf('why' in (await enginePrograms()))('a Docker Engine of a process', () => {
  it.each(['SIGKILL', 'SIGTERM'] as const)(
    'is gone with its containers, mounts, control groups and folders after its %s',
    async (signal) => {
      const folder = temporaryFolder();
      const child = spawn(process.execPath, ['--input-type=module', '--eval', owner], {
        env: { ...process.env, TMPDIR: folder },
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      const { value: pid } = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next();
      const [name = ''] = readdirSync(folder);
      const [inside = ''] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ');
      const namespace = namespaceOf(inside)!;
      // The engine, its containerd, a shim, and what runs in the container has one more namespace.
      expect(processesIn(namespace).length).toBeGreaterThanOrEqual(3);
      expect(tracesOf(name)).not.toEqual([]);
      child.kill(signal);
      await eventually(() => !isAlive(Number(pid)), 'the end of the engine');
      await eventually(() => readdirSync(folder).length === 0, 'the end of its folder');
      expect(processesIn(namespace)).toEqual([]);
      expect(tracesOf(name)).toEqual([]);
    },
    120_000,
  );
});

describe.skipIf(!isEngineThere)('the Docker Engine of a run', () => {
  it('runs both images, under limits of memory and processor', async () => {
    for (const Image of ['ubuntu', 'alpine']) {
      const container = await (await engine()).createContainer({
        Image,
        Cmd: ['sh', '-c', 'echo hello'],
        HostConfig: { NetworkMode: 'none', Memory: 64 * 2 ** 20, NanoCpus: 250_000_000 },
      });
      onTestFinished(() => container.remove({ force: true }));
      await container.start();
      expect(await container.wait()).toMatchObject({ StatusCode: 0 });
    }
  });
});
