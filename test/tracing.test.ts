// Tracing: the spans of the messaging conventions, how their context travels with a job, and that nobody pays without it.
import { AsyncLocalStorage } from 'node:async_hooks';
import { join } from 'node:path';
import { type Context as SpanScope, context, type ContextManager, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'; // biome-ignore format: one list
import { BasicTracerProvider, InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'; // biome-ignore format: one list
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { cancel, type Context, defineJob, fail, open, type Queue } from '../src/index.js';
import { tracingOn } from '../src/observe/tracing.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { connect, valueOf } from './stores/sqlite-support.js';
import { closedAfterwards, eachStore, expectCode, type OnStore, recordingLogger, temporaryFolder } from './support.js';

/** What an application registers once, so that a span is the active one in all that its function awaits. */
class Scopes implements ContextManager {
  readonly #scopes = new AsyncLocalStorage<SpanScope>();
  active(): SpanScope {
    return this.#scopes.getStore() ?? ROOT_CONTEXT;
  }
  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(scope: SpanScope, call: F, self?: unknown, ...args: A): ReturnType<F> {
    return this.#scopes.run(scope, () => call.call(self as never, ...args));
  } // biome-ignore format: one signature
  bind<T>(_scope: SpanScope, target: T): T {
    return target;
  }
  enable(): this {
    return this;
  }
  disable(): this {
    return this;
  }
}

beforeAll(() => void context.setGlobalContextManager(new Scopes()));
afterAll(() => context.disable());

function recorder() {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const named = (name: string): ReadableSpan[] => exporter.getFinishedSpans().filter((span) => span.name === name);
  return { tracerProvider, spans: () => exporter.getFinishedSpans(), named };
}

async function traced(on: OnStore) {
  const seen = recorder();
  const queue = await on.open({ tracing: { tracerProvider: seen.tracerProvider } });
  return { queue, ...seen };
}

async function runOne(queue: Queue, run: (context: Context<any>) => unknown, attempts = 1): Promise<string> {
  const type = defineJob<any, any>('mail', { attempts, backoff: { type: 'fixed', base: 1 }, run: run as never });
  const { id } = await queue.enqueue(type, null, { queue: 'mails' });
  const worker = await queue.work([type]);
  await queue.wait(id);
  await worker.stop();
  return id;
}

describe('tracing', () => {
  eachStore((on) => {
    it('the run of a job is linked to its enqueue, and is in its trace', async () => {
      const { queue, named } = await traced(on);
      const id = await runOne(queue, () => 'done');
      const [sent] = named('send mails');
      const [processed] = named('process mails');
      expect(sent).toMatchObject({ kind: SpanKind.PRODUCER, status: { code: SpanStatusCode.UNSET } });
      expect(sent!.attributes).toEqual({
        'messaging.system': 'lastout',
        'messaging.operation.name': 'send',
        'messaging.operation.type': 'send',
        'messaging.destination.name': 'mails',
        'messaging.message.id': id,
        'lastout.job.type': 'mail',
      });
      expect(processed).toMatchObject({ kind: SpanKind.CONSUMER, status: { code: SpanStatusCode.UNSET } });
      expect(processed!.attributes).toEqual({
        'messaging.system': 'lastout',
        'messaging.operation.name': 'process',
        'messaging.operation.type': 'process',
        'messaging.destination.name': 'mails',
        'messaging.message.id': id,
        'lastout.job.type': 'mail',
        'lastout.job.attempt': 1,
      });
      const { traceId, spanId } = sent!.spanContext();
      expect(processed!.spanContext().traceId).toBe(traceId);
      expect(processed!.parentSpanContext).toMatchObject({ traceId, spanId, isRemote: true });
      expect(processed!.links.map((link) => link.context)).toMatchObject([{ traceId, spanId }]);
      expect((await queue.get(id))!.metadata).toEqual({ traceparent: `00-${traceId}-${spanId}-01` });
    });
  });

  const on = async () => {
    const seen = recorder();
    const queue = closedAfterwards(await open('memory:', { tracing: { tracerProvider: seen.tracerProvider } }));
    return { queue, ...seen };
  };

  it('a job that a handler enqueues is in the trace of its run', async () => {
    const { queue, named } = await on();
    await runOne(queue, () => queue.enqueue('next', null, { queue: 'later' }));
    const [processed] = named('process mails');
    const [next] = named('send later');
    expect(next!.parentSpanContext).toMatchObject({ spanId: processed!.spanContext().spanId });
  });

  it('an enqueue is a child of the span that the caller is in', async () => {
    const { queue, named, tracerProvider } = await on();
    const request = tracerProvider.getTracer('app').startSpan('request');
    await context.with(trace.setSpan(context.active(), request), () => queue.enqueue('mail', null));
    expect(named('send default')[0]!.parentSpanContext).toMatchObject({ spanId: request.spanContext().spanId });
  });

  it('each attempt has a span; one that throws has the error, and the job ends as it would without', async () => {
    const { queue, named } = await on();
    let runs = 0;
    const id = await runOne(queue, async () => {
      runs += 1;
      if (runs === 1) throw new TypeError('no driver');
      return null;
    }, 2); // biome-ignore format: one call
    expect(await queue.get(id)).toMatchObject({ state: 'completed', attempts: 2 });
    const [first, second] = named('process mails');
    expect(first).toMatchObject({ status: { code: SpanStatusCode.ERROR, message: 'no driver' } });
    expect(first!.attributes).toMatchObject({ 'error.type': 'TypeError', 'lastout.job.attempt': 1 });
    expect(first!.events).toMatchObject([{ name: 'exception', attributes: { 'exception.message': 'no driver' } }]);
    expect(second!.attributes).toMatchObject({ 'lastout.job.attempt': 2 });
    expect(second!.status.code).toBe(SpanStatusCode.UNSET);
  });

  it('a handler that throws at once, fails or cancels is told as such', async () => {
    const { queue, named } = await on();
    await runOne(queue, () => {
      throw 'only a text';
    });
    await runOne(queue, () => fail('no'));
    await runOne(queue, async () => cancel('no more'));
    const told = named('process mails').map(({ status, attributes }) => ({
      isError: status.code === SpanStatusCode.ERROR,
      type: attributes['error.type'],
      outcome: attributes['lastout.job.outcome'],
    }));
    expect(told).toEqual([
      { isError: true, type: 'string', outcome: undefined },
      { isError: true, type: undefined, outcome: 'fail' },
      { isError: false, type: undefined, outcome: 'cancel' },
    ]);
  });

  it('what a handler throws or returns is passed on, however it defends itself', async () => {
    const { queue, named } = await on();
    const trap = (): never => {
      throw new Error('trapped');
    };
    const hostile = new Proxy({}, { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap });
    const thrown = await runOne(queue, () => {
      throw hostile;
    });
    const returned = await runOne(queue, () => hostile);
    expect(await queue.get(thrown)).toMatchObject({ state: 'failed' });
    expect(await queue.get(returned)).toMatchObject({ state: 'failed' });
    expect(named('process mails')).toHaveLength(2);
  });

  it('a batch has one span, which names the queue where it is one, and whose context each job carries', async () => {
    const { queue, named } = await on();
    const [one, other] = await queue.enqueueMany([
      { type: 'mail', input: 1, options: { queue: 'mails' } },
      { type: 'mail', input: 2, options: { queue: 'mails' } },
    ]);
    const [span] = named('send mails');
    expect(span!.attributes).toMatchObject({ 'messaging.batch.message_count': 2 });
    for (const { id } of [one, other])
      expect((await queue.get(id))!.metadata.traceparent).toContain(span!.spanContext().spanId);
    await queue.enqueueMany([
      { type: 'mail', input: 1, options: { queue: 'mails' } },
      { type: 'mail', input: 2 },
    ]);
    expect(named('send')[0]!.attributes).not.toHaveProperty('messaging.destination.name');
  });

  it('an enqueue that is refused by the store has the code', async () => {
    const seen = recorder();
    const tracing = { tracerProvider: seen.tracerProvider };
    const queue = closedAfterwards(await open('memory:', { tracing, queues: { default: { maxPending: 1 } } }));
    await queue.enqueue('mail', null);
    await expectCode('QUEUE_FULL', () => queue.enqueue('mail', null));
    expect(seen.named('send default')[1]!.attributes).toMatchObject({ 'error.type': 'QUEUE_FULL' });
  });

  it('a job in a transaction of the caller is written before the call first yields, and carries its context', async () => {
    const db = await connect(join(temporaryFolder(), 'jobs.db'));
    const { tracerProvider, named } = recorder();
    const queue = closedAfterwards(await open(sqliteStore({ db }), { metrics: true, tracing: { tracerProvider } }));
    db.exec('begin');
    const enqueued = queue.enqueue('mail', 1, { tx: db });
    expect(valueOf(db, 'select count(*) from lastout_jobs')).toBe(1);
    db.exec('commit');
    const job = await queue.get((await enqueued).id);
    const [span] = named('send default');
    expect(job!.metadata.traceparent).toContain(span!.spanContext().spanId);
  });

  it('metadata of the caller stays; a traceparent of its own is the one that is followed', async () => {
    const { queue, named } = await on();
    const traceparent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    const type = defineJob('mail', { run: () => undefined });
    const own = await queue.enqueue(type, null, { metadata: { traceparent, tracestate: 'x=1', by: 'ann' } });
    const added = await queue.enqueue(type, null, { metadata: { by: 'ann' } });
    expect((await queue.get(own.id))!.metadata).toEqual({ traceparent, tracestate: 'x=1', by: 'ann' });
    expect((await queue.get(added.id))!.metadata).toEqual({ traceparent: expect.any(String), by: 'ann' });
    const worker = await queue.work([type]);
    await queue.wait(own.id);
    await worker.stop();
    const followed = named('process default').find(({ attributes }) => attributes['messaging.message.id'] === own.id);
    expect(followed!.spanContext().traceId).toBe('a'.repeat(32));
    expect(followed!.links[0]!.context.traceState?.serialize()).toBe('x=1');
  });

  it.each(['nonsense', `00-${'0'.repeat(32)}-${'b'.repeat(16)}-01`, 7, null])(
    'a traceparent that is none (%j) is left alone: the run has a trace of its own',
    async (traceparent) => {
      const { queue, named } = await on();
      const type = defineJob('mail', { run: () => undefined });
      const { id } = await queue.enqueue(type, null, { metadata: { traceparent } });
      const worker = await queue.work([type]);
      expect(await queue.wait(id)).toMatchObject({ state: 'completed' });
      await worker.stop();
      expect(named('process default')[0]!.links).toEqual([]);
    },
  );

  it('without a provider nothing is recorded, nothing is carried, and jobs run', async () => {
    const queue = closedAfterwards(await open('memory:', { tracing: true }));
    const id = await runOne(queue, () => 'done');
    expect(await queue.get(id)).toMatchObject({ state: 'completed', metadata: {} });
  });

  it('without the option there are no spans, whatever is registered', async () => {
    const { spans } = recorder();
    const queue = closedAfterwards(await open('memory:'));
    const id = await runOne(queue, () => 'done');
    expect((await queue.get(id))!.metadata).toEqual({});
    expect(spans()).toEqual([]);
  });

  it('without @opentelemetry/api the refusal names the package and what to do', async () => {
    const load = () => Promise.reject(new Error('Cannot find package'));
    const { message } = await expectCode('DRIVER_MISSING', () => tracingOn({}, () => undefined, load));
    expect(message).toContain('run "npm install @opentelemetry/api"');
  });

  it.each([1, 'on', null, { provider: 1 }, { tracerProvider: {} }])('tracing: %j is refused', async (tracing) => {
    await expectCode('UNKNOWN_OPTION', () => open('memory:', { tracing: tracing as never }));
  });
});

describe('a tracer that throws decides nothing', () => {
  const boom = (): never => {
    throw new Error('boom');
  };
  const rejecting = () => Promise.reject(new Error('boom'));
  const sound = {
    spanContext: () => ({ traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1 }),
    setAttribute: () => undefined,
    recordException: () => undefined,
    setStatus: () => undefined,
    end: () => undefined,
  };
  const spanning = (fault: object) => ({ getTracer: () => ({ startSpan: () => ({ ...sound, ...fault }) }) });
  const faults: { readonly [what: string]: { getTracer(): unknown } } = {
    'that is null': { getTracer: () => null },
    startSpan: { getTracer: () => ({ startSpan: boom }) },
    'startSpan without a span': { getTracer: () => ({ startSpan: () => null }) },
    spanContext: spanning({ spanContext: boom }),
    'no spanContext': spanning({ spanContext: () => null }),
    traceState: spanning({ spanContext: () => ({ ...sound.spanContext(), traceState: { serialize: boom } }) }),
    'every method of a span': spanning({ setAttribute: boom, recordException: boom, setStatus: boom, end: boom }),
    'methods that reject': spanning({ setAttribute: rejecting, setStatus: rejecting, end: rejecting }),
  };

  it.each(Object.entries(faults))('%s', async (_, tracerProvider) => {
    const { lines, logger } = recordingLogger();
    const queue = closedAfterwards(await open('memory:', { tracing: { tracerProvider }, logger }));
    let runs = 0;
    const done = await runOne(queue, () => ({ runs: ++runs }), 3);
    expect(await queue.get(done)).toMatchObject({ state: 'completed', attempts: 1, result: { runs: 1 } });
    const failed = await runOne(queue, async () => fail(`no ${++runs}`), 3);
    expect(await queue.get(failed)).toMatchObject({ state: 'failed', error: { message: 'no 2' } });
    const thrown = await runOne(queue, () => Promise.reject(new Error(`late ${++runs}`)));
    expect(await queue.get(thrown)).toMatchObject({ state: 'failed', error: { message: 'late 3' } });
    await expectCode('INVALID_ID', () => queue.enqueue('mail', null, { id: '' }));
    expect(lines.filter(({ message }) => message.startsWith('Tracing failed'))).toEqual([
      { level: 'warn', message: 'Tracing failed; jobs go on without it', fields: { error: expect.any(String) } },
    ]);
  });

  it('a context manager: before and after what it is to call', async () => {
    context.disable();
    onTestFinished(() => {
      context.disable();
      context.setGlobalContextManager(new Scopes());
    });
    for (const [with_, active] of [
      [boom, () => ROOT_CONTEXT],
      [callsAndThrows, () => ROOT_CONTEXT],
      [boom, boom],
    ] as const) {
      context.disable();
      context.setGlobalContextManager(Object.assign(new Scopes(), { with: with_, active }));
      const queue = closedAfterwards(await open('memory:', { tracing: { tracerProvider: spanning({}) } }));
      let runs = 0;
      const id = await runOne(queue, () => ++runs, 3);
      expect(await queue.get(id)).toMatchObject({ state: 'completed', result: 1 });
    }
    function callsAndThrows(_scope: unknown, call: () => unknown): never {
      call();
      return boom();
    }
  });

  it('a provider whose getTracer throws is refused at open', async () => {
    await expectCode('UNKNOWN_OPTION', () => open('memory:', { tracing: { tracerProvider: { getTracer: boom } } }));
  });

  it('an error that cannot be read stays the error of its job', async () => {
    const queue = closedAfterwards(await open('memory:', { tracing: { tracerProvider: spanning({}) } }));
    const odd = Object.defineProperty(new Error('odd'), 'name', { get: boom });
    const id = await runOne(queue, () => Promise.reject(odd));
    expect(await queue.get(id)).toMatchObject({ state: 'failed', error: { message: 'odd' } });
  });
});
