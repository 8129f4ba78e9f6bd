// A worker process: node worker.js STORE LEDGERS NAME '{"types":["plain"],"concurrency":4,"maxStalls":1000}'
import { handle, type JobType, type Logger, open } from '../../src/index.js';
import * as types from './jobs.js';
import type { Work } from './jobs.js';
import { instant, openLedger } from './ledger.js';
import { leaveWithParent } from './parent.js';

export interface WorkerOrder {
  readonly types: readonly (keyof typeof runnable)[];
  readonly concurrency: number;
  readonly maxStalls: number;
}

const { plain, slow, flaky, keyed, skipped, quick, blocking, poison } = types;
const runnable = { plain, slow, flaky, keyed, skipped, quick, blocking, poison };
/** More than a worker ever claims ahead of its slots. */
const aheadMax = 500;

const [store, ledgers, name, orderText] = process.argv.slice(2) as [string, string, string, string];
const order = JSON.parse(orderText) as WorkerOrder;
const ledger = openLedger(ledgers, name);

const hear = (message: string, fields?: object): void => {
  if (message !== 'Late result refused') return;
  const { id, epoch } = fields as { id: string; epoch: number };
  ledger.write({ line: 'refused', id, epoch, at: instant() });
};
const logger: Logger = { debug: hear, info: hear, warn: hear, error: hear };

/** Nothing else of this process runs meanwhile, heartbeats least of all. */
function block(ms: number): void {
  if (ms === 0) return;
  ledger.write({ line: 'block', name, at: instant() });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  ledger.write({ line: 'unblock', name, at: instant() });
}

/** The handlers never heed their signal: what they say too late must be refused, not left unsaid. */
function withCode(type: JobType<Work, unknown>): JobType<Work, unknown> {
  return handle(type, async ({ input, job, signal }) => {
    const { id, epoch } = job;
    ledger.write({ line: 'start', id, type: type.name, epoch, at: instant() });
    signal.addEventListener('abort', () => {
      if (signal.reason.code === 'STALE_CLAIM') ledger.write({ line: 'lost', id, epoch, at: instant() });
    });
    if (type.name === blocking.name) block(job.stalls === 0 ? input.ms : 0);
    else if (input.ms > 0) await new Promise((resolve) => setTimeout(resolve, input.ms));
    if (type.name === poison.name) process.kill(process.pid, 'SIGKILL');
    const threw = type.name === flaky.name && job.attempts === 1;
    ledger.write({ line: 'end', id, epoch, how: threw ? 'threw' : 'value', at: instant() });
    if (threw) throw new Error('The first attempt fails');
    return { epoch };
  });
}

const queue = await open(store, { logger });
const worker = await queue.work(
  order.types.map((type) => withCode(runnable[type] as JobType<Work, unknown>)),
  { concurrency: order.concurrency, maxStalls: order.maxStalls, lease: '1s', poll: 50 },
);
ledger.write({
  line: 'worker',
  mayHold: order.concurrency + (order.types.includes('quick') ? aheadMax : 0),
});

const leave = leaveWithParent();
process.once('message', () => {
  void queue.close().then(() => leave());
});
process.send!({ owner: worker.id });
