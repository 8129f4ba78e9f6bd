// docs/health.md has every code that health() warns with, and says of each whether the queue is still ok.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '..');

/** What stands in the sources as a warning: an entry of a list of them, or a call of `warn` or `block`. */
function codesInSource(): Map<string, boolean> {
  const found = new Map<string, boolean>();
  const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' });
  for (const file of files.filter((name) => name.endsWith('.ts'))) {
    const text = readFileSync(join(root, 'src', file), 'utf8');
    if (!text.includes('StoreWarning') && file !== join('queue', 'stats.ts')) continue;
    const warning = /(\bwarn|\bblock)\(\s*'([A-Z_]+)'|\{ code: '([A-Z_]+)',? message[^}]*\}/g;
    for (const [entry, verb, told, listed] of text.matchAll(warning))
      found.set((told ?? listed)!, verb === 'block' || entry.includes('blocks: true'));
  }
  return found;
}

it('docs/health.md tells of each warning, and whether it blocks', () => {
  const page = readFileSync(join(root, 'docs', 'health.md'), 'utf8');
  const rows = [...page.matchAll(/^\| `([A-Z_]+)` \| [^|]+ \| (true|false) \|/gm)];
  const told = new Map(rows.map(([, code, ok]) => [code!, ok === 'false']));
  const known = codesInSource();
  expect(known.size).toBeGreaterThan(20);
  // These two are judged by the queue itself, which then says that it is not ok.
  const expected = new Map([...known, ['CLOSED', true], ['WORKER_FAILING', true]]);
  expect([...told].sort()).toEqual([...expected].sort());
});
