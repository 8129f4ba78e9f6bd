/** A program with nothing else to do than to await one answer after the other: `node awaited-child.js URL`. */
import { defineJob, open } from '../src/index.js';

const [url = ''] = process.argv.slice(2);
const queue = await open(url);
await queue.stopPeriodicCleanup();
const { id } = await queue.enqueue('job', null);
const type = defineJob('short', { run: () => undefined });
const calls: { readonly [name: string]: () => Promise<unknown> } = {
  sweep: () => queue.sweep(),
  plan: () => queue.plan(),
  audit: () => queue.audit(),
  explain: () => queue.explain(id),
  ledger: () => queue.ledger(),
  logs: () => queue.logs(id),
  hold: () => queue.hold(id, 'for a while'),
  release: () => queue.release(id),
  artifacts: () => queue.artifacts.list(id),
  remove: () => queue.remove(id),
  schedule: () => queue.schedule('hourly', type, null, { every: '1h' }),
  unschedule: () => queue.unschedule('hourly'),
  async runUntilIdle() {
    await queue.enqueue(type, null);
    await queue.runUntilIdle([type]);
  },
  async wait() {
    const { id } = await queue.enqueue(type, null, { delay: '300ms' });
    await queue.work([type]);
    await queue.wait(id);
  },
  async events() {
    const events = queue.events();
    await queue.enqueue(type, null, { delay: '300ms' });
    for await (const { name } of events) if (name === 'completed') break;
  },
  stats: () => queue.stats(),
  health: () => queue.health(),
  close: () => queue.close(),
};
for (const [name, call] of Object.entries(calls)) {
  await new Promise((resolve) => setTimeout(resolve, 20)); // what was under way before is over
  await call();
  process.stdout.write(`${name} `);
}
