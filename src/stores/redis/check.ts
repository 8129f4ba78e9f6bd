/** What the server says about itself: whether it will do, how much it keeps, and what is to be feared. */
import { clockWarnings } from '../../core/epoch.js';
import { LastoutError } from '../../core/errors.js';
import type { Durability, StoreWarning } from '../../core/store.js';
import { noTlsWarnings } from '../../core/wire.js';
import type { Script } from './call.js';
import type { Connection } from './connection.js';
import type { Client } from './driver.js';
import { ifAllowed, repeatable } from './errors.js';

export interface Findings {
  readonly durability: Durability;
  readonly warnings: readonly StoreWarning[];
  /** Replicas of the server; in a cluster, of the node that has most. */
  readonly attached: number;
}

type Facts = { readonly [name: string]: string | undefined };

/** Throws where the server cannot be used at all. */
export async function admit(connection: Connection): Promise<Findings> {
  const infos = await infosOf(connection);
  for (const info of infos) refuseUnfit(info, connection.where);
  return findings(connection, infos);
}

export async function inspect(connection: Connection): Promise<Findings> {
  return findings(connection, await infosOf(connection));
}

/** One of each node of a cluster that takes writes; of a server that does not let us ask, nothing. */
async function infosOf(connection: Connection): Promise<readonly Facts[]> {
  const answers = await ifAllowed(connection.sendToAll('info', []));
  return answers === null ? [{}] : answers.map((text) => factsOf(String(text)));
}

/** How many replicas the server wants before it takes a write; null: this user may not ask. */
export async function wantedReplicas(connection: Connection): Promise<number | null> {
  const answers = await ifAllowed(connection.sendToAll('config', ['get', 'min-replicas-to-write']));
  const wanted = answers?.map((answer) => Number(pairs(answer)?.['min-replicas-to-write'] ?? Number.NaN));
  return wanted === undefined || wanted.some(Number.isNaN) ? null : Math.max(0, ...wanted);
}

function factsOf(text: string): Facts {
  const facts: Record<string, string> = {};
  for (const line of text.split('\r\n')) {
    const at = line.indexOf(':');
    if (at > 0) facts[line.slice(0, at)] = line.slice(at + 1);
  }
  return facts;
}

const oldestMajor = 7;

function refuseUnfit({ redis_version: version, role }: Facts, where: string): void {
  if (version !== undefined && Number.parseInt(version, 10) < oldestMajor) {
    const message = `${where} is version ${version}; lastout needs Redis 7.0 or newer, or Valkey.`;
    throw new LastoutError('STORE_DENIED', message, { version });
  }
  if (role === 'slave') {
    const message = `${where} is a replica, which cannot be written; connect to the primary.`;
    throw new LastoutError('STORE_READONLY', message);
  }
}

async function findings(connection: Connection, infos: readonly Facts[]): Promise<Findings> {
  const answers = await ifAllowed(
    connection.sendToAll('config', ['get', 'appendonly', 'appendfsync', 'no-appendfsync-on-rewrite', 'save']),
  );
  const found = infos.map((info, index) => findingsOf(info, pairs(answers?.[index]), connection.where));
  const known = new Set<string>();
  const nodes = connection.client.nodes?.('master') ?? [connection.client];
  const warnings = [
    ...found.flatMap((each) => each.warnings),
    ...nodes.flatMap((node) => wayWarnings(node, connection.where)),
  ].filter(({ code }) => !known.has(code) && known.add(code));
  const weakest = [...found].sort((a, b) => strength(a) - strength(b))[0];
  const attached = Math.max(0, ...found.map((each) => each.attached));
  return { durability: weakest?.durability ?? 'process', warnings, attached };
}

function wayWarnings({ options: way = {} }: Client, where: string): readonly StoreWarning[] {
  const { path, sentinels } = way;
  if (way.tls && (!sentinels || way.enableTLSForSentinelMode)) return [];
  const hosts = sentinels ? sentinels.map(({ host = '' }) => host) : [path ? '' : (way.host ?? '')];
  return hosts.flatMap((host) => noTlsWarnings(host, where, 'Use rediss://… or the option tls.'));
}

const byStrength: readonly Durability[] = ['process', 'os', 'everysec', 'fsync'];
const strength = ({ durability }: Findings): number => byStrength.indexOf(durability);

/** Null: it may not be asked. Names and values in turn. */
function pairs(answer: unknown): Facts | null {
  if (!Array.isArray(answer)) return null;
  const facts: Record<string, string> = {};
  for (let i = 0; i + 1 < answer.length; i += 2) facts[String(answer[i])] = String(answer[i + 1]);
  return facts;
}

/**
 * `fsync`: on disk before it is acknowledged. `everysec`: on disk within about a second. `os`: the server may be killed,
 * the machine may not fail. `process`: in the server's memory; what a snapshot keeps is as old as the snapshot.
 */
