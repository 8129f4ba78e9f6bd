import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from './support.js';

test('npm start shows a trip to its end, a cancellation, orphans and an outage, and leaves nothing behind', async () => {
  const tmp = await temporaryFolder();
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const main = new URL('../src/main.ts', import.meta.url).pathname;
  const env = { ...process.env, TMPDIR: tmp };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--import', tsx, main], { env });

  expect(stderr).toBe('');
  for (const driver of ['ann', 'bob']) expect(stdout).toContain(`→ ${driver}: The time to answer is over (trip-1)`);
  expect(stdout).toContain('trip-1 is APPROVED with cem, 0 jobs in the queues');
  expect(stdout).toContain('trip-2 is CANCELLED, 0 jobs in the queues, 0 requests visible');
  expect(stdout).toContain('before the sweep: 2 jobs in the queues');
  expect(stdout).toContain('[log] Removed orphaned job for trip trip-3');
  expect(stdout).toContain('the sweep removed 2: 0 jobs in the queues');
  expect(stdout).toContain('the sweep removed 0: 2 jobs in the queues');
  expect(stdout).toContain('trip-1 is COMPLETED, and cem sees trip-5');
  expect(stdout).toMatch(/totalOrphanedJobs +2\n/);
  expect(stdout).toMatch(/failedCleanups +1\n/);
  expect(stdout.trimEnd().endsWith('Nothing left behind.')).toBe(true);
  expect((await readdir(tmp)).filter((name) => name.startsWith('lastout'))).toEqual([]);
}, 180_000);
