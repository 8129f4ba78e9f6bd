/** A program of its own for tests with signals and several processes: `node worker-child.js MODE FILE`. */
import { closeOnSignals, defineJob, open } from '../src/index.js';

const [mode = '', file = ''] = process.argv.slice(2);

function say(...words: unknown[]): void {
  process.stdout.write(`${words.join(' ')}\n`);
}

const logger = {
  debug: () => undefined,
  info: () => undefined,
  warn: (message: string) => say('warn', message),
  error: (message: string) => say('error', message),
};
const queue = await open(`sqlite:${file}`, { logger });

/** Runs until its signal aborts, and says why. */
const waits = defineJob<any, any>('waits', {
  run: ({ job, signal }) =>
    new Promise((_, reject) => {
      // The handler's own timer keeps the process alive, as real work would.
      const alive = setInterval(() => undefined, 1_000);
      say('started', job.id);
      signal.addEventListener('abort', () => {
        clearInterval(alive);
        say('aborted', (signal.reason as { code: string }).code);
        reject(signal.reason as Error);
      });
    }),
});
/** Takes as long as its input says, and does not care about signals. */
const takes = defineJob<any, any>('takes', {
  async run({ input, job }) {
    say('started', job.id);
    await new Promise((resolve) => setTimeout(resolve, Number(input)));
    say('finished', job.id);
    return 'done';
  },
});

/** Enqueues one like it, as often as its input says, from within its handler. */
const spawns = defineJob<any, any>('spawns', {
  async run({ input }) {
    if (Number(input) > 0) await queue.enqueue('spawns', Number(input) - 1);
  },
});

/** Waits for something that keeps no process alive. */
const dozes = defineJob<any, any>('dozes', {
  run: () => new Promise((resolve) => setTimeout(() => resolve('awake'), 300).unref()),
});

const modes: Record<string, () => Promise<void>> = {
  async worker() {
    await queue.work([waits, takes], { lease: '1s', heartbeat: 200 });
    closeOnSignals(queue);
    say('ready');
  },
  async patient() {
    await queue.work([takes]);
    closeOnSignals(queue, { grace: '20s' });
    say('ready');
  },
  async failing() {
    closeOnSignals(queue, {
      async onClosed({ finished }) {
        say('closed', finished);
        throw new Error('the other thing does not close');
      },
    });
    say('ready');
  },
  async waiting() {
    await queue.work([takes]);
    const { id } = await queue.enqueue(takes, 50, { delay: 400 });
    say('ready');
    const job = await queue.wait(id);
    say('state', job.state);
    await queue.close();
  },
  /** One-shot work: nothing but its own report ends it. */
  async once() {
    say('report', JSON.stringify(await queue.runUntilIdle([takes, spawns, dozes])));
    await queue.close();
  },
  /** Takes a job and dies with it. */
  async crash() {
    await queue.work([waits], { lease: '1s', heartbeat: 200 });
    say('ready');
  },
};

await modes[mode]!();
