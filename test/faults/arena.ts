/** Where the worlds of one engine take place, one after the other: each finds an empty store and a later day. */
import { noFilter, type Store, type StoreFactory } from '../../src/core/store.js';
import { memoryStore } from '../../src/index.js';
import { type FakeClock, fakeClock } from '../../src/testing/index.js';
import { emptyStore, type EngineName } from '../engines.js';
import { contextOf } from '../worker-support.js';

export interface Place {
  readonly clock: FakeClock;
  /** The store itself, for the observer. */
  readonly store: Store;
  /** What the n-th process opens: by a connection of its own. */
  factoryFor(n: number): StoreFactory;
}

export interface Arena {
  next(): Promise<Place>;
  dispose(): Promise<void>;
}

const firstDay = Date.parse('2030-01-01T00:00:00Z');
const dayMs = 86_400_000;

export function createArena(engine: EngineName): Arena {
  let day = 0;
  const nextClock = (): FakeClock => fakeClock(new Date(firstDay + day++ * dayMs));
  return engine === 'memory' ? inMemory(nextClock) : onOneStore(engine, nextClock);
}

function inMemory(nextClock: () => FakeClock): Arena {
  return {
    async next() {
      const clock = nextClock();
      const factory = memoryStore();
      return { clock, store: await factory.open(contextOf(clock)), factoryFor: () => factory };
    },
    dispose: async () => undefined,
  };
}

/** Connecting is most of what a small world costs, so the connections stay: one per process, and the observer's. */
function onOneStore(engine: EngineName, nextClock: () => FakeClock): Arena {
  const kept: Store[] = [];
  const factories: StoreFactory[] = [];
  const undoing: (() => void | Promise<void>)[] = [];
  let connect: (() => StoreFactory) | null = null;
  let observer: Store | null = null;

  async function connection(n: number): Promise<StoreFactory> {
    ({ connect } = connect ? { connect } : await emptyStore[engine]((undo) => void undoing.push(undo)));
    const factory = (factories[n] ??= connect());
    kept[n] ??= await factory.open(contextOf(nextClock()));
    return factory;
  }
  return {
    async next() {
      const clock = nextClock();
      const processes = [await connection(1), await connection(2), await connection(3)];
      await observer?.close();
      observer = await (await connection(0)).open({ ...contextOf(clock), limits: noLimits });
      await clear(observer);
      return {
        clock,
        store: observer,
        factoryFor(n) {
          if (n >= processes.length) throw new Error('A world has three processes at most');
          return processes[n]!;
        },
      };
    },
    async dispose() {
      for (const store of [observer, ...kept]) await store?.close();
      for (const undo of undoing) await undo();
    },
  };
}

const noLimits = new Map([['default', { maxPending: null, concurrency: null, rate: null }]]);

/** Tombstones stay, so the ids of one world are not used in another. */
async function clear(store: Store): Promise<void> {
  await store.pause(null, false);
  const remove = { kind: 'remove', force: true } as const;
  await store.move({ filter: noFilter, move: remove, dryRun: false, cursor: null, limit: 1_000 });
}
