// The planted bugs of `npm run mutants` do not rot: each still fits its file, and the tests that notice it are there.
import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { mutants } from './mutants/mutants.mjs';

const named = mutants.map((mutant) => [mutant.name, mutant] as const);
const path = (file: string): string => fileURLToPath(new URL(`../${file}`, import.meta.url));

describe('mutants', () => {
  it('are at least twenty, each with a name of its own', () => {
    expect(new Set(mutants.map(({ name }) => name)).size).toBe(mutants.length);
    expect(mutants.length).toBeGreaterThanOrEqual(20);
  });

  it.each(named)('%s: its text stands exactly once in its file', (_, { file, from, to }) => {
    expect(readFileSync(path(file), 'utf8').split(from)).toHaveLength(2);
    expect(to).not.toBe(from);
  });

  it.each(named)('%s: the tests that notice it are there', (_, { tests }) => {
    expect(tests.length).toBeGreaterThan(0);
    expect(tests.filter((file) => !existsSync(path(file)))).toEqual([]);
  });
});
