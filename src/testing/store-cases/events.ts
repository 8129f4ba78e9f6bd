/** The event log: each transition in the same step, read on from a cursor, ids and never payloads. */
import assert from 'node:assert/strict';
import type { EventRecord } from '../../core/store.js';
import { type Bench, ending, storeCase } from './bench.js';

const told = (events: readonly EventRecord[]): string[] => events.map(({ name, id }) => (id ? `${name} ${id}` : name));

/** What one act after `before` tells. */
function tells(
  rule: string,
  expected: string[],
  act: (bench: Bench) => Promise<unknown>,
  before: (bench: Bench) => Promise<unknown> = async () => undefined,
) {
  return storeCase(`readEvents: ${rule}`, async (bench) => {
    await before(bench);
    const news = await bench.watch();
    await act(bench);
    assert.deepEqual(told(await news()), expected);
  });
}

const running = async ({ insert, take }: Bench): Promise<unknown> => {
  await insert({ id: 'a' });
  return take();
};
const settleA =
  (how: Parameters<Bench['settle']>[1]) =>
  async ({ settle, job }: Bench): Promise<unknown> =>
    settle({ id: 'a', epoch: (await job('a')).epoch, owner: 'worker-1' }, how);

const transitions = [
  tells('an insert tells created', ['created a', 'created b'], ({ insert }) => insert({ id: 'a' }, { id: 'b' })),
  tells(
    'a skipped insert tells nothing',
    [],
    ({ insert }) => insert({ deduplication: 'skip' }),
    ({ insert }) => insert({ id: 'a' }),
  ),
  tells(
    'replace tells replaced and created',
    ['replaced a', 'created b'],
    ({ insert }) => insert({ id: 'b', deduplication: 'replace' }),
    ({ insert }) => insert({ id: 'a' }),
  ),
  tells(
    'a claim tells claimed',
    ['claimed a'],
    ({ take }) => take(),
    ({ insert }) => insert({ id: 'a' }),
  ),
  tells('an empty claim tells nothing', [], ({ claimIds }) => claimIds()),
  tells('completing tells completed', ['completed a'], settleA(ending.complete()), running),
  tells('a retry tells retried', ['retried a'], settleA(ending.retry(5)), running),
  tells('a failure tells failed', ['failed a'], settleA(ending.exhaust()), running),
  tells('a snooze tells snoozed', ['snoozed a'], settleA(ending.snooze(5)), running),
  tells('a cancelled job tells cancelled', ['cancelled a'], settleA(ending.cancel()), running),
  tells('a lapse tells stalled', ['stalled a'], ({ lapse }) => lapse(), running),
  tells(
    'the last lapse tells stalled and failed',
    ['stalled a', 'failed a'],
    ({ lapse }) => lapse(),
    async ({ insert, take }) => {
      await insert({ id: 'a' });
      await take({ maxStalls: 1 });
    },
  ),
  tells(
    'a cancel by hand tells cancelled',
    ['cancelled a'],
    ({ cancel }) => cancel('a'),
    ({ insert }) => insert({ id: 'a' }),
  ),
  tells(
    'a removal tells removed',
    ['removed a'],
    ({ remove }) => remove('a'),
    ({ insert }) => insert({ id: 'a' }),
  ),
  tells(
    'a retry by hand tells created',
    ['created b'],
    ({ move }) => move(['a'], { kind: 'retry', newIds: ['b'] }),
    async (bench) => {
      await bench.insert({ id: 'a' });
      await bench.cancel('a');
    },
  ),
  tells(
    'a ttl that ends tells expired',
    ['expired a'],
    async ({ advance, tend }) => {
      advance(5);
      await tend();
    },
    ({ insert }) => insert({ id: 'a', ttlMs: 5 }),
  ),
  tells(
    'progress tells progress',
    ['progress a'],
    async ({ note, job }) =>
      note({ id: 'a', epoch: (await job('a')).epoch, owner: 'worker-1' }, { progress: '{"percent":1}' }),
    running,
  ),
  tells(
    'a cleanup tells what it removed, and swept',
    ['removed a', 'swept'],
    async ({ advance, cleanUp }) => {
      advance(10);
      await cleanUp({ jobRetentionMs: 1 });
    },
    async (bench) => {
      await bench.insert({ id: 'a' });
      await bench.cancel('a');
    },
  ),
  tells(
    'a refused word tells nothing',
    [],
    ({ settle }) => settle({ id: 'a', epoch: 1, owner: 'stranger' }, ending.complete()),
    running,
  ),
];

