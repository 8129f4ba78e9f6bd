import { once } from 'node:events';
import { expect, test } from 'vitest';
import { startServer } from './server-process.js';
import { temporaryFolder, until } from './support.js';

test('003-20 003-22 of 60 jobs that one server is given, two servers on one store render their share each, and none fails', async () => {
  const folder = await temporaryFolder();
  const env = { QUEUE_MAX_CONCURRENT: '2', QUEUE_MAX_WAITING: '2' };
  const servers = [await startServer(folder, env), await startServer(folder, env)] as const;
  const ids = await Promise.all(
    Array.from({ length: 60 }, async (_, n) => {
      const response = await fetch(`${servers[0].address}/render`, {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ source: `digraph { both -> work -> "${n}" }`, format: 'graphviz' }),
      });
      expect(response.status).toBe(202);
      return ((await response.json()) as { jobId: string }).jobId;
    }),
  );
  const statusOf = async (id: string): Promise<string> =>
    ((await (await fetch(`${servers[1].address}/jobs/${id}`)).json()) as { status: string }).status;
  for (const id of ids) await until('it has ended', async () => !['pending', 'rendering'].includes(await statusOf(id)));
  expect(await Promise.all(ids.map(statusOf))).toEqual(ids.map(() => 'completed'));

  for (const { server } of servers) {
    const exit = once(server, 'exit');
    server.kill('SIGTERM');
    expect(await exit).toEqual([0, null]);
  }
  const rendered = servers.map(({ lines }) => lines.filter(({ message }) => message === 'Job completed'));
  // Each job once, and no server less than a fourth of them.
  expect(rendered.flat().map(({ jobId }) => jobId)).toHaveLength(60);
  expect(new Set(rendered.flat().map(({ jobId }) => jobId))).toEqual(new Set(ids));
  expect(Math.min(...rendered.map((jobs) => jobs.length))).toBeGreaterThanOrEqual(15);
}, 120_000);
