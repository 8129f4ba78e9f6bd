import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from './support.js';

test('000-34 npm start shows the policies, what they remove and when, and leaves nothing behind', async () => {
  const tmp = await temporaryFolder();
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const main = new URL('../src/main.ts', import.meta.url).pathname;
  const env = { ...process.env, TMPDIR: tmp };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--import', tsx, main], { env });

  expect(stderr).toBe('');
  expect(stdout).toContain('Retention Period   24 hours     Keep jobs for debugging/history');
  expect(stdout).toContain('20 jobs in memory (20 completed), 80 files');
  expect(stdout).toContain('[log] Removed 20 old jobs from memory');
  expect(stdout).toContain('5 jobs in memory (5 completed), 20 files');
  expect(stdout).toContain('1000 jobs in memory (1000 completed), 0 files');
  expect(stdout).toContain('created = released + stored');
  expect((await readdir(tmp)).filter((name) => name.startsWith('lastout'))).toEqual([]);
}, 180_000);
