import { expect, test } from 'vitest';
import { EntityService } from '../src/entity-service.js';
import { type EntityMessage, EventBus, entityEvents } from '../src/event-bus.js';

test('an entity is stored before its event is published', async () => {
  const bus = new EventBus();
  const entityService = new EntityService(bus);
  const seen: unknown[] = [];
  for (const event of entityEvents) {
    bus.subscribe(event, async ({ payload }: EntityMessage) => {
      const { entityType, entityId } = payload;
      seen.push([event, payload, entityService.getEntity(entityType, entityId)?.title]);
      return { success: true };
    });
  }

  await entityService.createEntity('blog', { title: 'One' }, 'a');
  await entityService.updateEntity('blog', { title: 'Two' }, 'a');
  expect(await entityService.deleteEntity('blog', 'a')).toBe(true);
  expect(await entityService.deleteEntity('blog', 'a')).toBe(false);

  const payload = { entityType: 'blog', entityId: 'a' };
  expect(seen).toEqual([
    ['entity:created', payload, 'One'],
    ['entity:updated', payload, 'Two'],
    ['entity:deleted', payload, undefined],
  ]);
  expect(entityService.getEntityTypes()).toEqual([]);
});

test('names that would mean something in an address or a file name are refused', async () => {
  const entityService = new EntityService(new EventBus());
  const names = [
    '',
    '.',
    '..',
    '../etc',
    '/etc',
    'a/b',
    'a\\b',
    'a b',
    'A',
    'é',
    'a%2f',
    '-a',
    'a-',
    'a--b',
    'a.html',
    'a\n',
    'a\0',
  ];
  const noText = [null, undefined, 7, ['a'], {}] as unknown as string[];
  for (const name of [...names, ...noText, 'a'.repeat(101), 'a'.repeat(300), 'a/'.repeat(2_000)]) {
    await expect(entityService.createEntity('blog', { title: 'x' }, name)).rejects.toThrow(TypeError);
    await expect(entityService.createEntity(name, { title: 'x' }, 'a')).rejects.toThrow(TypeError);
  }
  expect(entityService.getEntityTypes()).toEqual([]);
  await entityService.createEntity('a'.repeat(100), { title: 'x' }, 'a'.repeat(100));
});

test('fields that are no text are refused, and what else comes with them is left out', async () => {
  const entityService = new EntityService(new EventBus());
  const wrong = [{ title: 7 }, { title: null }, { title: 'x', body: null }, { title: 'x', body: ['y'] }, null, 'x'];
  for (const fields of [...wrong, {}, { body: 'y' }] as unknown as { title: string }[])
    await expect(entityService.createEntity('blog', fields, 'a')).rejects.toThrow(TypeError);
  expect(entityService.getEntityTypes()).toEqual([]);

  const more = { title: 'One', body: 'y', id: '../b', entityType: '../x', secret: 1 };
  const stored = { entityType: 'blog', id: 'a', title: 'One', body: 'y' };
  expect(await entityService.createEntity('blog', more, 'a')).toEqual(stored);
  for (const fields of wrong as unknown as { title: string }[])
    await expect(entityService.updateEntity('blog', fields, 'a')).rejects.toThrow(TypeError);
  expect(entityService.getEntity('blog', 'a')).toEqual(stored);
  expect(await entityService.updateEntity('blog', { ...more, title: 'Two' }, 'a')).toEqual({ ...stored, title: 'Two' });
  // A field that is given as undefined is as good as not given.
  const unset = { title: undefined, body: 'z' } as unknown as { body: string };
  expect(await entityService.updateEntity('blog', unset, 'a')).toEqual({ ...stored, title: 'Two', body: 'z' });
  expect(entityService.getEntityTypes()).toEqual(['blog']);
  expect(await entityService.listEntities('blog')).toHaveLength(1);
});

test('creating twice and updating nothing are refused, without an event', async () => {
  const bus = new EventBus();
  const entityService = new EntityService(bus);
  await entityService.createEntity('blog', { title: 'One' }, 'a');
  let events = 0;
  for (const event of entityEvents) {
    bus.subscribe(event, async () => ({ success: ++events > 0 }));
  }
  await expect(entityService.createEntity('blog', { title: 'Again' }, 'a')).rejects.toThrow('use updateEntity');
  await expect(entityService.updateEntity('blog', { title: 'x' }, 'b')).rejects.toThrow('no blog "b"');
  expect(events).toBe(0);
});

test('a subscriber that throws keeps neither the change nor the other subscribers', async () => {
  const bus = new EventBus();
  const entityService = new EntityService(bus);
  bus.subscribe('entity:created', async () => {
    throw new Error('mine');
  });
  let heard = 0;
  bus.subscribe('entity:created', async () => ({ success: ++heard > 0 }));

  await entityService.createEntity('blog', { title: 'One' }, 'a');

  expect(heard).toBe(1);
  expect(await bus.publish('entity:created', { entityType: 'blog', entityId: 'a' })).toMatchObject([
    { success: false, error: { message: 'mine' } },
    { success: true },
  ]);
});

test('unsubscribing ends one subscription, once', async () => {
  const bus = new EventBus();
  let heard = 0;
  const handler = async () => ({ success: ++heard > 0 });
  const first = bus.subscribe('entity:created', handler);
  bus.subscribe('entity:created', handler);
  expect(bus.subscriptionCount).toBe(2);
  first();
  first();
  expect(bus.subscriptionCount).toBe(1);
  await bus.publish('entity:created', { entityType: 'blog', entityId: 'a' });
  expect(heard).toBe(1);
});
