/** From a URL to a store; the message of a refused one says what is allowed. */
import { show } from './core/duration.js';
import { LastoutError } from './core/errors.js';
import type { Engine, Store, StoreContext, StoreFactory as OpenableStore } from './core/store.js';
import { memoryStore } from './stores/memory/store.js';

/** What `open` takes besides a URL: made by memoryStore, or sqliteStore of lastout/sqlite. */
export interface StoreFactory {
  readonly engine: Engine;
}

const allowed =
  'Allowed are "memory:", "sqlite:FILE" (with "?synchronous=normal" to trade durability for speed), ' +
  '"postgres://…" and "redis://…".';

export async function openStore(where: string | StoreFactory, context: StoreContext): Promise<Store> {
  if (typeof where === 'string') return (await factoryOf(where)).open(context);
  if (where !== null && typeof where === 'object' && typeof (where as Partial<OpenableStore>).open === 'function')
    return (where as OpenableStore).open(context);
  throw new LastoutError('INVALID_URL', `open got ${show(where)}; give a URL or a store. ${allowed}`);
}

async function factoryOf(url: string): Promise<OpenableStore> {
  if (url === 'memory:') return memoryStore();
  if (url.startsWith('memory:'))
    throw new LastoutError(
      'INVALID_URL',
      `A memory store has no name: nothing follows "memory:". Share one with memoryStore() from lastout. ${allowed}`,
    );
  if (url.startsWith('sqlite:')) return sqliteFactory(url.slice('sqlite:'.length));
  const scheme = /^([a-z]+):/i.exec(url)?.[1] ?? '';
  if (scheme === 'postgres' || scheme === 'postgresql')
    return (await import('./stores/postgres/index.js')).postgresStore({ url });
  if (scheme === 'redis' || scheme === 'rediss') return (await import('./stores/redis/index.js')).redisStore({ url });
  // Not repeated: whatever a slip has made of it, there may be a password in it.
  throw new LastoutError('INVALID_URL', `The text given to open is no store URL. ${allowed}`);
}

async function sqliteFactory(rest: string): Promise<OpenableStore> {
  const mark = rest.indexOf('?');
  const path = mark < 0 ? rest : rest.slice(0, mark);
  const file = path.startsWith('//') ? path.slice(2) : path;
  const query = new URLSearchParams(mark < 0 ? '' : rest.slice(mark + 1));
  const synchronous = query.get('synchronous') ?? 'full';
  if (file === '' || file.includes('\0'))
    throw new LastoutError('INVALID_URL', `The sqlite: URL names no file. ${allowed}`);
  const strange = [...query.keys()].find((name) => name !== 'synchronous');
  if (strange !== undefined || (synchronous !== 'full' && synchronous !== 'normal')) {
    throw new LastoutError(
      'INVALID_URL',
      'The sqlite: URL: after "?" only synchronous=full or synchronous=normal is known.',
    );
  }
  const { sqliteStore } = await import('./stores/sqlite/index.js');
  return sqliteStore({ file }, { synchronous });
}
