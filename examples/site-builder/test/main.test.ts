import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from './support.js';

test('001-42 001-46 npm start tells the story of 51 changes and two builds, and leaves nothing behind', async () => {
  const tmp = await temporaryFolder();
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const main = new URL('../src/main.ts', import.meta.url).pathname;
  const env = { ...process.env, TMPDIR: tmp };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--import', tsx, main, '--once'], { env });

  expect(stderr).toBe('');
  expect(stdout).toContain('post 1       enqueued');
  expect(stdout).toContain('posts 2–49   48 skipped');
  expect(stdout).toContain('post 50      enqueued');
  expect(stdout).toContain('post 51      skipped');
  // The story follows the queue's events; the plugin's own log lines ("·") fall between them as they come.
  const story = stdout.replace(/^ {2}· .*\n/gm, '');
  expect(story).toMatch(/✔ Build #1 {3}49 posts, .*\n {2}✔ Build #2 {3}51 posts, /);
  expect(stdout).toContain('51 changes → 2 builds');
  expect(stdout).toContain('its page is gone');
  expect(stdout).toContain('no build: profiles are excluded');
  expect(stdout).toContain('Subscriptions 0, builds abandoned 0, left behind 0.');
  expect((await readdir(tmp)).filter((name) => name.startsWith('lastout-site'))).toEqual([]);
}, 60_000);
