// Power may fail at any moment: what was acknowledged is on the disk, and what was not yet leaves no damage behind.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, onTestFinished, test } from 'vitest';
import type { SqliteDatabase } from '../../src/stores/sqlite/driver.js';
import { type Seeded, seeded } from '../crash/seeded.js';
import { compilePrograms } from '../programs.js';
import { temporaryFolder } from '../support.js';
import { faultsIn } from './sqlite-audit.js';
import { connect, newJob, openStore, valueOf } from './sqlite-support.js';

const snapshots = 100;

test.each(['append', 'recycle'] as const)(
  `in ${snapshots} snapshots of a running load, with the end of the log cut, garbled or full of holes: log by %s`,
  async (mode) => {
    const folder = temporaryFolder();
    const load = await startLoad(folder, mode);
    const chance = seeded(11);
    const seen = { unacknowledged: 0, kept: 0, cutOff: 0, completed: 0 };
    for (let n = 0; n < snapshots; n++) {
      await new Promise((resolve) => setTimeout(resolve, 1 + chance.below(30)));
      const copy = join(folder, 'copy.db');
      const taken = await takeSnapshot(load, folder, copy);
      const safe = mode === 'append' ? damage(copy, taken, chance) : garbleAfterLastCommit(copy, chance);
      if (taken.walBytes > taken.acknowledgedUpTo) seen.unacknowledged += 1;
      const found = await recovered(copy);
      for (const { word, upTo, ids } of taken.acknowledged) {
        if (upTo > safe) {
          seen.cutOff += 1;
          continue;
        }
        const there = word === 'inserted' ? found.ids : found.completed;
        const lost = ids.filter((id) => !there.has(id));
        expect(lost, `snapshot ${n}: ${word}`).toEqual([]);
        seen.kept += ids.length;
      }
      seen.completed += found.completed.size;
      for (const suffix of ['', '-wal', '-shm']) rmSync(copy + suffix, { force: true });
    }
    expect(seen.kept).toBeGreaterThan(1_000);
    expect(seen.completed).toBeGreaterThan(100);
    if (mode === 'append') {
      expect(seen.unacknowledged).toBeGreaterThan(0);
      expect(seen.cutOff).toBeGreaterThan(0);
    }
  },
  40_000,
);

interface Snapshot {
  readonly walBytes: number;
  /** The length of the log when the last answer came. */
  readonly acknowledgedUpTo: number;
  readonly acknowledged: readonly { readonly word: string; readonly upTo: number; readonly ids: readonly string[] }[];
}

/** All files at one instant, wherever in its work the load was: it stands still meanwhile. */
async function takeSnapshot(load: ChildProcess, folder: string, copy: string): Promise<Snapshot> {
  load.kill('SIGSTOP');
  while (!isStopped(load.pid!)) await new Promise((resolve) => setTimeout(resolve, 1));
  const numbers = readdirSync(folder)
    .filter((name) => name.endsWith('.acknowledged'))
    .map(Number.parseFloat);
  const file = join(folder, `${Math.max(...numbers)}.db`);
  for (const suffix of ['', '-wal']) if (existsSync(file + suffix)) copyFileSync(file + suffix, copy + suffix);
  const list = readFileSync(file.replace(/db$/, 'acknowledged'), 'utf8').split('\n').slice(0, -1);
  load.kill('SIGCONT');
  const acknowledged = list.map((line) => {
    const [word = '', upTo, ids = ''] = line.split(' ');
    return { word, upTo: Number(upTo), ids: ids.split(',').filter((id) => id !== '') };
  });
  if (!existsSync(copy)) writeFileSync(copy, ''); // the load has only just thought of this file
  const walBytes = existsSync(`${copy}-wal`) ? readFileSync(`${copy}-wal`).length : 0;
  return { walBytes, acknowledgedUpTo: acknowledged.at(-1)?.upTo ?? 0, acknowledged };
}

function isStopped(pid: number): boolean {
  const path = `/proc/${pid}/stat`;
  const state = existsSync(path)
    ? readFileSync(path, 'utf8').replace(/^.*\) /s, '')
    : execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
  return state.trim().startsWith('T');
}

