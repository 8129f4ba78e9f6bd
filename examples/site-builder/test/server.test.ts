import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { DynamicRouteGenerator } from '../src/dynamic-route-generator.js';
import { EntityService } from '../src/entity-service.js';
import { EventBus } from '../src/event-bus.js';
import { RouteRegistry } from '../src/route-registry.js';
import { createSiteServer, listen } from '../src/server.js';
import { SiteBuilder } from '../src/site-builder.js';
import { recordingLogger, temporaryFolder } from './support.js';

let port: number;

beforeEach(async () => {
  const outputDir = join(await temporaryFolder(), 'site');
  const entityService = new EntityService(new EventBus());
  const routeRegistry = new RouteRegistry();
  routeRegistry.register({ path: '/', title: 'Home', body: 'Welcome.' });
  const { logger } = recordingLogger();
  const routeGenerator = new DynamicRouteGenerator({ logger, entityService }, routeRegistry);
  await entityService.createEntity('blog', { title: 'Post 1', body: '**Hello**' }, 'post-1');
  await new SiteBuilder({ outputDir, routeRegistry, routeGenerator }).build();

  const server = createSiteServer(outputDir);
  await listen(server, 0);
  onTestFinished(() => void server.close());
  ({ port } = server.address() as AddressInfo);
});

/** What the server says to these bytes, as they are, until it hangs up: clients that know better would tidy them up or refuse to send them. */
async function say(text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (answer += chunk));
  socket.on('error', () => {}); // the server may close before it has read everything
  socket.write(text);
  await once(socket, 'close');
  return answer;
}

const get = (target: string): Promise<string> => say(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
const statusOf = (answer: string): number => Number(/^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1]);

test('no address, however malformed, ends the server, breaks it or leads out of its folder', async () => {
  const targets = [
    '//',
    '///',
    '//etc/passwd',
    '/blogs//',
    'http://[',
    'http://[::1',
    'http://',
    'http:///',
    'https://user:pass@[/',
    'x:',
    '%',
    '/%',
    '/%00',
    '/%ff',
    '/%E0%A4%A',
    '..%2f',
    '/..%2f',
    '/..%2fsite.json',
    '/%2e%2e/site.json',
    '/../site.json',
    '/revisions/1/index.html',
    '/..\\site.json',
    '/__proto__',
    '/constructor',
    '*',
    '/\u00ff',
    `/${'a'.repeat(8_000)}`,
    `/${'../'.repeat(2_000)}etc/passwd`,
  ];
  for (const target of targets) {
    const answer = await get(target);
    // What Node itself cannot read is a bad request; all else is a page that there is not.
    expect([target, [400, 404].includes(statusOf(answer)), answer.slice(0, 40)]).toEqual([
      target,
      true,
      expect.anything(),
    ]);
    expect(answer).not.toContain('root:');
    expect(answer).not.toContain('"files"');
  }
  for (const target of ['/', '/?', '/?x=//', '/#', '/blogs', '/blogs/', '/blogs/post-1?a=%'])
    expect([target, statusOf(await get(target))]).toEqual([target, 200]);
});

test('a page may load nothing from elsewhere, and is no other type than it says', async () => {
  for (const target of ['/', '/none']) {
    const answer = await get(target);
    expect(answer).toContain(
      "content-security-policy: default-src 'none'; style-src 'unsafe-inline'; img-src 'self' https:",
    );
    expect(answer).toContain('x-content-type-options: nosniff');
    expect(answer).toContain('cache-control: no-cache');
  }
});

test('requests that are none are refused, and the next one is answered', async () => {
  const refused: readonly (readonly [text: string, status: number])[] = [
    ['\r\n\r\n\0\0', 400],
    ['GET\r\n\r\n', 400],
    ['GET / HTTP/9.9\r\n\r\n', 400],
    ['GET / HTTP/1.1\r\n\r\n', 400],
    [`GET /${'a'.repeat(100_000)} HTTP/1.1\r\nHost: x\r\n\r\n`, 431],
    ['OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', 405],
    ['CONNECT [:0 HTTP/1.1\r\nHost: x\r\n\r\n', Number.NaN], // hung up on, without a word
  ];
  for (const [text, status] of refused) {
    expect([text.slice(0, 40), statusOf(await say(text))]).toEqual([text.slice(0, 40), status]);
    expect(statusOf(await get('/'))).toBe(200);
  }
});

test('the server can be reached from this machine alone', async () => {
  expect(statusOf(await get('/'))).toBe(200);
  const others = Object.values(networkInterfaces()).flatMap((addresses) =>
    (addresses ?? []).filter(({ internal, scopeid }) => !internal && !scopeid).map(({ address }) => address),
  );
  for (const host of [...others, '127.0.0.2', '::1']) {
    const socket = connect(port, host);
    const [error] = (await Promise.race([once(socket, 'connect').then(() => [null]), once(socket, 'error')])) as [
      unknown,
    ];
    socket.destroy();
    expect([host, error]).toMatchObject([host, { code: expect.stringMatching(/^(?:ECONNREFUSED|EADDRNOTAVAIL)$/) }]);
  }
});
