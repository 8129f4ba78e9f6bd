// The API as a caller sees it, on an engine in memory.
import { describe, expect, test } from 'vitest';
import { type Stage, stage, unreachable } from './support.js';

async function served(given: Parameters<typeof stage>[0] = {}) {
  const it = await stage(given);
  const address = await it.app.start();
  const call = async (method: string, path: string, body?: unknown) => {
    const init = { method, ...(body !== undefined && { headers, body: JSON.stringify(body) }) };
    const response = await fetch(`${address}${path}`, init);
    const text = await response.text();
    const isJson = response.headers.get('content-type') === 'application/json';
    const json = (isJson ? JSON.parse(text) : null) as unknown;
    return { status: response.status, headers: response.headers, text, json };
  };
  return { it, address, call };
}
const headers = { 'Content-Type': 'application/json' };

test('002-19 002-22 POST /api/provision for 120 minutes answers an id and the expiry in ISO 8601, UTC', async () => {
  const { call } = await served();
  const { status, json } = await call('POST', '/api/provision', { imageType: 'ubuntu', durationMinutes: 120 });
  expect(status).toBe(201);
  expect(json).toEqual({
    id: 'c1',
    status: 'running',
    expiryTime: '2030-01-01T02:00:00.000Z',
    createdAt: '2030-01-01T00:00:00.000Z',
    imageType: 'ubuntu',
    cost: 0,
  });
});

test('cpu and memory have defaults, and what is asked for reaches the engine', async () => {
  const specs: { _body: { HostConfig: object } }[] = [];
  const { it, call } = await served();
  const create = it.docker.createContainer.bind(it.docker);
  it.docker.createContainer = (options) => (specs.push(options as never), create(options));
  await call('POST', '/api/provision', { imageType: 'alpine', durationMinutes: 5 });
  const wanted = { imageType: 'alpine', durationMinutes: 5, cpuMilli: 2_000, memoryMB: 2_048, volumeSizeMB: 5_120 };
  expect((await call('POST', '/api/provision', wanted)).status).toBe(201);
  expect(specs.map(({ _body }) => _body.HostConfig)).toEqual([
    { NanoCpus: 500_000_000, Memory: 512 * 2 ** 20 },
    { NanoCpus: 2_000_000_000, Memory: 2_048 * 2 ** 20, Mounts: [{ Type: 'volume', Target: '/data' }] },
  ]);
});

describe('what is refused with 400', () => {
  const good = { imageType: 'ubuntu', durationMinutes: 30 };
  test.each([
    [{ durationMinutes: 30 }, 'imageType is required'],
    [{ ...good, imageType: '' }, 'imageType is required'],
    [{ ...good, imageType: 'debian' }, 'imageType not allowed: use one of ubuntu, alpine'],
    [{ ...good, durationMinutes: 4 }, 'durationMinutes out of bounds: use a whole number from 5 to 120'],
    [{ ...good, durationMinutes: 121 }, 'durationMinutes out of bounds: use a whole number from 5 to 120'],
    [{ ...good, durationMinutes: '30' }, 'durationMinutes out of bounds: use a whole number from 5 to 120'],
    [{ imageType: 'ubuntu' }, 'durationMinutes out of bounds: use a whole number from 5 to 120'],
    [{ ...good, cpuMilli: 2_001 }, 'cpuMilli exceeds allowed maximum: 2000'],
    [{ ...good, cpuMilli: -1 }, 'cpuMilli must be a whole number, at least 1'],
    [{ ...good, memoryMB: 2_049 }, 'memoryMB exceeds allowed maximum: 2048'],
    [{ ...good, memoryMB: 1 }, 'memoryMB must be a whole number, at least 6'],
    [{ ...good, volumeSizeMB: 5_121 }, 'volumeSizeMB exceeds allowed maximum: 5120'],
    [[], 'The body must be a JSON object'],
  ])('%j', async (body, error) => {
    const { it, call } = await served();
    expect(await call('POST', '/api/provision', body)).toMatchObject({ status: 400, json: { error } });
    expect(it.docker.calls.filter((one) => one.startsWith('create'))).toEqual([]);
  });

  test.each([
    ['no JSON', '{', 'application/json', 400],
    ['a form', 'a=b', 'application/x-www-form-urlencoded', 415],
    ['too much', `"${'x'.repeat(70_000)}"`, 'application/json', 413],
  ])('or else: %s', async (_what, body, type, status) => {
    const { address } = await served();
    const init = { method: 'POST', body, headers: { 'Content-Type': type } };
    expect((await fetch(`${address}/api/provision`, init)).status).toBe(status);
  });
});

/** One container, five minutes long, of which three have passed. */
async function halfway(): Promise<{ it: Stage; call: Awaited<ReturnType<typeof served>>['call'] }> {
  const { it, call } = await served();
  await call('POST', '/api/provision', { imageType: 'alpine', durationMinutes: 5 });
  await it.clock.advance('3m');
  return { it, call };
}

