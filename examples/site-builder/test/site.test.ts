import { mkdir, open, readdir, readFile, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { DynamicRouteGenerator } from '../src/dynamic-route-generator.js';
import { EntityService } from '../src/entity-service.js';
import { EventBus } from '../src/event-bus.js';
import { RouteRegistry } from '../src/route-registry.js';
import { createSiteServer } from '../src/server.js';
import { readSite, SiteBuilder, type SiteBuilderOptions } from '../src/site-builder.js';
import { recordingLogger, temporaryFolder } from './support.js';

let outputDir: string;
let entityService: EntityService;
let routeRegistry: RouteRegistry;

beforeEach(async () => {
  outputDir = join(await temporaryFolder(), 'site');
  entityService = new EntityService(new EventBus());
  routeRegistry = new RouteRegistry();
  routeRegistry.register({ path: '/', title: 'Home', body: 'Welcome.' });
});

function builder(options: Partial<SiteBuilderOptions> = {}): SiteBuilder {
  const { logger } = recordingLogger();
  const routeGenerator = new DynamicRouteGenerator({ logger, entityService }, routeRegistry);
  return new SiteBuilder({ outputDir, routeRegistry, routeGenerator, ...options });
}

async function page(path: string): Promise<string> {
  const file = (await readSite(outputDir))?.files[path];
  if (file === undefined) throw new Error(`${path} is not in the published site`);
  return readFile(join(outputDir, file), 'utf8');
}

test('Markdown becomes HTML on disk', async () => {
  const body = 'Some *emphasis* and a [link](/blogs).\n\n| a | b |\n|---|---|\n| 1 | 2 |\n';
  await entityService.createEntity('blog', { title: 'Post 1', body }, 'post-1');

  expect(await builder().build()).toEqual({ pages: 3, revision: 1 });

  const html = await page('/blogs/post-1');
  expect(html).toContain('<h1>Post 1</h1>');
  expect(html).toContain('<em>emphasis</em>');
  expect(html).toContain('<a href="/blogs">link</a>');
  expect(html).toContain('<td>1</td>');
  expect(await page('/blogs')).toContain('<li><a href="/blogs/post-1">Post 1</a></li>');
  // Where one is shows in the navigation.
  expect(await page('/blogs')).toContain(
    '<nav><a href="/">Home</a><a href="/blogs" aria-current="page">Blogs</a></nav>',
  );
});

test('content cannot bring its own markup or scripts', async () => {
  const body = [
    '<script>alert(1)</script>',
    'and <b onclick="alert(2)">inline</b>',
    '[one](javascript:alert(3)) [two](javascript&colon;alert(4)) [three](data:text/html,x)',
    '![four](javascript:alert(5))',
  ].join('\n\n');
  await entityService.createEntity('blog', { title: '<img src=x onerror=alert(6)>&"\'', body }, 'post-1');
  await builder().build();

  for (const html of [await page('/blogs/post-1'), await page('/blogs')]) {
    expect(html).not.toMatch(/<script|<b |<img|href="(?:javascript|data)/i);
  }
  expect(await page('/blogs/post-1')).toContain('<title>&#60;img src=x onerror=alert(6)&#62;&#38;&#34;&#39;</title>');
});

test('a reader never sees half a build', async () => {
  await entityService.createEntity('blog', { title: 'Post 1' }, 'post-1');
  await builder().build();
  await entityService.createEntity('blog', { title: 'Post 2' }, 'post-2');

  const revisionsSeen = new Set<number | undefined>();
  const watching = builder({
    render: async () => {
      revisionsSeen.add((await readSite(outputDir))?.revision);
      return 'new';
    },
  });
  await watching.build();

  expect([...revisionsSeen]).toEqual([1]);
  expect((await readSite(outputDir))?.revision).toBe(2);
  expect(await page('/blogs/post-2')).toBe('new');
});

test('a build that fails or is given up publishes nothing, and the next one clears up after it', async () => {
  await builder().build();
  const failing = builder({
    render: () => {
      throw new Error('template');
    },
  });
  await expect(failing.build()).rejects.toThrow('template');

  const controller = new AbortController();
  const givenUp = builder({
    render: () => {
      controller.abort(new Error('taken over'));
      return 'late';
    },
  });
  await expect(givenUp.build(controller.signal)).rejects.toThrow('taken over');
  // It goes on with nothing, and does not even render what would be thrown away.
  routeRegistry.register({ path: '/about', title: 'About', body: '' });
  let rendered = 0;
  const late = builder({ render: () => String(++rendered) });
  await expect(late.build(controller.signal)).rejects.toThrow('taken over');
  expect(rendered).toBe(0);
  routeRegistry.unregister('/about');
  expect((await readSite(outputDir))?.revision).toBe(1);

  await mkdir(join(outputDir, 'revisions/2/debris'), { recursive: true });
  await writeFile(join(outputDir, 'revisions/2/debris/index.html'), 'of a crash');
  expect(await builder().build()).toEqual({ pages: 1, revision: 2 });
  expect(await readdir(join(outputDir, 'revisions/2'))).toEqual(['index.html']);
});

test('old revisions are removed, the last two stay', async () => {
  for (let i = 0; i < 5; i++) await builder().build();
  expect((await readdir(join(outputDir, 'revisions'))).sort()).toEqual(['4', '5']);
  expect((await readdir(outputDir)).sort()).toEqual(['revisions', 'site.json']);
  // The new list takes the place of the old one in one step: written over, it could be read half.
  const before = await open(join(outputDir, 'site.json'));
  await builder().build();
  expect(JSON.parse(await before.readFile('utf8'))).toMatchObject({ revision: 5 });
  await before.close();
});

test('whatever an entity is called and says, the site is built with it or the entity is refused', async () => {
  const names = [
    'a'.repeat(100),
    'a'.repeat(101),
    'a'.repeat(300),
    'index',
    'constructor',
    'con',
    'nul',
    '0',
    'site-json',
  ];
  const bodies = ['>'.repeat(20_000), '['.repeat(20_000), '- '.repeat(5_000), '*'.repeat(20_000), '\0', '\ud800'];
  let pages = 2; // the home page and the collection
  const create = async (body: string, id: string): Promise<void> => {
    const created = await entityService.createEntity('blog', { title: id, body }, id).catch((error: unknown) => error);
    if (!(created instanceof TypeError)) pages++;
  };
  for (const name of names) await create('', name);
  for (const [n, body] of bodies.entries()) await create(body, `body-${n}`);
  expect(pages).toBe(2 + names.length - 2 + bodies.length);
  await entityService.updateEntity('blog', { title: 'x', id: '../b' } as { title: string }, '0');

  expect(
    await builder()
      .build()
      .catch((error: unknown) => error),
  ).toEqual({ pages, revision: 1 });
  // What cannot be read as Markdown is shown as it is.
  expect(await page('/blogs/body-0')).toContain('&#62;'.repeat(20_000));
});

test('a static route that is no address is refused', async () => {
  routeRegistry.register({ path: '/../outside', title: 'x', body: '' });
  await expect(builder().build()).rejects.toThrow('cannot be a file name');
});

test('the server serves the pages of the last build and nothing else', async () => {
  const server = createSiteServer(outputDir);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  // Not fetch: it would tidy the path up before it is sent.
  const get = (path: string, method = 'GET') =>
    new Promise<{ status: number | undefined; type: string | undefined; body: string }>((resolve, reject) => {
      request({ port, path, method, agent: false }, (response) => {
        let body = '';
        response.setEncoding('utf8');
        response.on('data', (chunk: string) => (body += chunk));
        response.on('end', () =>
          resolve({ status: response.statusCode, type: response.headers['content-type'], body }),
        );
      })
        .on('error', reject)
        .end();
    });

  expect(await get('/')).toMatchObject({ status: 503 });
  await entityService.createEntity('blog', { title: 'Post 1', body: '**Hello**' }, 'post-1');
  await builder().build();

  expect(await get('/')).toMatchObject({ status: 200, type: 'text/html; charset=utf-8' });
  expect((await get('/blogs/post-1?from=home')).body).toContain('<strong>Hello</strong>');
  expect((await get('/blogs/')).status).toBe(200);
  expect(await get('/blogs', 'HEAD')).toMatchObject({ status: 200, body: '' });
  expect((await get('/', 'POST')).status).toBe(405);
  for (const path of ['/blogs/post-2', '/site.json', '/../site.json', '/..%2fsite.json', '/constructor', '/%']) {
    const { status, body } = await get(path);
    expect([path, status]).toEqual([path, 404]);
    expect(body).toContain('There is no such page');
  }

  await entityService.deleteEntity('blog', 'post-1');
  await builder().build();
  expect((await get('/blogs/post-1')).status).toBe(404);
});
