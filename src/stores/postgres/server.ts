/** The way to a database: a pool, ours or a given one, and the connection beside it. Queues of one factory share it. */
import { show } from '../../core/duration.js';
import { LastoutError } from '../../core/errors.js';
import type { StoreWarning } from '../../core/store.js';
import type { System } from '../../core/system.js';
import { ownOptions, readFlag } from '../../core/own-options.js';
import { reading } from '../../core/reading.js';
import { connect } from './connection.js';
import { loadDriver, type OwnClient, type PgPool } from './driver.js';
import { checkGiven, useGiven } from './given.js';
import { createEar, type Ear } from './listen.js';
import { createPool, type Pool } from './pool.js';
import { addressOf } from './url.js';

export type PostgresSource =
  /** `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with parameters for TLS after `?` as `pg` reads them. */
  | { readonly url: string }
  /** A `Pool` of `pg`: it is used as it is, beside your own statements, and never ended. */
  | { readonly pool: PgPool };

export interface PostgresOptions {
  /** Connections at most, 4 unless given; one more listens. For a URL: a given pool has its own limit. */
  readonly max?: number;
  /** False: no connection beside the pool; what others enqueue is found by polling. */
  readonly listen?: boolean;
}

export interface Server {
  readonly pool: Pool;
  readonly ear: Ear;
  /** How messages name it. */
  readonly where: string;
  /** What is to be feared on the way there. */
  readonly warnings: readonly StoreWarning[];
}

const defaultMax = 4;
const maxMax = 100;

/** Checks what it is given at once, and connects when it is called. */
export function serverOf(source: PostgresSource, options: PostgresOptions): (system: System) => Promise<Server> {
  const { url, pool: given }: { url?: unknown; pool?: unknown } = ownOptions(
    source ?? null,
    ['url', 'pool'],
    'The first argument of postgresStore',
  );
  const { max = defaultMax, listen = true } = ownOptions(options, ['max', 'listen'], 'The options of postgresStore');
  if (!Number.isInteger(max) || max < 1 || max > maxMax)
    throw new LastoutError('INVALID_LIMIT', `max is ${show(max)}; give a whole number from 1 to ${maxMax}.`);
  readFlag(listen, 'listen');
  if (given !== undefined && url === undefined) {
    const pool = reading('The pool of postgresStore', 'INVALID_URL', () => checkGiven(given));
    return (system) => fromPool(pool, listen, system);
  }
  if (given !== undefined || typeof url !== 'string')
    throw new LastoutError('INVALID_URL', 'postgresStore takes either { url }, or { pool } with a Pool of "pg".');
  const address = addressOf(url);
  return async (system) => {
    const driver = await loadDriver();
    const newClient = (): OwnClient => address.newClient(driver);
    const { where } = address;
    const open = () => connect(newClient, where, system);
    return {
      where,
      warnings: address.warnings(driver),
      pool: createPool({ max, where, system, connect: open }),
      ear: createEar(listen ? open : null, system),
    };
  };
}

async function fromPool(given: PgPool, listen: boolean, system: System): Promise<Server> {
  const where = 'The PostgreSQL database of the given pool';
  const pool = await useGiven(given, where, system);
  const { newClient } = pool;
  const ear = createEar(listen && newClient ? () => connect(newClient, where, system) : null, system);
  return { where, pool, ear, warnings: [] };
}