export const eventCases = [
  ...transitions,
  storeCase('readEvents: events carry their instant, type, queue, subject and attempt', async (bench) => {
    await bench.insert({ id: 'a', queue: 'fast', subject: 'trip:1' });
    const news = await bench.watch();
    bench.advance(5);
    await bench.take();
    const [{ cursor: _, ...event } = { cursor: '' }] = await news();
    assert.deepEqual(event, {
      name: 'claimed',
      at: bench.now(),
      id: 'a',
      type: 'mail',
      queue: 'fast',
      subject: 'trip:1',
      attempt: 1,
    });
  }),
  storeCase('readEvents: events carry ids and never payloads', async (bench) => {
    const news = await bench.watch();
    const secret = 'do-not-tell';
    await bench.add({ input: `"${secret}"`, metadata: `{"m":"${secret}"}`, key: secret, exclusiveKey: secret });
    const hold = await bench.take();
    await bench.note(hold, { progress: '{"percent":1}', lines: [secret] });
    await bench.settle(hold, ending.retry(0, { message: 'broken', stack: secret }));
    await bench.settle(await bench.take(), ending.complete(secret));
    const events = await news();
    assert.equal(events.length, 6);
    assert.ok(!JSON.stringify(events).includes(secret));
    assert.deepEqual(events.find(({ name }) => name === 'retried')?.error, { message: 'broken' });
  }),
  storeCase('readEvents: without a cursor reading begins now', async ({ store, add }) => {
    await add();
    const page = await store.readEvents({ after: null, limit: 10 });
    assert.deepEqual(page.events, []);
    assert.deepEqual((await store.readEvents({ after: page.cursor, limit: 10 })).events, []);
  }),
  storeCase('readEvents: reading goes on after the last event of any page', async ({ store, insert }) => {
    const { cursor: start } = await store.readEvents({ after: null, limit: 1 });
    await insert({ id: 'a' }, { id: 'b' }, { id: 'c' });
    await insert({ id: 'd' });
    const whole = await store.readEvents({ after: start, limit: 100 });
    assert.deepEqual(told(whole.events), ['created a', 'created b', 'created c', 'created d']);
    for (const [index, event] of whole.events.entries()) {
      const rest = await store.readEvents({ after: event.cursor, limit: 100 });
      assert.deepEqual(rest.events, whole.events.slice(index + 1));
    }
  }),
  storeCase('readEvents: a page of events is no longer than asked for', async ({ store, insert }) => {
    const { cursor } = await store.readEvents({ after: null, limit: 1 });
    await insert({}, {}, {});
    const page = await store.readEvents({ after: cursor, limit: 2 });
    assert.equal(page.events.length, 2);
    assert.equal(page.cursor, page.events[1]?.cursor);
  }),
  storeCase('readEvents: reading twice from one cursor gives the same', async ({ store, insert }) => {
    const { cursor } = await store.readEvents({ after: null, limit: 1 });
    await insert({}, {});
    const read = () => store.readEvents({ after: cursor, limit: 10 });
    assert.deepEqual(await read(), await read());
  }),
  storeCase('readEvents: an event has one cursor, whenever it is read', async ({ store, insert, take }) => {
    const { cursor: start } = await store.readEvents({ after: null, limit: 1 });
    const seen: EventRecord[] = [];
    for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) {
      await insert({ id });
      const { events } = await store.readEvents({ after: seen.at(-1)?.cursor ?? start, limit: 100 });
      seen.push(...events);
    }
    await take({ slots: 1 });
    for (const limit of [1, 4, 6]) {
      const later = await store.readEvents({ after: start, limit });
      assert.deepEqual(later.events, seen.slice(0, limit));
    }
  }),
  storeCase('readEvents: a cursor that no event carried is refused', async ({ store }) => {
    await assert.rejects(
      store.readEvents({ after: 'NOT A CURSOR', limit: 1 }),
      (error) => (error as { code?: unknown }).code === 'INVALID_CURSOR',
    );
  }),
];
