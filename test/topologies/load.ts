/** Producers and a worker on one queue while its servers change places; afterwards, what became of all that was acknowledged. */
import { z } from 'zod';
import { type Context, defineJob, handle, type Job, LastoutError, type Queue } from '../../src/index.js';
import { everyJob } from '../crash/afterwards.js';
import { pause } from '../crash/fleet.js';

const input = z.object({ n: z.number() });
const plain = defineJob('plain', { input, keep: 'forever' });
const keyed = defineJob('keyed', {
  input,
  keep: 'forever',
  subject: ({ n }) => `trip:${n % 5}`,
  exclusiveKey: ({ n }) => `lane-${n % 5}`,
});

export interface Losses {
  /** Jobs whose enqueue was answered, and those of them that are not stored. */
  readonly acknowledged: number;
  readonly lost: readonly string[];
  /** Jobs that ran more than once: a claim or an ending was lost. Nothing fails and no lease lapses here. */
  readonly repeated: readonly string[];
  /** Jobs of which two runs overlapped. */
  readonly overlapped: readonly string[];
  /** What callers were told, by code, and how often. */
  readonly refused: { readonly [code: string]: number };
  readonly jobs: readonly Job[];
}

export interface Load {
  /** How many enqueues were answered so far. */
  readonly acknowledged: number;
  /** Resolves when so many more enqueues were answered. */
  progress(count: number): Promise<void>;
  /** Ends the producers, waits until all that is stored has run, and tells what was lost. */
  judged(): Promise<Losses>;
  /** The same at once: what has lost its ending runs again only when its lease has lapsed. */
  judgedNow(): Promise<Losses>;
}

const producers = 20;

/** `queue` produces, and `working` works: two processes would be no different, because each has its own connections. */
export async function startLoad(queue: Queue, working: Queue = queue): Promise<Load> {
  const acknowledged: string[] = [];
  const refused: Record<string, number> = {};
  const runs = new Map<string, number>();
  const running = new Set<string>();
  const overlapped = new Set<string>();
  let isOver = false;

  const run = async ({ input, job }: Context<{ n: number }>): Promise<number> => {
    if (running.has(job.id)) overlapped.add(job.id);
    running.add(job.id);
    runs.set(job.id, (runs.get(job.id) ?? 0) + 1);
    await pause(input.n % 3);
    running.delete(job.id);
    return input.n;
  };
  async function produce(first: number): Promise<void> {
    for (let n = first; !isOver; n += producers) {
      try {
        const { id } = await queue.enqueue(n % 4 === 0 ? keyed : plain, { n });
        acknowledged.push(id);
      } catch (error) {
        const code = error instanceof LastoutError ? error.code : String(error);
        refused[code] = (refused[code] ?? 0) + 1;
        await pause(5);
      }
    }
  }
  const worker = await working.work([handle(plain, run), handle(keyed, run)], { concurrency: 20 });
  const producing = Array.from({ length: producers }, (_, index) => produce(index));

  async function judged(): Promise<Losses> {
    await worker.stop();
    const jobs = await everyJob(queue);
    const stored = new Set(jobs.map(({ id }) => id));
    return {
      acknowledged: acknowledged.length,
      lost: acknowledged.filter((id) => !stored.has(id)),
      repeated: [...runs].flatMap(([id, times]) => (times > 1 ? [id] : [])),
      overlapped: [...overlapped],
      refused,
      jobs,
    };
  }

  return {
    get acknowledged() {
      return acknowledged.length;
    },
    async progress(count) {
      const wanted = acknowledged.length + count;
      for (const end = performance.now() + 30_000; acknowledged.length < wanted; await pause(5))
        if (performance.now() > end) throw new Error(`${wanted - acknowledged.length} more answers: not within 30 s`);
    },
    async judged() {
      isOver = true;
      await Promise.all(producing);
      await drained(queue);
      return judged();
    },
    async judgedNow() {
      isOver = true;
      await Promise.all(producing);
      return judged();
    },
  };
}

async function drained(queue: Queue): Promise<void> {
  let total: { pending: number; processing: number } | null = null;
  for (const end = performance.now() + 45_000; performance.now() < end; await pause(20)) {
    total = await queue.stats().then(
      (stats) => stats.total,
      () => total,
    );
    if (total && total.pending + total.processing === 0) return;
  }
  throw new Error(`not all jobs have ended: ${JSON.stringify(total)}`);
}
