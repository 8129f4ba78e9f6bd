// A producer process: node producer.js STORE LEDGERS NAME SEED [OUTAGES]. It goes on until it is told to close.
import { type JobType, LastoutError, open, type Queue } from '../../src/index.js';
import { flaky, keyed, plain, quick, skipped, slow } from './jobs.js';
import { instant, openLedger } from './ledger.js';
import { leaveWithParent } from './parent.js';
import { seeded } from './seeded.js';

const [store, ledgers, name, seed, ...codes] = process.argv.slice(2) as [string, string, string, string, ...string[]];
const random = seeded(Number(seed));
const ledger = openLedger(ledgers, name);
/** Enough to keep every worker busy, little enough to be gone soon after the last one. */
const backlogMax = 120;
const batchMax = 12;
let closing = false;

interface NewJob {
  readonly type: JobType<unknown, unknown>;
  readonly input: unknown;
}

function draw(): NewJob {
  const ms = random.below(21);
  const key = `key-${random.below(5)}`;
  const die = random.below(20);
  if (die < 7) return { type: plain, input: { ms } };
  if (die < 9) return { type: slow, input: { ms: 60 + random.below(400) } };
  if (die < 11) return { type: flaky, input: { ms } };
  if (die < 14) return { type: keyed, input: { ms: 5 + ms, key } };
  if (die < 16) return { type: skipped, input: { ms: 5 + ms, key } };
  return { type: quick, input: { ms: 0 } };
}

async function produce(queue: Queue): Promise<void> {
  const jobs = Array.from({ length: 1 + random.below(batchMax) }, draw);
  const askedAt = instant();
  // Both ways in: one step for all, or calls of their own.
  const answers =
    random.below(2) === 0
      ? await queue.enqueueMany(jobs)
      : await Promise.all(jobs.map(({ type, input }) => queue.enqueue(type, input)));
  const at = instant();
  ledger.record(
    ...answers.map(({ id }, index) => ({
      line: 'acked' as const,
      id,
      type: jobs[index]!.type.name,
      askedAt,
      at,
    })),
  );
}

const queue = await open(store);
const leave = leaveWithParent();
process.once('message', () => {
  closing = true;
});
process.send!({ owner: null });
while (!closing) {
  try {
    const { total } = await queue.stats();
    if (total.pending - total.delayed < backlogMax) await produce(queue);
  } catch (error) {
    // While the store cannot be reached nobody is promised anything; every other refusal ends this process.
    if (!(error instanceof LastoutError) || !codes.includes(error.code)) throw error;
  }
  await new Promise((resolve) => setTimeout(resolve, 5));
}
await queue.close();
leave();
