/**
 * fastq.promise, which keeps nothing. A job is accepted when push returns; its promise is the job's result, and while
 * nothing runs there is nothing to await. With "run" each push is awaited to the end of its job, which then never waits
 * in the queue.
 */
import fastq from 'fastq';

export async function openContender({ setup, payload }) {
  let onEach = () => undefined;
  const queue = fastq.promise(async () => onEach(), 100);
  if (setup !== 'run') queue.pause();
  return {
    add: () => (setup === 'run' ? queue.push(payload) : void queue.push(payload)),
    async addMany(count) {
      queue.pause();
      for (let i = 0; i < count; i++) void queue.push(payload);
    },
    async work(concurrency, onJob) {
      onEach = onJob;
      queue.concurrency = concurrency;
      queue.resume();
      return { stop: async () => undefined };
    },
    async close() {
      queue.kill();
    },
  };
}
