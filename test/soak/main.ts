/** What `npm run soak` starts. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { startService } from '../../scripts/services/index.mjs';
import { judge, soak, tellVerdict } from './run.js';

const help = `Works on a store for a long time, and says whether heap, rows and files stay flat.

  npm run soak                                        one minute on SQLite
  npm run soak -- --minutes 10 --store redis          ten minutes on Redis
  npm run soak -- --hours 8 --store memory            eight hours in memory
  npm run soak -- --store postgres --url postgres://… on a server of yours, in a database with nothing else in it

  --store  sqlite, memory, postgres or redis; without --url a server is started and taken down again
  --samples  how many lines are printed (30)

It ends with code 0 if the heap of the last third is at most 2 MiB above that of the middle one (and, over an hour or
more, grows by at most 0.5 MiB per hour), rows and files do not become more either, each log stays in its bounds, and
nothing is left at the end.`;

const { values } = parseArgs({
  options: {
    minutes: { type: 'string' },
    hours: { type: 'string' },
    store: { type: 'string', default: 'sqlite' },
    url: { type: 'string' },
    samples: { type: 'string', default: '30' },
    help: { type: 'boolean', default: false },
  },
});

function numberIn(name: string, text: string): number {
  const n = Number(text);
  if (!(n > 0)) throw new Error(`--${name} is ${text}; give a number above 0`);
  return n;
}

const folder = mkdtempSync(join(tmpdir(), 'lastout-soak-'));

async function place(store: string): Promise<{ url: string; stop(): Promise<unknown> }> {
  const nothing = async (): Promise<void> => undefined;
  if (values.url) return { url: values.url, stop: nothing };
  if (store === 'memory') return { url: 'memory:', stop: nothing };
  if (store === 'sqlite') return { url: `sqlite:${join(folder, 'jobs.db')}?synchronous=normal`, stop: nothing };
  if (store !== 'postgres' && store !== 'redis')
    throw new Error(`--store is sqlite, memory, postgres or redis, not ${store}`);
  const service = await startService(store);
  if (!('url' in service)) throw new Error(`There is no ${store}: ${service.why}`);
  return service;
}

async function main(): Promise<void> {
  const hours = values.hours ? numberIn('hours', values.hours) : 0;
  const minutes = values.minutes ? numberIn('minutes', values.minutes) : hours > 0 ? 0 : 1;
  const samples = Math.max(6, Math.floor(numberIn('samples', values.samples)));
  const { url, stop } = await place(values.store);
  const dir = mkdtempSync(join(folder, 'files-'));
  try {
    const soaked = await soak({ url, dir, seconds: hours * 3_600 + minutes * 60, samples }, console.log);
    const verdict = judge(soaked);
    console.log(tellVerdict(verdict, soaked));
    process.exitCode = verdict.faults.length === 0 ? 0 : 1;
  } finally {
    await stop();
  }
}

try {
  if (values.help) console.log(help);
  else await main();
} finally {
  rmSync(folder, { recursive: true, force: true });
}
