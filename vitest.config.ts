// One test run for everything: the library's tests, the packed package, and each example.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';

const root = import.meta.dirname;
const folder = join(root, 'examples');
const examples = existsSync(folder)
  ? readdirSync(folder, { withFileTypes: true }).filter(
      (entry) => entry.isDirectory() && existsSync(join(folder, entry.name, 'test')),
    )
  : [];

// Processes, not threads: the tests load a native SQLite, send signals and change directories.
// Three at a time suit two cores: some of them wait, for kills, restarts and the minute of a soak.
// A test that moves the clock by hours asks a server thousands of times meanwhile.
const shared = { pool: 'forks', testTimeout: 60_000, hookTimeout: 60_000 } as const;

export default defineConfig({
  test: {
    maxWorkers: 3,
    projects: [
      {
        test: {
          ...shared,
          name: 'library',
          root,
          include: ['test/**/*.test.ts'],
          exclude: ['test/package.test.ts', 'test/readme.test.ts'],
          globalSetup: ['test/services/setup.ts'],
        },
      },
      {
        // These two look at the package as a user gets it. It is packed once, before them.
        test: {
          ...shared,
          name: 'package',
          root,
          include: ['test/package.test.ts', 'test/readme.test.ts'],
          globalSetup: ['test/package/pack.ts'],
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      ...examples.map((entry) => ({
        test: { ...shared, name: entry.name, root: join(folder, entry.name), include: ['test/**/*.test.ts'] },
      })),
    ],
  },
});
