// A store under a clock that only the test moves.
import { Client } from 'pg';
import type { StoreFactory } from '../../src/core/store.js';
import { sqliteStore } from '../../src/stores/sqlite/index.js';
import { type StoreHarness, storeHarness } from '../../src/testing/index.js';
import { emptyStore, type EngineName } from '../engines.js';

/** On an empty store, until it is disposed of; with transactions of callers on PostgreSQL. */
export async function harnessOf(engine: EngineName): Promise<StoreHarness> {
  const [factory, giveBack, url] = await factoryOn(engine);
  return harnessOn(factory, giveBack, engine === 'postgres' ? () => begin(url) : undefined);
}

/** An empty store for one run among many of a test, and how to give it back. */
export async function factoryOn(engine: EngineName): Promise<[StoreFactory, () => Promise<void>, string]> {
  // It is gone with its last connection, and quicker than a file.
  if (engine === 'sqlite') return [sqliteStore({ file: ':memory:' }), async () => undefined, ''];
  const undoing: (() => void | Promise<void>)[] = [];
  const { url, connect } = await emptyStore[engine]((undo) => void undoing.push(undo));
  const giveBack = async (): Promise<void> => {
    for (const undo of undoing) await undo();
  };
  return [connect(), giveBack, url];
}

/** A transaction on a connection of the caller's own. */
async function begin(url: string) {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query('begin');
  const end = async (how: 'commit' | 'rollback'): Promise<void> => {
    await client.query(how);
    await client.end();
  };
  return { tx: client, commit: () => end('commit'), rollback: () => end('rollback') };
}

export function harnessOn(
  factory: StoreFactory,
  dispose: () => Promise<void> | void = () => undefined,
  begin?: StoreHarness['begin'],
): Promise<StoreHarness> {
  return storeHarness(factory, { dispose: async () => dispose(), ...(begin && { begin }) });
}
