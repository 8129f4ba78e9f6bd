import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { expectEveryItem } from '../../../test/checklist.js';

test('every item of the checklist has a test', async () => {
  await expectEveryItem(import.meta.dirname, '004');
});

test('what differs from the plan is written down, and the README leads there', async () => {
  const page = '../../docs/decisions/027-trip-dispatch.md';
  expect(await readFile(new URL('../README.md', import.meta.url), 'utf8')).toContain(`](${page})`);
  const departures = await readFile(new URL(`../${page}`, import.meta.url), 'utf8');
  for (const line of ['job.remove()', 'moveToDelayed', 'metadata.status', 'Promise.all', 'cleanupFrequency'])
    expect(departures).toContain(line);
});
