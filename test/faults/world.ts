/**
 * One cell's world: a store, a few processes on it, one fake clock that all of them see, and a ledger of what handlers
 * did and callers were told. A process that is killed loses its timers and its wire, as by kill -9.
 */
import { textsOf } from '../../src/codec/texts.js';
import type { EventRecord, Store, StoredJob, StoreFactory } from '../../src/core/store.js';
import { noFilter } from '../../src/core/store.js';
import { type Job, LastoutError, open, type OpenOptions, type Queue } from '../../src/index.js';
import type { WorkerHandle } from '../../src/surface.js';
import type { FakeClock } from '../../src/testing/index.js';
import { gate } from '../worker-support.js';
import type { Place } from './arena.js';
import { jobOf } from './handlers.js';
import { createWire, type Fault, type Wire } from './wire.js';

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
/** However the store behaves, a public call is over by then: three store calls in a row, and some waiting. */
const callMaxMs = 60_000;
/** How often scripts look; less often once they have to wait for a lapse. Timers fire in their order all the same. */
const stepMs = 500;
const longStepMs = 2_500;
const longAfterMs = 5_000;

export type Answer<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly code: string; readonly error: LastoutError };

export interface Process {
  readonly name: string;
  readonly queue: Queue;
  readonly wire: Wire;
  worker: WorkerHandle | null;
  /** Timers of its own that have not fired. */
  readonly timers: number;
  killedAt: number | null;
  /** A public call: it must settle in time, and be refused by a code alone. */
  call<T>(what: string, send: (queue: Queue) => Promise<T>): Promise<Answer<T>>;
  /** The same, where nothing stands in its way. */
  surely<T>(what: string, send: (queue: Queue) => Promise<T>): Promise<T>;
  /** A worker for all types; at most one. */
  work(): Promise<WorkerHandle>;
  wait(ms: number, signal?: AbortSignal): Promise<void>;
  kill(): void;
}

/** One execution of a handler. */
export interface Execution {
  readonly id: string;
  readonly epoch: number;
  readonly attempt: number;
  readonly exclusiveKey: string | null;
  readonly process: Process;
  readonly beganAt: number;
  endedAt: number | null;
  outcome: 'running' | 'returned' | 'threw';
  /** Runs on after its time limit: abandoned by design. */
  ignores: boolean;
}

export interface World extends AsyncDisposable {
  readonly clock: FakeClock;
  /** The store itself, out of reach of all faults. */
  readonly store: Store;
  readonly executions: Execution[];
  /** Ids of jobs that a caller was promised. */
  readonly promised: Set<string>;
  /** Ids that somebody asked to remove. */
  readonly removed: Set<string>;
  readonly processes: Process[];
  /** With a fault, it is armed before anything is sent. */
  start(name: string, fault?: Fault): Promise<Process>;
  /** Moves the clock until the work is over, or until `process` is dead. */
  drive<T>(work: Promise<T>, process?: Process): Promise<T | undefined>;
  /** For scripts: until the condition holds, or the time is over. */
  until(condition: () => boolean | Promise<boolean>, atMostMs: number): Promise<boolean>;
  began(process: Process, job: Pick<Job, 'id' | 'epoch' | 'attempts' | 'exclusiveKey'>): Execution;
  /** Handlers that hold on let go. */
  release(): void;
  readonly released: Promise<void>;
  /** Resolves when all has been judged: for handlers that stop for nobody. */
  readonly over: Promise<void>;
  /** Those of users, in plain text. */
  jobs(): Promise<readonly StoredJob[]>;
  events(): Promise<readonly EventRecord[]>;
  isQuiet(): Promise<boolean>;
}

interface Waiting {
  condition(): boolean | Promise<boolean>;
  readonly endAt: number;
  resolve(held: boolean): void;
}

