import { readdir, readFile } from 'node:fs/promises';
import { defineJob, type Enqueued, type JobOptions } from 'lastout';
import { afterEach, expect, test, vi } from 'vitest';
import { EntityService } from '../src/entity-service.js';
import { type EntityEvent, EventBus, entityEvents } from '../src/event-bus.js';
import { Handshake } from '../src/handshake.js';
import { Host } from '../src/host.js';
import type { LogLine } from '../src/logger.js';
import { type ServicePluginContext, SiteBuilderPlugin } from '../src/plugin.js';
import { active, openQueue, recordingLogger, storeUrl, stores, temporaryFolder } from './support.js';

afterEach(() => void vi.useRealTimers());

interface FakeContext extends ServicePluginContext {
  readonly bus: EventBus;
  readonly entityService: EntityService;
  readonly lines: LogLine[];
  readonly enqueued: { type: string; input: unknown; options: JobOptions }[];
  readonly unsubscribed: EntityEvent[];
}

/** A host without a queue: it remembers what was asked of it. */
function fakeContext(overrides: Partial<ServicePluginContext> = {}): FakeContext {
  const bus = new EventBus();
  const { logger, lines } = recordingLogger();
  const enqueued: FakeContext['enqueued'] = [];
  const unsubscribed: EntityEvent[] = [];
  return {
    bus,
    logger,
    lines,
    enqueued,
    unsubscribed,
    subscribe: (event, handler) => {
      const unsubscribe = bus.subscribe(event, handler);
      return () => {
        unsubscribed.push(event);
        unsubscribe();
      };
    },
    registerJob: () => {},
    enqueueJob: async (type, input, options): Promise<Enqueued> => {
      enqueued.push({ type, input, options });
      return { id: String(enqueued.length), outcome: 'created' };
    },
    findJobs: async () => ({ items: [], next: null }),
    ...overrides,
    entityService: new EntityService(bus),
  };
}

const config = { outputDir: 'never-written' };

async function registered(overrides?: Partial<ServicePluginContext>): Promise<[SiteBuilderPlugin, FakeContext]> {
  const plugin = new SiteBuilderPlugin(config);
  const context = fakeContext(overrides);
  await plugin.onRegister(context);
  return [plugin, context];
}

test('001-31 the plugin subscribes to created, updated and deleted, once each', async () => {
  const subscribe = vi.fn(() => () => {});
  await registered({ subscribe });
  expect(subscribe.mock.calls.map(([event]: unknown[]) => event)).toEqual([
    'entity:created',
    'entity:updated',
    'entity:deleted',
  ]);
});

test('001-32 shutdown calls every unsubscribe function once and says so', async () => {
  const [plugin, context] = await registered();
  expect(context.bus.subscriptionCount).toBe(3);

  await plugin.onShutdown();

  expect(context.unsubscribed).toEqual(['entity:created', 'entity:updated', 'entity:deleted']);
  expect(context.bus.subscriptionCount).toBe(0);
  expect(context.lines).toEqual([
    { level: 'debug', name: 'site-builder', message: 'Cleaned up event subscriptions', fields: {} },
  ]);
  // The list is empty: a second shutdown finds nothing to call.
  await plugin.onShutdown();
  expect(context.unsubscribed).toHaveLength(3);
});

test('001-32 an unsubscribe function that throws keeps none of the others', async () => {
  const called: EntityEvent[] = [];
  const [plugin, context] = await registered({
    subscribe: (event) => () => {
      called.push(event);
      throw new Error(`${event} is stuck`);
    },
  });
  await plugin.onShutdown();
  expect(called).toEqual(entityEvents);
  expect(context.lines.map(({ message }) => message)).toEqual([
    ...Array.from({ length: 3 }, () => 'Failed to unsubscribe'),
    'Cleaned up event subscriptions',
  ]);
});

test('001-33 after shutdown an event enqueues nothing, and shutting down twice is safe', async () => {
  const [plugin, context] = await registered();
  await context.entityService.createEntity('blog', { title: 'Before' }, 'before');
  expect(context.enqueued).toHaveLength(1);

  await Promise.all([plugin.onShutdown(), plugin.onShutdown()]);
  await plugin.onShutdown();
  await context.entityService.createEntity('blog', { title: 'After' }, 'after');
  await context.entityService.updateEntity('blog', { title: 'After' }, 'before');
  await context.entityService.deleteEntity('blog', 'before');

  expect(context.enqueued).toHaveLength(1);
});

