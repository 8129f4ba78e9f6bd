// A webhook that is told of alerts: what it gets, what is tried again, and that its secrets and its troubles stay with it.
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Alert } from '../src/index.js';
import { webhookNotifier } from '../src/observe/notifiers.js';
import { createSystem } from '../src/system.js';
import { gate, recordingLogger } from './support.js';

const alert: Alert = {
  id: 'noWorkers:mails',
  rule: 'noWorkers',
  severity: 'critical',
  state: 'firing',
  since: new Date('2030-01-01T00:00:00Z'),
  evidence: ['mails'],
  message: 'no worker',
};

interface Received {
  readonly request: IncomingMessage;
  readonly body: string;
}

let server: Server | null = null;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = null;
});

/** Answers each request with the next status, the last one for ever; null: not at all. */
async function listening(...statuses: (number | null)[]) {
  const received: Received[] = [];
  let all = gate();
  let awaited = 0;
  server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => (body += chunk.toString()));
    request.on('end', () => {
      received.push({ request, body });
      const status = statuses[Math.min(received.length, statuses.length) - 1];
      if (status !== null && status !== undefined) response.writeHead(status, { location: '/elsewhere' }).end('thanks');
      if (received.length === awaited) all.open();
    });
  });
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const requests = async (n: number): Promise<readonly Received[]> => {
    if (received.length < n) {
      awaited = n;
      await all.opened;
      all = gate();
    }
    return received;
  };
  return { url: `http://127.0.0.1:${port}/hooks/secret?token=secret`, received, requests };
}

/** The pauses between tries are passed over, and told; other timers are real. */
function quickSystem() {
  const pauses: number[] = [];
  const system = createSystem();
  const timer: typeof system.timer = (ms, callback, hold) => {
    if (ms !== 1_000 && ms !== 4_000) return system.timer(ms, callback, hold);
    pauses.push(ms);
    return system.timer(0, callback, hold);
  };
  return { system: { ...system, timer }, pauses };
}

function notifierTo(url: string, timeoutMs = 30_000) {
  const { system, pauses } = quickSystem();
  const warned = gate();
  const { lines, logger } = recordingLogger();
  const watching = {
    ...logger,
    warn(message: string, fields?: object) {
      logger.warn(message, fields);
      warned.open();
    },
  };
  const headers = { authorization: 'Bearer secret' };
  return { notifier: webhookNotifier({ url, headers, timeoutMs }, system, watching), lines, pauses, warned };
}

describe('a webhook', () => {
  it('gets each alert as JSON by POST, with the headers, in the order of the alerts', async () => {
    const { url, requests } = await listening(200);
    const { notifier, lines } = notifierTo(url);
    notifier.tell(alert);
    notifier.tell({ ...alert, state: 'cleared' });
    const [first, second] = await requests(2);
    expect(first!.request).toMatchObject({ method: 'POST', url: '/hooks/secret?token=secret' });
    expect(first!.request.headers).toMatchObject({
      'content-type': 'application/json',
      authorization: 'Bearer secret',
    });
    expect(JSON.parse(first!.body)).toEqual({ ...alert, since: '2030-01-01T00:00:00.000Z' });
    expect(JSON.parse(second!.body)).toMatchObject({ state: 'cleared' });
    await notifier.stop();
    expect(lines).toEqual([]);
  });

  it('that answers 500 is asked again after 1 s and after 4 s, and then it is logged, without secrets', async () => {
    const { url, received } = await listening(500);
    const { notifier, lines, pauses, warned } = notifierTo(url);
    notifier.tell(alert);
    await warned.opened;
    expect(received).toHaveLength(3);
    expect(pauses).toEqual([1_000, 4_000]);
    expect(lines).toMatchObject([
      { level: 'warn', message: 'An alert could not be delivered', fields: { error: 'it answered 500' } },
    ]);
    expect(JSON.stringify(lines)).not.toContain('secret');
    await notifier.stop();
  });

  it('that is away and comes back gets the alert', async () => {
    const { url, requests } = await listening(503, 200);
    const { notifier, lines } = notifierTo(url);
    notifier.tell(alert);
    await requests(2);
    await notifier.stop();
    expect(lines).toEqual([]);
  });

  it.each([400, 401, 404, 302])('that answers %i is not asked again, and no redirect is followed', async (status) => {
    const { url, received } = await listening(status);
    const { notifier, lines, warned } = notifierTo(url);
    notifier.tell(alert);
    await warned.opened;
    expect(received).toHaveLength(1);
    expect(lines).toMatchObject([{ fields: { error: `it answered ${status}` } }]);
    await notifier.stop();
  });

  it('that never answers is given up in its time', async () => {
    const { url, received } = await listening(null);
    const { notifier, lines, warned } = notifierTo(url, 250);
    notifier.tell(alert);
    await warned.opened;
    expect(received).toHaveLength(3);
    expect(lines).toMatchObject([{ fields: { error: 'no answer in time' } }]);
    await notifier.stop();
  });

  it('that nobody listens at is told by its code alone', async () => {
    const { url } = await listening(200);
    const { host } = new URL(url);
    await new Promise((resolve) => server!.close(resolve));
    const { notifier, lines, warned } = notifierTo(url);
    notifier.tell(alert);
    await warned.opened;
    expect(lines).toMatchObject([{ fields: { host, error: 'ECONNREFUSED' } }]);
    expect(JSON.stringify(lines)).not.toContain('secret');
    await notifier.stop();
  });

  it('that is too slow has at most a hundred alerts before it: the oldest is left out and logged', async () => {
    const { url, requests } = await listening(null);
    const { notifier, lines } = notifierTo(url);
    notifier.tell(alert);
    await requests(1);
    for (let n = 0; n < 102; n++) notifier.tell({ ...alert, id: `a${n}` });
    const left = lines.map(({ fields }) => (fields as { id: string }).id);
    expect(left).toEqual(['a0', 'a1']);
    await notifier.stop();
  });

  it('that hangs does not hold up the end', async () => {
    const { url, requests } = await listening(null);
    const { notifier, lines } = notifierTo(url);
    notifier.tell(alert);
    await requests(1);
    await notifier.stop();
    expect(lines).toEqual([]);
  });
});
