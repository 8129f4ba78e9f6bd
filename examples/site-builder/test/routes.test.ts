import { beforeEach, expect, test } from 'vitest';
import { DynamicRouteGenerator } from '../src/dynamic-route-generator.js';
import { EntityService } from '../src/entity-service.js';
import { EventBus } from '../src/event-bus.js';
import type { LogLine } from '../src/logger.js';
import { RouteRegistry } from '../src/route-registry.js';
import { recordingLogger } from './support.js';

let entityService: EntityService;
let routeRegistry: RouteRegistry;
let generator: DynamicRouteGenerator;
let lines: LogLine[];

beforeEach(() => {
  const recording = recordingLogger();
  lines = recording.lines;
  entityService = new EntityService(new EventBus());
  routeRegistry = new RouteRegistry();
  generator = new DynamicRouteGenerator({ logger: recording.logger, entityService }, routeRegistry);
});

async function createTwoPosts(): Promise<void> {
  await entityService.createEntity('blog', { title: 'Post 1' }, 'post-1');
  await entityService.createEntity('blog', { title: 'Post 2' }, 'post-2');
}

const paths = (): string[] => routeRegistry.list().map((route) => route.path);

test('001-24 two blog entities make three routes: the collection and two posts', async () => {
  await createTwoPosts();
  await generator.generateEntityRoutes();

  expect(routeRegistry.size()).toBe(3);
  expect(paths()).toEqual(['/blogs', '/blogs/post-1', '/blogs/post-2']);
});

test('001-25 001-26 routes of deleted entities are removed on regeneration', async () => {
  await createTwoPosts();
  await generator.generateEntityRoutes();
  expect(routeRegistry.get('/blogs/post-1')).toMatchObject({ title: 'Post 1' });

  await entityService.deleteEntity('blog', 'post-1');
  await generator.generateEntityRoutes();

  expect(routeRegistry.size()).toBe(2);
  expect(routeRegistry.get('/blogs/post-1')).toBeUndefined();
  expect(routeRegistry.get('/blogs')?.links).toEqual([{ path: '/blogs/post-2', title: 'Post 2' }]);
});

test('001-27 only routes with a sourceEntityType are cleared', async () => {
  const about = { path: '/about', title: 'About', body: 'Static.' };
  // A static page where a collection would go: it is neither overridden nor cleared.
  const blogs = { path: '/blogs', title: 'My own list', body: 'Static too.' };
  routeRegistry.register(about);
  routeRegistry.register(blogs);
  await createTwoPosts();
  await generator.generateEntityRoutes();
  expect(paths()).toEqual(['/about', '/blogs', '/blogs/post-1', '/blogs/post-2']);

  await entityService.deleteEntity('blog', 'post-1');
  await entityService.deleteEntity('blog', 'post-2');
  await generator.generateEntityRoutes();

  expect(routeRegistry.list()).toEqual([about, blogs]);
  expect(lines.filter((line) => line.level === 'warn')).toMatchObject([{ fields: { path: '/blogs' } }]);
});

test('001-28 the number of cleared routes is logged, and only when there were some', async () => {
  routeRegistry.register({ path: '/', title: 'Home', body: '' });
  await createTwoPosts();
  await generator.generateEntityRoutes();
  expect(lines).toEqual([]);

  await generator.generateEntityRoutes();
  expect(lines).toEqual([
    { level: 'debug', name: 'DynamicRouteGenerator', message: 'Cleared 3 dynamic routes', fields: {} },
  ]);
});

test('001-29 regeneration goes through all entity types as they are now', async () => {
  await createTwoPosts();
  await generator.generateEntityRoutes();
  await entityService.createEntity('guide', { title: 'Routes' }, 'routes');
  await entityService.createEntity('profile', { title: 'Ada' }, 'ada');
  await entityService.updateEntity('blog', { title: 'Post 2, revised' }, 'post-2');
  await entityService.deleteEntity('blog', 'post-1');
  await generator.generateEntityRoutes();

  expect(paths()).toEqual(['/blogs', '/blogs/post-2', '/guides', '/guides/routes', '/profiles', '/profiles/ada']);
  expect(routeRegistry.get('/blogs/post-2')).toEqual({
    path: '/blogs/post-2',
    title: 'Post 2, revised',
    body: '',
    sourceEntityType: 'blog',
  });

  // The last entity of a type takes the collection with it.
  await entityService.deleteEntity('blog', 'post-2');
  await generator.generateEntityRoutes();
  expect(paths()).toEqual(['/guides', '/guides/routes', '/profiles', '/profiles/ada']);
});

test('001-30 regenerating a hundred times does not grow the registry', async () => {
  routeRegistry.register({ path: '/', title: 'Home', body: '' });
  await createTwoPosts();
  const sizes = new Set<number>();
  for (let i = 0; i < 100; i++) {
    await generator.generateEntityRoutes();
    sizes.add(routeRegistry.size());
    // An entity comes and goes between two builds and leaves nothing.
    await entityService.createEntity('blog', { title: 'Passing' }, `passing-${i}`);
    await entityService.deleteEntity('blog', `passing-${i}`);
  }
  expect([...sizes]).toEqual([4]);
});

test('the registry registers, overrides, unregisters and clears', () => {
  routeRegistry.register({ path: '/', title: 'Home', body: '' });
  routeRegistry.register({ path: '/', title: 'Start', body: '' });
  expect(routeRegistry.size()).toBe(1);
  expect(routeRegistry.get('/')?.title).toBe('Start');
  expect(routeRegistry.unregister('/')).toBe(true);
  expect(routeRegistry.unregister('/')).toBe(false);
  routeRegistry.register({ path: '/a', title: 'A', body: '' });
  routeRegistry.clear();
  expect(routeRegistry.list()).toEqual([]);
});
