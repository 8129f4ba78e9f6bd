/**
 * A process that gets in the way of others like it wherever steps wait for locks: `node locks-child.js URL MS`. Batches and single
 * jobs with exclusive keys, slots, subjects and limits; endings of every kind; moves by filter; transactions of its own.
 */
import pg from 'pg';
import { defineJob, LastoutError, open, snooze } from '../../src/index.js';

const [url = '', ms = ''] = process.argv.slice(2);
const end = performance.now() + Number(ms);
const below = (n: number): number => Math.floor(Math.random() * n);
const pick = <T>(list: readonly T[]): T => list[below(list.length)]!;
const pause = (forMs: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, forMs));

const counts: { [what: string]: number } = {};
const tookMs: number[] = [];
const count = (what: string): void => void (counts[what] = (counts[what] ?? 0) + 1);

const types = ['one', 'two'].map((name) =>
  defineJob<number, null>(name, {
    attempts: 3,
    backoff: () => below(20),
    async run({ input }) {
      count('runs');
      await pause(below(4));
      if (input % 7 === 0) throw new Error('not yet');
      return input % 11 === 0 ? snooze(below(20)) : null;
    },
  }),
);

function randomJob() {
  const key = `key-${below(8)}`;
  const options = {
    exclusiveKey: key,
    queue: pick(['default', 'small', 'narrow']),
    ...(below(3) === 0 && { subject: `thing:${below(4)}` }),
    ...(below(4) === 0 && { delay: below(30) }),
    ...(below(4) === 0 && { deduplication: pick(['skip', 'replace', 'coalesce'] as const) }),
    ...(below(2) === 0 && { deduplicationKey: `slot-${below(8)}` }),
  };
  return { type: pick(types), input: below(1_000), options };
}

/** What users meet: a full queue, a subject that has ended. */
async function timed(what: string, work: () => Promise<unknown>): Promise<void> {
  const began = performance.now();
  try {
    await work();
    count(what);
  } catch (error) {
    if (!(error instanceof LastoutError) || !['QUEUE_FULL', 'SUBJECT_ENDED'].includes(error.code)) throw error;
    count(error.code);
  }
  tookMs.push(performance.now() - began);
}

async function over(act: () => Promise<void>, restMs: number): Promise<void> {
  while (performance.now() < end) {
    await act();
    await pause(below(restMs));
  }
}

/** What waits is bounded, or moves of thousands would be all that there is. */
const limits = {
  default: { maxPending: 80 },
  small: { maxPending: 20, concurrency: 4 },
  narrow: { maxPending: 40, concurrency: 3 },
};
const queue = await open(url, { queues: limits });
const client = new pg.Client({ connectionString: url });
await client.connect();
const workers = [await queue.work(types, { concurrency: 16 }), await queue.work(types, { concurrency: 16 })];

const filter = () => ({
  type: pick(types).name,
  ...(below(2) === 0 && { state: pick(['pending', 'processing'] as const) }),
});
const moves = [
  () => queue.cancel(filter(), { force: below(2) === 0 }),
  () => queue.reschedule(filter(), { delay: below(20) }),
  () => queue.remove({ ...filter(), state: 'pending' }),
  () => queue.retry({ type: pick(types).name, state: 'failed' }),
  () => queue.hold({ subject: `thing:${below(4)}` }, 'for a moment'),
  () => queue.release({ subject: `thing:${below(4)}` }),
  () => queue.sweep(),
  async () => {
    await queue.endSubject('thing:0', 'over');
    await queue.liftSubject('thing:0');
  },
];

await Promise.all([
  ...Array.from({ length: 3 }, () =>
    over(() => timed('batches', () => queue.enqueueMany(Array.from({ length: 10 }, randomJob))), 20),
  ),
  ...Array.from({ length: 2 }, () =>
    over(async () => {
      const { type, input, options } = randomJob();
      await timed('jobs', () => queue.enqueue(type, input, options));
    }, 5),
  ),
  over(() => timed('moves', async () => void (await pick(moves)())), 60),
  over(async () => {
    const { type, input, options } = randomJob();
    await client.query('begin');
    await timed('transactions', () => queue.enqueue(type, input, { ...options, tx: client }));
    await client.query('commit');
  }, 30),
]);
await Promise.all(workers.map((worker) => worker.stop()));
await client.end();
await queue.close();
tookMs.sort((a, b) => a - b);
const at = (share: number): number => Math.round(tookMs[Math.floor(tookMs.length * share)] ?? 0);
process.stdout.write(JSON.stringify({ ...counts, p50: at(0.5), p90: at(0.9), p99: at(0.99), most: at(0.9999) }));
