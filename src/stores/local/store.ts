/** A store whose engine runs inside this process: each verb is one step over its tables. */
import { clockWarnings } from '../../core/epoch.js';
import type { SqlClient } from '../../core/job.js';
import { changeOf } from '../../core/pauses.js';
import { noTransactions } from '../../core/refusal.js';
import type {
  ClaimRequest,
  Durability,
  Engine,
  Hint,
  Inserted,
  NewJob,
  Store,
  StoreContext,
  StoreWarning,
  Traits,
} from '../../core/store.js';
import { audit } from './audit.js';
import { claim, extend } from './claim.js';
import { insert } from './insert.js';
import { keepLimits } from './limits.js';
import { move } from './move.js';
import { plan } from './plan.js';
import { claimsOf, find, lanes, ledger, overdueOf, tally } from './read.js';
import { note, settle } from './settle.js';
import { beginStep, closeStep, hintsOf, type Step } from './step.js';
import { fenceSubject, unfenceSubject } from './subjects.js';
import { sweep, sweepInTerm } from './sweep.js';
import type { Tables, Transact } from './tables.js';
import { endTerm } from './term.js';
import { livingCards, why } from './why.js';

export interface LocalEngine {
  readonly engine: Engine;
  readonly traits: Traits;
  readonly durability: Durability;
  /** One atomic step that may write. */
  readonly transact: Transact;
  /** One consistent step that only reads. */
  readonly reading: Transact;
  /** One step inside a transaction of the caller, at once. Null: an engine without transactions. */
  readonly inside: (<T>(tx: SqlClient, work: (tables: Tables) => T) => T) | null;
  /** Stores a plain job beside others like it at once, where that takes no step. False: it takes one. */
  join?(job: NewJob, now: number): boolean;
  /** True when a claim would find nothing to do; saves an idle worker the write lock. */
  quiet?(request: ClaimRequest, now: number): { readonly nextDueAt: number | null } | null;
  /** A part of a sweep is done; whether there is more to do. */
  swept?(more: boolean): void;
  identity(): Promise<string>;
  check(): Promise<readonly StoreWarning[]>;
  /** Listeners of every queue that shares the engine. */
  readonly listeners: Set<(hint: Hint) => void>;
  close(): Promise<void>;
}

export async function openLocal(engine: LocalEngine, context: StoreContext): Promise<Store> {
  await keepLimits(engine, context.limits);
  return localStore(engine, context);
}

function localStore(engine: LocalEngine, context: StoreContext): Store {
  const now = (): number => context.system.now();
  const own = new Set<(hint: Hint) => void>();

  function stepOn<T>(tables: Tables, verb: (step: Step) => T) {
    const step = beginStep(tables, now());
    const value = verb(step);
    closeStep(step);
    return { value, hints: hintsOf(step, context.maxStoredJobs), stalled: step.stalled };
  }
  function give(hints: readonly Hint[]): void {
    for (const hint of hints) for (const listener of engine.listeners) listener(hint);
  }
  async function change<T>(verb: (step: Step) => T): Promise<T> {
    const { value, hints, stalled } = await engine.transact((tables) => stepOn(tables, verb));
    give(hints);
    if (stalled) context.stalled?.(stalled);
    return value;
  }
  /** Done when it returns. Whether and when the caller commits is not known here, so the hints may be too early. */
  async function changeInside<T>(tx: SqlClient, verb: (step: Step) => T): Promise<T> {
    if (!engine.inside) throw noTransactions(engine.engine);
    const { value, hints } = engine.inside(tx, (tables) => stepOn(tables, verb));
    context.system.soon(() => give(hints));
    return value;
  }
  async function insertOne(job: NewJob, verb: (step: Step) => readonly Inserted[]): Promise<readonly Inserted[]> {
    // Only a step can tell whether the cap is exceeded.
    const mayJoin = context.maxStoredJobs === Number.POSITIVE_INFINITY;
    if (!mayJoin || !engine.join?.(job, now())) return change(verb);
    give([{ kind: 'ready', types: new Set([job.type]) }, { kind: 'events' }]);
    return [{ id: job.id, outcome: 'created' }];
  }
  const look = <T>(verb: (step: Step) => T): Promise<T> => engine.reading((tables) => verb(beginStep(tables, now())));

  return {
    engine: engine.engine,
    traits: engine.traits,
    durability: engine.durability,
    insert(jobs, { atomic, tx }) {
      const verb = (step: Step): readonly Inserted[] => insert(step, jobs, atomic);
      if (tx !== undefined) return changeInside(tx, verb);
      return jobs.length === 1 ? insertOne(jobs[0]!, verb) : change(verb);
    },
    async claim(request) {
      const at = now();
      const quiet = engine.quiet?.(request, at);
      if (quiet)
        return {
          epoch: 0,
          at,
          jobs: [],
          nextDueInMs: quiet.nextDueAt === null ? null : Math.max(0, quiet.nextDueAt - at),
          more: false,
        };
      return change((step) => claim(step, request));
    },
    extend: (request) => change((step) => extend(step, request)),
    settle: (request) => change((step) => settle(step, request)),
    async sweep(request) {
      const swept = await change((step) => sweep(step, request));
      engine.swept?.(swept.more);
      return swept;
    },
    move: (request) => (request.dryRun ? look((step) => move(step, request)) : change((step) => move(step, request))),
    async sweepInTerm(term, request) {
      const swept = await change((step) => sweepInTerm(step, term, request));
      engine.swept?.(swept.more);
      return swept;
    },
    endTerm: (holder, entry) => change((step) => endTerm(step, holder, entry)),
    pause: (queue, paused) => change((step) => pauseQueue(step, queue, paused)),
    fence: (subject, fence) => change((step) => fenceSubject(step, subject, fence)),
    unfence: (subject) => change((step) => unfenceSubject(step, subject)),
    find: (request) => look((step) => find(step, request)),
    tally: (cleanup) => look((step) => tally(step, cleanup)),
    readEvents: ({ after, limit }) => look(({ tables }) => tables.events(after, limit)),
    readLines: (id) => look(({ tables }) => tables.lines(id)),
    readClaims: (owner) => look((step) => claimsOf(step, owner)),
    countDue: ({ types, queues, limit }) => look((step) => step.tables.countDue(types, queues, step.now, limit)),
    readLanes: () => look(lanes),
    readWhy: (id) => look((step) => why(step, id)),
    readPlan: (request) => look((step) => plan(step, request)),
    readLedger: (request) => look((step) => ledger(step, request)),
    readAudit: (request) => look((step) => audit(step, request)),
    readWorkers: () => look(livingCards),
    readIdentity: () => engine.identity(),
    readOverdue: (request) => look((step) => overdueOf(step, request)),
    note: (owner, notes) => change((step) => note(step, owner, notes)),
    subscribe(listener) {
      engine.listeners.add(listener);
      own.add(listener);
      return () => {
        engine.listeners.delete(listener);
        own.delete(listener);
      };
    },
    async check() {
      const warnings = await engine.check();
      return [...warnings, ...(await look(({ tables, now: at }) => clockWarnings(at, tables.lastEpoch())))];
    },
    async close() {
      for (const listener of own) engine.listeners.delete(listener);
      own.clear();
      await engine.close();
    },
  };
}

function pauseQueue(step: Step, queue: string | null, paused: boolean): void {
  const { add, drop } = changeOf(step.tables.paused(), queue, paused);
  for (const word of drop) step.tables.setPaused(word, false);
  for (const word of add) step.tables.setPaused(word, true);
  if (paused) step.paused = true;
  else step.readyTypes.add('*');
}
