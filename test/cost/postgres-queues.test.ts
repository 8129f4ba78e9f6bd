// A worker without `queues` looks into every queue in which its types are ready. What that costs grows as their number, and
// no faster.
import { expect, onTestFinished, test } from 'vitest';
import type { Store } from '../../src/core/store.js';
import { postgresStore } from '../../src/stores/postgres/index.js';
import { emptyPostgres } from '../services.js';
import { contextOf, newJob, system } from '../stores/postgres-support.js';

const few = 400;
const times = 10;
const jobsEach = 3;
const slots = 50;

async function storeWith(queues: number): Promise<Store> {
  const url = await emptyPostgres();
  const store = await postgresStore({ url }, { listen: false }).open(contextOf());
  onTestFinished(() => store.close());
  const jobs = Array.from({ length: queues * jobsEach }, (_, n) => newJob({ queue: `q${n % queues}` }));
  for (let from = 0; from < jobs.length; from += 1_000)
    await store.insert(jobs.slice(from, from + 1_000), { atomic: false });
  return store;
}

async function claimMs(store: Store): Promise<number> {
  const began = performance.now();
  const request = { owner: system.id(), types: ['mail'], queues: null, slots, ahead: 0, leaseMs: 30_000, maxStalls: 3 };
  const { jobs } = await store.claim(request);
  expect(jobs).toHaveLength(slots);
  return performance.now() - began;
}

test(`a claim over ${times} times as many queues takes no more than twice ${times} times as long`, async () => {
  const stores = [await storeWith(few), await storeWith(few * times)];
  const shortest = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
  // In turn, and the shortest of each: what else the machine does is felt by both.
  for (let round = 0; round < 8; round++)
    for (const [index, store] of stores.entries()) shortest[index] = Math.min(shortest[index]!, await claimMs(store));
  expect(shortest[1]! / shortest[0]!).toBeLessThan(2 * times);
}, 60_000);