test('GET /api/containers lists them with the seconds that are left, never less than 0', async () => {
  const { it, call } = await halfway();
  const view = { id: 'c1', imageType: 'alpine', status: 'running', cost: 0 };
  expect((await call('GET', '/api/containers')).json).toMatchObject({ containers: [{ ...view, expiresIn: 120 }] });
  await it.app.cleanupWorker.stop();
  await it.clock.advance('10m');
  expect((await call('GET', '/api/containers')).json).toMatchObject({ containers: [{ ...view, expiresIn: 0 }] });
});

test('GET /api/containers/:id/status: running, exited, error, terminated, and gone after 15 minutes', async () => {
  const { it, call } = await halfway();
  const status = () => call('GET', '/api/containers/c1/status');
  expect(await status()).toMatchObject({
    status: 200,
    json: { id: 'c1', status: 'running', timeLeftSeconds: 120, error: null, needsManualCleanup: false },
  });
  await it.docker.getContainer('c1').stop();
  expect((await status()).json).toMatchObject({ status: 'exited' });
  it.docker.containers.delete('c1');
  expect((await status()).json).toMatchObject({ status: 'error', error: 'the engine has no such container' });
  await it.clock.advance('3m');
  expect((await status()).json).toMatchObject({ status: 'terminated', timeLeftSeconds: 0 });
  await it.clock.advance('20m');
  await it.queue.sweep();
  expect((await status()).status).toBe(404);
  expect((await call('GET', '/api/containers/nobody/status')).status).toBe(404);
});

test('DELETE /api/containers/:id ends it now: 204, then 404; 503 when the engine does not answer', async () => {
  const { it, call } = await halfway();
  it.docker.refuse = (one) => (one.startsWith('stop') ? unreachable() : undefined);
  expect((await call('DELETE', '/api/containers/c1')).status).toBe(503);
  it.docker.refuse = () => undefined;
  expect(await call('DELETE', '/api/containers/c1')).toMatchObject({ status: 204, text: '' });
  expect(it.docker.containers.size).toBe(0);
  expect((await call('DELETE', '/api/containers/c1')).status).toBe(404);
  expect(await it.queue.get('lease:c1')).toBeNull();
});

test('GET /api/presets has three, GET /api/logs the last lines', async () => {
  const { call } = await halfway();
  expect((await call('GET', '/api/presets')).json).toEqual({
    presets: [
      { id: 'tiny', name: 'Tiny', cpuMilli: 250, memoryMB: 256, durationMin: 5 },
      { id: 'standard', name: 'Standard', cpuMilli: 500, memoryMB: 512, durationMin: 30 },
      { id: 'large', name: 'Large', cpuMilli: 1_000, memoryMB: 1_024, durationMin: 60 },
    ],
  });
  expect(await call('GET', '/api/logs?container=c1')).toMatchObject({ status: 200, text: 'ready\n' });
  expect((await call('GET', '/api/logs')).status).toBe(400);
});

test('GET /healthz is 200; GET /readyz is 503 while the engine or the store does not answer', async () => {
  const { it, call } = await served();
  expect(await call('GET', '/healthz')).toMatchObject({ status: 200, json: { status: 'ok' } });
  expect((await call('GET', '/readyz')).status).toBe(200);
  it.docker.refuse = unreachable;
  expect((await call('GET', '/readyz')).status).toBe(503);
  it.docker.refuse = () => undefined;
  it.docker.before = () => new Promise(() => undefined);
  expect(await call('GET', '/readyz')).toMatchObject({ status: 503, json: { error: 'no answer within 2000 ms' } });
});

test('GET /metrics counts provisions, cleanups and requests, and what is active and needs somebody', async () => {
  const { call } = await halfway();
  const { text } = await call('GET', '/metrics');
  for (const line of [
    'containerlease_active_containers 1',
    'containerlease_needs_manual_cleanup 0',
    'containerlease_provision_duration_seconds_count{result="success"} 1',
    'containerlease_http_requests_total{method="POST",route="/api/provision",status="201"} 1',
    '# TYPE containerlease_http_request_duration_seconds summary',
  ])
    expect(text).toContain(line);
  await call('DELETE', '/api/containers/c1');
  expect((await call('GET', '/metrics')).text).toContain(
    'containerlease_cleanup_operations_total{source="manual",result="success"} 1',
  );
});

test('every answer has an X-Request-ID; unknown paths and methods are 404 and 405', async () => {
  const { call } = await served();
  for (const [method, path, status] of [
    ['GET', '/healthz', 200],
    ['GET', '/nowhere', 404],
    ['GET', '/api/provision', 405],
    ['POST', '/api/containers/x/y', 404],
  ] as const) {
    const answer = await call(method, path);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
  }
});
