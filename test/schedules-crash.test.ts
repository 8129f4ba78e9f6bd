// Schedules on one SQLite file under processes that are killed: no tick is lost, none is doubled.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { open, type Queue } from '../src/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { compilePrograms } from './programs.js';
import { closedAfterwards, tapped, temporaryFolder } from './support.js';

const program = compilePrograms().schedules;

function start(file: string, dies: 'before' | 'after' | 'never'): ChildProcess {
  const child = fork(program, [file, dies], { execArgv: [] });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}

async function ticksIn(queue: Queue): Promise<number[]> {
  const { items } = await queue.find({ type: 'beat', limit: 200 });
  return items.map(({ metadata }) => Date.parse(metadata.tick as string)).sort((a, b) => a - b);
}

/** From the first one on, one each second. */
async function expectEveryTick(queue: Queue, ticks: readonly number[]): Promise<void> {
  const [schedule, ...others] = (await queue.find({ type: 'lastout.schedule' })).items;
  expect(others).toEqual([]);
  const from = schedule!.createdAt.getTime();
  expect(ticks).toEqual(ticks.map((_, index) => from + 1_000 * (index + 1)));
}

it.each([
  ['before', 1],
  ['after', 2],
] as const)('killed just %s the settlement of a tick, a process is followed by another', async (dies, fired) => {
  const file = join(temporaryFolder(), 'jobs.db');
  const child = start(file, dies);
  const [, signal] = (await once(child, 'exit')) as [number | null, string | null];
  expect(signal).toBe('SIGKILL');
  const witness = await open(`sqlite:${file}`, { clock: { now: () => new Date(0) } });
  expect(await ticksIn(witness)).toHaveLength(fired);
  await witness.close();
  // By the clock of the second process the claim of the first has lapsed: no need to wait for it.
  const clock = { now: () => new Date(Date.now() + 30_000) };
  const queue = closedAfterwards(await open(`sqlite:${file}`, { clock }));
  await queue.sweep();
  const ticks = await ticksIn(queue);
  expect(ticks.length).toBeGreaterThanOrEqual(30);
  await expectEveryTick(queue, ticks);
});

it('two processes and a killing: each second has its job', { timeout: 60_000 }, async () => {
  const file = join(temporaryFolder(), 'jobs.db');
  const children = [start(file, 'never'), start(file, 'never')];
  await Promise.all(children.map((child) => once(child, 'message')));
  // This process only watches: it takes no schedule.
  const nothing = { epoch: 0, at: 0, jobs: [], nextDueInMs: null, more: false };
  const queue = closedAfterwards(await open(tapped(sqliteStore({ file }), () => ({ claim: async () => nothing }))));
  const untilTicks = (n: number): Promise<void> =>
    expect.poll(async () => (await ticksIn(queue)).length, { timeout: 45_000 }).toBeGreaterThanOrEqual(n);
  await untilTicks(2);
  children[0]!.kill('SIGKILL');
  const atKill = (await ticksIn(queue)).length;
  await untilTicks(atKill + 2);
  children[1]!.kill('SIGKILL');
  await expectEveryTick(queue, await ticksIn(queue));
});
