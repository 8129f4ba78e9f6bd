/** A bench for tests of the running side: a queue on a chosen engine under a fake clock, with its store calls in view. */
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { ClaimRequest, Store, StoreContext, StoreFactory } from '../src/core/store.js';
import { type Context, defineJob, type JobType, open, type OpenOptions, type Queue } from '../src/index.js';
import { createSystem } from '../src/system.js';
import { type FakeClock, fakeClock } from '../src/testing/index.js';
import { emptyStore, type EngineName } from './engines.js';
import { compilePrograms } from './programs.js';
import { verbs } from './verbs.js';

export { engines, type EngineName } from './engines.js';

export type Verb = (typeof verbs)[number];

export interface Call {
  readonly verb: Verb;
  readonly request: any;
  reply?: any;
}

/** What stands between a queue and its store: it records, and it can be told to misbehave. */
export interface Wire {
  readonly calls: Call[];
  of(verb: Verb): Call[];
  /** Runs before a call reaches the store; throwing fails it without effect, waiting delays it. */
  readonly before: { [V in Verb]?: (request: any) => unknown };
  /** Runs after the store has answered; throwing loses the reply, waiting delays it. */
  readonly after: { [V in Verb]?: (request: any) => unknown };
  /** Every verb fails from now on. */
  down: boolean;
  /** No hint comes through. */
  deaf: boolean;
}

export interface LogLine {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
  readonly fields: any;
}

export interface Side {
  readonly queue: Queue;
  readonly wire: Wire;
  readonly logs: LogLine[];
}

export interface Bench extends Side, AsyncDisposable {
  readonly clock: FakeClock;
  readonly engine: EngineName;
  /** One more queue on the same jobs, as another process would have it: by its own connection. */
  another(options?: OpenOptions): Promise<Side>;
  /** The store itself, to claim and settle by hand. */
  readonly store: Store;
  /** The same once more, by a connection of its own. */
  reach(also: Partial<StoreContext>): Promise<Store>;
}

export async function bench(engine: EngineName, options: OpenOptions & { deaf?: boolean } = {}): Promise<Bench> {
  const { deaf = false, ...openOptions } = options;
  const clock = fakeClock();
  const { connect } = await emptyStore[engine]();
  const sides: Side[] = [];

  async function side(given: OpenOptions): Promise<Side> {
    const logs: LogLine[] = [];
    const wire = createWire(deaf);
    const note = (level: LogLine['level']) => (message: string, fields?: object) =>
      void logs.push({ level, message, fields });
    const logger = { debug: note('debug'), info: note('info'), warn: note('warn'), error: note('error') };
    const queue = await open(throughWire(connect(), wire), { logger, clock, ...given });
    const made = { queue, wire, logs };
    sides.push(made);
    return made;
  }

  const first = await side({ cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY }, ...openOptions });
  const reached: Store[] = [];
  const reach = async (also: Partial<StoreContext>): Promise<Store> => {
    const store = await connect().open({ ...contextOf(clock), ...also });
    reached.push(store);
    return store;
  };
  const store = await reach({});
  return {
    ...first,
    clock,
    engine,
    store,
    reach,
    another: (given = {}) => side({ cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY }, ...given }),
    async [Symbol.asyncDispose]() {
      for (const { queue, wire } of sides) {
        wire.down = false;
        for (const verb of verbs) {
          delete wire.before[verb];
          delete wire.after[verb];
        }
        await passing(clock, queue.close({ grace: 0 }));
      }
      for (const one of reached) await one.close();
    },
  };
}

export function contextOf(clock: FakeClock): StoreContext {
  return { system: createSystem(clock), namespace: 'lastout', maxStoredJobs: Number.POSITIVE_INFINITY };
}

function createWire(deaf: boolean): Wire {
  const calls: Call[] = [];
  return { calls, of: (verb) => calls.filter((call) => call.verb === verb), before: {}, after: {}, down: false, deaf };
}

/** The same store, with a wire before it. */
export function throughWire(factory: StoreFactory, wire: Wire): StoreFactory {
  return {
    ...factory,
    async open(context) {
      const store = await factory.open(context);
      const wrapped: Record<string, unknown> = {};
      for (const verb of verbs) {
        wrapped[verb] = async (...args: unknown[]) => {
          const call: Call = { verb, request: args[0] };
          // Looking for due schedules goes on beside the workers, and is not what these tests look at.
          const isAside = isForSchedules(call);
          if (!isAside) wire.calls.push(call);
          if (wire.down) throw new Error('The store is down');
          if (isAside) return store.claim(call.request);
          await wire.before[verb]?.(args[0]);
          call.reply = await (store[verb] as (...given: unknown[]) => Promise<unknown>)(...args);
          await wire.after[verb]?.(args[0]);
          return call.reply;
        };
      }
      return {
        ...(wrapped as unknown as Store),
        engine: store.engine,
        traits: store.traits,
        durability: store.durability,
        subscribe: (listener) => store.subscribe((hint) => void (wire.deaf || listener(hint))),
        check: async () => {
          if (wire.down) throw new Error('The store is down');
          return store.check();
        },
        close: () => store.close(),
      };
    },
  };
}

function isForSchedules({ verb, request }: Call): boolean {
  return verb === 'claim' && (request as ClaimRequest).types.includes('lastout.schedule');
}