function durabilityOf(info: Facts, config: Facts | null): Durability {
  if (info['aof_enabled'] !== '1') return 'process';
  if (config === null || config['no-appendfsync-on-rewrite'] === 'yes') return 'os';
  if (config['appendfsync'] === 'always') return 'fsync';
  return config['appendfsync'] === 'everysec' ? 'everysec' : 'os';
}

function findingsOf(info: Facts, config: Facts | null, where: string): Findings {
  const durability = durabilityOf(info, config);
  const warnings: StoreWarning[] = [];
  const warn = (code: string, message: string): void => void warnings.push({ code, message: `${where} ${message}` });

  if (info['aof_enabled'] === undefined)
    warn('DURABILITY_UNKNOWN', 'does not let this user ask what it keeps (INFO): count on nothing after a restart.');
  else if (durability === 'process' && (config?.['save'] ?? '') !== '')
    warn('SNAPSHOTS_ONLY', 'keeps snapshots only: a restart loses what came after the last one. Set appendonly yes.');
  else if (durability === 'process')
    warn('NO_PERSISTENCE', 'keeps nothing on disk: a restart loses every job. Set appendonly yes.');
  else if (config === null)
    warn(
      'DURABILITY_UNKNOWN',
      'does not let this user ask how often it syncs to disk (CONFIG GET): "os" is the least.',
    );
  else if (config['no-appendfsync-on-rewrite'] === 'yes')
    warn('SYNC_PAUSES', 'does not sync while it rewrites its log. Set no-appendfsync-on-rewrite no.');
  if (info['aof_last_write_status'] === 'err')
    warn('DISK_FAILING', 'could not write its log to disk (aof_last_write_status:err).');
  const policy = info['maxmemory_policy'];
  if (policy !== undefined && policy !== 'noeviction')
    warn('EVICTION', `may delete jobs when memory is short (maxmemory-policy ${policy}). Set it to noeviction.`);
  return { durability, warnings, attached: Number(info['connected_slaves'] ?? 0) };
}

/** Reads the mark that stands in the namespace as long as its data do; sets it where there is none. */
export const markScript: Script = {
  name: 'mark',
  text: `#!lua flags=allow-oom
local key = KEYS[1] .. 'born'
local mark = redis.call('GET', key)
if not mark then
  mark = ARGV[1]
  redis.call('SET', key, mark)
end
return mark
`,
};

/**
 * Changes nothing, but writes: a server that has no memory left, or that takes no writes, does not let it start, and one that lets
 * this user only read refuses the deletion of what is never there.
 */
export const writingScript: Script = {
  name: 'writing',
  text: `#!lua
local gone = redis.pcall('HDEL', KEYS[1] .. 'n', '')
if type(gone) == 'table' then return redis.error_reply('NOPERM ' .. gone.err) end
local time = redis.call('TIME')
return { time[1] .. string.format('%03d', time[2] / 1000), redis.call('HGET', KEYS[1] .. 'n', 'epoch') or '0' }
`,
};

/** Whether new jobs can be stored, and whether the clock has gone back since the last claim. Throws where nothing can be written at all. */
export async function inspectWriting(
  call: (script: Script, args: readonly string[]) => Promise<unknown>,
  givenNow: number | null,
  where: string,
): Promise<readonly StoreWarning[]> {
  try {
    const [at, epoch] = (await repeatable(call(writingScript, []), where)) as readonly [string, string];
    return clockWarnings(Math.max(Number(at), givenNow ?? 0), Number(epoch), 'the server');
  } catch (error) {
    if (!(error instanceof LastoutError)) throw error;
    const message = `${where} has no memory left (maxmemory): new jobs cannot be stored. Raise it, or let jobs go sooner.`;
    if (error.code === 'STORE_FULL') return [{ code: 'OUT_OF_MEMORY', message, blocks: true }];
    if (!refusesWriting.has(error.details?.['redisError'])) throw error;
    return [{ code: error.code, message: error.message, blocks: true }];
  }
}

/** It can be read all the same, and may have the last word; a replica, or one that lacks replicas, says something else. */
const refusesWriting: ReadonlySet<unknown> = new Set(['MISCONF', 'NOPERM']);

export interface Mark {
  /** The name of the data that are there now. */
  read(): Promise<string>;
  /** A warning, for as long as the store is open, once the data are not those that were found when it was opened. */
  check(): Promise<readonly StoreWarning[]>;
}

/** Somebody may delete everything (FLUSHALL), or the server may come back without its data. Work goes on; it is said. */
export async function placeMark(
  call: (script: Script, args: readonly string[]) => Promise<unknown>,
  newMark: () => string,
  where: string,
): Promise<Mark> {
  const read = async (): Promise<string> => String(await repeatable(call(markScript, [newMark()]), where));
  const first = await read();
  let lost = false;
  return {
    read,
    async check() {
      lost ||= (await read()) !== first;
      if (!lost) return [];
      const message =
        `${where} has lost the data of this namespace since it was opened (FLUSHALL, or a restart without them): jobs, schedules and pauses. ` +
        'The limits of queues are written again by the processes that were opened with them.';
      return [{ code: 'DATA_LOST', message }];
    },
  };
}
