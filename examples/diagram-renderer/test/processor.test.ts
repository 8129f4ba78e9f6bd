import { join } from 'node:path';
import { createSlots } from 'lastout';
import { expect, test } from 'vitest';
import { JobProcessor } from '../src/job-processor.js';
import type { JobStore } from '../src/job-store.js';
import { RenderError } from '../src/renderer.js';
import {
  CountingSlots,
  Door,
  openStore,
  type Stage,
  stage,
  StubCache,
  StubRenderer,
  temporaryFolder,
  until,
} from './support.js';

test('003-02 003-03 003-04 a job is rendering, then takes a slot, then is rendered with source, format and output type', async () => {
  const told: string[] = [];
  const renderer = new StubRenderer(async () => {
    told.push('render');
    return 'picture';
  });
  let id = '';
  const queue = new CountingSlots({ maxConcurrent: 1, maxWaiting: 0 }, async () => {
    told.push(`acquire while ${(await at.jobStore.get(id))?.status}`);
  });
  const at = await stage({ renderer, queue });
  id = await at.submit('a -- b', { format: 'd2', outputType: 'png' });
  expect((await at.jobStore.get(id))?.status).toBe('pending');
  await at.processor.start();

  expect((await at.finished(id)).status).toBe('completed');
  expect(told).toEqual(['acquire while rendering', 'render']);
  expect(renderer.calls).toEqual([['a -- b', 'd2', 'png']]);
});

test('003-05 003-15 the bytes are encoded as base64, stored in the cache, and the job is completed with the short link', async () => {
  const cache = new StubCache();
  const at = await stage({ cache, renderer: new StubRenderer(async () => 'ünïcode\0bytes') });
  await at.processor.start();
  const job = await at.finished(await at.submit('x', { outputType: 'png' }));

  const data = Buffer.from('ünïcode\0bytes').toString('base64');
  expect(cache.stored).toEqual([{ data, contentType: 'image/png', jobId: job.id }]);
  expect(job).toMatchObject({ status: 'completed', shortlink: expect.stringMatching(/^\w{8}$/), error: null });
  expect(job.startedAt).toBeInstanceOf(Date);
  expect(job.completedAt).toBeInstanceOf(Date);
});

test('003-06 003-14 003-23 a renderer that throws fails the job with its message, once, and the next job is rendered', async () => {
  const renderer = new StubRenderer(async (source) => {
    if (source === 'wrong') throw new RenderError('syntax error in line 1');
    return source;
  });
  const at = await stage({ renderer });
  await at.processor.start();
  const id = await at.submit('wrong');
  expect(await at.finished(id)).toMatchObject({
    status: 'failed',
    error: 'syntax error in line 1',
    shortlink: null,
    completedAt: expect.any(Date),
  });
  expect(await at.store.get(id)).toMatchObject({ attempts: 1, maxAttempts: 1 });
  expect(at.said('Job failed')).toMatchObject([{ fields: { jobId: id, error: 'syntax error in line 1' } }]);

  expect((await at.finished(await at.submit('right'))).status).toBe('completed');
  expect(renderer.calls).toHaveLength(2);
});

/** Slots at which a job stops between its claim and its acquire, until the door is open. */
function slotsBehind(door: Door, options: { maxConcurrent: number; maxWaiting: number }): CountingSlots {
  return new CountingSlots(options, (who) => (who === 'job' ? door.pass() : Promise.resolve()));
}

