/** Watching what happens: the event log as an async iterable, listeners by name, and waiting for one job. */
import { readableMessage, whyUnreadable } from '../core/coded.js';
import { refuseOther, typeBefore } from '../core/definition.js';
import { type Duration, show, toMs } from '../core/duration.js';
import { LastoutError } from '../core/errors.js';
import { harmless } from '../core/harmless.js';
import { type EventName, eventNames, type Job, type JobEvent, type Logger, type Progress } from '../core/job.js';
import { checkId, checkName, checkSubject, systemQueue } from '../core/names.js';
import type { EventRecord, Store } from '../core/store.js';
import type { System } from '../core/system.js';
import { describeThrown } from '../core/thrown.js';
import { ownOptions } from '../core/own-options.js';
import { checkSignal } from '../core/reading.js';
import { awayMaxMs, isAway, outlast, type Outlasting } from './outlast.js';

const pageSize = 500;
/** Other processes write to the same log; this is how soon their events are seen. */
const pollMs = 100;

export interface EventOptions {
  after?: string;
  subject?: string;
  type?: string;
  signal?: AbortSignal;
}

export interface WaitOptions {
  timeout?: Duration;
  signal?: AbortSignal;
}

export interface Watch {
  events(options?: EventOptions): AsyncIterable<JobEvent>;
  on<N extends EventName>(name: N, listener: (event: Extract<JobEvent, { name: N }>) => void): () => void;
  /** `(id, options)` or `(type, id, options)`. */
  wait(first: unknown, ...rest: readonly unknown[]): Promise<Job>;
  /** An event that is not in the log, to those who listen by name. */
  tell(event: JobEvent): void;
  /** Whoever waits looks once more: resolves when all have. */
  stop(): Promise<void>;
}

