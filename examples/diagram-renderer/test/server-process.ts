import { type ChildProcess, spawn } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { onTestFinished } from 'vitest';

export interface ServerProcess {
  readonly server: ChildProcess;
  readonly address: string;
  /** What it has logged since it listens. */
  readonly lines: readonly { readonly message: string; readonly jobId?: string }[];
}

/** How `main.ts` is started. */
export function mainCommand(...options: string[]): string[] {
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  return ['--import', tsx, new URL('../src/main.ts', import.meta.url).pathname, ...options];
}

/** The server as `npm run serve` starts it. Resolves when it listens. */
export async function startServer(folder: string, env: { [name: string]: string }): Promise<ServerProcess> {
  const server = spawn(process.execPath, mainCommand('--serve'), {
    env: { ...process.env, PORT: '0', JOB_DB_PATH: join(folder, 'data', 'jobs.db'), TMPDIR: folder, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void server.kill('SIGKILL'));
  const lines: { message: string; jobId?: string }[] = [];
  const address = await new Promise<string>((resolve, reject) => {
    server.once('exit', () => reject(new Error('The server ended before it listened')));
    createInterface(server.stdout).on('line', (text) => {
      const line = JSON.parse(text) as { message: string; address?: string };
      if (line.address !== undefined) resolve(line.address);
      lines.push(line);
    });
  });
  return { server, address, lines };
}
