// Every rule of the store contract, on SQLite, each in a file of its own.
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { storeCases } from '../../src/testing/index.js';
import { harnessOn } from './harness.js';
import { connect } from './sqlite-support.js';

describe('sqlite', () => {
  for (const { name, run } of storeCases) {
    it(name, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'lastout-'));
      const file = join(folder, 'jobs.db');
      const store = sqliteStore({ file }, { synchronous: 'normal' });
      const remove = () => rm(folder, { recursive: true, force: true });
      const harness = await harnessOn(store, remove, () => begin(file));
      await expect(run(harness).finally(() => harness.dispose())).resolves.toBeUndefined();
    });
  }
});

/** A transaction on a connection of the caller's own. */
async function begin(file: string) {
  const db = await connect(file);
  db.exec('begin immediate');
  const end = async (how: 'commit' | 'rollback'): Promise<void> => {
    db.exec(how);
    db.close();
  };
  return { tx: db, commit: () => end('commit'), rollback: () => end('rollback') };
}