test('003-07 003-13 003-22 a job whose place is taken between its claim and its acquire fails with BackpressureError, and the next go on', async () => {
  const [claimed, rendering] = [new Door(), new Door()];
  const renderer = new StubRenderer(async (source) => {
    if (source.startsWith('caller')) await rendering.pass();
    return source;
  });
  const env = { QUEUE_MAX_CONCURRENT: '1', QUEUE_MAX_WAITING: '1' };
  const queue = slotsBehind(claimed, { maxConcurrent: 1, maxWaiting: 1 });
  const at = await stage({ renderer, queue, env });
  await at.processor.start();
  const id = await at.submit('too late');
  await claimed.arrived;
  // Two callers who wait take the slot and the place behind it.
  const diagram = { format: 'graphviz', outputType: 'svg' } as const;
  const callers = ['caller 1', 'caller 2'].map((source) => at.processor.renderNow({ ...diagram, source }));
  await until('they have both', () => queue.running === 1 && queue.waiting === 1);
  claimed.open();

  const job = await at.finished(id);
  expect(job).toMatchObject({ status: 'failed', error: 'BackpressureError: Queue is full', errorCode: 'BACKPRESSURE' });
  // It was rendering before it asked for a slot.
  expect(job.startedAt).toBeInstanceOf(Date);
  expect(await at.store.get(id)).toMatchObject({ attempts: 1 });
  expect(at.said('Queue is full')).toMatchObject([{ level: 'warn', fields: { jobId: id, maxWaiting: 1, waiting: 1 } }]);
  // A third caller is told so at once, and leaves no job.
  await expect(at.processor.renderNow({ ...diagram, source: 'caller 3' })).rejects.toMatchObject({
    name: 'BackpressureError',
  });
  rendering.open();
  for (const { status } of await Promise.all(callers)) expect(status).toBe('completed');
  expect((await at.finished(await at.submit('next'))).status).toBe('completed');
  expect(renderer.calls.map(([source]) => source)).toEqual(['caller 1', 'caller 2', 'next']);
  expect(queue).toMatchObject({ acquired: 3, released: 3, releasedTwice: 0, running: 0, waiting: 0 });
});

test('003-13 003-22 what does not fit stays pending: no more is claimed than there are slots', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => (await door.pass(), source));
  const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '2', QUEUE_MAX_WAITING: '0' } });
  const ids: string[] = [];
  for (let n = 0; n < 20; n++) ids.push(await at.submit(`number ${n}`));
  await at.processor.start();
  await until('two render', () => renderer.calls.length === 2);
  expect((await at.store.stats()).total).toMatchObject({ processing: 2, pending: 18 });
  door.open();
  for (const id of ids) expect((await at.finished(id)).status).toBe('completed');
  expect(at.said('Queue is full')).toEqual([]);
});

test('003-13 callers who wait and jobs share the slots: a place that a caller has is a job less to claim', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => (await door.pass(), source));
  const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '3', QUEUE_MAX_WAITING: '4' } });
  await at.processor.start();
  const diagram = { format: 'graphviz', outputType: 'svg' } as const;
  // All seven places are callers'; three of them render.
  const callers = Array.from({ length: 7 }, (_, n) => at.processor.renderNow({ ...diagram, source: `caller ${n}` }));
  await until('they have their places', () => at.queue.running === 3 && at.queue.waiting === 4);
  await until('three render', () => renderer.calls.length === 3);
  const ids: string[] = [];
  for (let n = 0; n < 10; n++) ids.push(await at.submit(`job ${n}`));
  await until('the callers are jobs too', async () => (await at.store.stats()).total.pending === 14);
  expect(await Promise.all(ids.map(async (id) => (await at.jobStore.get(id))?.status))).toEqual(
    ids.map(() => 'pending'),
  );
  door.open();
  for (const { status } of await Promise.all(callers)) expect(status).toBe('completed');
  for (const id of ids) expect((await at.finished(id)).status).toBe('completed');
  expect(at.said('Queue is full')).toEqual([]);
  expect(at.queue).toMatchObject({ running: 0, waiting: 0 });
});

test('003-09 the place of a caller whose job is removed before its turn is given back', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => (await door.pass(), source));
  const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '1', QUEUE_MAX_WAITING: '1' } });
  await at.processor.start();
  const diagram = { format: 'graphviz', outputType: 'svg' } as const;
  const first = at.processor.renderNow({ ...diagram, source: 'first' });
  await door.arrived;
  const second = at.processor.renderNow({ ...diagram, source: 'second' });
  await until('its job is there', async () => (await at.store.stats()).total.pending === 1);
  await at.store.remove({ state: 'pending' });
  await expect(second).rejects.toThrow();
  door.open();
  expect((await first).status).toBe('completed');
  expect(at.queue).toMatchObject({ running: 0, waiting: 0 });
  expect((await at.processor.renderNow({ ...diagram, source: 'third' })).status).toBe('completed');
});