test('001-33 shutdown waits for an enqueue under way and refuses events that come after it', async () => {
  const door = new Handshake();
  const bus = new EventBus();
  const order: string[] = [];
  const enqueueJob = vi.fn(async (): Promise<Enqueued> => {
    await door.pass();
    order.push('enqueued');
    return { id: 'x', outcome: 'created' };
  });
  const subscribe: ServicePluginContext['subscribe'] = (event, handler) => {
    bus.subscribe(event, handler);
    return () => {}; // A bus that does not let go: the handlers can still be reached after the shutdown.
  };
  const [plugin] = await registered({ subscribe, enqueueJob });

  const change = bus.publish('entity:created', { entityType: 'blog', entityId: 'x' });
  await door.arrived;
  const shutdown = plugin.onShutdown().then(() => void order.push('shut down'));
  expect(await bus.publish('entity:created', { entityType: 'blog', entityId: 'y' })).toEqual([{ success: true }]);
  expect(order).toEqual([]);
  door.release();
  await Promise.all([change, shutdown]);

  expect(order).toEqual(['enqueued', 'shut down']);
  expect(enqueueJob).toHaveBeenCalledTimes(1);
});

test('001-34 registering and shutting down ten times leaves three subscriptions', async () => {
  const plugin = new SiteBuilderPlugin(config);
  const context = fakeContext();
  for (let i = 0; i < 10; i++) {
    await plugin.onRegister(context);
    await plugin.onShutdown();
  }
  await plugin.onRegister(context);
  expect(context.bus.subscriptionCount).toBe(3);
  // One change is one enqueue, not eleven.
  await context.entityService.createEntity('blog', { title: 'One' }, 'one');
  expect(context.enqueued).toHaveLength(1);
  // Twice without a shutdown between would leave six: it is refused.
  await expect(plugin.onRegister(context)).rejects.toThrow('registered already');
  expect(context.bus.subscriptionCount).toBe(3);
});

test('001-35 site-info and profile do not trigger a rebuild, all other types do', async () => {
  const [, { entityService, enqueued }] = await registered();
  for (const excluded of ['site-info', 'profile']) {
    await entityService.createEntity(excluded, { title: 'x' }, 'x');
    await entityService.updateEntity(excluded, { title: 'y' }, 'x');
    await entityService.deleteEntity(excluded, 'x');
  }
  expect(enqueued).toHaveLength(0);

  for (const type of ['blog', 'site', 'profile-page', 'base']) {
    await entityService.createEntity(type, { title: 'x' }, 'x');
    await entityService.updateEntity(type, { title: 'y' }, 'x');
    await entityService.deleteEntity(type, 'x');
  }
  expect(enqueued).toHaveLength(12);
});

test('001-35 which types are excluded is configuration', async () => {
  const plugin = new SiteBuilderPlugin({ ...config, excludedTypes: ['draft'] });
  const context = fakeContext();
  await plugin.onRegister(context);
  await context.entityService.createEntity('draft', { title: 'x' }, 'x');
  expect(context.enqueued).toHaveLength(0);
  await context.entityService.createEntity('profile', { title: 'x' }, 'x');
  expect(context.enqueued).toHaveLength(1);
});

test('001-36 the rebuild is asked for as the plan says, with a fresh rootJobId each time', async () => {
  const [, { entityService, enqueued }] = await registered();
  await entityService.createEntity('blog', { title: 'x' }, 'x');
  await entityService.deleteEntity('blog', 'x');

  const rootJobIds = enqueued.map(({ options }) => options.metadata?.['rootJobId']);
  expect(enqueued).toEqual(
    rootJobIds.map((rootJobId) => ({
      type: 'site-build',
      input: {},
      options: {
        priority: 0,
        source: 'site-builder',
        metadata: { rootJobId, operationType: 'content_operations' },
        deduplication: 'skip',
      },
    })),
  );
  expect(new Set(rootJobIds).size).toBe(2);
  for (const rootJobId of rootJobIds) expect(rootJobId).toMatch(/^[0-9a-f-]{36}$/);
});

for (const store of stores) {
  test(`001-36 the stored build job is as the plan says (${store})`, async () => {
    const { logger } = recordingLogger();
    const host = await Host.open(await storeUrl(store), { logger });
    const plugin = new SiteBuilderPlugin({ outputDir: await temporaryFolder() });
    await host.register(plugin);
    await host.entityService.createEntity('blog', { title: 'x' }, 'x');
    await host.entityService.createEntity('blog', { title: 'y' }, 'y');

    expect(await active(host.queue)).toMatchObject([
      {
        type: 'site-build',
        state: 'pending',
        input: {},
        priority: 0,
        source: 'site-builder',
        metadata: { rootJobId: expect.stringMatching(/^[0-9a-f-]{36}$/), operationType: 'content_operations' },
        deduplicationKey: null,
        exclusiveKey: 'site-build',
      },
    ]);
    await host.shutdown();
  });

  test(`001-45 another plugin deduplicates its own job type with options only (${store})`, async () => {
    const queue = await openQueue(store);
    const indexed: string[] = [];
    const index = defineJob<{ language: string }, null>('search-index', {
      run: ({ input }) => {
        indexed.push(input.language);
        return null;
      },
    });
    const enqueue = (language: string) =>
      queue.enqueue(index, { language }, { deduplication: 'skip', deduplicationKey: language });
    // A pending job of somebody else does not stand in the way.
    await queue.enqueue('site-build', {}, { deduplication: 'skip' });
    const asked = await Promise.all([...Array(10).fill('en'), ...Array(10).fill('de')].map(enqueue));
    await queue.work([index], { concurrency: 1 });
    await Promise.all(asked.map(({ id }) => queue.wait(id)));
    expect(indexed).toEqual(['en', 'de']);
  });
}

