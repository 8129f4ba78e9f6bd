/** From a URL to a store, also to one that is not up yet; the message of a refused one says what is allowed. */
import { show } from './core/duration.js';
import { LastoutError } from './core/errors.js';
import { bareError, masked } from './core/masked.js';
import { isOf, reading } from './core/reading.js';
import type { Logger } from './core/job.js';
import type { Engine, Store, StoreContext, StoreFactory as OpenableStore } from './core/store.js';
import { pause, type System } from './core/system.js';
import { describeThrown } from './core/thrown.js';
import { memoryStore } from './stores/memory/store.js';

/** What `open` takes besides a URL: made by memoryStore, or sqliteStore of lastout/sqlite. */
export interface StoreFactory {
  readonly engine: Engine;
}

const allowed =
  'Allowed are "memory:", "sqlite:FILE" (with "?synchronous=normal" to trade durability for speed), ' +
  '"postgres://…" and "redis://…".';

/** How long a store that is not up yet is waited for, and who is told. */
export interface Patience {
  readonly waitForMs: number;
  readonly logger: Logger;
}

/** Known before it is opened: the defaults of `open` depend on it. */
export function isVolatile(where: string | StoreFactory): boolean {
  if (typeof where === 'string') return where.startsWith('memory:');
  return reading('The store', 'INVALID_URL', () => (where as Partial<OpenableStore> | null)?.isVolatile === true);
}

export async function openStore(
  where: string | StoreFactory,
  context: StoreContext,
  patience: Patience,
): Promise<Store> {
  const factory = typeof where === 'string' ? await factoryOf(where) : openable(where);
  if (context.replicas !== undefined && !factory.takesReplicas)
    throw new LastoutError(
      'UNKNOWN_OPTION',
      `replicas is for Redis, and this store is ${show(factory.engine)}: leave it out. ` +
        'PostgreSQL waits for standbys as its own synchronous_standby_names says.',
    );
  return openSoon(factory, context, patience);
}

function openable(store: StoreFactory): OpenableStore {
  const given = store as Partial<OpenableStore> | null;
  const isStore = reading(
    'The store',
    'INVALID_URL',
    () => typeof given === 'object' && typeof given?.open === 'function',
  );
  if (isStore) return store as OpenableStore;
  throw new LastoutError('INVALID_URL', `open got ${show(store)}; give a URL or a store. ${allowed}`);
}

const backoffMs = { first: 100, most: 1_000 } as const;

/** What is wrong for good is told at once, the rest when the time is over: with the words of the last try. */
async function openSoon(
  factory: OpenableStore,
  context: StoreContext,
  { waitForMs, logger }: Patience,
): Promise<Store> {
  const { system } = context;
  const endAt = system.monotonic() + waitForMs;
  const leftMs = (): number => endAt - system.monotonic();
  let failure: LastoutError | null = null;
  for (let tries = 0; ; tries++) {
    try {
      const opening = openedBy(factory, context);
      return await (failure ? orElse(opening, failure, leftMs(), system) : opening);
    } catch (error) {
      if (error === failure || !isPassing(error, factory)) throw error;
      failure = error;
    }
    if (tries === 0 && waitForMs > 0)
      logger.warn('The store is not up yet: it is waited for.', { waitForMs, error: failure.message });
    const backoff = Math.min(backoffMs.most, backoffMs.first * 2 ** tries) * (0.5 + system.random() / 2);
    if (leftMs() > 0) await pause(system, Math.min(leftMs(), backoff), undefined, 'hold');
    if (leftMs() <= 0) throw failure;
  }
}

/** What a store of somebody else throws, or hands over, may be anything. */
async function openedBy(factory: OpenableStore, context: StoreContext): Promise<Store> {
  const opened: Partial<Store> | null = await (async () => factory.open(context))().catch((error: unknown) => {
    if (isOf(error, LastoutError)) throw error;
    const message = `The given store could not be opened: ${masked(describeThrown(error).message)}`;
    throw new LastoutError('STORE_UNAVAILABLE', message, undefined, bareError(error, message));
  });
  if (typeof opened?.insert !== 'function')
    throw new LastoutError('INVALID_URL', 'The given store is none: its open() must answer with a store.');
  return opened as Store;
}

function isPassing(error: unknown, factory: OpenableStore): error is LastoutError {
  if (!(error instanceof LastoutError)) return false;
  return factory.mayComeUp?.(error) ?? (error.code === 'STORE_UNAVAILABLE' || error.code === 'RESULT_UNKNOWN');
}

/** A try may take longer than there is time for: then it is given up, and what it still opens is closed. */
function orElse(opening: Promise<Store>, failure: LastoutError, withinMs: number, system: System): Promise<Store> {
  return new Promise((resolve, reject) => {
    let isLate = false;
    const giveUp = (): void => {
      isLate = true;
      reject(failure);
    };
    const callOff = system.timer(withinMs, giveUp, 'hold');
    opening.then((store) => (isLate ? store.close() : resolve(store)), reject).then(callOff, callOff);
  });
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
