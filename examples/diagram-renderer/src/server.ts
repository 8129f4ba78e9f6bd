import { createHash, randomUUID, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { Config } from './config.js';
import { formats, inputHash, readDiagram, undrawnKind } from './diagram.js';
import { describe, type JobProcessor, type Parts } from './job-processor.js';
import type { RenderJob } from './job-store.js';

const bodyBytesMax = 128 * 1024;
/** Seconds that a turned away caller is asked to wait. */
const retryAfter = '5';

/** A diagram may hold links and HTML of whoever wrote it: it is shown, and may do nothing. */
const harmless = {
  'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox",
  'X-Content-Type-Options': 'nosniff',
};

interface Answer {
  readonly status: number;
  readonly body: object | string | Buffer;
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

export function createRenderServer(parts: Parts, processor: JobProcessor): Server {
  const routes = createRoutes(parts, processor);
  return createServer((request, response) => {
    const requestId = randomUUID();
    response.setHeader('X-Request-Id', requestId);
    routes(request)
      .catch((error: unknown): Answer => {
        if (error instanceof HttpError)
          return { status: error.status, body: { error: error.message }, headers: error.headers };
        // A caller that has left needs no answer.
        if (!response.destroyed) parts.logger.error('Request failed', { requestId, error: String(error) });
        return { status: 500, body: { error: 'Internal error', requestId } };
      })
      .then((answer) => send(response, answer))
      .catch((error: unknown) => {
        parts.logger.error('Answer failed', { requestId, error: String(error) });
        response.destroy();
      });
  });
}

function send(response: ServerResponse, { status, body, headers = {} }: Answer): void {
  if (response.destroyed) return;
  const raw = typeof body === 'string' || Buffer.isBuffer(body);
  const type = raw ? 'text/plain; charset=utf-8' : 'application/json';
  response.writeHead(status, { 'Content-Type': type, ...headers });
  response.end(raw ? body : `${JSON.stringify(body)}\n`);
}

function createRoutes(parts: Parts, processor: JobProcessor) {
  const { jobStore, queue, cache, config } = parts;
  const linkTo = (shortlink: string): string => `${config.baseUrl}/d/${shortlink}`;

  async function render(request: IncomingMessage, mode: string | null): Promise<Answer> {
    if (!processor.isRunning()) throw new HttpError(503, 'The server shuts down', { 'Retry-After': retryAfter });
    const diagram = readDiagram(await readJson(request));
    if (typeof diagram === 'string') throw new HttpError(400, diagram);
    const undrawn = undrawnKind(diagram);
    if (undrawn !== null) throw new HttpError(422, undrawn);

    const known = await cache.find(inputHash(diagram));
    if (known !== null) return { status: 200, body: { shortlink: known, url: linkTo(known), cached: true } };

    if (mode === 'sync') return outcome(await processor.renderNow(diagram).catch(refusal));
    const { id } = await jobStore.create(diagram);
    const statusUrl = `${config.baseUrl}/jobs/${id}`;
    return { status: 202, body: { jobId: id, status: 'pending', statusUrl }, headers: { Location: statusUrl } };
  }

  function outcome({ id, shortlink, error, errorCode }: RenderJob): Answer {
    if (shortlink !== null)
      return { status: 200, body: { jobId: id, shortlink, url: linkTo(shortlink), cached: false } };
    throw failure(String(error), errorCode);
  }

  async function job(id: string): Promise<Answer> {
    const found = await jobStore.get(id);
    if (!found) throw new HttpError(404, 'Job not found');
    const { id: jobId, ...rest } = found;
    const url = rest.shortlink === null ? null : linkTo(rest.shortlink);
    const errorStatus = rest.error === null ? null : statusOf(rest.errorCode);
    return { status: 200, body: { jobId, ...rest, errorStatus, url } };
  }

  async function output(shortlink: string): Promise<Answer> {
    const found = await cache.get(shortlink);
    if (!found) throw new HttpError(404, 'This link leads nowhere, or no longer');
    return {
      status: 200,
      body: found.bytes,
      headers: { ...harmless, 'Content-Type': found.contentType, 'Cache-Control': 'no-cache' },
    };
  }

  function health(): Answer {
    const { running, waiting } = queue;
    const slots = { running, waiting, max: config.queueMaxConcurrent, maxWaiting: config.queueMaxWaiting };
    return processor.isRunning()
      ? { status: 200, body: { status: 'ok', slots } }
      : { status: 503, body: { status: 'stopping', slots } };
  }

  return async (request: IncomingMessage): Promise<Answer> => {
    // No URL is made of it: `//` would be one without a host.
    const [pathname = '', ...query] = (request.url ?? '/').split('?');
    const mode = new URLSearchParams(query.join('?')).get('mode');
    const [before, first = '', second = '', ...more] = pathname.split('/');
    const known = before === '' && more.length === 0 && (second === '') === ['', 'render', 'health'].includes(first);
    const method = first === 'render' ? 'POST' : 'GET';
    if (!known || !['', 'render', 'jobs', 'd', 'health'].includes(first)) throw new HttpError(404, 'Not found');
    if (request.method !== method) throw new HttpError(405, `Use ${method}`, { Allow: method });
    if (first === 'render' || first === 'jobs') checkAuth(request, config);
    switch (first) {
      case 'render':
        return render(request, mode);
      case 'jobs':
        return job(second);
      case 'd':
        return output(second);
      case 'health':
        return health();
      default:
        return { status: 200, body: usage };
    }
  };
}

/** What a code of an error is in HTTP: the diagram's mistake, a matter of time, or ours. */
function statusOf(code: string | null | undefined): number {
  if (code === 'SOURCE' || code === 'TIMEOUT' || code === 'MEMORY') return 422;
  if (code === 'BACKPRESSURE') return 429;
  // The server shuts down, or did so before it came to this.
  if (code === 'SLOTS_CLOSED' || code === 'CANCELLED' || code === 'EXPIRED') return 503;
  return 500;
}

function failure(message: string, code: string | null | undefined): HttpError {
  const status = statusOf(code);
  return new HttpError(status, message, status === 429 || status === 503 ? { 'Retry-After': retryAfter } : {});
}

/** There was no place in the slots, or it was lost because the server shuts down. */
function refusal(error: unknown): never {
  const { message, code } = describe(error);
  throw statusOf(code) === 500 ? error : failure(message, code);
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

function checkAuth(request: IncomingMessage, { auth }: Config): void {
  if (!auth) return;
  const given = /^Basic (.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? '';
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  // Digests have one length, and comparing them takes one time.
  if (!timingSafeEqual(digest(Buffer.from(given, 'base64').toString()), digest(`${auth.user}:${auth.pass}`)))
    throw new HttpError(401, 'Name and password are required', { 'WWW-Authenticate': 'Basic realm="diagrams"' });
}

const usage = `Diagrams to SVG and PNG.

POST /render            { "source": "…", "format": "${formats.join(' | ')}", "outputType": "svg | png" }
                        202 { jobId, status, statusUrl }; 200 { shortlink, url, cached } if it was rendered before
POST /render?mode=sync  200 { shortlink, url, cached } when it is rendered; 429 when there is no room, 422 for a mistake
GET  /jobs/:id          { jobId, status, shortlink, error, errorCode, errorStatus, url, createdAt, startedAt, completedAt }
GET  /d/:shortlink      the picture
GET  /health
`;
