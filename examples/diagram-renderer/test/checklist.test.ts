import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { expectEveryItem } from '../../../test/checklist.js';

test('every item of the checklist has a test', async () => {
  await expectEveryItem(import.meta.dirname, '003');
});

test('what differs from the plan is written down, and the README leads there', async () => {
  const page = '../../docs/decisions/022-diagram-renderer.md';
  expect(await readFile(new URL('../README.md', import.meta.url), 'utf8')).toContain(`](${page})`);
  const departures = await readFile(new URL(`../${page}`, import.meta.url), 'utf8');
  for (const line of [
    'RENDER_TIMEOUT_MS',
    'JOB_CLEANUP_INTERVAL_MS',
    'whitespace-normalised',
    'The slot is given back first',
  ])
    expect(departures).toContain(line);
});
