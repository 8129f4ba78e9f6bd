/** Where the worlds of one engine take place, one after the other: each finds an empty store and a later day. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { noFilter, type Store, type StoreFactory } from '../../src/core/store.js';
import { memoryStore } from '../../src/index.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { type FakeClock, fakeClock } from '../../src/testing/index.js';
import { contextOf, type EngineName } from '../worker-support.js';

export interface Place {
  readonly clock: FakeClock;
  /** The store itself, for the observer. */
  readonly store: Store;
  /** What the n-th process opens: on SQLite a connection of its own. */
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
  return engine === 'memory' ? inMemory(nextClock) : onOneFile(nextClock);
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
function onOneFile(nextClock: () => FakeClock): Arena {
  const kept: Store[] = [];
  const factories: StoreFactory[] = [];
  let folder: string | null = null;
  let observer: Store | null = null;

  async function connection(n: number): Promise<StoreFactory> {
    folder ??= await mkdtemp(join(tmpdir(), 'lastout-'));
    const factory = (factories[n] ??= sqliteStore({ file: join(folder, 'jobs.db') }, { synchronous: 'normal' }));
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
      if (folder !== null) await rm(folder, { recursive: true, force: true });
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
