/** A private PostgreSQL and Redis for the bench, with what they need emptied between two measurements. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { Store } from './contender.js';
import { cache, root } from './places.js';
import { nameOf, parentOf } from './stopwatch.js';

export interface Server {
  /** What the tables say about it: version and durability. */
  readonly about: string;
  /** The process whose tree does the server's work; null where it is not on this machine. */
  readonly pid: number | null;
  /** Takes away what is stored, and returns where the next system finds its empty store. */
  empty(): Promise<string>;
  /** What the server itself counted, by kind of work, in µs of its time; since the last call. */
  timings(): Promise<ReadonlyMap<string, { readonly calls: number; readonly microseconds: number }>>;
  stop(): Promise<void>;
}

export interface ServerOptions {
  /** Redis: when its log reaches the disk. "off" keeps nothing. */
  readonly appendfsync: 'always' | 'everysec' | 'off';
  /** Counts the calls of functions in PostgreSQL, which costs something. */
  readonly profile: boolean;
}

interface Started {
  readonly url: string;
  readonly how: string;
  stop(): Promise<unknown>;
}

/** The scripts that start servers for the tests are plain modules outside of this program. */
const script = (path: string): Promise<unknown> => import(join(root, 'scripts', 'services', path));

export async function serverFor(store: Store, options: ServerOptions): Promise<Server> {
  switch (store) {
    case 'memory':
      return none('in the process', () => '');
    case 'sqlite': {
      const folder = join(cache, 'bench-data', String(process.pid));
      return none('a file on the disk, WAL', () => {
        rmSync(folder, { recursive: true, force: true });
        return folder;
      });
    }
    case 'postgres':
      return postgres(options);
    case 'redis':
      return redis(options);
  }
}

/** Servers that start when they are first asked for. */
export interface Servers {
  of(store: Store): Promise<Server>;
  about(): Partial<Record<Store, string>>;
  stop(): Promise<void>;
}

export function serversOnDemand(options: ServerOptions): Servers {
  const started = new Map<Store, Server>();
  return {
    async of(store) {
      const server = started.get(store) ?? (await serverFor(store, options));
      started.set(store, server);
      return server;
    },
    about: () => Object.fromEntries([...started].map(([store, { about }]) => [store, about])),
    async stop() {
      for (const server of started.values()) await server.stop();
    },
  };
}

function none(about: string, empty: () => string): Server {
  return {
    about,
    pid: null,
    empty: async () => empty(),
    timings: async () => new Map(),
    stop: async () => void empty(),
  };
}

async function start(store: 'postgres' | 'redis', options: ServerOptions): Promise<Started> {
  const index = (await script('index.mjs')) as {
    variables: Record<string, string>;
    startService(name: string): Promise<{ url: string; how: string; stop(): Promise<void> } | { why: string }>;
    postgresPrograms(): Promise<{ programs: { how: string } } | { why: string }>;
    redisPrograms(): Promise<{ programs: { how: string } } | { why: string }>;
  };
  const found = await (store === 'postgres' ? index.postgresPrograms() : index.redisPrograms());
  if (process.env[index.variables[store]!] === undefined && 'programs' in found) {
    const { url, dispose } = await startWith(store, found.programs, options);
    return { url, how: found.programs.how, stop: dispose };
  }
  // A given one, or one in a container: with whatever settings it has.
  const service = await index.startService(store);
  if ('why' in service) throw new Error(`There is no server for ${store}: ${service.why}`);
  return service;
}

async function startWith(
  store: 'postgres' | 'redis',
  programs: object,
  { appendfsync, profile }: ServerOptions,
): Promise<{ url: string; dispose(): Promise<void> }> {
  if (store === 'postgres') {
    const { startPostgres } = (await script('postgres.mjs')) as {
      startPostgres(programs: object, options: object): Promise<{ url: string; dispose(): Promise<void> }>;
    };
    const settings = { shared_buffers: '128MB', ...(profile && { track_functions: 'all' }) };
    return startPostgres(programs, { durable: true, settings });
  }
  const { startRedis } = (await script('redis.mjs')) as {
    startRedis(programs: object, options: object): Promise<{ url: string; dispose(): Promise<void> }>;
  };
  // Rewriting the log is a second process at work, at moments that nobody chose.
  const settings = { 'auto-aof-rewrite-percentage': 0 };
  return startRedis(programs, { appendfsync: appendfsync === 'off' ? null : appendfsync, settings });
}

