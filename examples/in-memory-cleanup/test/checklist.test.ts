import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { expectEveryItem } from '../../../test/checklist.js';

test('every item of the checklist has a test', async () => {
  await expectEveryItem(import.meta.dirname, '000');
});

test('the class fits on one page', async () => {
  const source = await readFile(new URL('../src/in-memory-job-queue.ts', import.meta.url), 'utf8');
  expect(source.trimEnd().split('\n').length).toBeLessThanOrEqual(100);
});

test('what differs from the plan is written down, and the README leads there', async () => {
  const page = '../../docs/decisions/021-in-memory-cleanup.md';
  expect(await readFile(new URL('../README.md', import.meta.url), 'utf8')).toContain(`](${page})`);
  const departures = await readFile(new URL(`../${page}`, import.meta.url), 'utf8');
  for (const line of ['Every finished job is a candidate', 'Nothing to clean', 'at once when the limit is exceeded'])
    expect(departures).toContain(line);
});
