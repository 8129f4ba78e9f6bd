/**
 * OpenTelemetry spans by the messaging conventions: a producer span around each enqueue, a consumer span around each run
 * of a handler. The context travels in the job's metadata, under the names of the W3C: `traceparent` and `tracestate`.
 */
import type * as OpenTelemetry from '@opentelemetry/api';
import type { Attributes, Context, Link, Span, SpanContext, Tracer, TracerProvider } from '@opentelemetry/api';
import { LastoutError } from '../core/errors.js';
import { isVerdict } from '../core/outcome.js';
import { isOf } from '../core/reading.js';
import type { NewJob, StoredJob } from '../core/store.js';
import { describeThrown } from '../core/thrown.js';
import type { Tracing } from '../core/tracing.js';
import type { TracingOptions } from './options.js';
import { loadPeer } from './peer.js';

type Api = typeof OpenTelemetry;

/** With what comes before it, a metadata field of at most so many characters. */
const traceStateMax = 512;

export async function tracingOn(
  options: TracingOptions,
  load: () => Promise<Api> = () => import('@opentelemetry/api'),
): Promise<Tracing> {
  const api = await loadPeer('@opentelemetry/api', 'tracing', load);
  const provider = options.tracerProvider as TracerProvider | undefined;
  const tracer = (provider ?? api.trace.getTracerProvider()).getTracer('lastout');
  return {
    async send(jobs, insert) {
      const span = startSend(api, tracer, jobs);
      const carried = carriedBy(span.spanContext(), api);
      return inSpan(api, span, api.context.active(), () =>
        insert(carried ? jobs.map((job) => carrying(job, carried)) : jobs),
      );
    },
    process(stored, run) {
      const sender = senderOf(stored, api);
      const parent = sender ? api.trace.setSpanContext(api.context.active(), sender) : api.context.active();
      const span = startProcess(api, tracer, stored, parent, sender ? [{ context: sender }] : []);
      return inSpan(api, span, parent, run);
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

/** Runs with the span as the active one, and ends it with what came of it. What is returned or thrown is passed on. */
function inSpan<T>(api: Api, span: Span, parent: Context, run: () => T): T {
  const failed = (error: unknown): never => {
    const { message } = describeThrown(error);
    const name = isOf(error, Error) ? error.name : typeof error;
    span.setAttribute('error.type', isOf(error, LastoutError) ? error.code : name);
    span.recordException({ name, message });
    span.setStatus({ code: api.SpanStatusCode.ERROR, message });
    span.end();
    throw error;
  };
  const ended = <V>(value: V): V => {
    if (isVerdict(value)) {
      span.setAttribute('lastout.job.outcome', value.outcome);
      if (value.outcome === 'fail') span.setStatus({ code: api.SpanStatusCode.ERROR });
    }
    span.end();
    return value;
  };
  try {
    const value = api.context.with(api.trace.setSpan(parent, span), run);
    return isOf<Promise<unknown>>(value, Promise) ? (value.then(ended, failed) as T) : ended(value);
  } catch (error) {
    return failed(error);
  }
}

interface Carried {
  readonly traceparent: string;
  readonly tracestate?: string;
}

/** Null: nobody records, and there is nothing to carry. */
function carriedBy({ traceId, spanId, traceFlags, traceState }: SpanContext, api: Api): Carried | null {
  if (!api.isSpanContextValid({ traceId, spanId, traceFlags })) return null;
  const traceparent = `00-${traceId}-${spanId}-${(traceFlags & 1).toString(16).padStart(2, '0')}`;
  const tracestate = traceState?.serialize();
  return tracestate && tracestate.length <= traceStateMax ? { traceparent, tracestate } : { traceparent };
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
