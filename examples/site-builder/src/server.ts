import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { renderPage } from './page.js';
import { readSite, type Site } from './site-builder.js';

/**
 * Serves the published site. A request's path is only ever looked up in the table of the build; no file name is made
 * from it, so there is nothing to traverse.
 */
export function createSiteServer(outputDir: string): Server {
  return createServer((request, response) => {
    const method = request.method ?? '';
    if (method !== 'GET' && method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      send(response, method, 405, notice('Not allowed', 'This site is read only.'));
      return;
    }
    answer(request.url ?? '/').then(
      ({ status, html }) => send(response, method, status, html),
      () => send(response, method, 500, notice('Out of order', 'This page could not be read.')),
    );
  });

  async function answer(url: string): Promise<{ status: number; html: string }> {
    const site = await readSite(outputDir);
    if (!site) return { status: 503, html: notice('Soon', 'The first build is on its way.') };
    const path = url.replace(/[?#].*$/s, '').replace(/(?<=[^/])\/$/, '');
    // Own keys only: `/constructor` is no page.
    const file = Object.hasOwn(site.files, path) ? site.files[path] : undefined;
    if (file === undefined) return { status: 404, html: notice('Not found', 'There is no such page.', site) };
    return { status: 200, html: await readFile(join(outputDir, file), 'utf8') };
  }
}

function send(response: ServerResponse, method: string, status: number, html: string): void {
  response.writeHead(status, {
    'content-type': 'text/html; charset=utf-8',
    'content-length': Buffer.byteLength(html),
    'cache-control': 'no-cache',
    'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; img-src 'self' https:",
    'x-content-type-options': 'nosniff',
  });
  response.end(method === 'HEAD' ? undefined : html);
}

function notice(title: string, body: string, site?: Site): string {
  const navigation = site ? [{ path: '/', title: 'Home' }] : [];
  return renderPage({ route: { path: '', title, body }, navigation, revision: site?.revision ?? 0 });
}

/** Of this machine alone: nothing here asks who is there. */
export async function listen(server: Server, port: number): Promise<void> {
  await once(server.listen(port, '127.0.0.1'), 'listening');
}
