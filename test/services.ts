/** The servers that networked stores are tested on, and empty stores on them. */
import { afterAll, inject, onTestFinished } from 'vitest';
import { postgresPrograms, redisPrograms } from '../scripts/services/index.mjs';
import { type PostgresServer, startPostgres } from '../scripts/services/postgres.mjs';
import { type RedisServer, startRedis } from '../scripts/services/redis.mjs';
import { createDatabases } from './services/postgres.js';
import { createNumbers } from './services/redis.js';

export type { PostgresServer, RedisServer };
export type Served = 'postgres' | 'redis';

/** Registers what is to be done at the end: of the test, or with `afterAll` of a group. */
export type Afterwards = (undo: () => void | Promise<void>) => void;

/** False where `npm test` reports the service as skipped. */
export const isServed = (name: Served): boolean => 'url' in inject('services')[name];

function urlOf(name: Served): string {
  const service = inject('services')[name];
  if ('why' in service) throw new Error(`There is no ${name}: ${service.why}`);
  return service.url;
}

/** The server itself: the right to do anything, and not empty. */
export const postgresUrl = (): string => urlOf('postgres');
export const redisUrl = (): string => urlOf('redis');

let databases: ReturnType<typeof createDatabases> | null = null;
let numbers: ReturnType<typeof createNumbers> | null = null;
afterAll(async () => {
  await databases?.close();
  numbers?.close();
});

/** The URL of a database with an empty schema `lastout`, to be used by this test alone. */
export async function emptyPostgres(afterwards: Afterwards = onTestFinished): Promise<string> {
  // Registered before anything is awaited: undone after all that the test itself will open.
  let giveBack = (): void => undefined;
  afterwards(() => giveBack());
  databases ??= createDatabases(postgresUrl());
  const taken = await databases.take();
  giveBack = () => databases!.giveBack(taken);
  return taken.url;
}

/** The URL of an empty database, to be used by this test alone. */
export async function emptyRedis(afterwards: Afterwards = onTestFinished): Promise<string> {
  let giveBack = (): void => undefined;
  afterwards(() => giveBack());
  numbers ??= createNumbers(redisUrl());
  const taken = await numbers.take();
  giveBack = () => numbers!.giveBack(taken);
  return taken.url;
}

/** A server for this test alone: it may be stopped, killed and started again. Its writes reach the disk. */
export async function privatePostgres(
  options: NonNullable<Parameters<typeof startPostgres>[1]> = {},
  afterwards: Afterwards = onTestFinished,
): Promise<PostgresServer> {
  const found = await postgresPrograms();
  if ('why' in found) throw new Error(`There is no PostgreSQL: ${found.why}`);
  const server = await startPostgres(found.programs, { durable: true, ...options });
  afterwards(() => server.dispose());
  return server;
}

export async function privateRedis(
  options: NonNullable<Parameters<typeof startRedis>[1]> = {},
  afterwards: Afterwards = onTestFinished,
): Promise<RedisServer> {
  const found = await redisPrograms();
  if ('why' in found) throw new Error(`There is no Redis: ${found.why}`);
  const server = await startRedis(found.programs, options);
  afterwards(() => server.dispose());
  return server;
}
