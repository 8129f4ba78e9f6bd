/**
 * OpenTelemetry spans by the messaging conventions: a producer span around each enqueue, a consumer span around each run
 * of a handler. The context travels in the job's metadata, under the names of the W3C: `traceparent` and `tracestate`.
 */
import type * as OpenTelemetry from '@opentelemetry/api';
import type { Attributes, Context, Link, Span, SpanContext, Tracer, TracerProvider } from '@opentelemetry/api';
import { LastoutError } from '../core/errors.js';
import { harmless } from '../core/harmless.js';
import { isVerdict } from '../core/outcome.js';
import { isOf, reading } from '../core/reading.js';
import type { NewJob, StoredJob } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import type { Tracing } from '../core/tracing.js';
import type { TracingOptions } from './options.js';
import { loadPeer } from './peer.js';

type Api = typeof OpenTelemetry;

/** With what comes before it, a metadata field of at most so many characters. */
const traceStateMax = 512;

/** A tracer is code of the user's: `blame` hears what it throws, and what is traced goes on without it. */
export async function tracingOn(
  options: TracingOptions,
  blame: (error: unknown) => void,
  load: () => Promise<Api> = () => import('@opentelemetry/api'),
): Promise<Tracing> {
  const api = await loadPeer('@opentelemetry/api', 'tracing', load);
  const provider = options.tracerProvider as TracerProvider | undefined;
  const tracer = reading('tracing.tracerProvider', 'UNKNOWN_OPTION', () =>
    (provider ?? api.trace.getTracerProvider()).getTracer('lastout'),
  );
  const tried = <T>(call: () => T): T | null => {
    try {
      return call();
    } catch (error) {
      blame(error);
      return null;
    }
  };
  return {
    async send(jobs, insert) {
      const begun = tried(() => {
        const span = startSend(api, tracer, jobs);
        return { span, scope: api.trace.setSpan(api.context.active(), span) };
      });
      const carried = begun && tried(() => carriedBy(begun.span.spanContext(), api));
      return inSpan(api, begun, blame, () => insert(carried ? jobs.map((job) => carrying(job, carried)) : jobs));
    },
    process(stored, run) {
      const begun = tried(() => {
        const sender = senderOf(stored, api);
        const parent = sender ? api.trace.setSpanContext(api.context.active(), sender) : api.context.active();
        const span = startProcess(api, tracer, stored, parent, sender ? [{ context: sender }] : []);
        return { span, scope: api.trace.setSpan(parent, span) };
      });
      return inSpan(api, begun, blame, run);
    },
  };
}

/** A batch has one span; its queue is named where it is one. */
function startSend(api: Api, tracer: Tracer, jobs: readonly NewJob[]): Span {
  const queues = new Set(jobs.map(({ queue }) => queue));
  const queue = queues.size === 1 ? jobs[0]!.queue : null;
  const attributes: Attributes = {
    'messaging.system': 'lastout',
    'messaging.operation.name': 'send',
    'messaging.operation.type': 'send',
    ...(queue !== null && { 'messaging.destination.name': queue }),
    ...(jobs.length === 1
      ? { 'messaging.message.id': jobs[0]!.id, 'lastout.job.type': jobs[0]!.type }
      : { 'messaging.batch.message_count': jobs.length }),
  };
  return tracer.startSpan(queue === null ? 'send' : `send ${queue}`, { kind: api.SpanKind.PRODUCER, attributes });
}

function startProcess(api: Api, tracer: Tracer, stored: StoredJob, parent: Context, links: Link[]): Span {
  const { id, type, queue, attempts } = stored;
  const attributes: Attributes = {
    'messaging.system': 'lastout',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.destination.name': queue,
    'messaging.message.id': id,
    'lastout.job.type': type,
    'lastout.job.attempt': attempts,
  };
  return tracer.startSpan(`process ${queue}`, { kind: api.SpanKind.CONSUMER, attributes, links }, parent);
}

interface Begun {
  readonly span: Span;
  readonly scope: Context;
}

/** Runs with the span as the active one, and ends it with what came of it. What is returned or thrown is passed on. */
function inSpan<T>(api: Api, begun: Begun | null, blame: (error: unknown) => void, run: () => T): T {
  if (!begun) return run();
  const { span, scope } = begun;
  const tell = (...calls: readonly (() => unknown)[]): void => calls.forEach((call) => harmless(call, blame));
  const failed = (error: unknown): never => {
    const { message } = describeThrown(error);
    const nameOf = (): string => (isOf(error, Error) ? error.name : typeof error);
    tell(
      () => span.setAttribute('error.type', isOf(error, LastoutError) ? error.code : nameOf()),
      () => span.recordException({ name: nameOf(), message }),
      () => span.setStatus({ code: api.SpanStatusCode.ERROR, message }),
      () => span.end(),
    );
    throw error;
  };
  const ended = <V>(value: V): V => {
    if (isVerdict(value)) {
      tell(() => span.setAttribute('lastout.job.outcome', value.outcome));
      if (value.outcome === 'fail') tell(() => span.setStatus({ code: api.SpanStatusCode.ERROR }));
    }
    tell(() => span.end());
    return value;
  };
  try {
    const value = inScope(api, scope, blame, run);
    return isOf<Promise<unknown>>(value, Promise) ? (value.then(ended, failed) as T) : ended(value);
  } catch (error) {
    return failed(error);
  }
}

/** Runs once, whether the context manager throws before that or after it. */
function inScope<T>(api: Api, scope: Context, blame: (error: unknown) => void, run: () => T): T {
  let came: { readonly value: T } | { readonly error: unknown } | null = null;
  const once = (): void => {
    try {
      came = { value: run() };
    } catch (error) {
      came = { error };
    }
  };
  try {
    api.context.with(scope, once);
  } catch (error) {
    blame(error);
  }
  if (!came) once();
  const outcome = came as unknown as { readonly value: T } | { readonly error: unknown };
  if ('error' in outcome) throw outcome.error;
  return outcome.value;
}

interface Carried {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** Null: nobody records, and there is nothing to carry. */
function carriedBy({ traceId, spanId, traceFlags, traceState }: SpanContext, api: Api): Carried | null {
  if (!api.isSpanContextValid({ traceId, spanId, traceFlags })) return null;
  const traceparent = `00-${traceId}-${spanId}-${(traceFlags & 1).toString(16).padStart(2, '0')}`;
  const tracestate: unknown = traceState?.serialize();
  return typeof tracestate === 'string' && tracestate !== '' && tracestate.length <= traceStateMax
    ? { traceparent, tracestate }
    : { traceparent };
}

/** Metadata of the caller's own under these names stays. */
function carrying(job: NewJob, carried: Carried): NewJob {
  const own = job.metadata === null ? {} : (JSON.parse(job.metadata) as object);
  if ('traceparent' in own) return job;
  return { ...job, metadata: JSON.stringify({ ...carried, ...own }) };
}

const traceparentPattern = /^[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

function senderOf({ metadata }: StoredJob, api: Api): SpanContext | null {
  if (metadata === null) return null;
  const { traceparent, tracestate } = JSON.parse(metadata) as { traceparent?: unknown; tracestate?: unknown };
  const [, traceId, spanId, flags] = (typeof traceparent === 'string' && traceparentPattern.exec(traceparent)) || [];
  if (traceId === undefined || spanId === undefined || flags === undefined) return null;
  const sender: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(typeof tracestate === 'string' && { traceState: api.createTraceState(tracestate) }),
  };
  return api.isSpanContextValid(sender) ? sender : null;
}
