/** A process that keeps a schedule and may die at a chosen firing: `node schedules-child.js FILE WHEN`. */
import type { SettleRequest } from '../src/core/store.js';
import { open } from '../src/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { tapped } from './tapped.js';

const [file = '', when = 'never'] = process.argv.slice(2);
let firings = 0;

/** As the machine does it: no handler runs, nothing is closed. */
function die(): Promise<never> {
  process.kill(process.pid, 'SIGKILL');
  return new Promise(() => undefined);
}

const store = tapped(sqliteStore({ file }), (real) => ({
  async settle(request: SettleRequest) {
    const fires = request.settlements.some(({ then }) => then !== undefined && then.length > 0);
    if (fires) firings += 1;
    if (fires && firings === 2 && when === 'before') return die();
    const answer = await real.settle(request);
    return fires && firings === 2 && when === 'after' ? die() : answer;
  },
}));
const queue = await open(store);
await queue.schedule('beat', 'beat', null, { every: '1s', missed: 'all' });
process.send!('ready');
setInterval(() => undefined, 1_000);
process.on('disconnect', () => process.exit());
