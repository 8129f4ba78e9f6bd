import { readdir } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { open } from 'lastout';
import { fakeClock } from 'lastout/testing';
import { expect, onTestFinished, test } from 'vitest';
import { App, createParts, storeOptions } from '../src/app.js';
import { createCache } from '../src/cache.js';
import { readConfig } from '../src/config.js';
import { inputHash } from '../src/diagram.js';
import { JobProcessor, type Parts } from '../src/job-processor.js';
import { RenderError } from '../src/renderer.js';
import { Door, recordingLogger, rendererBehind, StubCache, StubRenderer, temporaryFolder, until } from './support.js';

/** The whole server, on a free port. Only the renderer is a stub unless the test gives another part. */
async function serve(env: { [name: string]: string } = {}, replace: Partial<Parts> = {}, folder?: string) {
  const at = folder ?? (await temporaryFolder());
  const config = readConfig({ PORT: '0', JOB_DB_PATH: join(at, 'jobs.db'), ...env });
  const { logger, lines, said } = recordingLogger();
  const app = await App.open(config, logger, { renderer: new StubRenderer(), ...replace });
  onTestFinished(() => app.close());
  const address = await app.start();
  const request = async (path: string, init?: RequestInit) => {
    const response = await fetch(`${address}${path}`, init);
    const body = await response.text();
    const isJson = response.headers.get('content-type') === 'application/json';
    return { status: response.status, headers: response.headers, text: body, body: isJson ? JSON.parse(body) : null };
  };
  const post = (body: unknown, query = '', headers: Record<string, string> = {}) =>
    request(`/render${query}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  const finished = async (jobId: string) => {
    let job = await request(`/jobs/${jobId}`);
    await until('the job has ended', async () => {
      job = await request(`/jobs/${jobId}`);
      return !['pending', 'rendering'].includes(job.body.status as string);
    });
    return job;
  };
  return { app, address, config, request, post, finished, lines, said, folder: at };
}

const diagram = { source: 'digraph { a -> b }', format: 'graphviz' };

test('003-29 starting the server starts the loop', async () => {
  const { app, post, finished, request } = await serve();
  expect(app.processor.isRunning()).toBe(true);
  const { body } = await post(diagram);
  expect((await finished(body.jobId as string)).body.status).toBe('completed');
  expect((await request('/health')).body).toEqual({
    status: 'ok',
    slots: { running: 0, waiting: 0, max: 10, maxWaiting: 50 },
  });
});

test('003-32 a job is submitted, asked for and fetched by its short link', async () => {
  const { post, request, finished } = await serve({ BASE_URL: 'https://d.example/' });
  const submitted = await post({ ...diagram, outputType: 'png' });
  expect(submitted.status).toBe(202);
  const { jobId } = submitted.body as { jobId: string };
  expect(submitted.body).toEqual({ jobId, status: 'pending', statusUrl: `https://d.example/jobs/${jobId}` });
  expect(submitted.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);

  const { body: job } = await finished(jobId);
  expect(job).toMatchObject({ jobId, status: 'completed', error: null });
  expect(job.shortlink).toMatch(/^\w{8}$/);
  expect(job.url).toBe(`https://d.example/d/${job.shortlink}`);
  for (const name of ['createdAt', 'startedAt', 'completedAt']) expect(Date.parse(job[name] as string)).not.toBeNaN();

  const picture = await request(`/d/${job.shortlink}`);
  expect(picture).toMatchObject({ status: 200, text: diagram.source });
  expect(picture.headers.get('content-type')).toBe('image/png');
  expect(picture.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect(picture.headers.get('x-content-type-options')).toBe('nosniff');
});

test('003-32 an expired short link is 404, its job is still known, and the same diagram is rendered anew', async () => {
  const { post, request, finished } = await serve({ CACHE_TTL: '1' });
  const { body } = await post(diagram);
  const { status, shortlink } = (await finished(body.jobId as string)).body as { status: string; shortlink: string };
  expect(status).toBe('completed');
  await until('the link has expired', async () => (await request(`/d/${shortlink}`)).status === 404);
  const again = await post(diagram);
  expect(again.status).toBe(202);
  expect(again.body.jobId).not.toBe(body.jobId);
});

test('003-10 003-27 003-33 the running server removes old jobs in the interval of its settings, logs how many, and answers 404', async () => {
  const { app, post, request, said } = await serve({
    JOB_CLEANUP_INTERVAL_MS: '50',
    JOB_RETENTION_MS: '1',
    CACHE_TTL: '1',
  });
  expect((await app.store.plan()).policy).toMatchObject({ cleanupIntervalMs: 50, jobRetentionMs: 1 });
  const { body } = await post(diagram);
  await until('the job is gone', async () => (await request(`/jobs/${body.jobId}`)).status === 404);
  await until('it is in the log', () => said('Removed 1 old jobs from sqlite').length === 1);

  const byDefault = await serve();
  expect((await byDefault.app.store.plan()).policy).toMatchObject({
    cleanupIntervalMs: 60_000,
    jobRetentionMs: 3_600_000,
  });
});

test('003-27 an interval above a minute has its effect: cleanup comes when it is over and not before', async () => {
  const config = readConfig({ JOB_CLEANUP_INTERVAL_MS: '300000', JOB_RETENTION_MS: '1000', CACHE_TTL: '1000' });
  const clock = fakeClock();
  const { logger, said } = recordingLogger();
  const folder = await temporaryFolder();
  const file = `sqlite:${join(folder, 'jobs.db')}`;
  const store = await open(file, { ...storeOptions(config, logger), artifacts: { dir: join(folder, 'a') }, clock });
  await clock.settle();
  const passes = (): number => said('No cleanup needed').length;
  // One at the start, and then one each time it is over.
  expect(passes()).toBe(1);
  await clock.advance(299_000);
  expect(passes()).toBe(1);
  await clock.advance(2_000);
  expect(passes()).toBe(2);
  await clock.advance(900_000);
  expect(passes()).toBe(5);
  const closing = store.close();
  await clock.advance('1s');
  await closing;

  const { app } = await serve({ JOB_CLEANUP_INTERVAL_MS: '300000' });
  expect((await app.store.plan()).policy).toMatchObject({ cleanupIntervalMs: 300_000 });
});

test('addresses that are none are 404 or 400, and the server goes on', async () => {
  const { address, request, said } = await serve();
  const { hostname, port } = new URL(address);
  expect(hostname).toBe('127.0.0.1');
  /** The first line of the answer to exactly these bytes. */
  const raw = async (line: string): Promise<string> => {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    socket.end(`${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
    const answer = await text(socket).catch(() => '');
    return answer.split('\r\n')[0]!;
  };
  const targets = [
    '//',
    '///',
    '//\\\\',
    '/\\',
    '//a:99999999',
    '//[',
    'http://[',
    'http://',
    '*',
    '/%',
    '/%ff',
    '/jobs/%',
    '/d/%E0%A4',
  ];
  for (const target of [
    ...targets,
    '//@',
    '//:0',
    'x',
    '/?%',
    '/jobs//',
    '?',
    '#',
    '/d/\u00e9',
    `/${'a/'.repeat(2000)}`,
  ])
    for (const method of ['GET', 'POST', 'OPTIONS', 'HEAD'])
      expect([method, target, await raw(`${method} ${target}`)]).toEqual([
        method,
        target,
        expect.stringMatching(/^HTTP\/1\.1 (?:200|400|404|405) /),
      ]);
  for (const line of ['GET', 'CONNECT //', 'BREW /', 'GET / x'])
    expect(await raw(line)).toMatch(/^(?:HTTP\/1\.1 4\d\d .*)?$/);
  expect(said('Request failed')).toEqual([]);
  expect((await request('/health')).status).toBe(200);
});

test('003-32 the submission does not wait for the rendering', async () => {
  const door = new Door();
  const { post, request, finished } = await serve(
    {},
    { renderer: new StubRenderer(async (s) => (await door.pass(), s)) },
  );
  const { status, body } = await post(diagram);
  expect(status).toBe(202);
  await door.arrived;
  expect((await request(`/jobs/${body.jobId}`)).body).toMatchObject({
    status: 'rendering',
    shortlink: null,
    url: null,
  });
  door.open();
  expect((await finished(body.jobId as string)).body.status).toBe('completed');
});

test('003-15 same input, same short link: it is rendered once, however often and however spaced', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (s) => (await door.pass(), s));
  const { app, post, finished } = await serve({}, { renderer });
  const first = post(diagram, '?mode=sync');
  await door.arrived;
  // While it renders: more of the same wait for it, callers and jobs alike.
  const meanwhile = [
    post(diagram, '?mode=sync'),
    post({ ...diagram, source: `\n${diagram.source}  \r\n` }, '?mode=sync'),
  ];
  const { jobId } = (await post(diagram)).body as { jobId: string };
  await until('they wait', async () => (await app.store.stats()).total.processing === 4);
  door.open();
  const answers = await Promise.all([first, ...meanwhile, finished(jobId)]);
  const links = answers.map(({ body }) => body.shortlink as string);
  expect(new Set(links).size).toBe(1);
  expect(await post(diagram)).toMatchObject({ status: 200, body: { shortlink: links[0], cached: true } });
  expect(await post(diagram, '?mode=sync')).toMatchObject({ status: 200, body: { shortlink: links[0], cached: true } });
  expect(renderer.calls).toHaveLength(1);

  const other = await post({ ...diagram, outputType: 'png' }, '?mode=sync');
  expect(other.body).toMatchObject({ cached: false });
  expect(other.body.shortlink).not.toBe(links[0]);
  expect(renderer.calls).toHaveLength(2);
});

test('003-33 unknown, malformed and removed job ids are 404, and so are short links', async () => {
  const { app, post, request, finished } = await serve();
  const { body } = await post(diagram);
  const { shortlink } = (await finished(body.jobId as string)).body as { shortlink: string };
  await app.store.remove(body.jobId as string);
  const wrong = [
    `/jobs/${body.jobId}`,
    '/jobs/00000000000000000000',
    '/jobs/job_1234abcd',
    `/jobs/${'x'.repeat(500)}`,
    '/jobs/%00',
    '/jobs/..%2f..%2fetc',
    `/d/${shortlink}`,
    '/d/zzzzzzzz',
    '/d/%2e%2e%2f',
    `/d/${'x'.repeat(500)}`,
    '/jobs/',
    '/d/a/b',
    '/nowhere',
  ];
  for (const path of wrong) expect([path, (await request(path)).status]).toEqual([path, 404]);
});

test('003-36 synchronous: 200 with the link, 422 for a mistake, 500 when the renderer breaks, 429 with Retry-After when full', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => {
    if (source === 'wrong') throw new RenderError('syntax error in line 1', 'SOURCE');
    if (source === 'broken') throw new RenderError('The renderer broke');
    if (source === 'slow') await door.pass();
    return source;
  });
  const { app, post, finished } = await serve({ QUEUE_MAX_CONCURRENT: '1', QUEUE_MAX_WAITING: '0' }, { renderer });
  const done = await post({ ...diagram, source: 'right' }, '?mode=sync');
  expect(done.status).toBe(200);
  expect(done.body).toMatchObject({ shortlink: expect.any(String), url: `/d/${done.body.shortlink}`, cached: false });
  expect(await post({ ...diagram, source: 'wrong' }, '?mode=sync')).toMatchObject({
    status: 422,
    body: { error: 'syntax error in line 1' },
  });
  expect(await post({ ...diagram, source: 'broken' }, '?mode=sync')).toMatchObject({
    status: 500,
    body: { error: 'The renderer broke' },
  });

  const slow = post({ ...diagram, source: 'slow' }, '?mode=sync');
  await door.arrived;
  const full = await post({ ...diagram, source: 'one too many' }, '?mode=sync');
  expect(full).toMatchObject({ status: 429, body: { error: 'BackpressureError: Queue is full' } });
  expect(full.headers.get('retry-after')).toBe('5');
  // Another mode is no mode: the answer comes at once.
  const later = await post({ ...diagram, source: 'later' }, '?mode=fast');
  expect(later.status).toBe(202);
  door.open();
  expect((await slow).status).toBe(200);
  expect((await finished(later.body.jobId as string)).body.status).toBe('completed');
  // Who was refused has left no job.
  expect((await app.store.stats()).total).toMatchObject({ completed: 3, failed: 2, pending: 0, processing: 0 });
});

test('003-36 with 10 slots and 50 places, 80 at once are 60 renderings and 20 refusals', async () => {
  const door = new Door();
  const renderer = new StubRenderer(async (source) => (await door.pass(), source));
  const { post } = await serve({}, { renderer, cache: new StubCache() });
  const answers = Array.from({ length: 80 }, (_, n) => post({ ...diagram, source: `number ${n}` }, '?mode=sync'));
  const statuses: number[] = [];
  for (const answer of answers) void answer.then(({ status }) => statuses.push(status));
  await until('twenty were turned away', () => statuses.length >= 20);
  door.open();
  await Promise.all(answers);
  expect([200, 429].map((status) => statuses.filter((one) => one === status).length)).toEqual([60, 20]);
});

test('wrong requests are answered with what is wrong', async () => {
  const { post, request } = await serve();
  const cases: [body: unknown, status: number, error: string][] = [
    ['{', 400, 'The body is not valid JSON'],
    [[], 400, 'the body must be a JSON object'],
    [{ format: 'd2' }, 400, 'source must be a non-empty string'],
    [{ source: ' \n', format: 'd2' }, 400, 'source must be a non-empty string'],
    [{ source: 'x', format: 'visio' }, 400, 'format must be one of graphviz, d2, mermaid'],
    [{ source: 'x', format: 'd2', outputType: 'gif' }, 400, 'outputType must be one of svg, png'],
    [{ source: 'x', format: 'd2', outputType: 'toString' }, 400, 'outputType must be one of svg, png'],
    [{ source: 'x'.repeat(200_000), format: 'd2' }, 413, 'The body is larger than 131072 bytes'],
  ];
  for (const [body, status, error] of cases) expect(await post(body)).toMatchObject({ status, body: { error } });
  expect((await post(diagram, '', { 'Content-Type': 'text/plain' })).status).toBe(415);
  expect(await request('/render')).toMatchObject({ status: 405 });
  expect(await request('/')).toMatchObject({ status: 200, text: expect.stringContaining('POST /render') });
});

test('with AUTH_ENABLED, submitting and asking need name and password', async () => {
  const { post, request } = await serve({ AUTH_ENABLED: 'true', AUTH_USER: 'ann', AUTH_PASS: 'p:w' });
  const basic = (text: string) => ({ Authorization: `Basic ${Buffer.from(text).toString('base64')}` });
  for (const headers of [{}, basic('ann:wrong'), basic('ann'), { Authorization: 'Bearer x' }]) {
    const refused = await post(diagram, '', headers);
    expect(refused.status).toBe(401);
    expect(refused.headers.get('www-authenticate')).toContain('Basic');
  }
  expect((await request('/jobs/x')).status).toBe(401);
  expect((await post(diagram, '', basic('ann:p:w'))).status).toBe(202);
  expect((await request('/health')).status).toBe(200);
});

test('003-30 closing the server lets the current job finish, answers its caller, and takes nothing new', async () => {
  const door = new Door();
  const renderer = rendererBehind(door);
  const { app, post, request, folder } = await serve({}, { renderer });
  const waiting = post(diagram, '?mode=sync');
  await door.arrived;
  const closing = app.close();
  // Many times over what a server that does not wait would take to give up.
  for (let n = 0; n < 20; n++) {
    const more = post({ ...diagram, source: `x${n}` });
    expect(
      await more.then(
        ({ status }) => status,
        () => 'gone',
      ),
    ).toBe(503);
  }
  expect((await request('/health')).body.status).toBe('stopping');
  door.open();
  const answer = await waiting;
  expect(answer).toMatchObject({ status: 200, body: { shortlink: expect.any(String), cached: false } });
  await closing;
  await expect(request('/health')).rejects.toThrow();
  expect(renderer.calls).toHaveLength(1);

  const again = await serve({}, {}, folder);
  expect(await again.request(`/d/${answer.body.shortlink}`)).toMatchObject({ status: 200, text: diagram.source });
});

test('003-30 a caller who only waits for a slot when the server closes is told so, with 503', async () => {
  const door = new Door();
  const { app, post } = await serve({ QUEUE_MAX_CONCURRENT: '1' }, { renderer: rendererBehind(door) });
  const current = post(diagram, '?mode=sync');
  await door.arrived;
  const inLine = post({ ...diagram, source: 'in line' }, '?mode=sync');
  await until('it stands in line', () => app.parts.queue.waiting === 1);
  const closing = app.close();
  const refused = await inLine;
  expect(refused).toMatchObject({ status: 503, body: { error: 'Queue destroyed' } });
  expect(refused.headers.get('retry-after')).toBe('5');
  door.open();
  expect((await current).status).toBe(200);
  await closing;
});

test('003-34 003-10 one sweep removes expired outputs and old jobs, and their files', async () => {
  const clock = fakeClock();
  const folder = await temporaryFolder();
  const config = readConfig({ JOB_DB_PATH: join(folder, 'jobs.db'), JOB_POLL_INTERVAL_MS: '30000' });
  const { logger, said } = recordingLogger();
  const store = await open('memory:', {
    clock,
    logger,
    artifacts: { dir: folder },
    cleanup: { jobRetentionMs: config.jobRetentionMs, cleanupIntervalMs: config.jobCleanupIntervalMs },
  });
  const parts = {
    ...createParts(store, config, logger),
    renderer: new StubRenderer(),
    cache: createCache(store, config),
  };
  const processor = new JobProcessor(parts);
  await processor.start();
  const same = { source: 'x', format: 'd2', outputType: 'svg' } as const;
  const { id } = await parts.jobStore.create(same);
  await clock.advance('1s');
  const { shortlink } = (await parts.jobStore.get(id))!;
  expect(await parts.cache.find(inputHash(same))).toBe(shortlink);
  expect((await parts.cache.get(shortlink!))?.bytes.toString()).toBe('x');
  await clock.advance(config.cacheTtlMs);
  // Expired on access, before any sweep; then the file goes, long before the job.
  expect(await parts.cache.get(shortlink!)).toBeNull();
  expect(await parts.cache.find(inputHash(same))).toBeNull();
  await clock.advance('2m');
  expect(await filesIn(folder)).toEqual([]);
  expect((await parts.jobStore.get(id))?.status).toBe('completed');
  // The same diagram again has a new link, and that one is now the same for all.
  const { id: again } = await parts.jobStore.create(same);
  await clock.advance('1s');
  const { shortlink: fresh } = (await parts.jobStore.get(again))!;
  expect(fresh).not.toBe(shortlink);
  expect(await parts.cache.find(inputHash(same))).toBe(fresh);
  await clock.advance('1h');
  expect([await parts.jobStore.get(id), (await parts.jobStore.get(again))?.status]).toEqual([null, 'completed']);
  expect(said('Removed 1 old jobs from memory')).toHaveLength(1);

  const stopping = processor.stop();
  await clock.advance('1s');
  await stopping;
  await store.close();
});

/** Without the marker that says whose folder it is. */
async function filesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile() && entry.name !== 'store.json').map(({ name }) => name);
}
