/** An array and a loop. */
import type { Contender, Where } from '../contender.js';

export async function openContender({ payload }: Where): Promise<Contender> {
  let waiting: unknown[] = [];
  return {
    add: () => void waiting.push(payload),
    async addMany(count) {
      for (let i = 0; i < count; i++) waiting.push(payload);
    },
    async work(concurrency, onJob) {
      const handler = async (_job: unknown): Promise<void> => onJob();
      const jobs = waiting;
      waiting = [];
      let next = 0;
      const slot = async (): Promise<void> => {
        while (next < jobs.length) await handler(jobs[next++]);
      };
      const done = Promise.all(Array.from({ length: concurrency }, slot));
      return { settled: () => done, stop: () => done };
    },
    close: () => Promise.resolve(),
  };
}
