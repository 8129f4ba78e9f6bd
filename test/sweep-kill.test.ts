// Maintainers in processes of their own, with real files, killed while they delete: the next one leaves nothing.
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { defineJob, open } from '../src/index.js';
import { temporaryFolder } from './support.js';

const program = fileURLToPath(new URL('./sweep-kill-child.ts', import.meta.url));

/** The signal that ended it; null: it ended by itself. */
function maintain(where: string[], n: number, when: string, round: number): Promise<NodeJS.Signals | null> {
  return new Promise((resolve, reject) => {
    const args = ['--import', 'tsx', program, ...where, String(n), when, String(round)];
    execFile(process.execPath, args, (error, _stdout, stderr) => {
      if (error && !error.signal) reject(new Error(stderr));
      else resolve(error?.signal ?? null);
    });
  });
}

function filesIn(dir: string): string[] {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}

it('killed at any file, a maintainer is followed by another, and no file, record or job is left', {
  timeout: 240_000,
}, async () => {
  const dir = temporaryFolder();
  const file = join(temporaryFolder(), 'jobs.db');
  const puts = defineJob<any, any>('puts', {
    async run({ artifact }) {
      await artifact.put('section', 'one', { kind: 'section' });
      await artifact.put('result', 'two', { kind: 'cache' });
    },
  });
  const maker = await open(`sqlite:${file}?synchronous=normal`, { artifacts: { dir } });
  await maker.enqueueMany(Array.from({ length: 40 }, () => ({ type: puts, input: null })));
  await maker.runUntilIdle([puts]);
  await maker.close();
  expect(filesIn(dir)).toHaveLength(80);
  const ends: (NodeJS.Signals | null)[] = [];
  for (const [n, when] of [[1, 'before'], [1, 'after'], [2, 'after'], [7, 'before'], [16, 'after'], [9, 'before']] as const)
    ends.push(await maintain([file, dir], n, when, ends.length)); // biome-ignore format: one list
  expect(ends).toEqual(Array.from({ length: 6 }, () => 'SIGKILL'));
  expect(filesIn(dir).length).toBeGreaterThan(0);
  expect(await maintain([file, dir], 0, 'never', ends.length)).toBeNull();
  expect(filesIn(dir)).toEqual([]);
  const queue = await open(`sqlite:${file}`, { artifacts: { dir } });
  expect((await queue.find({ queue: ['default', 'lastout'] })).items).toEqual([]);
  expect(await queue.audit()).toMatchObject({
    clean: true,
    kinds: { job: { created: 40, released: 40 }, artifact: { created: 80, released: 80 } },
  });
  const { items } = await queue.ledger();
  expect(new Set(items.map(({ by }) => by)).size).toBe(items.length);
  await queue.close();
});