test('001-37 001-38 a failing enqueue is logged, and the handler still answers success', async () => {
  const broken = new Error('store is away');
  const [, { bus, lines }] = await registered({ enqueueJob: () => Promise.reject(broken) });

  for (const event of entityEvents) {
    expect(await bus.publish(event, { entityType: 'blog', entityId: 'x' })).toEqual([{ success: true }]);
  }
  const line = {
    level: 'error',
    name: 'site-builder',
    message: 'Failed to enqueue rebuild',
    fields: { error: broken },
  };
  expect(lines).toEqual([line, line, line]);
});

test('001-38 handlers answer success for excluded types too', async () => {
  const [, { bus }] = await registered();
  for (const event of entityEvents) {
    for (const entityType of ['blog', 'profile']) {
      expect(await bus.publish(event, { entityType, entityId: 'x' })).toEqual([{ success: true }]);
    }
  }
});

test('001-39 no source of the rebuild path has a timer', async () => {
  const folder = new URL('../src/', import.meta.url);
  const sources = (await readdir(folder)).filter((name) => name.endsWith('.ts'));
  expect(sources).toEqual(expect.arrayContaining(['plugin.ts', 'host.ts', 'event-bus.ts', 'site-builder.ts']));
  for (const name of sources) {
    const source = await readFile(new URL(name, folder), 'utf8');
    expect([name, /setTimeout|setInterval|rebuildTimer|node:timers/.exec(source)?.[0]]).toEqual([name, undefined]);
  }
});

test('001-39 a hundred changes leave no timer pending', async () => {
  vi.useFakeTimers();
  const [plugin, { entityService, enqueued }] = await registered();
  for (let i = 0; i < 100; i++) {
    await entityService.createEntity('blog', { title: 'x' }, `post-${i}`);
    // Enqueued at once, not after five seconds.
    expect(enqueued).toHaveLength(i + 1);
    expect(vi.getTimerCount()).toBe(0);
  }
  await plugin.onShutdown();
  expect(vi.getTimerCount()).toBe(0);
});

test('001-40 nothing of the earlier band-aid is left', async () => {
  const source = await readFile(new URL('../src/plugin.ts', import.meta.url), 'utf8');
  const declared = (name: string) =>
    source.match(new RegExp(`^ {2}(?:private |async |readonly )*${name}\\b`, 'gm')) ?? [];
  expect(declared('rebuildTimer')).toEqual([]);
  // Each once: the proper one.
  for (const name of ['unsubscribeFunctions', 'setupAutoRebuild', 'onShutdown']) expect(declared(name)).toHaveLength(1);
  expect(Object.keys(new SiteBuilderPlugin(config))).not.toContain('rebuildTimer');
});

test('001-34 a registration that fails half-way leaves no subscription, and can be tried again', async () => {
  const plugin = new SiteBuilderPlugin(config);
  const context = fakeContext();
  const broken: ServicePluginContext = {
    ...context,
    subscribe: (event, handler) => {
      if (event === 'entity:deleted') throw new Error('the bus is full');
      return context.subscribe(event, handler);
    },
  };
  await expect(plugin.onRegister(broken)).rejects.toThrow('the bus is full');
  expect(context.bus.subscriptionCount).toBe(0);
  await plugin.onRegister(context);
  expect(context.bus.subscriptionCount).toBe(3);
});

test('001-33 a logger that throws keeps no shutdown waiting', async () => {
  const { logger } = recordingLogger();
  const error = (): never => {
    throw new Error('disk full');
  };
  const [plugin, { bus }] = await registered({
    enqueueJob: () => Promise.reject(new Error('store is away')),
    logger: { ...logger, child: () => ({ ...logger, error }) },
  });
  expect(await bus.publish('entity:created', { entityType: 'blog', entityId: 'x' })).toMatchObject([
    { success: false, error: { message: 'disk full' } },
  ]);
  await plugin.onShutdown();
  expect(bus.subscriptionCount).toBe(0);
});