export function watchOn(store: Store, system: System, logger: Logger, get: (id: string) => Promise<Job | null>): Watch {
  const listeners = new Map<JobEvent['name'], Set<(event: JobEvent) => void>>();
  const sleepers = new Set<() => void>();
  const waits = new Set<Promise<void>>();
  let reader: AbortController | null = null;
  let closed = false;
  let hints = 0;
  let unsubscribe: (() => void) | null = null;

  /** From the first time on that somebody follows or waits: a process that only enqueues has nothing to hear. */
  function listen(): void {
    if (closed) return;
    unsubscribe ??= store.subscribe((hint) => {
      if (hint.kind !== 'events') return;
      hints += 1;
      for (const wake of sleepers) wake();
    });
  }

  /** Until the log may have grown since `seen` hints: a hint in this process, the poll for others. */
  function untilMore(seen: number, signal?: AbortSignal, withinMs = pollMs): Promise<void> {
    return new Promise((resolve) => {
      if (hints !== seen || signal?.aborted || closed) return resolve();
      const done = (): void => {
        sleepers.delete(done);
        callOff();
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const callOff = system.timer(withinMs, done);
      sleepers.add(done);
      signal?.addEventListener('abort', done, { once: true });
    });
  }

  /** Tries again by the rhythm of the poll. */
  function outlasting(signal: AbortSignal | undefined, until: number, awayMs: number): Outlasting {
    return {
      system,
      awayMs,
      until,
      signal,
      isOver: () => signal?.aborted === true || closed,
      pause: (withinMs) => untilMore(hints, signal, Math.min(withinMs, pollMs)),
    };
  }

  /** `awayMs`: so long the store may be away; then the reading breaks off. */
  async function* follow(start: string, options: EventOptions, awayMs: number): AsyncGenerator<JobEvent> {
    let after = start;
    const how = outlasting(options.signal, Number.POSITIVE_INFINITY, awayMs);
    while (!how.isOver()) {
      const seen = hints;
      const read = () => store.readEvents({ after, limit: pageSize });
      const page = await outlast(read, how).catch((error: unknown) => {
        if (how.isOver()) return null; // the end of the store broke it off
        throw error;
      });
      if (!page) return;
      if (page.reset)
        throw new LastoutError(
          'INVALID_CURSOR',
          'The event log no longer reaches back to this cursor: read the current state with find, then follow from now on.',
          { reset: true },
        );
      after = page.cursor;
      for (const event of page.events) {
        if (how.isOver()) return;
        if (concerns(event, options)) yield toEvent(event);
      }
      if (page.events.length === 0) await untilMore(seen, options.signal);
    }
  }
  /** Until `left`, which also follows the signal of the caller for as long as somebody reads. */
  async function* followFrom(
    from: Promise<string>,
    options: EventOptions,
    left: AbortController,
  ): AsyncGenerator<JobEvent> {
    const { signal } = options;
    const leave = (): void => left.abort();
    if (signal?.aborted) leave();
    signal?.addEventListener('abort', leave, { once: true });
    try {
      yield* follow(await from, { ...options, signal: left.signal }, awayMaxMs);
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }
  /** Asked once: what happens while the store is away would be missed unsaid by one who begins only then. */
  async function start(after: string | undefined): Promise<string> {
    listen();
    return after ?? (await store.readEvents({ after: null, limit: 1 })).cursor;
  }

  /** One reader serves all listeners, and lives as long as there are any. What it missed while reading failed, it reads then. */
  async function pump(signal: AbortSignal): Promise<void> {
    let at: string | undefined;
    let failing = false;
    while (!signal.aborted && !closed) {
      try {
        at = await start(at);
        for await (const event of follow(at, { signal }, 0)) {
          failing = false;
          at = event.cursor;
          deliver(event);
        }
      } catch (error) {
        if (signal.aborted || closed) return;
        if (!failing)
          logger.warn('Reading the event log failed; it is tried again', { error: describeThrown(error).message });
        failing = true;
        if (error instanceof LastoutError && error.code === 'INVALID_CURSOR') at = undefined; // from now on
        await untilMore(hints, signal);
      }
    }
  }
  function stopReading(): void {
    reader?.abort();
    reader = null;
  }
  /** To those who listen now: not to one that comes while others are called, nor to one that was stopped meanwhile. */
  function deliver(event: JobEvent): void {
    const set = listeners.get(event.name) ?? new Set();
    for (const listener of [...set]) {
      if (!set.has(listener)) continue;
      const tell = (error: unknown): void =>
        logger.error('An event listener threw', { event: event.name, error: describeThrown(error).message });
      // Whoever gives an async function gets no thread of control from it, but its rejection is heard.
      harmless(() => listener(event), tell);
    }
  }

  async function waitFor(args: readonly unknown[]): Promise<Job> {
    const type = typeBefore(args[0]);
    const [asked, given = {}] = type === null ? args : args.slice(1);
    const options = ownOptions(given as WaitOptions, ['timeout', 'signal'], 'The options of wait');
    checkSignal(options.signal, 'The options of wait');
    const id = checkId(asked);
    const until =
      options.timeout === undefined ? Number.POSITIVE_INFINITY : system.monotonic() + toMs(options.timeout, 'timeout');
    const how = outlasting(options.signal, until, awayMaxMs);
    listen();
    let state: Job['state'] | null = null;
    for (;;) {
      options.signal?.throwIfAborted();
      const [seen, lastLook] = [hints, closed];
      const job = await outlast(() => get(id), how).catch((error: unknown) => {
        options.signal?.throwIfAborted();
        if (!isAway(error)) throw error;
        if (lastLook) throw closedWhileWaiting(error);
        if (closed) return undefined; // the last look is still due
        if (until > system.monotonic()) throw error;
        const message = `Job ${id} may have ended: the store cannot be reached, and ${String(options.timeout)} are over.`;
        throw new LastoutError('WAIT_TIMEOUT', message, { state }, error);
      });
      if (job === undefined) continue;
      if (!job) throw new LastoutError('JOB_NOT_FOUND', `There is no job ${id}.`);
      refuseOther(job, type);
      if (job.state !== 'pending' && job.state !== 'processing') return job;
      if (lastLook) throw closedWhileWaiting();
      state = job.state;
      const left = until - system.monotonic();
      if (left <= 0)
        throw new LastoutError('WAIT_TIMEOUT', `Job ${id} is still ${job.state} after ${String(options.timeout)}.`, {
          state: job.state,
        });
      await untilMore(seen, options.signal, Math.min(left, pollMs));
    }
  }

  return {
    events(given = {}) {
      const options = ownOptions(given, ['after', 'subject', 'type', 'signal'], 'The options of events');
      checkSignal(options.signal, 'The options of events');
      if (options.subject !== undefined) checkSubject(options.subject, 'The subject of events');
      if (options.type !== undefined) checkName(options.type, 'The type of events');
      const from = start(checkAfter(options.after));
      from.catch(() => undefined); // reported by the first read
      return {
        [Symbol.asyncIterator]() {
          const left = new AbortController();
          return heldWhileAsked(system, followFrom(from, options, left), () => left.abort());
        },
      };
    },
    on(name, listener) {
      if (typeof name !== 'string')
        throw new LastoutError('UNKNOWN_OPTION', `The name of an event is ${show(name)}; give a text.`);
      ownOptions({ [name]: true }, eventNames, 'The names of events');
      if (typeof listener !== 'function') throw new LastoutError('UNKNOWN_OPTION', `on('${name}') got no listener.`);
      const set = listeners.get(name) ?? new Set();
      const heard = listener as (event: JobEvent) => void;
      listeners.set(name, set.add(heard));
      if (!reader) {
        reader = new AbortController();
        void pump(reader.signal);
      }
      return () => {
        set.delete(heard);
        if (set.size === 0 && listeners.get(name) === set) listeners.delete(name);
        if (listeners.size === 0) stopReading();
      };
    },
    wait(...args) {
      const waiting = waitFor(args);
      const over = waiting.then(
        () => void waits.delete(over),
        () => void waits.delete(over),
      );
      waits.add(over);
      return waiting;
    },
    tell: deliver,
    async stop() {
      closed = true;
      unsubscribe?.();
      listeners.clear();
      for (const wake of sleepers) wake();
      await Promise.all(waits);
    },
  };
}

/** What it stands for, the store knows. */
function checkAfter(after: unknown): string | undefined {
  if (after === undefined || after === null || typeof after === 'string') return after ?? undefined;
  throw new LastoutError('INVALID_CURSOR', `after of events is ${show(after)}; give the cursor of an event.`);
}

function closedWhileWaiting(cause?: unknown): LastoutError {
  return new LastoutError('CLOSED', 'The queue was closed while waiting.', undefined, cause);
}

/**
 * Who waits for the next event lives until it comes; who only keeps the iterator does not. Who leaves while one is waited
 * for leaves at once: a generator by itself would wait for it first.
 */
function heldWhileAsked<T>(system: System, events: AsyncGenerator<T>, leave: () => void): AsyncGenerator<T> {
  const { next, return: end, throw: fail } = events;
  return Object.assign(events, {
    next: () => system.hold(next.call(events)),
    return(value: unknown) {
      leave();
      return end.call(events, value);
    },
    throw(error: unknown) {
      leave();
      return fail.call(events, error);
    },
  });
}

/** The library's own jobs are told of where their type is asked for. */
function concerns(event: EventRecord, { subject, type }: EventOptions): boolean {
  if (event.queue === systemQueue && type === undefined) return false;
  return (subject === undefined || event.subject === subject) && (type === undefined || event.type === type);
}

function toEvent({ at, error, progress, ...event }: EventRecord): JobEvent {
  return {
    ...event,
    at: new Date(at),
    ...(error && { error: { ...error, message: readableMessage(error.message) } }),
    ...(event.name === 'progress' && { progress: progressIn(progress) }),
    // Which fields an event has is the store's word, and the conformance cases hold it.
  } as JobEvent;
}

function progressIn(text: string | undefined): Progress {
  const why = text === undefined ? 'it was told by an earlier version' : whyUnreadable(text);
  return why === null
    ? (JSON.parse(text!) as Progress)
    : { percent: 0, message: `This progress cannot be read: ${why}` };
}
