/** Nothing the library does keeps others waiting without bound: timers, other calls, memory. */
import { expect, test } from 'vitest';
import { defineJob, memoryStore, open } from '../src/index.js';
import { createHeap } from '../src/stores/memory/heap.js';
import { createSystem } from '../src/system.js';
import { eachStore } from './support.js';
import { newJob } from './stores/new-job.js';

eachStore((on) => {
  test('a worker that always has work leaves the event loop to timers', async () => {
    const queue = await on.open({ cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
    let ran = 0;
    let ranAtTick = 0;
    const ended = new Promise<void>((resolve) => {
      const chain = defineJob('chain', {
        async run() {
          ran += 1;
          if (ran === 1) {
            setTimeout(() => {
              ranAtTick = ran;
            }, 30);
          }
          if (ranAtTick > 0 || ran === 20_000) resolve();
          else await queue.enqueue('chain', null);
        },
      });
      void queue.work([chain], { concurrency: 1 }).then(() => queue.enqueue('chain', null));
    });
    await ended;
    expect(ranAtTick).toBeGreaterThan(0);
    expect(ranAtTick).toBeLessThan(20_000);
  });
});

test('a claim ends a bounded number of expired jobs', async () => {
  let clock = 1_000_000;
  const system = { ...createSystem(), now: () => clock };
  const store = await memoryStore().open({ system, namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY });
  await store.insert(
    Array.from({ length: 5_000 }, (_, i) => newJob({ id: `job-${i}`, type: 't', queue: 'q', ttlMs: 10 })),
    { atomic: false },
  );
  clock += 20;
  const request = { owner: 'w', types: ['t'], queues: null, slots: 1, ahead: 0, leaseMs: 1_000, maxStalls: 3 };
  const { jobs, more } = await store.claim(request);
  const { events } = await store.readEvents({ after: '0.0', limit: 10_000 });
  const expired = events.filter(({ name }) => name === 'expired').length;
  expect(jobs).toEqual([]);
  expect(more).toBe(true);
  expect(expired).toBeGreaterThan(0);
  expect(expired).toBeLessThanOrEqual(1_100);
});

test('a heap forgets what became stale below its top', () => {
  const live = new Set<number>([0]);
  const heap = createHeap<number>(
    (a, b) => a < b,
    (item) => live.has(item),
  );
  heap.push(0);
  for (let i = 1; i <= 50_000; i++) {
    live.add(i);
    heap.push(i);
    live.delete(i);
  }
  expect(heap.peek()).toBe(0);
  expect(heap.size).toBeLessThan(5_000);
});

test('an event cursor in the middle of a trimmed step says that something was missed', async () => {
  await using queue = await open('memory:', { cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY } });
  const events = queue.events()[Symbol.asyncIterator]();
  const first = events.next();
  await queue.enqueueMany([1, 2, 3].map((input) => ({ type: 'step', input })));
  const { cursor } = (await first).value as { cursor: string };
  await events.return?.();
  for (let i = 0; i < 11_500; i++) await queue.enqueue('step', i);
  const again = queue.events({ after: cursor })[Symbol.asyncIterator]();
  await expect(again.next()).rejects.toMatchObject({ code: 'INVALID_CURSOR', details: { reset: true } });
});
