/** Who is told of alerts: the log, a function, a webhook. None of them can hurt the queue, whatever they do. */
import { harmless } from '../core/harmless.js';
import type { Logger } from '../core/job.js';
import { pause, type System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import type { Alert } from './alerts.js';

export interface Notifier {
  /** Never throws, and returns at once. */
  tell(alert: Alert): void;
  /** What has not been delivered by now is not delivered any more. */
  stop(): Promise<void>;
}

export interface Webhook {
  readonly url: string;
  readonly headers: { readonly [name: string]: string };
  readonly timeoutMs: number;
}

const triesMax = 3;
/** Most alerts that wait for a webhook; then the oldest is left out. */
const lineMax = 100;

export function logNotifier(logger: Logger): Notifier {
  return {
    tell({ message, ...alert }) {
      if (alert.state === 'cleared') logger.info(message, { alert });
      else if (alert.severity === 'critical') logger.error(message, { alert });
      else logger.warn(message, { alert });
    },
    stop: async () => undefined,
  };
}

export function functionNotifier(call: (alert: Alert) => unknown, logger: Logger): Notifier {
  const blame = (error: unknown): void =>
    logger.error('A notifier of alerts threw', { error: describeThrown(error).message });
  return {
    tell(alert) {
      harmless(() => call(alert), blame);
    },
    stop: async () => undefined,
  };
}

/**
 * One alert after the other, as JSON, so that they arrive in their order. A webhook's address and its headers are often
 * secrets: only the host is ever logged.
 */
export function webhookNotifier(webhook: Webhook, system: System, logger: Logger): Notifier {
  const { host } = new URL(webhook.url);
  const line: Alert[] = [];
  const stopping = new AbortController();
  let sending: Promise<void> | null = null;

  async function sendAll(): Promise<void> {
    for (let alert = line.shift(); alert && !stopping.signal.aborted; alert = line.shift()) await send(alert);
  }

  async function send(alert: Alert): Promise<void> {
    for (let tries = 1; !stopping.signal.aborted; tries++) {
      const failure = await post(webhook, alert, system, stopping.signal);
      if (failure === null) return;
      if (!failure.mayPass || tries === triesMax) {
        logger.warn('An alert could not be delivered', {
          id: alert.id,
          state: alert.state,
          host,
          error: failure.message,
        });
        return;
      }
      await pause(system, tries ** 2 * 1_000, stopping.signal);
    }
  }

  return {
    tell(alert) {
      line.push(alert);
      const left = line.length > lineMax ? line.shift() : undefined;
      if (left) logger.warn('An alert was left out: its webhook is too slow', { id: left.id, state: left.state, host });
      sending ??= sendAll().finally(() => {
        sending = null;
      });
    },
    async stop() {
      stopping.abort();
      await sending;
    },
  };
}

interface Failure {
  /** Another try may do better. */
  readonly mayPass: boolean;
  readonly message: string;
}

/** Null: it was taken. */
async function post(webhook: Webhook, alert: Alert, system: System, stop: AbortSignal): Promise<Failure | null> {
  const giveUp = new AbortController();
  const abort = (): void => giveUp.abort();
  stop.addEventListener('abort', abort, { once: true });
  const callOff = system.timer(webhook.timeoutMs, abort);
  try {
    const response = await fetch(webhook.url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...webhook.headers },
      body: JSON.stringify(alert),
      // Who follows a redirect takes the headers to a place that nobody named.
      redirect: 'manual',
      signal: giveUp.signal,
    });
    await response.body?.cancel();
    if (response.ok) return null;
    const mayPass = response.status >= 500 || response.status === 429 || response.status === 408;
    return { mayPass, message: `it answered ${response.status}` };
  } catch (error) {
    return { mayPass: true, message: giveUp.signal.aborted ? 'no answer in time' : causeOf(error) };
  } finally {
    callOff();
    stop.removeEventListener('abort', abort);
  }
}

/** The code of the system, such as ECONNREFUSED: a message might quote the address. */
function causeOf(error: unknown): string {
  const { code } = describeThrown((error as { cause?: unknown }).cause ?? error);
  return code ?? 'the connection failed';
}
