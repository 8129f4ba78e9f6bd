// SQLite that can be read and not written: what is expired goes all the same.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { whenGone } from '../../scripts/services/guard.mjs';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { connect } from '../stores/sqlite-support.js';
import { temporaryFolder } from '../support.js';
import { expectDestroyed, expectEnded, leased } from './support.js';

describe('on SQLite', { timeout: 150_000, concurrent: true }, () => {
  test('a file that may only be read', async ({ onTestFinished }) => {
    const db = await connect(join(temporaryFolder(onTestFinished), 'jobs.db'));
    onTestFinished(() => void db.close());
    const it = await leased(sqliteStore({ db }), onTestFinished);
    db.exec('pragma query_only = on');
    await expectDestroyed(it);
    db.exec('pragma query_only = off');
    await expectEnded(it);
  });

  const mayMount = process.platform === 'linux' && process.getuid?.() === 0;
  test.skipIf(!mayMount)('a disk that is full', async ({ onTestFinished }) => {
    const folder = mkdtempSync(join(tmpdir(), 'lastout-full-'));
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4m', 'none', folder]);
    const unmount = ['umount', '-l', folder] as const;
    const forget = whenGone({ run: [...unmount] });
    onTestFinished(() => {
      execFileSync(unmount[0], unmount.slice(1));
      rmSync(folder, { recursive: true });
      forget();
    });
    const it = await leased(`sqlite:${join(folder, 'jobs.db')}`, onTestFinished);
    fill(join(folder, 'filler'));
    expect(await it.queue.health()).toMatchObject({ ok: false, warnings: [{ code: 'STORE_FULL' }] });
    await expectDestroyed(it);
    rmSync(join(folder, 'filler'));
    await expectEnded(it);
  });
});

/** Until nothing more goes in, not even a page. */
function fill(file: string): void {
  for (let bytes = 1 << 20; bytes >= 1; bytes = bytes >> 1) {
    try {
      for (;;) writeFileSync(file, Buffer.alloc(bytes), { flag: 'a' });
    } catch (error) {
      expect((error as NodeJS.ErrnoException).code).toBe('ENOSPC');
    }
  }
}
