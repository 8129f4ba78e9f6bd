// A file that was restored from a backup gives no claim a number that an earlier one has had.
import { copyFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Store } from '../../src/core/store.js';
import { temporaryFolder } from '../support.js';
import { newJob, openStore } from './sqlite-support.js';

async function epochsOf(store: Store, times: number): Promise<number[]> {
  const epochs: number[] = [];
  for (let i = 0; i < times; i++) {
    await store.insert([newJob()], { atomic: true });
    const { epoch } = await store.claim({
      ...{ owner: 'worker', types: ['mail'], queues: null, slots: 1, ahead: 0, leaseMs: 30_000, maxStalls: 3 },
    });
    epochs.push(epoch);
  }
  return epochs;
}

test('epochs go on growing after a backup was restored', async () => {
  const file = join(temporaryFolder(), 'jobs.db');
  const first = await openStore(file);
  await epochsOf(first, 3);
  await first.close(); // the log is in the file now
  copyFileSync(file, `${file}.backup`);

  const second = await openStore(file);
  const lost = await epochsOf(second, 50);
  await second.close();
  for (const end of ['', '-wal', '-shm']) rmSync(file + end, { force: true });
  copyFileSync(`${file}.backup`, file);

  const third = await openStore(file);
  const after = await epochsOf(third, 3);
  await third.close();
  expect(Math.min(...after)).toBeGreaterThan(Math.max(...lost));
});
