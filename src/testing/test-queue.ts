/** A queue for tests: its clock stands still, its end is checked. */
import { open } from '../open.js';
import type { OpenOptions, Queue } from '../surface.js';
import { type FakeClock, fakeClock, refuseFakedTurns } from './fake-clock.js';

export interface TestQueue extends AsyncDisposable {
  readonly queue: Queue;
  readonly clock: FakeClock;
}

/** Opens `memory:` (or another store) under a fake clock, and says nothing unless it gets a logger. Disposing closes it without waiting for running handlers. */
export async function testQueue(url = 'memory:', options: Omit<OpenOptions, 'clock'> = {}): Promise<TestQueue> {
  refuseFakedTurns();
  const clock = fakeClock();
  const queue = await open(url, { logger: false, ...options, clock });
  return {
    queue,
    clock,
    async [Symbol.asyncDispose]() {
      const closing = queue.close({ grace: 0 });
      // Closing waits by the clock, which nobody else moves any more.
      let closed = false;
      void closing.finally(() => {
        closed = true;
      });
      while (!closed) await clock.advance(100);
      await closing;
    },
  };
}
