/** What stands between a process and its store: it counts the calls from the moment it is armed, and spoils the k-th. */
import type { Store, StoreFactory } from '../../src/core/store.js';
import { LastoutError } from '../../src/index.js';
import { verbs } from '../verbs.js';
import { forever } from '../worker-support.js';

const spoilable = [...verbs, 'check', 'close'] as const;

export type Way =
  /** Breaks off without a name: whether it arrived is not known. */
  | 'error before'
  | 'error after'
  /** Never answers. */
  | 'hang before'
  | 'hang after'
  /** Answers that it could not: nothing has happened. */
  | 'refusal'
  /** The process is gone at this call. */
  | 'death before'
  | 'death after';

export interface Fault {
  readonly at: number;
  readonly way: Way;
  readonly lasts: Lasts;
}

/** The k-th call alone; it and every other one after it; or all from there on, until the fault is lifted. */
export type Lasts = 'once' | 'now and then' | 'for ever';

export interface Wire {
  /** Calls since it was armed, by verb, in order. */
  readonly calls: string[];
  arm(fault: Fault): void;
  /** Which call was spoilt first. */
  readonly hitAt: number | null;
  lift(): void;
  /** Nothing goes through any more, in either direction. */
  cut(): void;
  /** Calls that have reached the store and are not answered: some need real time. */
  readonly inStore: number;
  through(factory: StoreFactory): StoreFactory;
}

/** `died` is called where the fault is the death of the process. */
export function createWire(died: () => void): Wire {
  const calls: string[] = [];
  let fault: Fault | null = null;
  let hitAt: number | null = null;
  let isCut = false;
  let inStore = 0;

  function spoiling(verb: string): Fault | null {
    if (!fault) return null;
    calls.push(verb);
    const after = calls.length - fault.at;
    const strikes = fault.lasts === 'for ever' || (fault.lasts === 'now and then' ? after % 2 === 0 : after === 0);
    if (after < 0 || !strikes) return null;
    hitAt ??= calls.length;
    return fault;
  }
  function cut(): void {
    isCut = true;
  }
  async function pass(verb: string, call: () => Promise<unknown>): Promise<unknown> {
    if (isCut) return forever();
    const way = spoiling(verb)?.way;
    if (way === 'refusal') throw new LastoutError('STORE_UNAVAILABLE', 'The store is locked; nothing was done.');
    if (way?.endsWith('before')) return spoil(way);
    inStore += 1;
    const answer = await call().finally(() => (inStore -= 1));
    if (isCut) return forever();
    return way ? spoil(way) : answer;
  }
  function spoil(way: Way): Promise<never> {
    if (way.startsWith('error')) throw new Error('connection reset');
    if (way.startsWith('death')) {
      cut();
      died();
    }
    return forever();
  }

  return {
    calls,
    arm(next) {
      fault = next;
    },
    get hitAt() {
      return hitAt;
    },
    lift() {
      fault = null;
    },
    cut,
    get inStore() {
      return inStore;
    },
    through: (factory) => ({
      ...factory,
      async open(context) {
        const store = await factory.open(context);
        const wrapped: Record<string, unknown> = {};
        for (const verb of spoilable) {
          const own = store[verb] as (...given: unknown[]) => Promise<unknown>;
          wrapped[verb] = (...args: unknown[]) => pass(verb, () => own.apply(store, args));
        }
        return {
          ...(wrapped as unknown as Store),
          engine: store.engine,
          traits: store.traits,
          durability: store.durability,
          subscribe: (listener) => store.subscribe((hint) => void (isCut || listener(hint))),
        };
      },
    }),
  };
}
