import { once } from 'node:events';
import { expect, test } from 'vitest';
import { startServer } from './server-process.js';
import { endless, temporaryFolder, until } from './support.js';

test('003-35 a job that a crash left in rendering is rendered by the next server', async () => {
  const folder = await temporaryFolder();
  // Rendering takes long enough to be killed in the middle of it.
  const first = await startServer(folder, { RENDER_TIMEOUT_MS: '600000', RENDER_MEMORY_MB: '4096' });
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

  const second = await startServer(folder, { RENDER_TIMEOUT_MS: '1000', RENDER_MEMORY_MB: '4096' });
  // Its claim lapses, it is taken again, and this time the time limit ends it: it was not stuck.
  await until('it is taken again', async () => (await statusOf(second.address, id)).status === 'failed');
  expect((await statusOf(second.address, id)).error).toBe('Render timeout after 1000 ms');

  second.server.kill('SIGTERM');
  expect(await once(second.server, 'exit')).toEqual([0, null]);
}, 180_000);
