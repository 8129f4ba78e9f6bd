/** What the tests of an example show of its system's items (docs/systems). */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'vitest';

/** Every item has a test of this folder whose title begins with its number, and no title claims more than three. */
export async function expectEveryItem(folder: string, system: string): Promise<void> {
  const numbers: string[][] = [];
  for (const name of await readdir(folder)) {
    if (!name.endsWith('.test.ts')) continue;
    const source = await readFile(join(folder, name), 'utf8');
    for (const [, title = ''] of source.matchAll(/^\s*test\(\s*['"`](.*)$/gm))
      numbers.push(/^(?:\d{3}-\d\d )*/.exec(title)![0].trim().split(' ').filter(Boolean));
  }
  const list = await readFile(new URL(`../docs/systems/${system}.json`, import.meta.url), 'utf8');
  const { items } = JSON.parse(list) as { items: { id: string }[] };
  expect([...new Set(numbers.flat())].sort()).toEqual(items.map(({ id }) => id));
  for (const ofOneTest of numbers) expect(ofOneTest.length).toBeLessThanOrEqual(3);
}
