// Limits of a queue where they matter: three processes on one store, some of which are killed.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { open, type OpenOptions, type Queue } from '../../src/index.js';
import { emptyStore, type EngineName, engines, temporaryFolder } from '../engines.js';
import { eventually } from '../worker-support.js';
import { compilePrograms, type Programs } from '../programs.js';
import { instant } from './ledger.js';
import type { Mark } from './limited.js';

let programs: Programs;
beforeAll(() => {
  programs = compilePrograms();
}, 60_000);

interface Fleet {
  readonly queue: Queue;
  marks(): Mark[];
  completed(): Promise<number>;
  /** At once and without a word; its instant by the clock of the marks. */
  kill(pid: number): Promise<number>;
}

/** Three workers that know nothing of the limits: only this process, which opens the store first, names them. */
async function startFleet(
  engine: EngineName,
  limits: NonNullable<OpenOptions['queues']>[string],
  inputs: readonly number[],
): Promise<Fleet> {
  const [{ url }, ledger] = [await emptyStore[engine](), join(temporaryFolder(), 'marks')];
  const queue = await open(url, { queues: { mail: limits } });
  await queue.enqueueMany(inputs.map((input) => ({ type: 'letter', input, options: { queue: 'mail' } })));
  const workers = Array.from({ length: 3 }, () => fork(programs.limited, [url, ledger], { execArgv: [] }));
  const gone = new Map<ChildProcess, Promise<unknown>>(workers.map((worker) => [worker, once(worker, 'exit')]));
  onTestFinished(async () => {
    for (const worker of workers) worker.kill('SIGKILL');
    await Promise.all(gone.values());
    await queue.close();
  });
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  return {
    queue,
    marks() {
      const lines = existsSync(ledger) ? readFileSync(ledger, 'utf8').split('\n').slice(0, -1) : [];
      return lines.map((line) => JSON.parse(line) as Mark);
    },
    completed: async () => (await queue.stats()).total.completed,
    async kill(pid) {
      const worker = workers.find((one) => one.pid === pid)!;
      worker.kill('SIGKILL');
      await gone.get(worker);
      return instant();
    },
  };
}

/** The most jobs that ran at once; what a killed process ran, it ran at most until it was gone. */
function mostAtOnce(marks: readonly Mark[], killed: ReadonlyMap<number, number>): number {
  const steps = marks.map(({ at, what }) => ({ at, by: what === 'start' ? 1 : -1 }));
  for (const { id, pid, what } of marks) {
    const isOpen = !marks.some((other) => other.what === 'end' && other.id === id && other.pid === pid);
    if (what === 'start' && isOpen && killed.has(pid)) steps.push({ at: killed.get(pid)!, by: -1 });
  }
  let running = 0;
  return Math.max(...steps.sort((a, b) => a.at - b.at || a.by - b.by).map(({ by }) => (running += by)));
}

describe.each(engines.filter((name) => name !== 'memory'))('on %s', (engine) => {
  test('three processes run no more jobs of a queue at once than its concurrency, and a killed one leaks no slot', async () => {
    const quick = Array.from({ length: 40 }, (_, n) => n % 5);
    const fleet = await startFleet(engine, { concurrency: 2 }, [-1, -1, ...quick]);
    await eventually(() => fleet.marks().length >= 2, 'two jobs that never end');
    expect((await fleet.queue.stats()).queues.mail).toMatchObject({ processing: 2, blockedBy: 'concurrency' });
    // Both slots are held by jobs that go on for ever: nothing else starts, however often the others ask.
    const holders = new Set(fleet.marks().map(({ pid }) => pid));
    expect(fleet.marks().map(({ what }) => what)).toEqual(['start', 'start']);

    const killed = new Map<number, number>();
    for (const pid of holders) {
      const before = await fleet.completed();
      killed.set(pid, await fleet.kill(pid));
      await eventually(async () => (await fleet.completed()) > before, 'work in the slot of the killed process');
    }
    await eventually(async () => (await fleet.completed()) === 42, 'the end of all jobs');
    expect(mostAtOnce(fleet.marks(), killed)).toBe(2);
    expect((await fleet.queue.stats()).queues.mail).toMatchObject({ processing: 0, pending: 0, blockedBy: null });
  }, 40_000);

  test('three processes start no more jobs in any window than the rate, by the instants of the store', async () => {
    const [max, per] = [6, 200];
    const fleet = await startFleet(
      engine,
      { rate: { max, per } },
      Array.from({ length: 40 }, () => 0),
    );
    await eventually(async () => (await fleet.completed()) === 40, 'the end of all jobs');
    const { items } = await fleet.queue.find({ limit: 200 });
    const starts = items.map(({ startedAt }) => startedAt!.getTime());
    expect(starts).toHaveLength(40);
    const windows = starts.map((from) => starts.filter((at) => at >= from && at < from + per).length);
    expect(Math.max(...windows)).toBeLessThanOrEqual(max);
  }, 40_000);
});
