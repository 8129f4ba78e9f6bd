import { readdir } from 'node:fs/promises';
import type { OpenOptions } from 'lastout';
import type { InMemoryJobQueue } from './in-memory-job-queue.js';

/** Where artifacts are kept, and what there is of them. */
export interface Place {
  readonly title: string;
  readonly artifacts: NonNullable<OpenOptions['artifacts']>;
  count(jobs: InMemoryJobQueue, ids: readonly string[]): Promise<string>;
}

export const inMemory: Place = {
  title: 'Artifacts in memory',
  artifacts: 'memory',
  async count(jobs, ids) {
    let count = 0;
    for (const id of ids) count += (await jobs.queue.artifacts.list(id)).length;
    return `${count} artifacts in memory`;
  },
};

export function inFiles(dir: string): Place {
  return {
    title: 'Artifacts in files',
    artifacts: { dir },
    async count() {
      const entries = await readdir(dir, { recursive: true, withFileTypes: true });
      // Beside them is a marker that says whose folder it is.
      return `${entries.filter(({ name }) => /^[0-9a-z]{20}$/.test(name)).length} files`;
    },
  };
}
