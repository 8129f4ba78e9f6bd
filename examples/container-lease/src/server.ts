import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Config } from './config.js';
import type { ContainerService } from './container-service.js';
import type { Engine } from './docker.js';
import type { LeaseRepository } from './domain.js';
import type { AppLogger } from './logger.js';
import type { Metrics } from './metrics.js';
import { outageOf } from './outage.js';
import { presets, readProvisionRequest } from './provision-request.js';

export interface ServerParts {
  readonly config: Config;
  readonly service: ContainerService;
  readonly engine: Engine;
  readonly leaseRepository: LeaseRepository;
  readonly logger: AppLogger;
  readonly metrics: Metrics;
  /** Rejects while the store does not answer, or cannot be written. */
  readonly askStore: () => Promise<unknown>;
}

const bodyBytesMax = 64 * 1024;
const readyMs = 2_000;

interface Answer {
  readonly status: number;
  readonly body?: object | string;
  readonly headers?: { readonly [name: string]: string };
}

class HttpError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly headers: { readonly [name: string]: string } = {},
  ) {
    super(message);
  }
}

type Handler = (request: IncomingMessage, url: URL, id: string) => Promise<Answer>;

export function createLeaseServer(parts: ServerParts): Server {
  const { config, logger, metrics } = parts;
  const routes = createRoutes(parts);
  return createServer((request, response) => {
    const requestId = randomUUID();
    const startedAt = performance.now();
    response.setHeader('X-Request-ID', requestId);
    let route = 'unknown';
    const asked = async (): Promise<Answer> => {
      checkToken(request, config.token);
      const url = urlOf(request.url ?? '/');
      const found = find(routes, request.method ?? '', url.pathname);
      route = found.route;
      return found.handler(request, url, found.id);
    };
    asked()
      .catch((error: unknown): Answer => {
        if (error instanceof HttpError)
          return { status: error.status, body: { error: error.message }, headers: error.headers };
        const outage = outageOf(error);
        logger.error('request failed', { request_id: requestId, route, error: String(error) });
        return outage
          ? { status: outage.status, body: { error: outage.reason } }
          : { status: 500, body: { error: 'Internal error', requestId } };
      })
      .then((answer) => {
        metrics.request(request.method ?? '', route, answer.status, (performance.now() - startedAt) / 1_000);
        send(response, answer);
      })
      .catch((error: unknown) => {
        logger.error('answer failed', { request_id: requestId, error: String(error) });
        response.destroy();
      });
  });
}

/** The target of a request is whatever its sender wrote. */
function urlOf(target: string): URL {
  const text = target.startsWith('/') ? `http://localhost${target}` : target;
  if (!URL.canParse(text)) throw new HttpError(400, 'The address cannot be read');
  return new URL(text);
}

/** How long it takes says nothing about how much of the token was right. */
function checkToken({ headers }: IncomingMessage, token: string | null): void {
  if (token === null) return;
  const given = /^Bearer (.+)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
  const [a, b] = [given, token].map((text) => createHash('sha256').update(text).digest());
  if (!timingSafeEqual(a!, b!))
    throw new HttpError(401, 'Authorization: Bearer … with the token is required', { 'WWW-Authenticate': 'Bearer' });
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  if (response.destroyed) return;
  if (body === undefined) {
    response.writeHead(status, headers).end();
    return;
  }
  const text = typeof body === 'string';
  response.writeHead(status, { ...headers, 'Content-Type': text ? 'text/plain; charset=utf-8' : 'application/json' });
  response.end(text ? body : `${JSON.stringify(body)}\n`);
}

/** `:id` stands for one part of a path. */
function find(routes: Readonly<Record<string, Handler>>, method: string, path: string) {
  let isKnown = false;
  for (const [route, handler] of Object.entries(routes)) {
    const [allowed, pattern = ''] = route.split(' ');
    const match = new RegExp(`^${pattern.replace(':id', '([^/]+)')}$`).exec(path);
    if (match && allowed === method) return { route: pattern, id: match[1] ?? '', handler };
    isKnown ||= match !== null;
  }
  const refuse: Handler = async () => {
    throw isKnown ? new HttpError(405, 'Method not allowed') : new HttpError(404, 'Not found');
  };
  return { route: 'unknown', id: '', handler: refuse };
}

function createRoutes(parts: ServerParts): Readonly<Record<string, Handler>> {
  const { config, service, engine, leaseRepository, metrics, askStore } = parts;
  return {
    'POST /api/provision': async (request) => {
      const wanted = readProvisionRequest(await readJson(request), config);
      if (typeof wanted === 'string') throw new HttpError(400, wanted);
      const { id, status, expiryAt: expiryTime, createdAt, imageType, cost } = await service.provision(wanted);
      return { status: 201, body: { id, status, expiryTime, createdAt, imageType, cost } };
    },
    'GET /api/containers': async () => ({ status: 200, body: { containers: await service.list() } }),
    'GET /api/containers/:id/status': async (_request, _url, id) => {
      const body = await service.status(id);
      if (!body) throw new HttpError(404, 'Container not found');
      return { status: 200, body };
    },
    'DELETE /api/containers/:id': async (_request, _url, id) => {
      if (!(await service.delete(id, AbortSignal.timeout(60_000)))) throw new HttpError(404, 'Container not found');
      return { status: 204 };
    },
    'GET /api/manual-cleanup': async () => ({
      status: 200,
      body: { containers: await leaseRepository.needingManualCleanup() },
    }),
    'GET /api/presets': async () => ({ status: 200, body: { presets } }),
    'GET /api/logs': async (_request, url) => {
      const id = url.searchParams.get('container');
      if (!id) throw new HttpError(400, 'container is required');
      const text = (await service.isOnRecord(id)) ? await engine.logs(id) : null;
      if (text === null) throw new HttpError(404, 'Container not found');
      return { status: 200, body: text };
    },
    'GET /healthz': async () => ({ status: 200, body: { status: 'ok' } }),
    'GET /readyz': async () => {
      const failure = await within(readyMs, Promise.all([askStore(), engine.ping()]));
      return failure === null
        ? { status: 200, body: { status: 'ready' } }
        : { status: 503, body: { status: 'not ready', error: failure } };
    },
    'GET /metrics': async () => {
      const [states, manual] = await Promise.all([engine.states(), leaseRepository.needingManualCleanup()]);
      const active = [...states.values()].filter((state) => state === 'running').length;
      const gauges = { active_containers: active, needs_manual_cleanup: manual.length };
      return { status: 200, body: metrics.text(gauges) };
    },
  };
}

/** Null, or why it is not so. */
async function within(ms: number, work: Promise<unknown>): Promise<string | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`no answer within ${ms} ms`), ms);
  });
  try {
    return await Promise.race([work.then(() => null, String), late]);
  } finally {
    clearTimeout(timer);
  }
}

async function readJson(request: IncomingMessage): Promise<unknown> {
  // Forms of foreign pages can send anything but this.
  if (!/^application\/json\b/i.test(request.headers['content-type'] ?? ''))
    throw new HttpError(415, 'Content-Type must be application/json');
  const chunks: Buffer[] = [];
  let length = 0;
  // The rest of a body that is too large is read and dropped, so that the caller hears why.
  for await (const chunk of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    length += chunk.length;
    if (length > bodyBytesMax) throw new HttpError(413, `The body is larger than ${bodyBytesMax} bytes`);
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    throw new HttpError(400, 'The body is not valid JSON');
  }
}
