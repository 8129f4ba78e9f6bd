// A process whose jobs take rooms on lease: node lessee.js STORE PORT AHEAD_MS
import { defineJob, open } from '../../src/index.js';
import { leaveWithParent } from './parent.js';
import { roomsOf } from './room.js';

interface Stay {
  readonly how: 'returns' | 'throws' | 'forgets';
  readonly ms: number;
}

const [store, port, aheadMs] = process.argv.slice(2) as [string, string, string];
const clock = { now: () => new Date(Date.now() + Number(aheadMs)) };
const { room, hold, letGo } = roomsOf(Number(port), () => clock.now().getTime());

const stay = defineJob<Stay>('stay', {
  attempts: 1_000,
  backoff: { type: 'fixed', base: 100 },
  async run({ input: { how, ms }, job, lease }) {
    // What is forgotten is nobody's but the clock's.
    const mine = how === 'forgets' ? await queue.lease(room, null, { ttl: '40s' }) : await lease(room, null);
    await hold(mine.name);
    await new Promise((resolve) => setTimeout(resolve, ms));
    await letGo(mine.name);
    if (how === 'throws' && job.attempts === 1) throw new Error('The first attempt fails');
    return null;
  },
});

const queue = await open(store, { clock, resources: [room] });
await queue.work([stay], { concurrency: 10, poll: 50, maxStalls: 1_000 });
const leave = leaveWithParent();
process.once('message', () => {
  void queue.close({ grace: 0 }).then(() => leave());
});
process.send!({ ready: true });
