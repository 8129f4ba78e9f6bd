/** A store whose engine runs inside this process: each verb is one step over its tables. */
import type {
  ClaimRequest,
  Durability,
  Engine,
  EventPage,
  Hint,
  LogLine,
  ReadRequest,
  Store,
  StoreContext,
} from '../../core/store.js';
import { claim, extend } from './claim.js';
import { insert } from './insert.js';
import { move } from './move.js';
import { find, tally } from './read.js';
import { note, settle } from './settle.js';
import { beginStep, closeStep, hintsOf, type Step } from './step.js';
import { sweep } from './sweep.js';
import type { Tables, Transact } from './tables.js';

export interface LocalEngine {
  readonly engine: Engine;
  readonly durability: Durability;
  /** One atomic step that may write. */
  readonly transact: Transact;
  /** One consistent step that only reads. */
  readonly reading: Transact;
  /** True when a claim would find nothing to do; saves an idle worker the write lock. */
  quiet?(request: ClaimRequest, now: number): { readonly nextDueAt: number | null } | null;
  check(): Promise<readonly { readonly code: string; readonly message: string }[]>;
  /** Listeners of every queue that shares the engine. */
  readonly listeners: Set<(hint: Hint) => void>;
  close(): Promise<void>;
}

export function localStore(engine: LocalEngine, context: StoreContext): Store {
  const now = (): number => context.system.now();
  const own = new Set<(hint: Hint) => void>();

  async function change<T>(verb: (step: Step) => T): Promise<T> {
    let hints: Hint[] = [];
    const result = await engine.transact((tables: Tables) => {
      const step = beginStep(tables, now());
      const value = verb(step);
      closeStep(step);
      hints = hintsOf(step, context.maxStoredJobs);
      return value;
    });
    for (const hint of hints) for (const listener of engine.listeners) listener(hint);
    return result;
  }
  const look = <T>(verb: (step: Step) => T): Promise<T> => engine.reading((tables) => verb(beginStep(tables, now())));

  function read(request: ReadRequest & { log: 'events' }): Promise<EventPage>;
  function read(request: ReadRequest & { log: 'job' }): Promise<readonly LogLine[]>;
  function read(request: ReadRequest): Promise<EventPage | readonly LogLine[]> {
    return look<EventPage | readonly LogLine[]>(({ tables }) =>
      request.log === 'events' ? tables.events(request.after, request.limit) : tables.lines(request.id),
    );
  }

  return {
    engine: engine.engine,
    durability: engine.durability,
    insert: (jobs, { atomic }) => change((step) => insert(step, jobs, atomic)),
    async claim(request) {
      const quiet = engine.quiet?.(request, now());
      if (quiet)
        return {
          epoch: 0,
          jobs: [],
          nextDueInMs: quiet.nextDueAt === null ? null : Math.max(0, quiet.nextDueAt - now()),
          more: false,
        };
      return change((step) => claim(step, request));
    },
    extend: (request) => change((step) => extend(step, request)),
    settle: (request) => change((step) => settle(step, request)),
    sweep: (request) => change((step) => sweep(step, request)),
    move: (request) => (request.dryRun ? look((step) => move(step, request)) : change((step) => move(step, request))),
    pause: (queue, paused) =>
      change((step) => {
        if (queue === null && !paused) step.tables.clearPauses();
        else step.tables.setPaused(queue ?? '*', paused);
        if (paused) step.paused = true;
        else step.readyTypes.add('*');
      }),
    find: (request) => look((step) => find(step, request)),
    tally: (cleanup) => look((step) => tally(step, cleanup)),
    read,
    note: (owner, notes) => change((step) => note(step, owner, notes)),
    subscribe(listener) {
      engine.listeners.add(listener);
      own.add(listener);
      return () => {
        engine.listeners.delete(listener);
        own.delete(listener);
      };
    },
    check: () => engine.check(),
    async close() {
      for (const listener of own) engine.listeners.delete(listener);
      own.clear();
      await engine.close();
    },
  };
}
