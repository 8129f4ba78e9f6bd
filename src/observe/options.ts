/** The options `metrics`, `tracing` and `alerts` of `open`, checked before anything is opened. */
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { type Own, ownOptions, readFlag } from '../core/own-options.js';
import { listOf, reading } from '../core/reading.js';
import type { Alert, AlertSettings } from './alerts.js';
import type { Webhook } from './notifiers.js';
import { type Rule, type RuleName, ruleNames, rules, type Threshold } from './rules.js';

/** What is left out is as in the table of docs/alerts.md. */
export interface RuleOptions {
  /** An alert: the value is above this. */
  above?: number;
  /** None any more: the value is at most this. */
  clear?: number;
  /** How long it must last before it fires. */
  pending?: Duration;
}

/** An address that gets each alert as JSON by POST. */
export interface WebhookOptions {
  webhook: string;
  headers?: { readonly [name: string]: string };
  /** For one try of at most three; 10 s. */
  timeout?: Duration;
}

export type Notify = 'log' | ((alert: Alert) => unknown) | WebhookOptions;

export interface AlertOptions {
  /** How often the rules are looked at; 30 s. */
  every?: Duration;
  /** False: without this rule. */
  rules?: { readonly [name in RuleName]?: RuleOptions | false };
  /** Told of each alert that fires or is cleared; the log, unless others are named. */
  notify?: readonly Notify[];
}

export interface TracingOptions {
  /** Of OpenTelemetry; without it the global one. */
  tracerProvider?: { getTracer(name: string, version?: string): unknown };
}

export interface ObserveSettings {
  /** From the start; else from the first call of metrics() on. */
  readonly metrics: boolean;
  /** Null: no spans. */
  readonly tracing: TracingOptions | null;
  readonly alerts: AlertSettings & { readonly notify: readonly ReadNotify[] };
}

export type ReadNotify = 'log' | ((alert: Alert) => unknown) | Webhook;

const everyMs = 30_000;
const everyMinMs = 1_000;
const webhookMs = 10_000;
const webhookMaxMs = 60_000;
const notifyMax = 20;

export interface ObserveOptions {
  metrics?: boolean;
  tracing?: boolean | TracingOptions;
  alerts?: AlertOptions;
}

export function readObserveOptions({ metrics, tracing, alerts }: ObserveOptions): ObserveSettings {
  return { metrics: readFlag(metrics, 'metrics'), tracing: readTracing(tracing), alerts: readAlerts(alerts) };
}

function readTracing(tracing: ObserveOptions['tracing']): TracingOptions | null {
  if (tracing === undefined || tracing === false) return null;
  if (tracing === true) return {};
  const { tracerProvider } = ownOptions(tracing, ['tracerProvider'], 'The options of tracing');
  if (tracerProvider === undefined) return {};
  const getTracer = reading('tracing.tracerProvider', 'UNKNOWN_OPTION', () => tracerProvider?.getTracer);
  if (typeof getTracer !== 'function')
    throw new LastoutError(
      'UNKNOWN_OPTION',
      `tracing.tracerProvider is ${show(tracerProvider)}; give a TracerProvider of OpenTelemetry.`,
    );
  return { tracerProvider };
}

function readAlerts(alerts: AlertOptions | undefined): ObserveSettings['alerts'] {
  const { every, rules: asked, notify } = ownOptions(alerts, ['every', 'rules', 'notify'], 'The options of alerts');
  const own = ownOptions(asked, ruleNames, 'The rules of alerts');
  const thresholds = Object.fromEntries(ruleNames.map((name) => [name, readRule(name, own[name])]));
  return {
    everyMs: alerts ? readEvery(every) : null,
    thresholds: thresholds as AlertSettings['thresholds'],
    notify: alerts ? readNotify(notify) : [],
  };
}

function readEvery(every: Duration = everyMs): number {
  return toMs(every, 'alerts.every', 'INVALID_DURATION', { min: everyMinMs });
}

function readRule(name: RuleName, given: RuleOptions | false | undefined): Threshold | null {
  if (given === false) return null;
  const rule: Rule = rules[name];
  const asked = ownOptions(given, ['above', 'clear', 'pending'], `The options of the rule ${name}`);
  const above = readValue(asked.above ?? rule.above, `above of the rule ${name}`, rule);
  const clear = readValue(asked.clear ?? Math.min(rule.clear, above), `clear of the rule ${name}`, rule);
  const pendingMs = asked.pending === undefined ? rule.pendingMs : toMs(asked.pending, `pending of the rule ${name}`);
  if (clear <= above) return { above, clear, pendingMs };
  throw new LastoutError(
    'INVALID_LIMIT',
    `clear of the rule ${name} is ${clear}, above is ${above}; clear is at most that.`,
  );
}

function readValue(value: unknown, what: string, { unit }: Rule): number {
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value;
  throw new LastoutError('INVALID_LIMIT', `${what} is ${show(value)}; give a number from 0: ${unit}.`);
}

function readNotify(notify: readonly Notify[] | undefined): readonly ReadNotify[] {
  if (notify === undefined) return ['log'];
  const listed = listOf(notify, notifyMax, 'alerts.notify', 'UNKNOWN_OPTION') as readonly Notify[] | null;
  if (!listed)
    throw new LastoutError('UNKNOWN_OPTION', `alerts.notify is ${show(notify)}; give a list of at most ${notifyMax}.`);
  return listed.map((one) => {
    if (one === 'log' || typeof one === 'function') return one;
    if (one === null || typeof one !== 'object')
      throw new LastoutError(
        'UNKNOWN_OPTION',
        `A notifier of alerts is ${typeof one === 'string' ? "a text that is not 'log'" : show(one)}; give 'log', a function or { webhook: 'https://…' }.`,
      );
    return readWebhook(ownOptions(one, ['webhook', 'headers', 'timeout'], 'A notifier of alerts'));
  });
}

/** The address is not repeated in a refusal: it is often a secret. */
function readWebhook({ webhook, headers = {}, timeout = webhookMs }: Own<WebhookOptions>): Webhook {
  const url = typeof webhook === 'string' && URL.canParse(webhook) ? new URL(webhook) : null;
  if (!url || (url.protocol !== 'https:' && url.protocol !== 'http:') || url.username !== '' || url.password !== '')
    throw new LastoutError(
      'INVALID_URL',
      'webhook of a notifier is no http or https address; give one, without a user and a password in it (use headers).',
    );
  let own: { [name: string]: string };
  try {
    own = { ...headers };
    new Headers(own);
  } catch {
    throw new LastoutError(
      'UNKNOWN_OPTION',
      'headers of a notifier are no HTTP headers; give an object of names and texts.',
    );
  }
  const between = { min: 1, max: webhookMaxMs };
  const timeoutMs = toMs(timeout, 'timeout of a notifier', 'INVALID_DURATION', between);
  return { url: url.href, headers: own, timeoutMs };
}
