import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../src/logger.js';
import { Host } from '../src/host.js';
import { SiteBuilderPlugin } from '../src/plugin.js';
import { idle, temporaryFolder } from './support.js';

const changesPerRound = 500;
/** While code is compiled and buffers fill, the heap of any program grows. */
const warmUpRounds = 14;
const measuredRounds = 20;
/** A route or a subscription that stays is some hundred bytes; the builder that leaked 240 MB a day left several. */
const tolerableBytesPerChange = 100;

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

function heapUsed(): number {
  collectGarbage();
  return process.memoryUsage().heapUsed;
}

/** Least squares: how much y grows per x. */
function slope(points: readonly (readonly [x: number, y: number])[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, meanY] = [mean(points.map(([x]) => x)), mean(points.map(([, y]) => y))];
  const covariance = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
  return covariance / points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
}

test('001-47 10,000 changes leave heap, subscriptions, routes and stored jobs flat', async () => {
  const host = await Host.open('memory:', { logger: createLogger(() => {}) });
  onTestFinished(async () => void (await host.shutdown()));
  const plugin = new SiteBuilderPlugin({ outputDir: await temporaryFolder() });
  await host.register(plugin);
  await host.startWorker();

  let created = 0;
  const counts = new Set<string>();
  let mostJobs = 0;
  /** Changes with builds in between; `after` sees each of them. Returns the heap by changes. */
  const measure = async (rounds: number, after: () => void = () => {}): Promise<[number, number][]> => {
    const heap: [number, number][] = [];
    for (let round = 1; round <= rounds; round++) {
      for (let change = 0; change < changesPerRound; change += 2) {
        // Ids are never used again: whatever is kept per entity would pile up.
        await host.entityService.createEntity('post', { title: 'A post', body: 'Some *text*.' }, `post-${created}`);
        if (created >= 20) await host.entityService.deleteEntity('post', `post-${created - 20}`);
        else await host.entityService.updateEntity('post', { title: 'Again' }, `post-${created}`);
        created++;
        after();
        after();
      }
      await idle(host.queue);
      await plugin.onShutdown();
      await host.register(plugin);
      await host.queue.sweep();
      heap.push([round * changesPerRound, heapUsed()]);
      const jobs = (await host.queue.find({ limit: 200 })).items.length;
      counts.add(`${host.bus.subscriptionCount} subscriptions, ${plugin.routeRegistry.size()} routes`);
      mostJobs = Math.max(mostJobs, jobs);
    }
    return heap;
  };

  await measure(warmUpRounds);
  counts.clear();
  const heap = await measure(measuredRounds);

  expect(heap.at(-1)?.[0]).toBe(10_000);
  expect([...counts]).toEqual(['3 subscriptions, 21 routes']);
  expect(mostJobs).toBeLessThanOrEqual(20);
  expect(slope(heap)).toBeLessThan(tolerableBytesPerChange);

  // And it would have told: one route kept per change.
  const kept: object[] = [];
  const route = () => ({ path: `/posts/post-${created}`, title: `Post ${created}`, body: `Some *text* ${created}.` });
  expect(slope(await measure(5, () => kept.push(route())))).toBeGreaterThan(tolerableBytesPerChange);
  expect(kept).toHaveLength(5 * changesPerRound);

  await plugin.onShutdown();
  expect(host.bus.subscriptionCount).toBe(0);
}, 60_000);
