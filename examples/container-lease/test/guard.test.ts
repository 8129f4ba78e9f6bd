// What a stranger may send, and what a caller hears when an image, the engine or the store is missing.
import { once } from 'node:events';
import { connect } from 'node:net';
import { Redis } from 'ioredis';
import { describe, expect, onTestFinished, test } from 'vitest';
import { readConfig } from '../src/config.js';
import { isRedisThere, privateRedis } from './redis.js';
import { FakeDocker, stage, unreachable } from './support.js';

async function served(given: Parameters<typeof stage>[0] = {}) {
  const it = await stage(given);
  const address = await it.app.start();
  const call = async (method: string, path: string, body?: unknown, headers: { [name: string]: string } = {}) => {
    const json = { 'Content-Type': 'application/json' };
    const init = body === undefined ? { method, headers } : { method, headers: { ...headers, ...json } };
    const response = await fetch(`${address}${path}`, {
      ...init,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text };
  };
  return { it, address, call };
}
const wanted = { imageType: 'ubuntu', durationMinutes: 5 };

/** The first line of the answer to exactly this request target. */
async function raw(address: string, target: string): Promise<string> {
  const { hostname, port } = new URL(address);
  const socket = connect(Number(port), hostname);
  socket.end(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
  let text = '';
  socket.on('data', (data: Buffer) => (text += data.toString()));
  await once(socket, 'close');
  return text.split('\r\n')[0] ?? '';
}

test('an address that cannot be read is answered, and the server lives', async () => {
  const { address, call } = await served();
  for (const [target, status] of [
    ['//', 404],
    ['//api/containers', 404],
    ['/\\', 404],
    ['//[', 404],
    ['http://[', 400],
    ['http://x:99999/', 400],
    ['*', 400],
  ] as const)
    expect(await raw(address, target), target).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
  expect((await call('GET', '/healthz')).status).toBe(200);
});

describe('a container that is not on record is not found, whatever is sent for its id', () => {
  const strange = [
    'c2',
    'c1/../c2',
    'c1%2f..%2fc2',
    '../images/json?x=',
    '..',
    'c1%00',
    'x'.repeat(200),
    'ü',
    'lease:c1',
  ];

  test.each(strange)('%s', async (id) => {
    const { it, call } = await served();
    await call('POST', '/api/provision', wanted);
    // Somebody else's, on the same engine.
    it.docker.containers.set('c2', { name: 'theirs', labels: {}, running: true });
    it.docker.calls.length = 0;
    for (const [method, path] of [
      ['GET', `/api/logs?container=${encodeURIComponent(id)}`],
      ['GET', `/api/logs?container=${id}`],
      ['GET', `/api/containers/${encodeURIComponent(id)}/status`],
      ['DELETE', `/api/containers/${encodeURIComponent(id)}`],
    ] as const)
      expect(await call(method, path), path).toMatchObject({ status: 404 });
    expect(it.docker.calls.filter((one) => one !== 'list')).toEqual([]);
    expect(it.docker.containers.size).toBe(2);
  });

  test('and one that is on record is read', async () => {
    const { call } = await served();
    await call('POST', '/api/provision', wanted);
    expect(await call('GET', '/api/logs?container=c1')).toMatchObject({ status: 200, text: 'ready\n' });
  });
});

describe('what is missing is said', () => {
  const answering = (statusCode: number, message: string): Error =>
    Object.assign(new Error(`(HTTP code ${statusCode}) ${message}`), { statusCode, json: { message } });

  test('an image that the engine has not: 422', async () => {
    const { it, call } = await served();
    it.docker.refuse = (one) => (one.startsWith('create') ? answering(404, 'No such image: ubuntu:latest') : undefined);
    const answer = await call('POST', '/api/provision', wanted);
    expect(answer.status).toBe(422);
    expect(JSON.parse(answer.text)).toEqual({ error: 'No such image: ubuntu:latest' });
  });

  test('a limit that the engine does not accept: 400', async () => {
    const { it, call } = await served();
    const why = 'Range of CPUs is from 0.01 to 1.00, as there are only 1 CPUs available';
    it.docker.refuse = (one) => (one.startsWith('create') ? answering(400, why) : undefined);
    const answer = await call('POST', '/api/provision', wanted);
    expect(answer).toMatchObject({ status: 400 });
    expect(JSON.parse(answer.text)).toEqual({ error: why });
  });

  test.each([
    ['is away', unreachable()],
    ['breaks', answering(500, 'no space left on device')],
  ])('an engine that %s: 503 for all that needs it', async (_what, error) => {
    const { it, call } = await served();
    await call('POST', '/api/provision', wanted);
    it.docker.refuse = () => error;
    for (const [method, path, body] of [
      ['POST', '/api/provision', wanted],
      ['GET', '/api/containers', undefined],
      ['GET', '/api/containers/c1/status', undefined],
      ['GET', '/api/logs?container=c1', undefined],
      ['DELETE', '/api/containers/c1', undefined],
      ['GET', '/metrics', undefined],
      ['GET', '/readyz', undefined],
    ] as const) {
      const answer = await call(method, path, body);
      expect(answer.status, `${method} ${path}`).toBe(503);
      expect(answer.text).toContain(/ENOENT|no space/.exec(error.message)![0]);
    }
    it.docker.refuse = () => undefined;
    expect((await call('DELETE', '/api/containers/c1')).status).toBe(204);
  });
});

describe.skipIf(!isRedisThere)('a Redis that can be read and not written', () => {
  async function onRedis() {
    const url = await privateRedis();
    const redis = new Redis(url);
    onTestFinished(() => redis.disconnect());
    return { ...(await served({ store: url })), redis };
  }

  test('GET /readyz is 503 with the reason, and 200 when it can be written again', async () => {
    const { redis, call } = await onRedis();
    expect((await call('GET', '/readyz')).status).toBe(200);
    await redis.config('SET', 'maxmemory', '1');
    const refused = await call('GET', '/readyz');
    expect(refused.status).toBe(503);
    expect(refused.text).toContain('has no memory left (maxmemory)');
    await redis.config('SET', 'maxmemory', '0');
    expect((await call('GET', '/readyz')).status).toBe(200);
  });

  test('POST /api/provision is 503 with the reason, and leaves nothing on the engine', async () => {
    const { it, redis, call } = await onRedis();
    await redis.config('SET', 'maxmemory', '1');
    const answer = await call('POST', '/api/provision', wanted);
    expect(answer.status).toBe(503);
    expect(answer.text).toContain('has no memory left (maxmemory)');
    expect(it.docker.containers.size).toBe(0);
  });
});

describe('a service that others can reach', () => {
  const token = 'correct-horse-battery';

  test.each(['0.0.0.0', '::', '192.168.1.5', 'example.org', '127.0.0.1.example.org'])(
    'SERVER_HOST=%s does not start without a token',
    (SERVER_HOST) => {
      expect(() => readConfig({ SERVER_HOST })).toThrow(
        `SERVER_HOST is ${SERVER_HOST}, which others can reach: set SERVER_TOKEN, or use 127.0.0.1`,
      );
      expect(readConfig({ SERVER_HOST, SERVER_TOKEN: token })).toMatchObject({ host: SERVER_HOST, token });
    },
  );

  test.each(['127.0.0.1', '127.1.2.3', '::1', 'localhost'])('SERVER_HOST=%s needs none', (SERVER_HOST) => {
    expect(readConfig({ SERVER_HOST })).toMatchObject({ host: SERVER_HOST, token: null });
  });

  test.each(['short', 'fifteen-letters', 'with a space in it', 'with a tab\tin it here', 'ümlaut-ümlaut-ümlaut'])(
    'the token "%s" is refused, wherever it listens',
    (SERVER_TOKEN) => {
      const why = 'SERVER_TOKEN must have at least 16 characters, of ASCII and without spaces';
      expect(() => readConfig({ SERVER_TOKEN })).toThrow(why);
      expect(() => readConfig({ SERVER_TOKEN, SERVER_HOST: '0.0.0.0' })).toThrow(why);
    },
  );

  test('answers nothing but 401 without it', async () => {
    const docker = new FakeDocker();
    const { it, call } = await served({ docker, env: { SERVER_HOST: '0.0.0.0', SERVER_TOKEN: token } });
    await call('POST', '/api/provision', wanted, { Authorization: `Bearer ${token}` });
    docker.calls.length = 0;
    const wrong = [undefined, '', token, `Basic ${token}`, 'Bearer ', `Bearer ${token}x`, `Bearer ${token.slice(1)}`];
    for (const [method, path, body] of [
      ['POST', '/api/provision', wanted],
      ['GET', '/api/containers', undefined],
      ['DELETE', '/api/containers/c1', undefined],
      ['GET', '/api/logs?container=c1', undefined],
      ['GET', '/metrics', undefined],
      ['GET', '/healthz', undefined],
      ['GET', '/nowhere', undefined],
    ] as const)
      for (const given of wrong) {
        const headers = given === undefined ? {} : { Authorization: given };
        const answer = await call(method, path, body, headers);
        expect(answer.status, `${method} ${path} ${given}`).toBe(401);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      }
    expect(docker.calls).toEqual([]);
    expect(docker.containers.size).toBe(1);
    for (const scheme of ['Bearer', 'bearer'])
      expect((await call('GET', '/api/containers', undefined, { Authorization: `${scheme} ${token}` })).status).toBe(
        200,
      );
    expect(JSON.stringify(it.entries)).not.toContain(token);
  });
});
