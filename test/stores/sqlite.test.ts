// Every rule of the store contract, on SQLite, each in a file of its own.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { storeCases } from '../../src/testing/index.js';
import { harnessOn } from './harness.js';

describe('sqlite', () => {
  for (const { name, run } of storeCases) {
    it(name, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'lastout-'));
      const store = sqliteStore({ file: join(folder, 'jobs.db') }, { synchronous: 'normal' });
      const harness = await harnessOn(store, () => rm(folder, { recursive: true, force: true }));
      await expect(run(harness).finally(() => harness.dispose())).resolves.toBeUndefined();
    });
  }
});
