/**
 * Ends sites on lease in three steps, each of them a file that goes: node finalizer.js STORE FOLDER MINUTE take|kill|end. With
 * `kill` it dies when all of them are in the middle of it, each somewhere else; each run is told in a ledger.
 */
import { appendFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineResource, open } from '../../src/index.js';

const sites = 8;
const steps = ['running', 'data', 'entry'] as const;

const [store, folder, minute, mode] = process.argv.slice(2) as [string, string, string, 'take' | 'kill' | 'end'];
const clock = { now: () => new Date(Date.now() + Number(minute) * 60_000) };
let begun = 0;
let waiting = 0;
let ended = 0;

/** The others may still be on their way to their places. */
async function dieTogether(): Promise<never> {
  waiting += 1;
  if (waiting === sites) process.kill(process.pid, 'SIGKILL');
  return new Promise(() => undefined);
}

const site = defineResource<number>('site', {
  async create(_n, { name }) {
    for (const step of steps) writeFileSync(join(folder, `${name}.${step}`), '');
    return null;
  },
  async destroy({ name, attempt }) {
    const dieAt = mode === 'kill' ? (begun++ + Number(minute)) % steps.length : -1;
    const tell = (what: string): void =>
      appendFileSync(join(folder, `${name}.ledger`), `${minute} ${attempt} ${what}\n`);
    for (const [index, step] of steps.entries()) {
      tell(step);
      rmSync(join(folder, `${name}.${step}`), { force: true });
      if (index === dieAt) await dieTogether();
    }
    tell('gone');
  },
  list: () => Promise.reject(new Error('not asked for')),
});

const queue = await open(store, { clock, resources: [site] });
if (mode === 'take') for (let n = 0; n < sites; n++) await queue.lease(site, n, { ttl: '30s' });
while (mode !== 'take' && ended < sites) {
  await new Promise((resolve) => setTimeout(resolve, 20));
  ended = (await queue.leases.find({ state: 'ended' })).items.length;
}
await queue.close({ grace: 0 });
