import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test } from 'vitest';
import { createLogger } from '../src/logger.js';
import { Host } from '../src/host.js';
import { SiteBuilderPlugin } from '../src/plugin.js';
import { idle, temporaryFolder } from './support.js';

const rounds = 20;
const changesPerRound = 500;
/** Rounds in which caches fill and code is compiled. */
const warmUp = 6;
/** The leaks that this builder once had were far above: a subscription or a route is some hundred bytes. */
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

/** 10,000 changes with builds in between; `leak` keeps something per change, to see that the measure would tell. */
async function soak(leak: (change: number) => void) {
  const host = await Host.open('memory:', { logger: createLogger(() => {}) });
  onTestFinished(async () => void (await host.shutdown()));
  const plugin = new SiteBuilderPlugin({ outputDir: await temporaryFolder() });
  await host.register(plugin);
  await host.startWorker();
  const heap: [number, number][] = [];
  const counts = new Set<string>();
  let change = 0;
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < changesPerRound; i += 2) {
      // Ids are never used again: whatever is kept per entity would pile up.
      await host.entityService.createEntity(
        'post',
        { title: `Post ${change}`, body: 'Some *text*.' },
        `post-${change}`,
      );
      if (change >= 20) await host.entityService.deleteEntity('post', `post-${change - 20}`);
      else await host.entityService.updateEntity('post', { title: 'Again' }, `post-${change}`);
      leak(change++);
    }
    await idle(host.queue);
    await host.queue.sweep();
    await plugin.onShutdown();
    await host.register(plugin);
    heap.push([change * 2, heapUsed()]);
    const jobs = (await host.queue.find({ limit: 200 })).items.length;
    counts.add(
      `${host.bus.subscriptionCount} subscriptions, ${plugin.routeRegistry.size()} routes, ${jobs <= 21 ? 'few' : jobs} jobs`,
    );
  }
  return { bytesPerChange: slope(heap.slice(warmUp)), counts, changes: change * 2, host, plugin };
}

test('001-47 10,000 changes leave heap, subscriptions, routes and stored jobs flat', async () => {
  const { bytesPerChange, counts, changes, host, plugin } = await soak(() => {});
  expect(changes).toBe(10_000);
  expect([...counts]).toEqual(['3 subscriptions, 21 routes, few jobs']);
  expect(bytesPerChange).toBeLessThan(tolerableBytesPerChange);
  await plugin.onShutdown();
  expect(host.bus.subscriptionCount).toBe(0);
}, 60_000);

test('001-47 the measure finds a leak of one route per change', async () => {
  const leaked: object[] = [];
  const { bytesPerChange } = await soak((change) => {
    for (const path of [`/posts/post-${change}`, `/posts/post-${change}/again`]) {
      leaked.push({ path, title: `Post ${change}`, body: 'Some text.'.repeat(10) + change, sourceEntityType: 'post' });
    }
  });
  expect(bytesPerChange).toBeGreaterThan(tolerableBytesPerChange);
  expect(leaked).toHaveLength(10_000);
}, 60_000);
