/**
 * A load that never ends, for the test that takes its files away: `node sqlite-wal-child.js FOLDER MODE`.
 * What the store has acknowledged is written to a list beside each file at once, with the length of the log by then.
 */
import { closeSync, openSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { Store } from '../../src/core/store.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { seeded } from '../crash/seeded.js';
import { connect, newJob, openStore } from './sqlite-support.js';

const [folder = '', mode = ''] = process.argv.slice(2);
const chance = seeded(mode === 'append' ? 1 : 2);
const bytesMax = 500_000;

/** append: the log only grows. recycle: it is copied back and begun anew all the time. */
async function openLoaded(file: string): Promise<Store> {
  if (mode === 'append') return openStore(file);
  const db = await connect(file);
  db.exec('pragma journal_mode = wal; pragma synchronous = full; pragma wal_autocheckpoint = 30');
  return openStore(sqliteStore({ db }));
}

for (let no = 0; ; no++) {
  const file = join(folder, `${no}.db`);
  const list = openSync(join(folder, `${no}.acknowledged`), 'a');
  const store = await openLoaded(file);
  const acknowledged = (word: string, ids: readonly string[]): void =>
    void writeSync(list, `${word} ${statSync(`${file}-wal`).size} ${ids.join(',')}\n`);
  if (no === 0) process.stdout.write('ready\n');
  for (let n = 0, bytes = 0; bytes < bytesMax; ) {
    const jobs = Array.from({ length: 1 + chance.below(12) }, () =>
      newJob({
        id: `${n++}`,
        input: JSON.stringify('x'.repeat(chance.below(6_000))),
        exclusiveKey: `${chance.below(50)}`,
      }),
    );
    bytes += jobs.reduce((sum, { input }) => sum + input.length + 200, 0);
    await store.insert(jobs, { atomic: true });
    acknowledged(
      'inserted',
      jobs.map(({ id }) => id),
    );
    const owner = 'o';
    const request = { owner, types: ['mail'], queues: null, slots: 5, ahead: 0, leaseMs: 3_600_000, maxStalls: 3 };
    const { epoch, jobs: claimed } = await store.claim(request);
    const ended = claimed.slice(0, chance.below(6)).map(({ id }) => id);
    const ending = { kind: 'complete', result: JSON.stringify('y'.repeat(chance.below(2_000))) } as const;
    const settlements = ended.map((id) => ({ id, epoch, ending }));
    await store.settle({ owner, settlements, started: [], next: null });
    acknowledged('completed', ended);
  }
  // The store stays open: closing it would empty the log.
  closeSync(list);
}
