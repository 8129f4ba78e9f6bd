import { readdir, readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';

/** The numbers that the titles of this folder's tests start with. */
async function titles(): Promise<readonly string[][]> {
  const found: string[][] = [];
  for (const name of await readdir(import.meta.dirname)) {
    if (!name.endsWith('.test.ts')) continue;
    const source = await readFile(new URL(name, import.meta.url), 'utf8');
    for (const [, title = ''] of source.matchAll(/^\s*test\(\s*['"`](.*)$/gm)) {
      found.push(/^(?:004-\d\d )*/.exec(title)?.[0].trim().split(' ').filter(Boolean) ?? []);
    }
  }
  return found;
}

test('every item of the checklist has a test', async () => {
  const numbers = await titles();
  const all = Array.from({ length: 43 }, (_, i) => `004-${String(i + 1).padStart(2, '0')}`);
  expect([...new Set(numbers.flat())].sort()).toEqual(all);
  for (const ofOneTest of numbers) expect(ofOneTest.length).toBeLessThanOrEqual(3);
});

test('what differs from the plan is written down, and the README leads there', async () => {
  const page = '../../docs/decisions/027-trip-dispatch.md';
  expect(await readFile(new URL('../README.md', import.meta.url), 'utf8')).toContain(`](${page})`);
  const departures = await readFile(new URL(`../${page}`, import.meta.url), 'utf8');
  for (const line of ['job.remove()', 'moveToDelayed', 'metadata.status', 'Promise.all', 'cleanupFrequency'])
    expect(departures).toContain(line);
});