/** Damages the log from a point on, mostly after what was acknowledged; returns the point. */
function damage(copy: string, { walBytes, acknowledgedUpTo }: Snapshot, chance: Seeded): number {
  if (walBytes === 0) return 0;
  const from = chance.below(3) === 0 ? chance.below(walBytes) : Math.min(acknowledgedUpTo, walBytes);
  const at = from + chance.below(walBytes - from + 1);
  const wal = readFileSync(`${copy}-wal`);
  const kinds: readonly (() => Buffer)[] = [
    () => wal,
    () => wal.subarray(0, at),
    () => Buffer.concat([wal.subarray(0, at), noise(wal.length - at + chance.below(9_000), chance)]),
    () => withHoles(wal, at, chance),
  ];
  const kind = chance.below(kinds.length);
  writeFileSync(`${copy}-wal`, kinds[kind]!());
  return kind === 0 ? walBytes : at;
}

/** Sectors reach a disk in any order. */
function withHoles(wal: Buffer, at: number, chance: Seeded): Buffer {
  const holed = Buffer.from(wal);
  for (let sector = Math.ceil(at / 512) * 512; sector < holed.length; sector += 512)
    if (chance.below(3) === 0) holed.fill(0, sector, Math.min(sector + 512, holed.length));
  return holed;
}

function noise(bytes: number, chance: Seeded): Buffer {
  const piece = Uint8Array.from({ length: 1_000 }, () => chance.below(256));
  return Buffer.alloc(bytes, piece);
}

/** A log that is begun anew holds frames of before; the last commit is the last frame with a size and the salt of the header. */
function garbleAfterLastCommit(copy: string, chance: Seeded): number {
  if (existsSync(`${copy}-wal`)) {
    const wal = readFileSync(`${copy}-wal`);
    const frame = 24 + (wal.length >= 32 ? wal.readUInt32BE(8) : 0);
    let end = Math.min(32, wal.length);
    for (let at = 32; at + frame <= wal.length; at += frame) {
      if (!wal.subarray(at + 8, at + 16).equals(wal.subarray(16, 24))) break;
      if (wal.readUInt32BE(at + 4) > 0) end = at + frame;
    }
    if (chance.below(2) === 0)
      writeFileSync(`${copy}-wal`, Buffer.concat([wal.subarray(0, end), noise(5_000, chance)]));
  }
  return Number.POSITIVE_INFINITY;
}

/** Opens the copy as a store, as after the power came back, and checks that it is whole and works. */
async function recovered(file: string): Promise<{ ids: Set<string>; completed: Set<string> }> {
  const store = await openStore(file);
  const db = await connect(file);
  expect(valueOf(db, 'pragma integrity_check')).toBe('ok');
  const completed = idsOf(db, 'select id from lastout_done join lastout_jobs using (seq)');
  const ids = idsOf(db, 'select id from lastout_jobs');
  // Steps are whole: the jobs are the first n, each once, and every number says what the rows say.
  const number = (text: string): number => Number(valueOf(db, text) ?? 0);
  const count = (name: string): number => number(`select sum(n) from lastout_counts where name = '${name}'`);
  expect(count('seq')).toBe(ids.size);
  expect(count('stored')).toBe(ids.size);
  expect(Array.from(ids, Number).sort((a, b) => a - b)).toEqual([...ids].map((_, index) => index));
  expect(count('completed')).toBe(completed.size);
  expect(count('pending')).toBe(number('select sum(last - seq + 1) from lastout_pending'));
  expect(number('select count(*) from lastout_done')).toBe(completed.size);
  expect(count('processing') + count('pending')).toBe(ids.size - completed.size);
  expect(faultsIn(db)).toEqual([]);
  expect(number('select sum(open) from lastout_claims')).toBe(count('processing'));
  expect(number('select count(*) from lastout_turns where seq not in (select seq from lastout_jobs)')).toBe(0);
  expect(await store.insert([newJob({ id: 'after' })], { atomic: true })).toMatchObject([{ outcome: 'created' }]);
  db.close();
  await store.close();
  return { ids, completed };
}

function idsOf(db: SqliteDatabase, text: string): Set<string> {
  return new Set(
    db
      .prepare(text)
      .all()
      .map((row) => (row as { id: string }).id),
  );
}

async function startLoad(folder: string, mode: string): Promise<ChildProcess> {
  const child = spawn(process.execPath, [compilePrograms().sqliteWal, folder, mode], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_OPTIONS: '', NODE_NO_WARNINGS: '1' },
  });
  onTestFinished(async () => {
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  });
  for await (const line of createInterface({ input: child.stdout })) if (line === 'ready') return child;
  throw new Error('the load ended before it began');
}
