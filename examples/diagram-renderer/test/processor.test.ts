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

test('003-07 003-13 003-22 with no slot and no waiting place a job fails with BackpressureError, and the others go on', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => {
    await door.pass();
    return source;
  });
  const at = await stage({ renderer, env: { QUEUE_MAX_CONCURRENT: '1', QUEUE_MAX_WAITING: '2' } });
  const accepted = [await at.submit('renders'), await at.submit('waits 1'), await at.submit('waits 2')];
  const refused = [await at.submit('too many 1'), await at.submit('too many 2')];
  await at.processor.start();

  for (const id of refused) {
    const job = await at.finished(id);
    expect(job).toMatchObject({
      status: 'failed',
      error: 'BackpressureError: Queue is full',
      errorCode: 'BACKPRESSURE',
    });
    // It was rendering before it asked for a slot.
    expect(job.startedAt).toBeInstanceOf(Date);
    expect(await at.store.get(id)).toMatchObject({ attempts: 1 });
  }
  expect(at.said('Queue is full')).toMatchObject([
    { level: 'warn', fields: { maxWaiting: 2, waiting: 2 } },
    { level: 'warn', fields: { maxWaiting: 2, waiting: 2 } },
  ]);
  for (const id of accepted) expect((await at.jobStore.get(id))?.status).toBe('rendering');
  door.open();
  for (const id of accepted) expect((await at.finished(id)).status).toBe('completed');
  expect(renderer.calls.map(([source]) => source)).toEqual(['renders', 'waits 1', 'waits 2']);
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
  const door = new Door();
  const queue = new CountingSlots({ maxConcurrent: 1, maxWaiting: 0 });
  const renderer = new StubRenderer(async (source) => (await door.pass(), source));
  const at = await stage({ queue, renderer });
  await at.processor.start();
  const first = await at.submit('first');
  await door.arrived;
  expect((await at.finished(await at.submit('second'))).errorCode).toBe('BACKPRESSURE');
  expect(queue).toMatchObject({ acquired: 1, released: 0, running: 1 });
  door.open();
  await at.finished(first);
  expect(queue).toMatchObject({ acquired: 1, released: 1, releasedTwice: 0, running: 0 });
});

test('003-11 the processor works with six parts of any make', async () => {
  const told: string[] = [];
  const diagram = { source: 'x', format: 'mermaid', outputType: 'svg' } as const;
  const jobStore: JobStore = {
    create: async () => ({ id: '1', outcome: 'created' }),
    get: async () => null,
    wait: () => Promise.reject(new Error('not asked for')),
    async work(process, concurrency) {
      const signal = new AbortController().signal;
      const answer = await process({
        id: '1',
        diagram,
        inputHash: 'h',
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
    // slots + waiting + 10
    'job store: 17 at once, answered {"shortlink":"link"}',
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
  const at = await stage({ queue, renderer });
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
