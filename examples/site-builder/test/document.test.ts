// The two tests that system 001's own document has in code, with its own mocks; only what its snippets leave open is added:
// how `generator` and `config` come about, and that "all unsubscribe functions were called". The eight scenarios of deduplication
// that it has in prose are 001-05 to 001-12 of deduplication.test.ts.
import { beforeEach, expect, it, vi } from 'vitest';
import { DynamicRouteGenerator } from '../src/dynamic-route-generator.js';
import { EntityService } from '../src/entity-service.js';
import { EventBus, type EntityHandler } from '../src/event-bus.js';
import { SiteBuilderPlugin } from '../src/plugin.js';
import { RouteRegistry } from '../src/route-registry.js';
import { recordingLogger } from './support.js';

const config = { outputDir: 'never-written' };

let entityService: EntityService;
let routeRegistry: RouteRegistry;
let generator: DynamicRouteGenerator;

beforeEach(() => {
  const { logger } = recordingLogger();
  entityService = new EntityService(new EventBus());
  routeRegistry = new RouteRegistry();
  generator = new DynamicRouteGenerator({ logger, entityService }, routeRegistry);
});

it('001-24 001-25 001-26 should remove routes for deleted entities on regeneration', async () => {
  // Create entities and generate routes
  await entityService.createEntity('blog', { title: 'Post 1' }, 'post-1');
  await entityService.createEntity('blog', { title: 'Post 2' }, 'post-2');
  await generator.generateEntityRoutes();

  expect(routeRegistry.size()).toBe(3); // /blogs + 2 posts

  // Delete one entity
  await entityService.deleteEntity('blog', 'post-1');

  // Regenerate routes
  await generator.generateEntityRoutes();

  // Should only have routes for existing entities
  expect(routeRegistry.size()).toBe(2); // /blogs + 1 post
  expect(routeRegistry.get('/blogs/post-1')).toBeUndefined();
});

it('001-31 001-32 should clean up event subscriptions on shutdown', async () => {
  // Mock message bus
  const subscriptions: Array<() => void> = [];
  const cleanup = vi.fn();
  const mockContext = {
    subscribe: vi.fn((event: string, _handler: EntityHandler) => {
      const unsub = () => {
        cleanup(event);
      };
      subscriptions.push(unsub);
      return unsub;
    }),
  };

  const plugin = new SiteBuilderPlugin(config);
  await plugin.onRegister(mockContext);

  expect(subscriptions.length).toBe(3); // 3 event types

  await plugin.onShutdown();

  // Verify all unsubscribe functions were called
  expect(cleanup.mock.calls).toEqual([['entity:created'], ['entity:updated'], ['entity:deleted']]);
});

it('001-36 001-38 the handlers work with a host whose enqueueJob answers the id alone, as the document has it', async () => {
  const handlers = new Map<string, EntityHandler>();
  const enqueueJob = vi.fn(async () => 'job-1');
  const mockContext = {
    subscribe: vi.fn((event: string, handler: EntityHandler) => {
      handlers.set(event, handler);
      return () => void handlers.delete(event);
    }),
    enqueueJob,
  };
  const plugin = new SiteBuilderPlugin(config);
  await plugin.onRegister(mockContext);

  for (const event of ['entity:created', 'entity:updated', 'entity:deleted']) {
    for (const entityType of ['blog', 'site-info', 'profile'])
      expect(await handlers.get(event)?.({ payload: { entityType, entityId: 'x' } })).toEqual({ success: true });
  }
  const options = {
    priority: 0,
    source: plugin.id,
    metadata: { rootJobId: expect.any(String), operationType: 'content_operations' },
    deduplication: 'skip',
  };
  expect(enqueueJob.mock.calls).toEqual(Array.from({ length: 3 }, () => ['site-build', {}, options]));
  await plugin.onShutdown();
  expect(handlers.size).toBe(0);
});

it('001-37 without a queue a rebuild cannot be asked for: it is logged, and the handler answers success', async () => {
  const { logger, lines } = recordingLogger();
  const bus = new EventBus();
  const plugin = new SiteBuilderPlugin(config);
  await plugin.onRegister({ logger, subscribe: (event, handler) => bus.subscribe(event, handler) });

  const heard = await bus.publish('entity:created', { entityType: 'blog', entityId: 'x' });
  expect(heard).toEqual([{ success: true }]);
  expect(lines).toMatchObject([{ level: 'error', message: 'Failed to enqueue rebuild' }]);
  await expect(plugin.status()).rejects.toThrow('no queue');
  // Neither does it need a logger for that.
  await plugin.onShutdown();
  await plugin.onRegister({ subscribe: (event, handler) => bus.subscribe(event, handler) });
  expect(await bus.publish('entity:created', { entityType: 'blog', entityId: 'x' })).toEqual([{ success: true }]);
});
