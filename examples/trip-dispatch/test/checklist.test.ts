import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { expectEveryItem } from '../../../test/checklist.js';

test('every item of the checklist has a test', async () => {
  await expectEveryItem(import.meta.dirname, '004');
});

test('what differs on purpose is listed beside the items, each with its reason', async () => {
  const list = await readFile(new URL('../../../docs/systems/004.json', import.meta.url), 'utf8');
  const { departures } = JSON.parse(list) as { departures: { point: string; instead: string; why: string }[] };
  expect(departures.length).toBeGreaterThanOrEqual(20);
  expect(new Set(departures.map(({ point }) => point)).size).toBe(departures.length);
  for (const departure of departures) {
    expect(Object.keys(departure)).toEqual(['point', 'instead', 'why']);
    expect(Object.values(departure).every((text) => text.length > 10)).toBe(true);
    // It leads to an item, a section or a part of the document.
    expect(departure.point).toMatch(/\((?:004-\d\d|section|problem scenario)[^)]*\)$/);
  }
});

test('what differs from the plan is written down, and the README leads there', async () => {
  const page = '../../docs/decisions/027-trip-dispatch.md';
  expect(await readFile(new URL('../README.md', import.meta.url), 'utf8')).toContain(`](${page})`);
  const departures = await readFile(new URL(`../${page}`, import.meta.url), 'utf8');
  for (const line of ['job.remove()', 'moveToDelayed', 'metadata.status', 'Promise.all', 'cleanupFrequency'])
    expect(departures).toContain(line);
});
