/** Connections from a pool of the caller: used as they are, and given back. */
import { LastoutError } from '../../core/errors.js';
import type { System } from '../../core/system.js';
import { breakOff, type OwnClient, type PgPool, saidPid, types } from './driver.js';
import { unreachable } from './errors.js';
import { busy, closed, type Lent, type Pool, waitMs } from './pool.js';

const ignore = (): void => undefined;

export interface GivenPool extends Pool {
  /** Makes a connection like those of the pool, beside it; null: the pool does not show how. */
  readonly newClient: (() => OwnClient) | null;
}

export async function useGiven(pool: PgPool, where: string, system: System): Promise<GivenPool> {
  /** Known once it was asked: whether the processes that its connections name are those of the server. */
  let isDirect = false;
  let ended = false;
  // An idle connection that is lost is told to the pool; without a listener that would end the process.
  pool.on?.('error', ignore);

  async function lend(): Promise<Lent> {
    if (ended) throw closed();
    const client = await soonEnough(pool, where, system);
    client.on('error', ignore);
    return {
      client,
      pid: isDirect ? saidPid(client) : null,
      giveBack(broken) {
        if (broken) breakOff(client);
        client.removeListener('error', ignore);
        client.release(broken);
      },
    };
  }

  const first = await lend();
  try {
    const query = { text: 'select pg_backend_pid()', rowMode: 'array', types } as const;
    const { rows } = await system.awaiting(first.client.query(query));
    isDirect = (rows[0] as [number])[0] === saidPid(first.client);
    first.giveBack(false);
  } catch (error) {
    first.giveBack(true);
    throw unreachable(error, where);
  }
  return {
    lend,
    newClient: makerOf(pool),
    async end() {
      ended = true;
      pool.removeListener?.('error', ignore);
    },
  };
}

/** A pool may let its callers wait for ever. */
async function soonEnough(pool: PgPool, where: string, system: System): ReturnType<PgPool['connect']> {
  let late = false;
  const connecting = pool.connect().then((client) => {
    if (late) client.release();
    return client;
  });
  return new Promise((resolve, reject) => {
    const callOff = system.timer(waitMs, () => {
      late = true;
      reject(busy(where, null));
    });
    connecting.then(resolve, (error: unknown) => reject(unreachable(error, where))).finally(callOff);
  });
}

function makerOf({ Client, options }: PgPool): (() => OwnClient) | null {
  if (typeof Client !== 'function' || options === null || typeof options !== 'object') return null;
  const Made = Client as new (config: object) => OwnClient;
  return () => new Made(options);
}

export function checkGiven(pool: unknown): PgPool {
  if (typeof (pool as Partial<PgPool> | null)?.connect === 'function') return pool as PgPool;
  throw new LastoutError('INVALID_URL', 'postgresStore got a pool without connect(): give a Pool of "pg".');
}
