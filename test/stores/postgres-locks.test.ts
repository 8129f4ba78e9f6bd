// Locks are taken in one order (docs/decisions/019): processes that meet everywhere wait for each other, and never in a circle.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { describeOn } from '../engines.js';
import { compilePrograms } from '../programs.js';
import { emptyPostgres } from '../services.js';
import { faultsIn } from './postgres-audit.js';
import { plainClient } from './postgres-support.js';

/** LASTOUT_LOCKS_MS, or `npm run crash -- --locks SECONDS`, takes longer. */
const forMs = Number(process.env.LASTOUT_LOCKS_MS ?? 3_000);
const execute = promisify(execFile);

describeOn('postgres', 'two processes on eight exclusive keys', () => {
  test('meet in slots, turns, claims, limits, subjects and moves, without a deadlock', {
    timeout: forMs + 60_000,
  }, async () => {
    const url = await emptyPostgres();
    const watcher = await plainClient(url);
    const deadlocks = async (): Promise<number> =>
      Number(
        (await watcher.query('select deadlocks from pg_stat_database where datname = current_database()')).rows[0]
          .deadlocks,
      );
    const before = await deadlocks();
    const { locks } = compilePrograms();
    const runs = await Promise.all(
      [1, 2].map(() => execute(process.execPath, [locks, url, String(forMs)], { maxBuffer: 1_000_000 })),
    );
    for (const { stdout } of runs) console.log(`locks on postgres: ${stdout}`);
    expect(await deadlocks()).toBe(before);
    expect(await faultsIn(watcher)).toEqual([]);
  });
});