export async function createWorld(place: Place, options: OpenOptions = {}): Promise<World> {
  const { clock, store, factoryFor } = place;
  const { cursor } = await store.readEvents({ after: null, limit: 1 });
  const texts = options.codec && textsOf(options.codec, silent);
  const plain = (text: string, id: string, field: 'input' | 'result'): string =>
    texts?.open(text, { id, field }) ?? text;
  const waiting = new Set<Waiting>();
  const underWay = new Map<symbol, { what: string; process: Process; since: number }>();
  const letGo = gate();
  const ended = gate();

  const world: World = {
    clock,
    store,
    executions: [],
    promised: new Set(),
    removed: new Set(),
    processes: [],
    release: () => letGo.open(),
    released: letGo.passed,
    over: ended.passed,
    async start(name, fault) {
      const wire = (died: () => void): Wire => {
        const made = createWire(died);
        if (fault) made.arm(fault);
        return made;
      };
      const factory = factoryFor(world.processes.length);
      const made = await startProcess(world, name, factory, options, underWay, wire);
      world.processes.push(made);
      return made;
    },
    async drive(work, process) {
      let over = false;
      const done = work.finally(() => {
        over = true;
      });
      done.catch(() => undefined);
      const from = clock.monotonic();
      await clock.settle();
      await storesAnswered();
      await look();
      while (!over && process?.killedAt == null) {
        for (const { what, since, process: by } of underWay.values())
          if (by.killedAt === null && clock.monotonic() - since > callMaxMs)
            throw new Error(`${what} has not settled within ${callMaxMs} ms`);
        await clock.advance(clock.monotonic() - from < longAfterMs ? stepMs : longStepMs);
        await storesAnswered();
        await look();
      }
      return over ? done : undefined;
    },
    until: (condition, atMostMs) =>
      new Promise((resolve) => waiting.add({ condition, endAt: clock.monotonic() + atMostMs, resolve })),
    began(process, { id, epoch, attempts, exclusiveKey }) {
      const beganAt = clock.monotonic();
      const made: Execution = {
        id,
        epoch,
        attempt: attempts,
        exclusiveKey,
        process,
        beganAt,
        endedAt: null,
        outcome: 'running',
        ignores: false,
      };
      world.executions.push(made);
      return made;
    },
    async jobs() {
      const filter = { ...noFilter, system: false };
      const { jobs } = await store.find({ filter, cursor: null, limit: 1_000 });
      return jobs.map((job) => ({
        ...job,
        input: plain(job.input, job.id, 'input'),
        result: job.result === null ? null : plain(job.result, job.id, 'result'),
      }));
    },
    async events() {
      return (await store.readEvents({ after: cursor, limit: 10_000 })).events;
    },
    async isQuiet() {
      const { jobs } = await store.find({
        filter: { ...noFilter, states: ['pending', 'processing'], system: false },
        cursor: null,
        limit: 1,
      });
      return jobs.length === 0;
    },
    async [Symbol.asyncDispose]() {
      for (const process of world.processes) process.kill();
      ended.open();
      await clock.settle();
    },
  };

  /** The clock stands still while a store needs real time. */
  async function storesAnswered(): Promise<void> {
    while (world.processes.some(({ wire }) => wire.inStore > 0)) await clock.settle();
  }
  async function look(): Promise<void> {
    for (const entry of waiting) {
      const held = await entry.condition();
      if (!held && clock.monotonic() < entry.endAt) continue;
      waiting.delete(entry);
      entry.resolve(held);
      await clock.settle();
    }
  }
  return world;
}

async function startProcess(
  world: World,
  name: string,
  factory: StoreFactory,
  options: OpenOptions,
  underWay: Map<symbol, { what: string; process: Process; since: number }>,
  wireFor: (died: () => void) => Wire,
): Promise<Process> {
  const { clock } = world;
  const wire = wireFor(() => kill());
  const timers = new Set<() => void>();
  let closeStore = async (): Promise<void> => undefined;
  /** Only this process's timers, so that they can die with it and be counted. */
  const ownClock = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    awaiting: clock.awaiting,
    timer(ms: number, callback: () => void) {
      if (made?.killedAt != null) return () => undefined;
      const callOff = (): void => {
        timers.delete(callOff);
        cancel();
      };
      const cancel = clock.timer(ms, () => {
        timers.delete(callOff);
        callback();
      });
      timers.add(callOff);
      return callOff;
    },
  };
  let made: Process | null = null;
  function kill(): void {
    if (!made || made.killedAt !== null) return;
    made.killedAt = clock.monotonic();
    wire.cut();
    for (const callOff of [...timers]) callOff();
    void closeStore();
  }
  const through = wire.through({
    engine: factory.engine,
    async open(context) {
      const store = await factory.open(context);
      closeStore = () => {
        closeStore = async () => undefined;
        return store.close();
      };
      return { ...store, close: () => closeStore() };
    },
  });
  const queue = await open(through, {
    cleanup: { maxStoredJobs: Number.POSITIVE_INFINITY },
    ...options,
    clock: ownClock,
  });
  const process: Process = {
    name,
    queue,
    wire,
    worker: null,
    get timers() {
      return timers.size;
    },
    killedAt: null,
    async call(what, send) {
      const key = Symbol(what);
      underWay.set(key, { what, process, since: clock.monotonic() });
      try {
        return { ok: true, value: await send(queue) };
      } catch (error) {
        if (!(error instanceof LastoutError)) throw error;
        return { ok: false, code: error.code, error };
      } finally {
        underWay.delete(key);
      }
    },
    async surely(what, send) {
      const answer = await process.call(what, send);
      if (!answer.ok)
        throw new Error(`${what} was refused although nothing was wrong any more`, { cause: answer.error });
      return answer.value;
    },
    async work() {
      process.worker ??= await queue.work([jobOf(world, process)], { lease: '60s', heartbeat: '10s', poll: '5s' });
      return process.worker;
    },
    wait: (ms, signal) =>
      new Promise((resolve) => {
        const callOff = ownClock.timer(ms, resolve);
        signal?.addEventListener('abort', () => {
          callOff();
          resolve();
        });
      }),
    kill,
  };
  made = process;
  return process;
}
