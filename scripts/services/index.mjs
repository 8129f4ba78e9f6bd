// A PostgreSQL, a Redis and a Docker Engine for the tests: given ones, or private ones by the first way that works on this machine.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { compose, hasDocker } from './docker.mjs';
import { ask as askEngine, installedEngine, startEngine, unpackedEngine, usualHost, whyNotHere } from './engine.mjs';
import { isAlive } from './guard.mjs';
import { prepareImages } from './images.mjs';
import { distribution } from './packages.mjs';
import { installedPgbouncer, unpackedPgbouncer } from './pgbouncer.mjs';
import { ask as askPostgres, installedPostgres, startPostgres, unpackedPostgres } from './postgres.mjs';
import { ask as askRedis, installedRedis, startRedis, unpackedRedis } from './redis.mjs';

export const cache = fileURLToPath(new URL('../../.cache', import.meta.url));
const stateFile = join(cache, 'services.json');

/** Servers of one's own for the tests, which create and drop databases and empty what they find. */
export const variables = {
  postgres: 'LASTOUT_TEST_POSTGRES_URL',
  redis: 'LASTOUT_TEST_REDIS_URL',
  // The usual one: on an engine the tests touch nothing but what carries their own labels.
  docker: 'DOCKER_HOST',
};

/** The programs that private servers are to be started with, as JSON. Tests on another version than the machine's start no others. */
export const programVariables = { postgres: 'LASTOUT_TEST_POSTGRES_PROGRAMS', redis: 'LASTOUT_TEST_REDIS_PROGRAMS' };

/** @param {ServiceName} name @returns {any} its programs, or null */
const handedOn = (name) => (name === 'docker' ? null : JSON.parse(process.env[programVariables[name]] ?? 'null'));

/** The ways to a server, in the order in which they are tried. LASTOUT_TEST_SERVICES=packages,docker leaves some out. */
const ways = (process.env.LASTOUT_TEST_SERVICES ?? 'machine,packages,docker').split(',');

/** @typedef {'postgres' | 'redis' | 'docker'} ServiceName */
/** @typedef {{ url: string, version: string, how: string, stop: () => Promise<void> }} Service */
/** @typedef {{ why: string }} Missing */

/**
 * The programs of a service: those handed on, or by the ways that give programs; the reason, where none does.
 * @template T
 * @param {{ name?: ServiceName, machine: () => Promise<T | null>, packages: () => Promise<T> }} sources
 * @returns {Promise<{ programs: T } | Missing>}
 */
async function programsBy(sources) {
  const handed = sources.name && handedOn(sources.name);
  if (handed) return { programs: handed };
  const installed = ways.includes('machine') ? await sources.machine() : null;
  if (installed) return { programs: installed };
  if (!ways.includes('packages')) return { why: 'not on this machine' };
  if (!distribution()) return { why: 'not on this machine, and no apt packages' };
  try {
    return { programs: await sources.packages() };
  } catch (error) {
    const last = String(/** @type {any} */ (error).stderr || /** @type {Error} */ (error).message)
      .trim()
      .split('\n')
      .at(-1);
    return { why: `not on this machine, and its packages cannot be had (${last})` };
  }
}

export const postgresPrograms = once(() =>
  programsBy({ name: 'postgres', machine: installedPostgres, packages: () => unpackedPostgres(cache) }),
);
export const redisPrograms = once(() =>
  programsBy({ name: 'redis', machine: installedRedis, packages: () => unpackedRedis(cache) }),
);
export const pgbouncerPrograms = once(() =>
  programsBy({ machine: installedPgbouncer, packages: () => unpackedPgbouncer(cache) }),
);
export const enginePrograms = once(async () => {
  const why = whyNotHere();
  return why ? { why } : programsBy({ machine: installedEngine, packages: () => unpackedEngine(cache) });
});

/** @template T @param {() => Promise<T>} work @returns {() => Promise<T>} */
function once(work) {
  /** @type {Promise<T> | null} */
  let made = null;
  return () => (made ??= work());
}

/**
 * @typedef {object} Kind
 * @property {(url: string) => Promise<string>} ask its version
 * @property {string} advice
 * @property {() => Promise<Service | Missing>} start by programs
 * @property {() => Promise<Service | null>} borrow the last way: of an engine that runs anyway
 * @property {(url: string) => Promise<() => Promise<void>>} [prepare] answers how to undo it
 */

