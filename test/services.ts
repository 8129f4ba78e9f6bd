/** The servers that networked stores are tested on, and empty stores on them. */
import { afterAll, expect, inject, onTestFinished } from 'vitest';
import { postgresPrograms, redisPrograms } from '../scripts/services/index.mjs';
import {
  copyPostgres,
  deadlocksOn,
  dumpPostgres,
  type PostgresServer,
  provokedMark,
  startPostgres,
} from '../scripts/services/postgres.mjs';
import { type RedisServer, startRedis } from '../scripts/services/redis.mjs';
import { type RedisCluster, startCluster } from '../scripts/services/redis-cluster.mjs';
import { type RedisSentinels, startSentinels } from '../scripts/services/redis-sentinel.mjs';
import { createDatabases } from './services/postgres.js';
import { createNumbers } from './services/redis.js';

export type { PostgresServer, RedisCluster, RedisSentinels, RedisServer };
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
let provoked: ReturnType<typeof createDatabases> | null = null;
let numbers: ReturnType<typeof createNumbers> | null = null;
afterAll(async () => {
  await Promise.all([databases?.close(), provoked?.close()]);
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

/**
 * The same for a test that provokes deadlocks: here they do not count. In all other databases the run ends with none
 * (scripts/test.mjs).
 */
export async function provokedPostgres(): Promise<string> {
  let giveBack = (): void => undefined;
  onTestFinished(() => giveBack());
  provoked ??= createDatabases(postgresUrl(), provokedMark);
  const taken = await provoked.take();
  giveBack = () => provoked!.giveBack(taken);
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
  return goneAfterwards(await startPostgres(await programsOfPostgres(), { durable: true, ...options }), afterwards);
}

/** A server with the data that another one has now; not started yet. */
export async function copyOfPostgres(
  source: { readonly url: string },
  options: NonNullable<Parameters<typeof copyPostgres>[2]> = {},
  afterwards: Afterwards = onTestFinished,
): Promise<PostgresServer> {
  const copy = await copyPostgres(await programsOfPostgres(), source, { durable: true, ...options });
  return goneAfterwards(copy, afterwards);
}

export async function dumpOfPostgres(url: string): Promise<(to: string) => Promise<unknown>> {
  const { restore, dispose } = await dumpPostgres(await programsOfPostgres(), url, 'lastout');
  onTestFinished(dispose);
  return restore;
}

async function programsOfPostgres() {
  const found = await postgresPrograms();
  if ('why' in found) throw new Error(`There is no PostgreSQL: ${found.why}`);
  return found.programs;
}

function goneAfterwards(server: PostgresServer, afterwards: Afterwards): PostgresServer {
  afterwards(async () => {
    const deadlocks = server.pid() === null ? {} : await deadlocksOn(server.url).catch(() => ({}));
    await server.dispose();
    expect(deadlocks, 'deadlocks by database').toEqual({});
  });
  return server;
}

async function redisProgramsOrThrow() {
  const found = await redisPrograms();
  if ('why' in found) throw new Error(`There is no Redis: ${found.why}`);
  return found.programs;
}

export async function privateRedis(
  options: NonNullable<Parameters<typeof startRedis>[1]> = {},
  afterwards: Afterwards = onTestFinished,
): Promise<RedisServer> {
  const server = await startRedis(await redisProgramsOrThrow(), options);
  afterwards(() => server.dispose());
  return server;
}

/** Three masters, unless more or fewer are asked for. */
export async function privateCluster(
  options: NonNullable<Parameters<typeof startCluster>[1]> = {},
  afterwards: Afterwards = onTestFinished,
): Promise<RedisCluster> {
  const cluster = await startCluster(await redisProgramsOrThrow(), options);
  afterwards(() => cluster.dispose());
  return cluster;
}

/** A primary, two replicas and three Sentinels, unless more or fewer are asked for. */
export async function privateSentinels(
  options: NonNullable<Parameters<typeof startSentinels>[1]> = {},
  afterwards: Afterwards = onTestFinished,
): Promise<RedisSentinels> {
  const sentinels = await startSentinels(await redisProgramsOrThrow(), options);
  afterwards(() => sentinels.dispose());
  return sentinels;
}
