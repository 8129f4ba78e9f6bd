// One test run for everything: the library's tests, the packed package, and each example.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

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

/**
 * These take longest, and come first: whatever is long at the end runs alone. Without this the smallest files are the
 * last ones, and the smallest are those that start the most. Files with many processes and files with one take turns.
 */
const longest = [
  'crash/kill-redis',
  'stores/interleavings',
  'leases-proof',
  'stores/model',
  'flat-memory',
  'unwritten/redis',
  'unwritten/postgres',
  'wire/postgres',
  'stores/postgres',
  'faults/postgres',
  'crash/kill-postgres',
  'stores/limits-property',
  'schedules-faults',
  'wire/redis',
  'faults/sqlite',
  'faults/memory',
  'crash/kill-sqlite',
  'stores/redis-cluster',
  'faults/redis',
  'sweep-kill',
  'removal-faults',
  'leases-faults',
  'schedules-model',
  'schedules',
  'invariants',
  'stores/postgres-same-as-memory',
  'stores/redis-same-as-memory',
  'stores/sqlite',
  'stores/redis',
].map((name) => join(root, 'test', `${name}.test.ts`));
const renamed = longest.filter((file) => !existsSync(file));
if (renamed.length > 0)
  throw new Error(`The longest tests are named in vitest.config.ts, and not there: ${renamed.join(', ')}`);

/** Not in `npm run test:quick`: what kills, waits, measures or repeats for long, and what is of another store alone. */
const leftToTheWhole =
  process.env['LASTOUT_TEST_QUICK'] === undefined
    ? []
    : [
        'test/{cost,crash,faults,unwritten,wire}/**',
        'test/stores/{postgres,redis}*',
        'test/stores/{interleavings,limits-property,model}.test.ts',
        'test/stores/sqlite-{held,open-run,races,wal}.test.ts',
        'test/{artifacts,leases,removal,schedules}-faults.test.ts',
        'test/{leases,schedules,sweep}-{crash,kill,proof}.test.ts',
        'test/{alive,awaited,bench,close,demo,event-loop,flat-memory,harmless,large-jobs,schedules-model,soak,surface}.test.ts',
        'test/{clock-back,docker-leases,docker-resource,secrets,services,services-docker,tls}.test.ts',
      ];

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const placeOf = ({ moduleId }: TestSpecification): number => longest.indexOf(moduleId) + 1 || Number.MAX_VALUE;
    return (await super.sort(files)).sort((a, b) => placeOf(a) - placeOf(b));
  }
}

export default defineConfig({
  test: {
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    // Jobs fail in most tests, and a queue without a logger says so.
    onConsoleLog: (log, type) =>
      !(type === 'stderr' && /^\{"at":"[^"]*","level":"(?:warn|error)","from":"lastout"/.test(log)),
    projects: [
      {
        test: {
          ...shared,
          name: 'library',
          root,
          include: ['test/**/*.test.ts'],
          exclude: ['test/package.test.ts', 'test/readme.test.ts', 'test/types.test.ts', ...leftToTheWhole],
          globalSetup: ['test/services/setup.ts'],
        },
      },
      {
        // These look at the package as a user gets it. It is packed once, before them.
        test: {
          ...shared,
          name: 'package',
          root,
          include: ['test/package.test.ts', 'test/readme.test.ts', 'test/types.test.ts'],
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