/** Never settles: a call that hangs. */
export function forever(): Promise<never> {
  return new Promise(() => undefined);
}

export interface Gate<T = void> {
  readonly passed: Promise<T>;
  open(value: T): void;
}

export function gate<T = void>(): Gate<T> {
  let open!: (value: T) => void;
  const passed = new Promise<T>((resolve) => {
    open = resolve;
  });
  return { passed, open };
}

/** Waits for a condition without moving the clock. */
export async function until(clock: FakeClock, condition: () => unknown, what = 'the condition'): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Waited in vain for ${what}`);
    await clock.settle();
  }
}

/** Moves the clock, a step at a time, until the promise has settled. */
export async function passing<T>(clock: FakeClock, promise: Promise<T>, stepMs = 100, atMostMs = 600_000): Promise<T> {
  let over = false;
  const done = promise.finally(() => {
    over = true;
  });
  done.catch(() => undefined);
  await clock.settle();
  for (let passed = 0; !over && passed < atMostMs; passed += stepMs) await clock.advance(stepMs);
  if (!over) throw new Error(`Still unsettled after ${atMostMs} ms of the clock`);
  return done;
}

/** How far the clock had to move until the promise settled. */
export async function timeUntil(clock: FakeClock, promise: Promise<unknown>, stepMs = 100): Promise<number> {
  const from = clock.monotonic();
  await passing(clock, promise, stepMs);
  return clock.monotonic() - from;
}

export function jobType(name: string, run: (context: Context<any>) => any, options: object = {}): JobType<any, any> {
  return defineJob<any, any>(name, { ...options, run });
}

/** A handler that waits to be let go, one gate per job. */
export function holding(name: string, options: object = {}, obeys = false) {
  const started: string[] = [];
  const contexts = new Map<string, Context<any>>();
  const gates = new Map<string, Gate<unknown>>();
  const type = jobType(
    name,
    async (context) => {
      const own = gate<unknown>();
      started.push(context.job.id);
      contexts.set(context.job.id, context);
      gates.set(context.job.id, own);
      if (obeys) context.signal.addEventListener('abort', () => own.open(Promise.reject(context.signal.reason)));
      return own.passed;
    },
    options,
  );
  return {
    type,
    /** Ids in the order of their starts; a job that ran twice is there twice. */
    started,
    context: (id: string): Context<any> => contexts.get(id)!,
    /** Lets the latest run of the job end: with a value, or with a rejected promise. */
    end: (id: string, value: unknown = null): void => gates.get(id)!.open(value),
    endAll: (value: unknown = null): void => {
      for (const own of gates.values()) own.open(value);
    },
  };
}

export function rejected(reason: unknown): Promise<never> {
  const promise = Promise.reject(reason);
  promise.catch(() => undefined);
  return promise;
}

export async function stateOf(queue: Queue, id: string): Promise<string | null> {
  return (await queue.get(id))?.state ?? null;
}

/** A claim by hand: a worker that will never be heard of again, unless the test speaks for it. */
export function claimRequest(types: readonly string[], overrides: Partial<ClaimRequest> = {}): ClaimRequest {
  return { owner: 'byhand', types, queues: null, slots: 1, ahead: 0, leaseMs: 30_000, maxStalls: 3, ...overrides };
}

export async function codeOf(promise: Promise<unknown>): Promise<string | undefined> {
  try {
    await promise;
    return undefined;
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

export function warnings(logs: readonly LogLine[]): readonly string[] {
  return logs.filter(({ level }) => level === 'warn' || level === 'error').map(({ message }) => message);
}

/** A process of its own, its words line by line. */
export interface Child extends AsyncDisposable {
  readonly lines: string[];
  /** Resolves with the first line that begins so. */
  said(start: string): Promise<string>;
  kill(signal: NodeJS.Signals): void;
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
}

export function startChild(mode: string, file: string): Child {
  const child = spawn(process.execPath, [compilePrograms().modes, mode, file], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  let errors = '';
  let isOver = false;
  const waiting = new Set<() => void>();
  const wake = (): void => {
    for (const look of waiting) look();
  };
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  createInterface({ input: child.stdout }).on('line', (line) => {
    lines.push(line);
    wake();
  });
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.on('close', (code, signal) => {
      isOver = true;
      resolve({ code, signal });
      wake();
    });
  });
  return {
    lines,
    exited,
    said: (start) =>
      new Promise((resolve, reject) => {
        const look = (): void => {
          const line = lines.find((said) => said.startsWith(start));
          if (line === undefined && !isOver) return;
          waiting.delete(look);
          if (line === undefined)
            reject(new Error(`The child ended without "${start}": ${lines.join(' | ')} ${errors}`));
          else resolve(line);
        };
        waiting.add(look);
        look();
      }),
    kill: (signal) => void child.kill(signal),
    async [Symbol.asyncDispose]() {
      if (!isOver) child.kill('SIGKILL');
      await exited;
    },
  };
}

/** A fresh folder with a SQLite file for processes that share it in real time. */
export async function sharedFile(): Promise<{ readonly file: string } & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), 'lastout-'));
  return {
    file: join(folder, 'jobs.db'),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}

/** Looks again and again in real time; for what another process does. */
export async function eventually(condition: () => unknown, what: string, withinMs = 15_000): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`Waited in vain for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