async function postgres(options: ServerOptions): Promise<Server> {
  const { url, how, stop } = await start('postgres', options);
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  const setting = async (name: string): Promise<string> =>
    (await admin.query<Record<string, string>>(`show ${name}`)).rows[0]![name]!;
  const version = (await setting('server_version')).split(' ')[0]!;
  const settings: string[] = [];
  for (const name of ['fsync', 'synchronous_commit', 'shared_buffers']) settings.push(`${name} ${await setting(name)}`);
  const { rows } = await admin.query<{ pid: number }>('select pg_backend_pid() as pid');
  let database = '';
  return {
    about: `PostgreSQL ${version} (${how}): ${settings.join(', ')}`,
    pid: onThisMachine(rows[0]!.pid, 'postgres') ? parentOf(rows[0]!.pid) : null,
    async empty() {
      if (database !== '') await admin.query(`drop database ${database} with (force)`);
      database = `bench_${process.pid}_${Date.now().toString(36)}`;
      await admin.query(`create database ${database}`);
      // What the last one left to be written is not the next one's work.
      await admin.query('checkpoint');
      return Object.assign(new URL(url), { pathname: `/${database}` }).href;
    },
    timings: () => functionsOf(Object.assign(new URL(url), { pathname: `/${database}` }).href),
    async stop() {
      if (database !== '') await admin.query(`drop database ${database} with (force)`);
      await admin.end();
      await stop();
    },
  };
}

async function functionsOf(url: string): Promise<Map<string, { calls: number; microseconds: number }>> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query<[string, string, number]>({
    text: 'select funcname, calls, self_time * 1000 from pg_stat_user_functions',
    rowMode: 'array',
  });
  await client.end();
  return new Map(rows.map(([name, calls, microseconds]) => [name, { calls: Number(calls), microseconds }]));
}

async function redis(options: ServerOptions): Promise<Server> {
  const { url, how, stop } = await start('redis', options);
  const admin = new Redis(url);
  const info = await admin.info();
  const field = (name: string): string => new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim() ?? '';
  // Drivers of different versions declare this answer differently.
  const setting = async (name: string): Promise<string> => {
    const answer: unknown = await admin.config('GET', name);
    return (answer as string[])[1] ?? '';
  };
  const [appendonly, appendfsync] = [await setting('appendonly'), await setting('appendfsync')];
  const pid = Number(field('process_id'));
  return {
    about: `Redis ${field('redis_version')} (${how}): ${appendonly === 'yes' ? `appendfsync ${appendfsync}` : 'nothing kept on the disk'}`,
    pid: onThisMachine(pid, 'redis', 'valkey') ? pid : null,
    async empty() {
      await admin.flushall('SYNC');
      if (appendonly === 'yes') await shortLog(admin);
      await admin.config('RESETSTAT');
      return url;
    },
    async timings() {
      const stats = await admin.info('commandstats');
      const lines = [...stats.matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm)];
      return new Map(
        lines.map(([, name, calls, usec]) => [name!, { calls: Number(calls), microseconds: Number(usec) }]),
      );
    },
    async stop() {
      admin.disconnect();
      await stop();
    },
  };
}

/** The log of what was flushed would only grow. */
async function shortLog(admin: Redis): Promise<void> {
  await admin.bgrewriteaof();
  while (/aof_rewrite_(in_progress|scheduled):1/.test(await admin.info('persistence')))
    await new Promise((resolve) => setTimeout(resolve, 10));
}

/** Whether a process of this number is here and has such a name: in a container the numbers are others. */
function onThisMachine(pid: number, ...names: string[]): boolean {
  const name = nameOf(pid);
  return name !== null && names.some((each) => name.includes(each));
}
