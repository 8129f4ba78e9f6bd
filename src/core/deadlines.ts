/**
 * Every call to a store ends, in one of three ways: with its answer; failed, and then nothing has happened; or unknown
 * (`RESULT_UNKNOWN`), when the answer was lost or did not come in time. Who gets the third one looks before acting again.
 */
import { LastoutError } from './errors.js';
import { defaults } from './policy.js';
import type { Store } from './store.js';
import type { System } from './system.js';

export function isUnknown(error: unknown): boolean {
  return error instanceof LastoutError && error.code === 'RESULT_UNKNOWN';
}

/** A refusal that leaves open what became of an earlier call whose outcome is unknown. */
export function tellsNothing(error: unknown): boolean {
  return error instanceof LastoutError && (error.code === 'STORE_UNAVAILABLE' || error.code === 'CLOSED');
}

/** `held`: somebody awaits the outcome, so the process lives until there is one. */
type Call = 'held write' | 'write' | 'held read' | 'read';

interface UnderWay {
  readonly verb: string;
  readonly call: Call;
  reject(error: LastoutError): void;
  /** Null: its deadline is not yet watched. */
  callOff: (() => void) | null;
}

export function withDeadlines(store: Store, system: System): Store {
  const underWay = new Set<UnderWay>();
  let willWatch = false;
  let closed = false;

  /** A store in this process has mostly answered by the end of the turn, and then no timer is made. */
  function watchSoon(): void {
    if (willWatch) return;
    willWatch = true;
    system.soon(() => {
      willWatch = false;
      for (const one of underWay) one.callOff ??= system.timer(defaults.storeCallMs, () => giveUp(one), holdOf(one));
    });
  }

  function over(one: UnderWay): void {
    one.callOff?.();
    underWay.delete(one);
  }
  function giveUp(one: UnderWay): void {
    over(one);
    one.reject(unanswered(one.verb, one.call));
  }

  /** `tell` brings the answer to the caller. */
  function ending<T>(verb: string, call: Call, start: () => Promise<T>, tell = system.inTurn): Promise<T> {
    if (closed) return Promise.reject(new LastoutError('CLOSED', 'The store is closed.'));
    return new Promise<T>((resolve, reject) => {
      const one: UnderWay = { verb, call, reject, callOff: null };
      underWay.add(one);
      watchSoon();
      start().then(
        (value) => {
          over(one);
          tell(() => resolve(value));
        },
        (error: unknown) => {
          over(one);
          const told = error instanceof LastoutError ? error : unanswered(verb, call, error);
          tell(() => reject(told));
        },
      );
    });
  }

  return {
    engine: store.engine,
    traits: store.traits,
    /** A server may be set up anew while it runs. */
    get durability() {
      return store.durability;
    },
    insert: (jobs, options) =>
      ending('insert', 'held write', () => store.insert(jobs, options), options.tx ? atOnce : undefined),
    claim: (request) => ending('claim', 'write', () => store.claim(request)),
    extend: (request) => ending('extend', 'write', () => store.extend(request)),
    settle: (request) => ending('settle', 'held write', () => store.settle(request)),
    sweep: (request) => ending('sweep', 'write', () => store.sweep(request)),
    move: (request) => ending('move', request.dryRun ? 'held read' : 'held write', () => store.move(request)),
    sweepInTerm: (term, request) => ending('sweep', 'write', () => store.sweepInTerm(term, request)),
    endTerm: (holder, entry) => ending('endTerm', 'write', () => store.endTerm(holder, entry)),
    pause: (queue, paused) => ending('pause', 'held write', () => store.pause(queue, paused)),
    fence: (subject, fence) => ending('fence', 'held write', () => store.fence(subject, fence)),
    unfence: (subject) => ending('unfence', 'held write', () => store.unfence(subject)),
    find: (request) => ending('find', 'held read', () => store.find(request)),
    tally: (cleanup) => ending('tally', 'held read', () => store.tally(cleanup)),
    // What callers read holds the process; what runs in the background does not.
    readEvents: (request) => ending('readEvents', 'read', () => store.readEvents(request)),
    readLines: (id) => ending('readLines', 'held read', () => store.readLines(id)),
    readClaims: (owner) => ending('readClaims', 'read', () => store.readClaims(owner)),
    countDue: (request) => ending('countDue', 'read', () => store.countDue(request)),
    readLanes: () => ending('readLanes', 'read', () => store.readLanes()),
    readWhy: (id) => ending('readWhy', 'held read', () => store.readWhy(id)),
    readPlan: (request) => ending('readPlan', 'held read', () => store.readPlan(request)),
    readLedger: (request) => ending('readLedger', 'held read', () => store.readLedger(request)),
    readAudit: (request) => ending('readAudit', 'held read', () => store.readAudit(request)),
    readWorkers: () => ending('readWorkers', 'read', () => store.readWorkers()),
    readOverdue: (request) => ending('readOverdue', 'read', () => store.readOverdue(request)),
    readIdentity: () => ending('readIdentity', 'held read', () => store.readIdentity()),
    note: (owner, notes) => ending('note', 'write', () => store.note(owner, notes)),
    subscribe: (listener, from) => store.subscribe(listener, from),
    check: () => ending('check', 'held read', () => store.check()),
    /** What hangs is given up first: nobody waits for an answer that no one will bring. */
    async close() {
      closed = true;
      for (const one of underWay) giveUp(one);
      await store.close();
    },
  };
}

/** Between the write and the commit of a caller's transaction no other code of the process may come, which could use the same handle. */
function atOnce(tell: () => void): void {
  tell();
}

function holdOf({ call }: UnderWay): 'hold' | undefined {
  return call.startsWith('held') ? 'hold' : undefined;
}

/** `cause`: an error that the store has no name for, which tells nothing about how far the call came. */
function unanswered(verb: string, call: Call, cause?: unknown): LastoutError {
  const what = cause === undefined ? `The store did not answer "${verb}" in time` : `The store broke off "${verb}"`;
  if (call.endsWith('read')) return new LastoutError('STORE_UNAVAILABLE', `${what}.`, { verb }, cause);
  const message = `${what}: whether it was done is not known. Look before you repeat it.`;
  return new LastoutError('RESULT_UNKNOWN', message, { verb }, cause);
}
