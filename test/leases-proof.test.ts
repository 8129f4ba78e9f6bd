// A thousand leases with a provider in its own process that fails, hangs, forgets, lists late and lies, while the processes
// that hold them are killed. The provider's own inventory is read: nothing leaks, nothing is destroyed while it is held.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { type Lease, open, type Queue } from '../src/index.js';
import { compilePrograms, type Programs } from './programs.js';
import type { ProviderReport, ToProvider } from './crash/provider.js';
import { roomsOf } from './crash/room.js';
import { seeded } from './crash/seeded.js';
import { describeOn, emptyStore } from './engines.js';
import { closedAfterwards } from './support.js';

/** On one store all of it, on the others the same with less of everything. */
const sizes = {
  sqlite: { leases: 1_000, kills: 20 },
  postgres: { leases: 200, kills: 6 },
  redis: { leases: 200, kills: 6 },
};
const lessees = 3;
const keptOn = 12;
const seed = 20_300_101;
const minute = 60_000;

let programs: Programs;
beforeAll(() => {
  programs = compilePrograms();
}, 60_000);

function start(program: keyof Programs, args: readonly string[]): ChildProcess {
  const child = fork(programs[program], args, { execArgv: [], stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

async function startProvider() {
  const child = start('provider', [String(seed)]);
  const [{ port }] = (await once(child, 'message')) as [{ port: number }];
  const tell = (message: ToProvider): void => void child.send(message);
  return {
    port,
    tell,
    async report(): Promise<ProviderReport> {
      tell({ report: true });
      return ((await once(child, 'message')) as [ProviderReport])[0];
    },
  };
}

type Provider = Awaited<ReturnType<typeof startProvider>>;

const isOurs = (name: string): boolean => name.startsWith('lastout.room.');
const real = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Processes that take rooms, killed one after the other and replaced. */
async function killMany(
  url: string,
  provider: Provider,
  kills: number,
  isDone: () => Promise<boolean>,
): Promise<number> {
  const random = seeded(seed);
  const fleet: ChildProcess[] = [];
  const join = async (): Promise<void> => {
    const child = start('lessee', [url, String(provider.port), '0']);
    fleet.push(child);
    await once(child, 'message');
  };
  await Promise.all(Array.from({ length: lessees }, join));
  let killed = 0;
  while (!(await isDone()) || killed < kills) {
    await real(100 + random.below(300));
    if (killed >= kills) continue;
    const [victim] = fleet.splice(random.below(fleet.length), 1);
    victim!.kill('SIGKILL');
    await once(victim!, 'exit');
    provider.tell({ dead: victim!.pid! });
    killed += 1;
    await join();
  }
  provider.tell({ chaos: 'lists' });
  for (const child of fleet) child.send('leave');
  await Promise.all(fleet.map((child) => once(child, 'exit')));
  return killed;
}

/** The rest is in the hands of the dead, or waits for its next attempt. */
async function isNearlyDone(queue: Queue, leases: number): Promise<boolean> {
  const { total } = await queue.stats();
  return total.completed >= leases * 0.9;
}

async function until(what: () => Promise<boolean>, ms: number): Promise<boolean> {
  for (const end = Date.now() + ms; Date.now() < end; await real(50)) if (await what()) return true;
  return false;
}

for (const [engine, { leases, kills }] of Object.entries(sizes))
  describeOn(engine as keyof typeof sizes, `${leases} leases on ${engine}`, () => {
    it('none leaks, and none is destroyed while it is held', { timeout: 5 * minute }, async () => {
      const { url } = await emptyStore[engine as keyof typeof sizes]();
      const provider = await startProvider();
      let aheadMs = 0;
      const clock = { now: () => new Date(Date.now() + aheadMs) };
      const { room, hold, letGo } = roomsOf(provider.port, () => clock.now().getTime());
      const queue = closedAfterwards(
        await open(url, { clock, resources: [room], cleanup: { maxStoredJobs: 100_000 } }),
      );

      const hows = ['returns', 'throws', 'forgets'] as const;
      const jobs = Array.from({ length: leases }, (_, n) => ({
        type: 'stay',
        input: { how: hows[n % 3], ms: (n * 7) % 120 },
        options: { attempts: 1_000, backoff: { type: 'fixed', base: 100 } as const },
      }));
      await queue.enqueueMany(jobs);
      const killed = await killMany(url, provider, kills, () => isNearlyDone(queue, leases));
      expect(killed).toBe(kills);

      // The chaos is over, except that lists are still not to be trusted. Some are taken now and held to the end.
      const kept: Lease[] = [];
      while (kept.length < keptOn) {
        const lease = await queue.lease(room, null, { ttl: '1d' });
        await hold(lease.name);
        kept.push(lease);
      }
      const names = new Set(kept.map(({ name }) => name));
      const leaked = async (): Promise<string[]> =>
        (await provider.report()).inventory.filter((name) => isOurs(name) && !names.has(name));
      const lessee = start('lessee', [url, String(provider.port), String(5 * minute)]);
      await once(lessee, 'message');
      aheadMs = 5 * minute;
      expect(await until(async () => (await queue.stats()).total.completed === leases, 60_000)).toBe(true);
      lessee.send('leave');
      await once(lessee, 'exit');

      // Each step is long enough for a claim or a term to lapse, a lease to expire and a look to be due.
      // Lists may still be refused, late or short: how many looks it takes is theirs to say, an end it must have.
      await until(async () => {
        aheadMs += 5 * minute;
        await queue.sweep();
        return until(async () => (await leaked()).length === 0, 1_000);
      }, 2 * minute);
      expect(await leaked()).toEqual([]);
      for (const lease of kept) expect(await lease.renew('2d')).toBeInstanceOf(Date);

      provider.tell({ chaos: 'nothing' });
      for (const lease of kept) {
        await letGo(lease.name);
        await lease.release();
      }
      names.clear();
      expect(await until(async () => (await leaked()).length === 0, 20_000)).toBe(true);
      const { inventory, made, tricks, faults } = await provider.report();
      expect(faults).toEqual([]);
      expect(inventory).toHaveLength(3); // those of others
      expect(made).toBeGreaterThanOrEqual(leases);
      expect(Object.values(tricks).every((times) => times > 0)).toBe(true);
      expect(await until(async () => (await queue.audit()).clean, 20_000)).toBe(true);
      expect((await queue.audit()).kinds['leases']).toMatchObject({ live: 0, attention: [] });
      process.stdout.write(`${engine}: ${made} rooms made, ${killed} processes killed, ${JSON.stringify(tricks)}\n`);
      provider.tell({ leave: true });
    });
  });
