// A process that opens the store together with others, waits for the word, calls, and reports: node caller.js STORE.
import { type Enqueued, LastoutError, open, type Queue } from '../../src/index.js';
import { plain, skipped } from './jobs.js';
import { leaveWithParent } from './parent.js';

export type Order =
  /** As many calls at once, all for one key. */
  | { readonly call: 'skip'; readonly times: number }
  /** Batches one after another. */
  | { readonly call: 'many'; readonly batches: number; readonly size: number }
  /** Single calls, some at once. */
  | { readonly call: 'one'; readonly rounds: number; readonly atOnce: number };

export interface Report {
  readonly answers: readonly Pick<Enqueued, 'id' | 'outcome'>[];
  /** `code: message` of every call that was refused. */
  readonly errors: readonly string[];
}

async function carryOut(queue: Queue, order: Order): Promise<Report> {
  const answers: Enqueued[] = [];
  const errors: string[] = [];
  const note = async (call: Promise<Enqueued | readonly Enqueued[]>): Promise<void> => {
    try {
      answers.push(...[await call].flat());
    } catch (error) {
      errors.push(error instanceof LastoutError ? `${error.code}: ${error.message}` : String(error));
    }
  };
  const some = (n: number, call: () => Promise<Enqueued>): Promise<void>[] =>
    Array.from({ length: n }, () => note(call()));
  switch (order.call) {
    case 'skip':
      await Promise.all(some(order.times, () => queue.enqueue(skipped, { ms: 0, key: 'one' })));
      break;
    case 'many':
      for (let batch = 0; batch < order.batches; batch++)
        await note(
          queue.enqueueMany(Array.from({ length: order.size }, () => ({ type: plain, input: { ms: batch } }))),
        );
      break;
    case 'one':
      for (let round = 0; round < order.rounds; round++)
        await Promise.all(some(order.atOnce, () => queue.enqueue(plain, { ms: round })));
      break;
  }
  return { answers, errors };
}

const queue = await open(process.argv[2]!);
const leave = leaveWithParent();
process.once('message', (order: Order) => {
  void carryOut(queue, order)
    .then((report) => queue.close().then(() => report))
    .then((report) => process.send!(report, () => leave()));
});
process.send!('ready');
