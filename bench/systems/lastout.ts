/** lastout as its users get it: retention at its default, every feature on. */
import { defineJob, open } from '../../src/index.js';
import type { Contender, Where } from '../contender.js';

export async function openContender({ store, at, setup, payload }: Where): Promise<Contender> {
  const queue = await open(urlOf(store, at, setup));
  const bare = defineJob('mail', {});
  return {
    add: () => queue.enqueue(bare, payload),
    addMany: (count) => queue.enqueueMany(Array.from({ length: count }, () => ({ type: bare, input: payload }))),
    async work(concurrency, onJob) {
      const mail = defineJob('mail', {
        async run() {
          onJob();
        },
      });
      const worker = await queue.work([mail], { concurrency });
      // It stops when the ending of each job that it ran is acknowledged by the store.
      return { settled: () => worker.stop(), stop: () => worker.stop() };
    },
    close: () => queue.close(),
  };
}

function urlOf(store: Where['store'], at: string, setup: string): string {
  if (store === 'memory') return 'memory:';
  return store === 'sqlite' ? `sqlite:${at}?synchronous=${setup}` : at;
}
