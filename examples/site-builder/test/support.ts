import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Job, type OpenOptions, open, type Queue } from 'lastout';
import { onTestFinished } from 'vitest';
import { createLogger, type Logger, type LogLine } from '../src/logger.js';

/** Every rule about jobs must hold on both. */
export const stores = ['memory', 'sqlite'] as const;
export type Store = (typeof stores)[number];

/** A folder that is gone when the test ends. */
export async function temporaryFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'lastout-site-builder-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

export async function storeUrl(store: Store): Promise<string> {
  return store === 'memory' ? 'memory:' : `sqlite:${join(await temporaryFolder(), 'jobs.db')}`;
}

/** A queue that is closed when the test ends. */
export async function openQueue(store: Store, options?: OpenOptions): Promise<Queue> {
  const queue = await open(await storeUrl(store), options);
  onTestFinished(async () => void (await queue.close({ grace: 0 })));
  return queue;
}

export function recordingLogger(): { logger: Logger; lines: LogLine[] } {
  const lines: LogLine[] = [];
  return { logger: createLogger((line) => lines.push(line)), lines };
}

export async function active(queue: Queue, type?: string): Promise<readonly Job[]> {
  return (await queue.find({ state: ['pending', 'processing'], limit: 200, ...(type !== undefined && { type }) }))
    .items;
}

export function states(jobs: readonly Job[]): Record<string, string> {
  return Object.fromEntries(jobs.map((job) => [job.id, job.state]));
}

/** Returns when nothing waits and nothing runs. */
export async function idle(queue: Queue): Promise<void> {
  for (let [job] = await active(queue); job; [job] = await active(queue)) await queue.wait(job.id);
}
