// Maintainers in processes of their own, with real files, killed at any call of their pass: the next one goes on.
import { execFile } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { beforeAll, describe, expect, it } from 'vitest';
import { defineJob, open, type Queue } from '../src/index.js';
import { compilePrograms, type Programs } from './programs.js';
import { describeOn, emptyStore, type EngineName } from './engines.js';
import { temporaryFolder } from './support.js';

/** Fifty in all: `npm run crash` kills workers at any length. */
const kills = { sqlite: 20, postgres: 15, redis: 15 } as const satisfies { [engine in EngineName]?: number };
/** With two artifacts each: a pass over them is about sixty calls. */
const jobs = 12;
/** No divisor in common with the calls of a pass: the kills come to every kind of call. */
const stride = 7;

let programs: Programs;
beforeAll(() => {
  programs = compilePrograms();
}, 60_000);

/** The signal that ended it; null: it ended by itself. */
function maintain(args: readonly string[]): Promise<NodeJS.Signals | null> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [programs.maintainer, ...args], (error, _stdout, stderr) => {
      if (error && !error.signal) reject(new Error(`It ended with code ${error.code}: ${stderr}`));
      else resolve(error?.signal ?? null);
    });
  });
}

/** Without the marker of the folder. */
function filesIn(dir: string): string[] {
  const entries = readdirSync(dir, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile() && entry.name !== 'store.json').map(({ name }) => name);
}

const puts = defineJob<any, any>('puts', {
  async run({ artifact }) {
    await artifact.put('section', 'one', { kind: 'section' });
    await artifact.put('result', 'two', { kind: 'cache' });
  },
});

/** So that the next one has a whole pass to do. */
async function fillUp(queue: Queue): Promise<number> {
  const records = await queue.find({ type: 'lastout.artifact', limit: 200 });
  const missing = jobs - Math.floor(records.items.length / 2);
  if (missing === 0) return 0;
  await queue.enqueueMany(Array.from({ length: missing }, () => ({ type: puts, input: null })));
  await queue.runUntilIdle([puts]);
  return missing;
}

/** Every file has its record, and every record its job. */
async function expectOwned(queue: Queue, dir: string): Promise<void> {
  const { items } = await queue.find({ type: 'lastout.artifact', limit: 200 });
  const records = new Set(items.map(({ id }) => id));
  expect(filesIn(dir).filter((id) => !records.has(id))).toEqual([]);
  expect(await queue.audit()).toMatchObject({ clean: true });
}

describe('maintainers killed at any call', () => {
  for (const [engine, times] of Object.entries(kills) as [keyof typeof kills, number][]) {
    describeOn(engine, `on ${engine}`, () => {
      it(`${times} of them are each followed by another: no file, record or job is left, and no pass is told twice`, {
        timeout: 240_000,
      }, async () => {
        const { url } = await emptyStore[engine]();
        const dir = temporaryFolder();
        const queue = await open(url, { artifacts: { dir }, cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
        let created = 0;
        const ends: (NodeJS.Signals | null)[] = [];
        for (let kill = 0; kill < times; kill++) {
          created += await fillUp(queue);
          const at = 1 + ((kill * stride) % 60);
          ends.push(await maintain([url, dir, String(at), kill % 2 === 0 ? 'after' : 'before', String(kill)]));
          await expectOwned(queue, dir);
        }
        expect(ends).toEqual(Array.from({ length: times }, () => 'SIGKILL'));
        expect(await maintain([url, dir, '0', 'never', String(times)])).toBeNull();
        expect(filesIn(dir)).toEqual([]);
        expect((await queue.find({ queue: ['default', 'lastout'] })).items).toEqual([]);
        expect(await queue.audit()).toMatchObject({
          clean: true,
          kinds: {
            job: { created, released: created, live: 0 },
            artifact: { created: 2 * created, released: 2 * created, live: 0 },
          },
        });
        const { items } = await queue.ledger({ limit: 200 });
        const names = items.map(({ by, at }) => `${by} ${at.toISOString()}`);
        expect(new Set(names).size).toBe(items.length);
        // The dead have no entry unless they died of writing it.
        expect(items.filter(({ removed }) => removed > 0).length).toBeGreaterThan(0);
        expect(items.reduce((sum, { removed }) => sum + removed, 0)).toBeLessThanOrEqual(created);
        await queue.close();
      });
    });
  }
});
