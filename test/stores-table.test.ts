// The table of docs/stores.md tells the truth: what can be seen from outside is looked at on each store.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { defaults } from '../src/core/policy.js';
import { defineJob, open } from '../src/index.js';
import { readWorkOptions } from '../src/worker/options.js';
import { emptyStore, type EngineName } from './engines.js';
import { closedAfterwards, eachStore, gate, refusalOf } from './support.js';

const root = join(import.meta.dirname, '..');
const packageJson = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  peerDependencies: Record<string, string>;
};
const names: readonly EngineName[] = ['memory', 'sqlite', 'postgres', 'redis'];

/** The first table of the page: row title → engine → cell. */
const table = readTable(readFileSync(join(root, 'docs', 'stores.md'), 'utf8'));

function readTable(text: string): Map<string, Record<EngineName, string>> {
  const lines = text.split('\n');
  const first = lines.findIndex((line) => line.startsWith('|'));
  const rows = lines.slice(first, lines.indexOf('', first)).map((line) => line.split('|').slice(1, -1));
  const cells = rows.map((row) => row.map((cell) => cell.trim()));
  expect(cells[0]!.slice(1).map((url) => /^`([a-z]+):/.exec(url)?.[1])).toEqual(names);
  return new Map(
    cells
      .slice(2)
      .map(([title, ...row]) => [title!, Object.fromEntries(row.map((cell, n) => [names[n]!, cell])) as never]),
  );
}

const cell = (title: string, engine: EngineName): string => table.get(title)![engine];

describe('the table of docs/stores.md', () => {
  it('has one cell for each store in every row', () => {
    for (const [title, row] of table) expect(Object.keys(row), title).toEqual(names);
  });
  it('gives the defaults of the code', () => {
    for (const engine of names) {
      expect(cell('finished jobs kept', engine)).toContain(`${defaults.jobRetentionMs / 3_600_000} h`);
      if (engine === 'memory') continue;
      expect(cell('wake-up', engine)).toContain(`${defaults.pollMs} ms`);
      expect(cell('a cancel reaches a running job', engine)).toContain(`${readWorkOptions({}).heartbeatMs / 1_000} s`);
    }
  });
  it('names the drivers that the package lets users install', () => {
    const drivers = { memory: null, sqlite: '@photostructure/sqlite', postgres: 'pg', redis: 'ioredis' } as const;
    const ofNoStore = ['@opentelemetry/api', 'dockerode', 'prom-client'];
    expect([...Object.values(drivers).filter((name) => name !== null), ...ofNoStore].sort()).toEqual(
      Object.keys(packageJson.peerDependencies).sort(),
    );
    for (const engine of names) {
      const driver = drivers[engine];
      expect(cell('needs', engine)).toContain(driver === null ? 'nothing' : `\`${driver}\``);
    }
  });

  eachStore((on) => {
    const work = defineJob('work', { run: async () => null });

    it('says as how durable the store shows itself', async () => {
      const queue = await on.open();
      const { durability } = await queue.health();
      // The servers of the tests are set up for speed; their durability has tests of its own.
      const expected = { memory: 'process', sqlite: 'os', postgres: 'os', redis: 'os' }[on.engine];
      expect(durability).toBe(expected);
      const promised = { memory: 'process', sqlite: 'fsync', postgres: 'fsync', redis: 'everysec' }[on.engine];
      expect(cell('acknowledged means', on.engine)).toContain(`\`${promised}\``);
    });
    it('says how many jobs are kept at most', async () => {
      const queue = await on.open();
      const stays = 1_000;
      for (let n = 0; n < 3; n += 1)
        await queue.enqueueMany(Array.from({ length: 400 }, () => ({ type: work, input: null })));
      await queue.runUntilIdle([work]);
      await queue.sweep();
      const { completed } = (await queue.stats()).queues.default!;
      const isCapped = cell('finished jobs kept', on.engine).includes(`at most ${stays} stored jobs`);
      expect(completed).toBe(isCapped ? stays : 1_200);
    });
    it('says whether several processes share the jobs', async () => {
      const { url } = await emptyStore[on.engine]();
      const [one, two] = [closedAfterwards(await open(url)), closedAfterwards(await open(url))];
      const { id } = await one.enqueue(work, null);
      const isShared = (await two.get(id)) !== null;
      expect(cell('several processes', on.engine).startsWith('yes')).toBe(isShared);
    });
    it('says how another process is woken, and how a cancel reaches it', async () => {
      if (!cell('several processes', on.engine).startsWith('yes')) return expect(on.engine).toBe('memory');
      const { url } = await emptyStore[on.engine]();
      const [one, two] = [closedAfterwards(await open(url)), closedAfterwards(await open(url))];
      const started = gate();
      const aborted = gate<unknown>();
      const patient = defineJob('patient', {
        run: async ({ signal }) => {
          started.open();
          await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
          aborted.open(signal.reason);
        },
      });
      // Only a notification can be in time here.
      const isTold = cell('wake-up', on.engine).startsWith('at once everywhere');
      expect(cell('a cancel reaches a running job', on.engine).startsWith('at once everywhere')).toBe(isTold);
      await two.work([patient], isTold ? { poll: '1h', lease: '1h', heartbeat: '30m' } : { poll: 20, lease: '1s' });
      await two.stats(); // its first claim has found nothing
      const { id } = await one.enqueue(patient, null);
      await started.opened;
      await one.cancel(id, { reason: 'enough' });
      expect(await aborted.opened).toMatchObject({ code: 'CANCELLED', message: 'enough' });
    });
    it('says where a transaction of the caller has a place', async () => {
      const queue = await on.open();
      const refusal = await refusalOf(() => queue.enqueue(work, null, { tx: {} }));
      expect(refusal.code).toBe('INVALID_TRANSACTION');
      const isKnown = on.engine === 'sqlite' || on.engine === 'postgres';
      expect(refusal.message.includes('has no transactions')).toBe(!isKnown);
    });
  });
});