test('003-08 after any outcome the next job is taken', async () => {
  const cache = new StubCache();
  const store = cache.store.bind(cache);
  let cacheIsFull = false;
  cache.store = async (...args) => {
    if (cacheIsFull) throw new Error('The cache is full');
    return store(...args);
  };
  const renderer = new StubRenderer(async (source) => {
    if (source === 'fails') throw new Error('no');
    if (source === 'throws nothing') throw undefined;
    return source;
  });
  const at = await stage({ renderer, cache });
  await at.processor.start();
  const statusOf = async (source: string): Promise<string> => {
    const { status, error } = await at.finished(await at.submit(source));
    return error === null ? status : `${status}: ${error}`;
  };
  expect(await statusOf('one')).toBe('completed');
  expect(await statusOf('fails')).toBe('failed: no');
  expect(await statusOf('two')).toBe('completed');
  expect(await statusOf('throws nothing')).toBe('failed: Thrown: undefined');
  cacheIsFull = true;
  expect(await statusOf('three')).toBe('failed: The cache is full');
  cacheIsFull = false;
  expect(await statusOf('three')).toBe('completed');
  expect(at.processor.isRunning()).toBe(true);
});

test('003-09 over 100 failures and 100 successes every slot is given back exactly once', async () => {
  const queue = new CountingSlots({ maxConcurrent: 2, maxWaiting: 200 });
  const renderer = new StubRenderer(async (source) => {
    if (source.startsWith('bad')) throw new RenderError('bad');
    return source;
  });
  const at = await stage({ renderer, queue, env: { QUEUE_MAX_CONCURRENT: '2', QUEUE_MAX_WAITING: '200' } });
  await at.processor.start();
  const submitAll = (kind: string): Promise<string[]> =>
    Promise.all(Array.from({ length: 100 }, (_, n) => at.submit(`${kind} ${n}`)));
  for (const [kind, status] of [
    ['bad', 'failed'],
    ['good', 'completed'],
  ] as const) {
    const jobs = await Promise.all((await submitAll(kind)).map((id) => at.finished(id)));
    expect(new Set(jobs.map((job) => job.status))).toEqual(new Set([status]));
  }
  expect(queue).toMatchObject({ acquired: 200, released: 200, releasedTwice: 0, running: 0, waiting: 0 });
});

test('003-09 a job that was turned away gives nothing back', async () => {
  const claimed = new Door();
  const queue = slotsBehind(claimed, { maxConcurrent: 1, maxWaiting: 0 });
  const at = await stage({ queue, env: { QUEUE_MAX_CONCURRENT: '1', QUEUE_MAX_WAITING: '0' } });
  await at.processor.start();
  const second = await at.submit('second');
  await claimed.arrived;
  const release = await queue.acquire();
  claimed.open();
  expect((await at.finished(second)).errorCode).toBe('BACKPRESSURE');
  expect(queue).toMatchObject({ acquired: 1, released: 0, running: 1 });
  release();
  expect(queue).toMatchObject({ acquired: 1, released: 1, releasedTwice: 0, running: 0 });
});

test('003-11 the processor works with six parts of any make', async () => {
  const told: string[] = [];
  const diagram = { source: 'x', format: 'mermaid', outputType: 'svg' } as const;
  const jobStore: JobStore = {
    create: async () => ({ id: '1', outcome: 'created' }),
    createHere: () => Promise.reject(new Error('not asked for')),
    get: async () => null,
    wait: () => Promise.reject(new Error('not asked for')),
    async work(process, concurrency) {
      const signal = new AbortController().signal;
      const answer = await process({
        id: '1',
        diagram,
        inputHash: 'h',
        here: false,
        signal,
        artifact: { put: () => Promise.reject(new Error('no')) },
      });
      told.push(`job store: ${concurrency} at once, answered ${JSON.stringify(answer)}`);
      return {
        id: 'w',
        running: [],
        stop: async () => ({ finished: 1, handedBack: [], abandoned: [], leases: [] }),
        [Symbol.asyncDispose]: async () => {},
      };
    },
    cleanup: async () => 0,
  };
  const queue = {
    running: 0,
    waiting: 0,
    acquire: async () => (told.push('queue: acquire'), () => void told.push('queue: release')),
    [Symbol.dispose]: () => void told.push('queue: dispose'),
  };
  const renderer = { render: async () => (told.push('renderer: render'), Buffer.from('svg')) };
  const cache = {
    find: async () => null,
    get: async () => null,
    store: async (data: string) => (told.push(`cache: ${data}`), 'link'),
  };
  const logger = { debug() {}, info: (text: string) => void told.push(`logger: ${text}`), warn() {}, error() {} };
  const at = await stage({ env: { QUEUE_MAX_CONCURRENT: '3', QUEUE_MAX_WAITING: '4' } });
  const processor = new JobProcessor({ jobStore, queue, renderer, cache, logger, config: at.config });
  await processor.start();
  await processor.stop();
  expect(told).toEqual([
    'queue: acquire',
    'renderer: render',
    'cache: c3Zn',
    'queue: release',
    'logger: Job completed',
    // As many as there are slots.
    'job store: 3 at once, answered {"shortlink":"link"}',
    'logger: Job processor started',
    'queue: dispose',
    'logger: Job processor stopped',
  ]);
});

