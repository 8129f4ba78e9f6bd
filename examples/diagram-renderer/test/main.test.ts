import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from './support.js';

test('npm start shows all languages, a crowd and a mistake, ends by itself, and leaves nothing behind', async () => {
  const tmp = await temporaryFolder();
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href;
  const main = new URL('../src/main.ts', import.meta.url).pathname;
  const env = { ...process.env, TMPDIR: tmp };
  const { stdout, stderr } = await promisify(execFile)(process.execPath, ['--import', tsx, main, '--once'], { env });

  expect(stderr).toBe('');
  for (const format of ['graphviz', 'd2', 'mermaid'])
    for (const outputType of ['svg', 'png'])
      expect(stdout).toMatch(new RegExp(`  ${format} *→ ${outputType}  /d/\\w{8}  \\d{3,} bytes\\n`));
  expect(stdout).toContain('again: the same link, nothing was rendered');
  const [, rendered, refused] = /(\d) rendered, (\d) refused/.exec(stdout) ?? [];
  expect(Number(rendered) + Number(refused)).toBe(8);
  // Two render and two wait, so somebody hears it; who comes late may find a place again.
  expect(Number(rendered)).toBeGreaterThanOrEqual(4);
  expect(stdout).toContain('  429 BackpressureError: Queue is full, Retry-After: 5');
  expect(stdout).toContain('failed, "syntax error in line 1');
  expect(stdout).toContain('0 rendering; left behind 0.');
  expect((await readdir(tmp)).filter((name) => name.startsWith('lastout'))).toEqual([]);
}, 180_000);
