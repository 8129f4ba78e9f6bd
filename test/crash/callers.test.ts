// Processes that call one store at the same time, from its first opening on.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { open, type Queue } from '../../src/index.js';
import { emptyStore, type EngineName, engines } from '../engines.js';
import type { Order, Report } from './caller.js';
import { compilePrograms, type Programs } from '../programs.js';

/** What several processes can open. */
const shared = engines.filter((engine) => engine !== 'memory');

let programs: Programs;
beforeAll(() => {
  programs = compilePrograms();
}, 60_000);

/** One process per order. All of them open the new file at once, and call only when all of them have. */
async function callTogether(url: string, orders: readonly Order[]): Promise<readonly Report[]> {
  const children = orders.map(() => fork(programs.caller, [url], { execArgv: [] }));
  onTestFinished(() => {
    for (const child of children) child.kill('SIGKILL');
  });
  const gone = children.map((child) =>
    once(child, 'exit').then(([code]) => {
      throw new Error(`A caller ended with ${String(code)} and said nothing`);
    }),
  );
  const words = async <T>(): Promise<T[]> =>
    Promise.all(
      children.map(async (child, index) => (await Promise.race([once(child, 'message'), gone[index]!]))[0] as T),
    );
  await words<'ready'>();
  const reports = words<Report>();
  children.forEach((child, index) => child.send(orders[index]!));
  const said = await reports;
  await Promise.allSettled(gone);
  return said;
}

/** Of a store that nobody has opened yet, where that is possible. */
async function newUrl(engine: EngineName): Promise<string> {
  return (await emptyStore[engine]()).url.replace('?synchronous=normal', '');
}

async function openOn(url: string): Promise<Queue> {
  const queue = await open(url);
  onTestFinished(async () => void (await queue.close()));
  return queue;
}

describe.each(shared)('on %s', (engine) => {
  test('three processes that skip at once make one pending job, and every caller gets its id', async () => {
    const url = await newUrl(engine);
    const reports = await callTogether(
      url,
      Array.from({ length: 3 }, (): Order => ({ call: 'skip', times: 20 })),
    );
    const answers = reports.flatMap((report) => report.answers);
    expect(reports.flatMap((report) => report.errors)).toEqual([]);
    expect(answers).toHaveLength(60);
    expect(new Set(answers.map(({ id }) => id)).size).toBe(1);
    expect(answers.filter(({ outcome }) => outcome === 'created')).toHaveLength(1);
    expect(answers.filter(({ outcome }) => outcome === 'skipped')).toHaveLength(59);

    const queue = await openOn(url);
    const { items } = await queue.find();
    expect(items.map(({ id, state }) => ({ id, state }))).toEqual([{ id: answers[0]!.id, state: 'pending' }]);
  }, 60_000);

  test('eight processes that enqueue thousands of jobs at once lose none, and none is told that the store is busy', async () => {
    const url = await newUrl(engine);
    const orders: Order[] = [
      ...Array.from({ length: 4 }, (): Order => ({ call: 'many', batches: 10, size: 100 })),
      ...Array.from({ length: 4 }, (): Order => ({ call: 'one', rounds: 20, atOnce: 10 })),
    ];
    const reports = await callTogether(url, orders);
    expect(reports.flatMap((report) => report.errors)).toEqual([]);
    const ids = new Set(reports.flatMap((report) => report.answers).map(({ id }) => id));
    expect(ids.size).toBe(4 * 10 * 100 + 4 * 20 * 10);

    const queue = await openOn(url);
    expect((await queue.stats()).total.pending).toBe(ids.size);
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page: Awaited<ReturnType<Queue['find']>> = await queue.find({
        limit: 200,
        ...(cursor !== '' && { cursor }),
      });
      for (const { id } of page.items) ids.delete(id);
      cursor = page.next;
    }
    expect(ids.size).toBe(0);
  }, 60_000);
});
