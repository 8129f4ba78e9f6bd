/** The four engines, and an empty store on each of them. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, onTestFinished } from 'vitest';
import type { StoreFactory } from '../src/core/store.js';
import { memoryStore } from '../src/index.js';
import { postgresStore } from '../src/stores/postgres/index.js';
import { redisStore } from '../src/stores/redis/index.js';
import { sqliteStore } from '../src/stores/sqlite/index.js';
import { type Afterwards, emptyPostgres, emptyRedis, isServed } from './services.js';

export type { Afterwards };
export type EngineName = 'memory' | 'sqlite' | 'postgres' | 'redis';

const served: readonly EngineName[] = (['postgres', 'redis'] as const).filter(isServed);

const local: readonly EngineName[] = ['memory', 'sqlite'];
const asked = process.env['LASTOUT_TEST_STORES']?.split(',');

/**
 * All four, except that a service may be missing: `npm test` then says that it was skipped, or fails. The inner loop asks
 * for fewer (scripts/test-quick.mjs).
 */
export const engines: readonly EngineName[] = [...local, ...served].filter((name) => asked?.includes(name) ?? true);

/** A group of tests of one store; left out where `npm test` reports its service as skipped. */
export function describeOn(engine: EngineName, title: string, declare: () => void): void {
  describe.skipIf(!engines.includes(engine))(title, declare);
}

export interface EmptyStore {
  readonly url: string;
  /** The same jobs, as another process reaches them: by a connection of its own. */
  connect(): StoreFactory;
}

/** A new, empty store; it goes after the test. */
export const emptyStore: {
  readonly [engine in EngineName]: (afterwards?: Afterwards) => Promise<EmptyStore>;
} = {
  async memory() {
    const factory = memoryStore();
    return { url: 'memory:', connect: () => factory };
  },
  async sqlite(afterwards) {
    const file = join(temporaryFolder(afterwards), 'jobs.db');
    // What these tests check does not depend on the fsync, and they are many.
    const connect = () => sqliteStore({ file }, { synchronous: 'normal' });
    return { url: `sqlite:${file}?synchronous=normal`, connect };
  },
  async postgres(afterwards) {
    const url = await emptyPostgres(afterwards);
    return { url, connect: () => postgresStore({ url }) };
  },
  async redis(afterwards) {
    const url = await emptyRedis(afterwards);
    return { url, connect: () => redisStore({ url }) };
  },
};

/** The same where nothing can be awaited: one empty store, and each call is a process's way to it. */
export function processesOn(engine: EngineName): () => StoreFactory {
  const made = emptyStore[engine]();
  made.catch(() => undefined); // whoever opens it is told
  return () => {
    const factory = made.then(({ connect }) => connect());
    factory.catch(() => undefined);
    return { engine, open: async (context) => (await factory).open(context) };
  };
}

/** A new, empty store that several queues may share. */
export const newStore = (engine: EngineName): StoreFactory => processesOn(engine)();

/** The same for one run among many of a test. */
export async function withStore<T>(engine: EngineName, work: (connect: () => StoreFactory) => Promise<T>): Promise<T> {
  const undoing: (() => void | Promise<void>)[] = [];
  try {
    return await work((await emptyStore[engine]((undo) => void undoing.push(undo))).connect);
  } finally {
    for (const undo of undoing) await undo();
  }
}

/** A folder of its own, removed after the test. */
export function temporaryFolder(afterwards: Afterwards = onTestFinished): string {
  const folder = mkdtempSync(join(tmpdir(), 'lastout-'));
  afterwards(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
