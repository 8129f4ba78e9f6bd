// A worker of a limited queue, in a process of its own: node limited.js STORE LEDGER
import { appendFileSync } from 'node:fs';
import { defineJob, open } from '../../src/index.js';
import { instant } from './ledger.js';
import { leaveWithParent } from './parent.js';

/** A line of the ledger. A job's claim is made before its start is written, and ends after its end is. */
export interface Mark {
  readonly id: string;
  readonly pid: number;
  readonly at: number;
  readonly what: 'start' | 'end';
}

const [store, ledger] = process.argv.slice(2) as [string, string];
const write = (id: string, what: Mark['what']): void =>
  appendFileSync(ledger, `${JSON.stringify({ id, pid: process.pid, at: instant(), what } satisfies Mark)}\n`);

/** Takes its milliseconds; below 0, as long as its process lives, unless a process has died of it before. */
const letter = defineJob<number, null>('letter', {
  async run({ input, job }) {
    write(job.id, 'start');
    if (input >= 0 || job.stalls === 0)
      await new Promise<void>((resolve) => {
        if (input >= 0) setTimeout(resolve, input);
      });
    write(job.id, 'end');
    return null;
  },
});

const queue = await open(store);
await queue.work([letter], { concurrency: 8, lease: '1500ms', poll: 20, maxStalls: 1_000 });
const leave = leaveWithParent();
process.once('message', () => {
  void queue.close().then(() => leave());
});
process.send!('ready');