/** @type {Record<ServiceName, Kind>} */
const kinds = {
  postgres: {
    ask: askPostgres,
    advice: 'install PostgreSQL 15 or newer (Debian: postgresql; its server need not run)',
    async start() {
      const found = await postgresPrograms();
      if ('why' in found) return found;
      const { url, version, dispose } = await startPostgres(found.programs);
      return { url, version, how: found.programs.how, stop: dispose };
    },
    borrow: () => composed('postgres', askPostgres),
  },
  redis: {
    ask: askRedis,
    advice: 'install Redis 7 or newer, or Valkey (Debian: redis-server; it need not run)',
    async start() {
      const found = await redisPrograms();
      if ('why' in found) return found;
      const { url, version, dispose } = await startRedis(found.programs, { appendfsync: 'no' });
      return { url, version, how: found.programs.how, stop: dispose };
    },
    borrow: () => composed('redis', askRedis),
  },
  docker: {
    ask: askEngine,
    advice: 'install a Docker Engine (Debian: docker.io; it need not run) and be root',
    async start() {
      const found = await enginePrograms();
      if ('why' in found) return found;
      const { url, version, dispose } = await startEngine(found.programs);
      return { url, version, how: found.programs.how, stop: dispose };
    },
    async borrow() {
      const version = await askEngine(usualHost).catch(() => null);
      return version && { url: usualHost, version, how: 'runs on this machine', stop: async () => undefined };
    },
    prepare: (url) => prepareImages(url, cache),
  },
};

/** @param {'postgres' | 'redis'} name @param {Kind['ask']} ask @returns {Promise<Service | null>} */
async function composed(name, ask) {
  if (!(await hasDocker())) return null;
  const { url, stop } = await compose(name);
  return { url, version: await ask(url), how: 'docker compose', stop };
}

/**
 * @param {ServiceName} name
 * @returns {Promise<Service | Missing>}
 */
export async function startService(name) {
  const service = await obtain(name);
  const { prepare } = kinds[name];
  if ('why' in service || !prepare) return service;
  try {
    const undo = await prepare(service.url);
    return { ...service, stop: () => undo().then(service.stop) };
  } catch (error) {
    await service.stop();
    throw error;
  }
}

/** @param {ServiceName} name @returns {Promise<Service | Missing>} */
async function obtain(name) {
  const { ask, start, borrow, advice } = kinds[name];
  const variable = variables[name];
  const given = process.env[variable];
  if (given) {
    const version = await ask(given).catch((error) => {
      throw new Error(`${variable} names a server that does not answer: ${error.message}`);
    });
    const expected = handedOn(name)?.version ?? version;
    if (version !== expected) throw new Error(`${variable} names a server of version ${version}, not ${expected}`);
    return { url: given, version, how: `given by ${variable}`, stop: async () => undefined };
  }
  const started = await start();
  if (!('why' in started)) return started;
  const borrowed = ways.includes('docker') ? await borrow() : null;
  return borrowed ?? { why: `${started.why}, and no Docker engine answers: ${advice}, or set ${variable}` };
}

/**
 * For one run of tests: the server that was given, else the one that `npm run services` keeps, else a private one.
 * @param {ServiceName} name
 * @param {Kept | null} kept
 */
export async function findService(name, kept = keptServices()) {
  const running = kept?.[name];
  return running && !process.env[variables[name]] ? { url: running, stop: async () => undefined } : startService(name);
}

/** All at once. One that fails to start is missing like one that is not there. */
export async function startServices() {
  const missing = (/** @type {Error} */ error) => ({ why: error.message });
  const [postgres, redis, docker] = await Promise.all([
    startService('postgres').catch(missing),
    startService('redis').catch(missing),
    startService('docker').catch(missing),
  ]);
  return {
    postgres,
    redis,
    docker,
    async stop() {
      for (const service of [postgres, redis, docker]) if ('stop' in service) await service.stop();
    },
  };
}

/** @typedef {{ pid: number } & Record<ServiceName, string | null>} Kept */

/** What `npm run services` has left running, if it does. @returns {Kept | null} */
export function keptServices() {
  try {
    const kept = /** @type {Kept} */ (JSON.parse(readFileSync(stateFile, 'utf8')));
    return isAlive(kept.pid) ? kept : null;
  } catch {
    return null;
  }
}

/** @param {Kept} kept @returns {() => void} how to withdraw it */
export function announce(kept) {
  mkdirSync(cache, { recursive: true });
  writeFileSync(stateFile, `${JSON.stringify(kept)}\n`, { mode: 0o600 });
  return () => rmSync(stateFile, { force: true });
}
