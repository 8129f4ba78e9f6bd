// A finalizer that is killed in the middle starts over as a whole, in another process, and comes to the same end.
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { open } from '../src/index.js';
import { compilePrograms, type Programs } from './programs.js';
import { describeOn, emptyStore, type EngineName } from './engines.js';
import { closedAfterwards, temporaryFolder } from './support.js';

const sites = 8;
const steps = ['running', 'data', 'entry'];
/** Each of them kills eight finalizers: 104 on SQLite. */
const kills = { sqlite: 13, postgres: 3, redis: 3 } as const satisfies { [engine in EngineName]?: number };

let programs: Programs;
beforeAll(() => {
  programs = compilePrograms();
}, 60_000);

/** The signal that ended it; null: it ended by itself. */
function run(args: readonly string[]): Promise<NodeJS.Signals | null> {
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [programs.finalizer, ...args], (error, _stdout, stderr) => {
      if (error && !error.signal) reject(new Error(`It ended with code ${error.code}: ${stderr}`));
      else resolve(error?.signal ?? null);
    });
  });
}

/** What was done in each process, in order. */
function runsIn(ledger: string): string[][] {
  const runs = new Map<string, string[]>();
  for (const line of ledger.trim().split('\n')) {
    const [minute, attempt, what] = line.split(' ') as [string, string, string];
    expect(attempt).toBe('1'); // a crash is no failure of its own
    runs.set(minute, [...(runs.get(minute) ?? []), what]);
  }
  return [...runs.values()];
}

for (const [engine, times] of Object.entries(kills) as [keyof typeof kills, number][])
  describeOn(engine, `on ${engine}`, () => {
    it(`S25: ${times * sites} finalizers are killed in the middle: each starts over, and the end is the same`, {
      timeout: 240_000,
    }, async () => {
      const { url } = await emptyStore[engine]();
      const folder = temporaryFolder();
      expect(await run([url, folder, '0', 'take'])).toBeNull();
      expect(readdirSync(folder)).toHaveLength(sites * steps.length);
      const clock = { ahead: 0, now: () => new Date(Date.now() + clock.ahead * 60_000) };
      const queue = closedAfterwards(await open(url, { clock }));
      for (let kill = 0; kill < times; kill++) {
        expect(await run([url, folder, String(2 * kill + 1), 'kill'])).toBe('SIGKILL');
        clock.ahead = 2 * kill + 2; // its claim has lapsed; who met two crashes is back half a minute after that
        await queue.sweep();
      }
      clock.ahead = 2 * times + 1;
      expect(await run([url, folder, String(clock.ahead), 'end'])).toBeNull();
      const ledgers = readdirSync(folder);
      expect(ledgers).toHaveLength(sites);
      for (const file of ledgers) {
        const runs = runsIn(readFileSync(join(folder, file), 'utf8'));
        expect(runs).toHaveLength(times + 1);
        for (const killed of runs.slice(0, -1)) expect(steps.slice(0, killed.length)).toEqual(killed);
        expect(runs.at(-1)).toEqual([...steps, 'gone']);
      }
      expect(await queue.audit()).toMatchObject({
        clean: true,
        kinds: { leases: { created: sites, released: sites, live: 0, attention: [] } },
      });
    });
  });

describe('a finalizer', () => {
  it('is killed often enough for its name', () => {
    expect(kills.sqlite * sites).toBeGreaterThanOrEqual(100);
  });
});
