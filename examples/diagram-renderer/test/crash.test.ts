import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { endless, temporaryFolder, until } from './support.js';

/** The server as `npm run serve` starts it. Resolves when it listens. */
async function startServer(
  folder: string,
  env: { [name: string]: string },
): Promise<{ server: ChildProcess; address: string }> {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const main = new URL('../src/main.ts', import.meta.url).pathname;
  const server = spawn(process.execPath, ['--import', tsx, main, '--serve'], {
    env: { ...process.env, PORT: '0', JOB_DB_PATH: join(folder, 'data', 'jobs.db'), TMPDIR: folder, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void server.kill('SIGKILL'));
  for await (const line of createInterface(server.stdout)) {
    const { address } = JSON.parse(line) as { address?: string };
    if (address !== undefined) {
      server.stdout?.resume();
      return { server, address };
    }
  }
  throw new Error('The server ended before it listened');
}

test('003-35 a job that a crash left in rendering is rendered by the next server', async () => {
  const folder = await temporaryFolder();
  // Rendering takes long enough to be killed in the middle of it.
  const first = await startServer(folder, { RENDER_TIMEOUT_MS: '600000' });
  const submit = async (address: string, source: string): Promise<string> => {
    const body = JSON.stringify({ source, format: 'graphviz' });
    const response = await fetch(`${address}/render`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body,
    });
    return ((await response.json()) as { jobId: string }).jobId;
  };
  const statusOf = async (address: string, id: string): Promise<{ status: string; error: string | null }> =>
    (await fetch(`${address}/jobs/${id}`)).json() as Promise<{ status: string; error: string | null }>;
  const id = await submit(first.address, endless());
  await until('it renders', async () => (await statusOf(first.address, id)).status === 'rendering');
  first.server.kill('SIGKILL');
  await once(first.server, 'exit');

  const second = await startServer(folder, { RENDER_TIMEOUT_MS: '1000' });
  // Its claim lapses, it is taken again, and this time the time limit ends it: it was not stuck.
  await until('it is taken again', async () => (await statusOf(second.address, id)).status === 'failed');
  expect((await statusOf(second.address, id)).error).toBe('Render timeout after 1000 ms');

  second.server.kill('SIGTERM');
  expect(await once(second.server, 'exit')).toEqual([0, null]);
}, 180_000);
