// Through a real PgBouncer in transaction mode: with each statement a connection may get another session, so nothing of a
// session may be needed, left in it, or listened to.
import { describe, expect, onTestFinished, test } from 'vitest';
import { pgbouncerPrograms } from '../../scripts/services/index.mjs';
import { distribution } from '../../scripts/services/packages.mjs';
import { startPgbouncer } from '../../scripts/services/pgbouncer.mjs';
import { defineJob, open } from '../../src/index.js';
import { expectNothingLeft } from '../../src/testing/index.js';
import { emptyPostgres, isServed } from '../services.js';
import { faultsIn, leftovers } from './postgres-audit.js';
import { plainClient, plainPool } from './postgres-support.js';

const found = await pgbouncerPrograms();
const missing = 'why' in found ? `, skipped: PgBouncer is ${found.why}` : '';
/** As for the servers themselves: in CI, and as root on Debian or Ubuntu, it has to be there. */
const mustBeThere =
  !['', '0', 'false', undefined].includes(process.env.CI) || (process.getuid?.() === 0 && distribution() !== null);

async function pooled(): Promise<{ readonly url: string; readonly direct: string }> {
  const direct = await emptyPostgres();
  if ('why' in found) throw new Error(`There is no PgBouncer: ${found.why}`);
  const pooler = await startPgbouncer(found.programs, direct);
  onTestFinished(() => pooler.dispose());
  return { url: pooler.url, direct };
}

describe.skipIf(!isServed('postgres') || (missing !== '' && !mustBeThere))(`behind PgBouncer${missing}`, () => {
  test('jobs are stored once, run in turn and tried again, nothing is left of them, and nobody listens', async () => {
    const { url, direct } = await pooled();
    const ran: number[] = [];
    const tries = new Map<number, number>();
    const [atOnce, most] = [new Set<number>(), { ofOneKey: 0 }];
    const mail = defineJob<any, any>('mail', {
      attempts: 2,
      backoff: () => 0,
      exclusiveKey: (input: number) => `key-${input % 3}`,
      async run({ input }) {
        const key = input % 3;
        if (atOnce.has(key)) most.ofOneKey += 1;
        atOnce.add(key);
        await new Promise((resolve) => setTimeout(resolve, 1));
        atOnce.delete(key);
        tries.set(input, (tries.get(input) ?? 0) + 1);
        if (input % 5 === 0 && tries.get(input) === 1) throw new Error('not yet');
        ran.push(input);
        return null;
      },
    });
    const queues = await Promise.all([open(url), open(url)]);
    onTestFinished(async () => void (await Promise.all(queues.map((one) => one.close()))));
    const [queue, other] = queues;

    const numbers = Array.from({ length: 100 }, (_, n) => n);
    await Promise.all(numbers.map((n) => (n % 2 ? queue : other).enqueue(mail, n)));
    const once = { deduplication: 'skip', deduplicationKey: 'k', delay: '1h' } as const;
    const [first, second] = [await queue.enqueue(mail, 1_000, once), await other.enqueue(mail, 1_001, once)];
    expect(second).toEqual({ id: first.id, outcome: 'skipped' });
    await queue.cancel(first.id);

    const workers = await Promise.all(queues.map((one) => one.work([mail], { concurrency: 8 })));
    await expect.poll(() => ran.length, { timeout: 20_000 }).toBe(numbers.length);
    await Promise.all(workers.map((worker) => worker.stop()));
    expect(ran.toSorted((a, b) => a - b)).toEqual(numbers);
    expect(most.ofOneKey).toBe(0);
    expect([...tries.values()].filter((n) => n === 2)).toHaveLength(20);

    const watcher = await plainClient(direct);
    const { rows } = await watcher.query<{ query: string }>(
      `select query from pg_stat_activity where datname = current_database() and query ~* '^\\s*(listen|set)\\y'`,
    );
    expect(rows).toEqual([]);
    await expectNothingLeft(queue);
    await Promise.all(queues.map((one) => one.close()));
    const pool = plainPool(direct);
    expect(await faultsIn(pool)).toEqual([]);
    const finished = numbers.length + 1;
    expect(await leftovers(pool)).toEqual({ jobs: finished, done: finished });
  }, 60_000);
});