test('003-12 of many pending jobs the oldest is rendered first', async () => {
  const renderer = new StubRenderer();
  const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '1' } });
  const sources = Array.from({ length: 30 }, (_, n) => `number ${n}`);
  const ids: string[] = [];
  for (const source of sources) ids.push(await at.submit(source));
  await at.processor.start();
  await Promise.all(ids.map((id) => at.finished(id)));
  expect(renderer.calls.map(([source]) => source)).toEqual(sources);
});

test('003-17 nobody waits for a slot for ever', async () => {
  const door = new Door();
  const queue = createSlots({ maxConcurrent: 1, maxWaiting: 5, timeout: 50 });
  const renderer = new StubRenderer(async (source) => (await door.pass(), source));
  const at = await stage({ queue, renderer, env: { QUEUE_MAX_CONCURRENT: '2' } });
  await at.processor.start();
  const stuck = await at.submit('stuck');
  await door.arrived;
  expect(await at.finished(await at.submit('next'))).toMatchObject({
    status: 'failed',
    error: 'No slot became free within 50 ms.',
  });
  door.open();
  expect((await at.finished(stuck)).status).toBe('completed');
});

test('003-20 three processors on one file render each job once', async () => {
  const calls: string[] = [];
  const renderer = new StubRenderer(async (source) => {
    calls.push(source);
    await new Promise((resolve) => setImmediate(resolve));
    return source;
  });
  const file = `sqlite:${join(await temporaryFolder(), 'jobs.db')}`;
  const processors: Stage[] = [];
  for (let n = 0; n < 3; n++)
    processors.push(await stage({ store: await openStore(file), renderer, env: { QUEUE_MAX_WAITING: '200' } }));
  const [first] = processors;
  await Promise.all(processors.map(({ processor }) => processor.start()));
  const ids = await Promise.all(Array.from({ length: 120 }, (_, n) => processors[n % 3]!.submit(`number ${n}`)));
  for (const id of ids) expect((await first!.finished(id)).status).toBe('completed');
  expect(calls).toHaveLength(120);
  expect(new Set(calls).size).toBe(120);
});

test('003-21 a job that is removed while it renders is not written and does not come back', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => (await door.pass(), source));
  const cache = new StubCache();
  const at = await stage({ renderer, cache });
  await at.processor.start();
  const id = await at.submit('doomed');
  await door.arrived;
  expect((await at.store.remove(id, { force: true })).items).toEqual([{ id, outcome: 'removed' }]);
  expect(await at.jobStore.get(id)).toBeNull();

  door.open();
  await until('the rendering has ended', () => at.queue.running === 0);
  expect((await at.finished(await at.submit('next'))).status).toBe('completed');
  expect(await at.jobStore.get(id)).toBeNull();
  expect((await at.store.stats()).total).toMatchObject({ pending: 0, processing: 0, completed: 1, failed: 0 });
});

test('003-25 whatever is thrown is caught, logged and stored, and the processor lives', async () => {
  const thrown: unknown[] = [null, 'a text', 42, { message: 'no error' }, Symbol('odd'), new TypeError('typed')];
  const renderer = new StubRenderer(async (source) => {
    if (source !== 'fine') throw thrown[Number(source)];
    return source;
  });
  const at = await stage({ renderer });
  await at.processor.start();
  const errors: (string | null)[] = [];
  for (const n of thrown.keys()) errors.push((await at.finished(await at.submit(String(n)))).error);
  expect(errors).toEqual([
    'Thrown: null',
    'Thrown: a text',
    'Thrown: 42',
    'Thrown: [object Object]',
    'Thrown: Symbol(odd)',
    'typed',
  ]);
  expect(at.said('Job failed')).toHaveLength(thrown.length);
  expect(at.processor.isRunning()).toBe(true);
  expect((await at.finished(await at.submit('fine'))).status).toBe('completed');
});
