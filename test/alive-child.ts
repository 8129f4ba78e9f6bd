/** A program that does nothing but what its mode says, and never ends itself: `node alive-child.js MODE URL`. */
import { closeOnSignals, defineJob, open } from '../src/index.js';
import { processResource } from '../src/resources/process.js';

const [mode = '', url = ''] = process.argv.slice(2);
const say = (word: string): void => void process.stdout.write(`${word}\n`);
const queue = await open(url, { alerts: { every: '1s' }, resources: [processResource()] });
const later = defineJob<null>('later', { run: () => say('ran') });

const modes: Record<string, () => Promise<void>> = {
  /** Nothing is due for a while, and then its handler closes the queue. */
  async worker() {
    const closes = defineJob<null>('closes', { run: () => void queue.close().then(() => say('closed')) });
    await queue.work([closes]);
    await queue.enqueue(closes, null, { delay: '500ms' });
  },
  async stopped() {
    const worker = await queue.work([later]);
    await worker.stop();
  },
  async unref() {
    await queue.enqueue(later, null, { delay: '1h' });
    await queue.work([later], { unref: true });
  },
  /** Tending, cleanup, alerts, schedules, the ends of leases, sweeps for orphans, and one who listens. */
  async housekeeping() {
    queue.on('completed', () => undefined);
    queue.defineSubject('trip', { check: async (ids) => ids.map(() => 'present'), every: '1s' });
    await queue.schedule('hourly', later, null, { every: '1h' });
  },
  /** No worker: it stays all the same, because it was asked to wait for a signal. */
  async signals() {
    closeOnSignals(queue, { onClosed: ({ finished }) => say(`closed, ${finished} finished`) });
    say('ready');
  },
  async closedByHand() {
    await queue.work([later]);
    closeOnSignals(queue);
    await queue.close();
    say('closed');
  },
};

await modes[mode]!();
